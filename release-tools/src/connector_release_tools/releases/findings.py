# SPDX-License-Identifier: Apache-2.0
"""Obstacles to a release."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Finding"]


@dataclass(frozen=True)
class Finding:
    """A problem that must be fixed before a release.

    Attributes:
        what: The problem and its location.
        hint: The remedy.
    """

    what: str
    hint: str = ""
