# SPDX-License-Identifier: Apache-2.0
"""One column of every data type that Spark has in Arrow, with its extremes and nulls."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any, Final

import pyarrow as pa


def _int(bits: int) -> list[int | None]:
    return [0, 1, -1, 2 ** (bits - 1) - 1, -(2 ** (bits - 1)), None]


def _list_of(kind: pa.DataType) -> pa.DataType:
    # Spark's name for what Arrow calls "item".
    return pa.list_(pa.field("element", kind))


_VALUES: Mapping[str, tuple[pa.DataType, list[Any]]] = {
    "boolean": (pa.bool_(), [True, False, None]),
    "byte": (pa.int8(), _int(8)),
    "short": (pa.int16(), _int(16)),
    "integer": (pa.int32(), _int(32)),
    "long": (pa.int64(), _int(64)),
    "float": (pa.float32(), [0.0, -1.5, 2.0**100, float("inf"), None]),
    "double": (pa.float64(), [0.1, -1e300, 5e-324, float("-inf"), None]),
    "decimal": (pa.decimal128(38, 18), [Decimal(9) / 8, Decimal("-1e19"), Decimal(0), None]),
    "string": (pa.string(), ["a", "", " ", "ä漢🜚 ,;\"'\\", "two\nlines\ttab", "null", None]),
    "binary": (pa.binary(), [b"a", b"", bytes(range(256)), None]),
    "date": (pa.date32(), [date(1970, 1, 1), date(1, 1, 1), date(9999, 12, 31), None]),
    "timestamp": (
        pa.timestamp("us", tz="UTC"),
        [datetime(2024, 2, 29, 23, 59, 59, 999_999, UTC), datetime(1900, 1, 1, tzinfo=UTC), None],
    ),
    "timestamp_ntz": (
        pa.timestamp("us"),
        [datetime(2024, 3, 31, 2, 30, 0, 1), datetime(1900, 1, 1), None],
    ),
    "day-time interval": (
        pa.duration("us"),
        [timedelta(0), timedelta(days=-3, microseconds=1), None],
    ),
    "array": (_list_of(pa.int64()), [[1, None, 3], [], None]),
    "map": (pa.map_(pa.string(), pa.int64()), [[("a", 1), ("b", None)], [], None]),
    "struct": (
        pa.struct([("x", pa.int64()), ("y", _list_of(pa.string()))]),
        [{"x": 1, "y": ["a", None]}, {"x": None, "y": None}, None],
    ),
}

DATA_TYPES: Final = tuple(_VALUES)
"""Spark's names of the types."""


def example_of(data_type: str) -> pa.Table:
    """Rows with the columns ``id`` (0, 1, ...) and ``value``, a null among the values."""
    arrow, values = _VALUES[data_type]
    ids = pa.array(range(len(values)), pa.int64())
    return pa.table({"id": ids, "value": pa.array(values, arrow)})
