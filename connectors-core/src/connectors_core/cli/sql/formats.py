# SPDX-License-Identifier: Apache-2.0
"""The formats of results."""

from __future__ import annotations

from enum import StrEnum

__all__ = ["Format"]


class Format(StrEnum):
    """How results are printed."""

    TABLE = "table"
    """A table for people."""
    JSON = "json"
    """A JSON object on each line."""
    CSV = "csv"
    """Comma-separated values after a line of names. A null is empty."""
