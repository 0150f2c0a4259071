# SPDX-License-Identifier: Apache-2.0
"""Names of files that every file system allows."""

from __future__ import annotations

import hashlib
from typing import Final

__all__ = ["is_shortened", "shortened"]

# A file system allows 255 bytes, and a temporary file has a longer name.
_LONGEST: Final = 180
_DIGEST: Final = 32


def shortened(name: str) -> str:
    """Return the name of a file, in which a digest replaces the end of a long one.

    No short name equals a shortened one, which is longer than the longest of them.

    Args:
        name: A name in ASCII, without the separators of folders.
    """
    if len(name) <= _LONGEST:
        return name
    digest = hashlib.sha256(name.encode()).hexdigest()[:_DIGEST]
    return f"{name[: _LONGEST - _DIGEST]}-{digest}"


def is_shortened(name: str) -> bool:
    """Return whether a digest replaces the end of a name that `shortened` has returned."""
    return len(name) > _LONGEST
