# SPDX-License-Identifier: Apache-2.0
"""Obstacles to a release."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Finding"]


@dataclass(frozen=True)
class Finding:
    """Something that must be put right before a release.

    Attributes:
        what: What was found, and where.
        hint: What to do about it.
    """

    what: str
    hint: str = ""
