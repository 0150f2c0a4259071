# SPDX-License-Identifier: Apache-2.0
"""A difference between the tree and the matrix."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Finding"]


@dataclass(frozen=True)
class Finding:
    """A difference from the matrix.

    Attributes:
        place: The file or subject.
        message: The actual value and the value in the matrix.
        hint: The remedy.
    """

    place: str
    message: str
    hint: str = ""
