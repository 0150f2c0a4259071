# SPDX-License-Identifier: Apache-2.0
"""Suggestions for mistyped keys."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from typing import Final

__all__ = ["suggested"]

_MOST: Final = 3
_LIKENESS: Final = 0.7


def suggested(key: str, names: Mapping[str, str]) -> tuple[str, ...]:
    """Return at most three similar keys, best first.

    Args:
        key: The key from the user.
        names: The keys by all their known names.
    """
    wanted = _letters(key)
    known: dict[str, str] = {}
    for name, each in names.items():
        known.setdefault(_letters(name), each)
    best = [known[wanted]] if wanted in known else []
    best += [known[name] for name in difflib.get_close_matches(wanted, known, _MOST, _LIKENESS)]
    return tuple(dict.fromkeys(best))[:_MOST]


def _letters(key: str) -> str:
    return re.sub(r"[^a-z0-9]", "", key.lower())
