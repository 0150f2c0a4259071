# SPDX-License-Identifier: Apache-2.0
"""Converts columns to Python's values, also if Python lacks some of them."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

__all__ = ["python_values"]


def python_values(column: pa.Array) -> list[Any]:
    """Return a value for each row: Python's, or Arrow's text if Python has none.

    Python has no date or time outside the years 1 to 9999, and no duration over 2.7 million years.
    Different values stay different.
    """
    try:
        return list(column.to_pylist())
    except (ValueError, OverflowError):
        return [_value(column.slice(at, 1)) for at in range(len(column))]


def _value(one: pa.Array) -> Any:
    try:
        return one.to_pylist()[0]
    except (ValueError, OverflowError):
        return " ".join(one.to_string(skip_new_lines=True).split()).removeprefix("[").rstrip("]")
