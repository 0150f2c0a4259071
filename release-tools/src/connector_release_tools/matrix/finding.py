# SPDX-License-Identifier: Apache-2.0
"""Something in the tree that is not as the matrix says."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Finding"]


@dataclass(frozen=True)
class Finding:
    """Something that is not as the matrix says.

    Attributes:
        place: The file, or what it is about.
        message: What was found, and what the matrix has.
        hint: What to do about it.
    """

    place: str
    message: str
    hint: str = ""
