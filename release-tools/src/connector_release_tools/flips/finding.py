# SPDX-License-Identifier: Apache-2.0
"""A violation of the rules for proposals."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Finding"]


@dataclass(frozen=True)
class Finding:
    """A violation of the rules.

    Attributes:
        where: The file or commit.
        what: The violation, and what to do.
    """

    where: str
    what: str

    def __str__(self) -> str:
        return f"{self.where}: {self.what}"
