# SPDX-License-Identifier: Apache-2.0
"""A column of each Spark data type that Arrow supports, with its extremes and nulls."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any, Final

import pyarrow as pa


def _int(bits: int) -> list[int | None]:
    return [0, 1, -1, 2 ** (bits - 1) - 1, -(2 ** (bits - 1)), None]


def _list_of(kind: pa.DataType) -> pa.DataType:
    # Spark's name for the field that Arrow calls "item".
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

_LARGEST_DECIMAL = Decimal("99999999999999999999.999999999999999999")
_LARGEST_DOUBLE = 1.7976931348623157e308
_LARGEST_FLOAT = 3.4028234663852886e38

_HARD_VALUES: Mapping[tuple[str, str], list[Any]] = {
    ("byte", "ends"): _int(8),
    ("short", "ends"): _int(16),
    ("integer", "ends"): _int(32),
    ("long", "more digits than a double has"): [
        *(sign * (2**53 + 1) for sign in (1, -1)),
        *(2**63 - 1, 2**63 - 2, -(2**63), -(2**63) + 1),
    ],
    ("float", "NaN"): [float("nan"), 1.0],
    ("float", "negative zero"): [-0.0, 0.0],
    ("float", "ends"): [_LARGEST_FLOAT, -_LARGEST_FLOAT, 2.0**-149, 2.0**-126, 16_777_215.0],
    ("double", "NaN"): [float("nan"), 1.0],
    ("double", "negative zero"): [-0.0, 0.0],
    ("double", "ends"): [_LARGEST_DOUBLE, -_LARGEST_DOUBLE, 5e-324, 2.0**-1022, 2.0**53],
    ("double", "17 digits"): [0.1 + 0.2, 1 / 3, 1e23, 123456789.01234567],
    ("decimal", "more digits than a double has"): [
        Decimal("12345678901234567890.123456789012345678"),
        Decimal("0.100000000000000001"),
        Decimal("-0.1"),
    ],
    ("decimal", "ends"): [
        _LARGEST_DECIMAL,
        _LARGEST_DECIMAL.copy_negate(),
        Decimal("1e-18"),
        Decimal(1),
    ],
    ("string", "forms of one character"): [
        *("\u00e9", "e\u0301", "\u00c5", "A\u030a", "\u212b", "\ufb01", "\u2460", "\u00df"),
    ],
    ("string", "white space"): [
        *("\ufeffa", " a ", "\t", "\u00a0a\u00a0", "a\r\nb", "a\rb", "\n", "\u2028", "\u0085"),
    ],
    ("string", "control characters"): ["a\x00b", "\x01\x1f\x7f", "\x00"],
    ("string", "what looks like other types"): [
        *("007", "1e5", "NaN", "true", "2024-01-01", "-0", "{}", "[]", "NULL", "\\N", '"', "''"),
    ],
    ("string", "beyond the basic plane"): ["\U0001f600", "\U0010ffff", "a\U00020000b", "\uffff"],
    ("binary", "what is no text"): [b"\xff\xfe", b"\x00", b"\xe9", b"\xed\xa0\x80", b"null"],
    ("date", "calendars and epochs"): [
        *(date(1582, 10, 4), date(1582, 10, 10), date(1582, 10, 15), date(1900, 2, 28)),
        *(date(1969, 12, 31), date(2000, 2, 29)),
    ],
    ("timestamp", "ends"): [
        datetime(1, 1, 1, tzinfo=UTC),
        datetime(9999, 12, 31, 23, 59, 59, 999_999, UTC),
    ],
    ("timestamp", "calendars and epochs"): [
        datetime(1582, 10, 10, tzinfo=UTC),
        datetime(1883, 11, 18, 17, 3, 58, tzinfo=UTC),
        datetime(1969, 12, 31, 23, 59, 59, 999_999, UTC),
        datetime(2016, 12, 31, 23, 59, 59, 1, UTC),
    ],
    ("timestamp_ntz", "ends"): [datetime(1, 1, 1), datetime(9999, 12, 31, 23, 59, 59, 999_999)],
    ("timestamp_ntz", "times that a zone skips or repeats"): [
        datetime(2024, 3, 10, 2, 30),
        datetime(2024, 11, 3, 1, 30),
        datetime(2024, 10, 27, 2, 30),
        datetime(1969, 12, 31, 23, 59, 59, 999_999),
    ],
    ("day-time interval", "ends"): [
        *(timedelta(days=sign * 106_751_990) for sign in (1, -1)),
        *(timedelta(microseconds=sign) for sign in (1, -1)),
    ],
    ("array", "nulls"): [[None], [None, None], [], [0, None]],
    ("map", "empty keys and nulls"): [[("", None)], [("", 0), (" ", 1)], []],
    ("struct", "nulls"): [{"x": None, "y": []}, {"x": 0, "y": [None]}, {"x": None, "y": None}],
}

HARD_VALUES: Final = tuple(_HARD_VALUES)
"""For each type, named values that a conversion to text, floats, or JSON changes."""

_LONG = pa.int64()
_TEXT = pa.string()


def _struct_of(kind: pa.DataType) -> pa.DataType:
    return pa.struct([("x", kind)])


def _map_of(kind: pa.DataType) -> pa.DataType:
    return pa.map_(_TEXT, kind)


_NUMBERS, _TEXTS = _list_of(_LONG), _list_of(_TEXT)
# For each type: the type, a value of it, another type, and a value of that which does not fit.
MISFIT_TEXT: Final = "misfit-5d2e"
"""The texts of :data:`MISFITS`, which an error must not show."""

_MISFITS: Mapping[tuple[str, str], tuple[pa.DataType, Any, pa.DataType, Any]] = {
    ("boolean", "a text"): (pa.bool_(), True, _TEXT, MISFIT_TEXT),
    ("integer", "too large"): (pa.int32(), 1, _LONG, 2**31),
    ("long", "a fraction"): (_LONG, 1, pa.float64(), 1.5),
    ("long", "a text"): (_LONG, 1, _TEXT, MISFIT_TEXT),
    ("date", "a text"): (pa.date32(), date(2024, 2, 29), _TEXT, MISFIT_TEXT),
    ("timestamp", "a text"): (
        pa.timestamp("us", tz="UTC"),
        datetime(2024, 2, 29, tzinfo=UTC),
        _TEXT,
        MISFIT_TEXT,
    ),
    ("array", "a text"): (_NUMBERS, [1], _TEXT, MISFIT_TEXT),
    ("array", "a text in it"): (_NUMBERS, [1], _TEXTS, [None, MISFIT_TEXT]),
    ("array", "a text in a struct in it"): (
        *(_list_of(_struct_of(_LONG)), [{"x": 1}]),
        *(_list_of(_struct_of(_TEXT)), [{"x": None}, {"x": MISFIT_TEXT}]),
    ),
    ("map", "a text"): (_map_of(_LONG), [("a", 1)], _TEXT, MISFIT_TEXT),
    ("map", "a text in it"): (_map_of(_LONG), [("a", 1)], _map_of(_TEXT), [("a", MISFIT_TEXT)]),
    ("struct", "a text"): (_struct_of(_LONG), {"x": 1}, _TEXT, MISFIT_TEXT),
    ("struct", "a text in it"): (
        _struct_of(_LONG),
        {"x": 1},
        _struct_of(_TEXT),
        {"x": MISFIT_TEXT},
    ),
    ("struct", "a text in place of a struct in it"): (
        *(_struct_of(_struct_of(_LONG)), {"x": {"x": 1}}),
        *(_struct_of(_TEXT), {"x": MISFIT_TEXT}),
    ),
    ("struct", "a text in an array in it"): (
        *(_struct_of(_NUMBERS), {"x": [1]}),
        *(_struct_of(_TEXTS), {"x": [MISFIT_TEXT]}),
    ),
}

MISFITS: Final = tuple(_MISFITS)
"""For each type, values of other types that do not fit, at several depths."""


MISFIT_COLUMN: Final = "measured"
"""The column of the values of :data:`MISFITS`, which an error must name."""


_COLUMN_NAMES: Mapping[str, str] = {
    "reserved word": "select",
    "mixed case": "mixedCase",
    "spaces": " two  spaces ",
    "quotes": """it's "a" `b` [c]""",
    "a statement": "x'); DROP TABLE things; --",
    "other signs": "a%s,{b}$c?é",
    "a dot": "a.b",
}

COLUMN_NAMES: Final = tuple(_COLUMN_NAMES)
"""Kinds of names of columns that a statement, a path, or a pattern must quote."""


def named_column(column_name: str) -> pa.Table:
    """Return rows with the column ``id``, and a column of texts with a name of this kind."""
    return example_of("string").rename_columns(["id", _COLUMN_NAMES[column_name]])


def column_names(cannot_carry: Mapping[str, str]) -> list[str]:
    """Return a name of each kind of :data:`COLUMN_NAMES` that a connector does not exclude."""
    return [
        name for kind, name in _COLUMN_NAMES.items() if f"column name: {kind}" not in cannot_carry
    ]


def misfit_of(data_type: str, values: str) -> tuple[pa.Schema, list[pa.Table]]:
    """Return a schema, and parts of its rows, of which only the second one does not fit."""
    kind, value, other, misfit = _MISFITS[data_type, values]
    written = (([0], kind, [value]), ([1], other, [misfit]), ([2, 3], kind, [None, value]))
    parts = [
        pa.table({"id": pa.array(ids, _LONG), MISFIT_COLUMN: pa.array(found, of)})
        for ids, of, found in written
    ]
    return parts[0].schema, parts


def hard_values_of(data_type: str, values: str) -> pa.Table:
    """Return rows of :data:`HARD_VALUES` with the columns ``id`` and ``value``."""
    arrow, _ = _VALUES[data_type]
    return _rows(arrow, [*_HARD_VALUES[data_type, values], None])


def example_of(data_type: str) -> pa.Table:
    """Return rows with the columns ``id`` (0, 1, ...) and ``value``. One value is null."""
    return _rows(*_VALUES[data_type])


def _rows(arrow: pa.DataType, values: list[Any]) -> pa.Table:
    ids = pa.array(range(len(values)), pa.int64())
    return pa.table({"id": ids, "value": pa.array(values, arrow)})
