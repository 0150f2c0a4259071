# SPDX-License-Identifier: Apache-2.0
"""The columns for the fields of Avro records."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import pyarrow as pa

__all__ = ["columns_of_records"]

_UTC: Final = pa.timestamp("us", "UTC")
_PLAIN: Final[Mapping[str, pa.DataType]] = {
    "null": pa.null(),
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "bytes": pa.binary(),
    "string": pa.string(),
    "enum": pa.string(),
    "fixed": pa.binary(),
}
_LOGICAL: Final[Mapping[tuple[str, str | None], pa.DataType]] = {
    ("int", "date"): pa.date32(),
    ("long", "timestamp-millis"): _UTC,
    ("long", "timestamp-micros"): _UTC,
    ("long", "local-timestamp-millis"): pa.timestamp("us"),
    ("long", "local-timestamp-micros"): pa.timestamp("us"),
}
_WITHOUT_COLUMN: Final = frozenset({"decimal", "time-millis", "time-micros"})
_NUMBERS: Final = frozenset({"int", "long", "float", "double"})
_MAX_DIGITS: Final = 38


class _NoColumnError(Exception):
    """Spark has no type for a field."""


def columns_of_records(written: Any) -> tuple[pa.Schema, tuple[str, ...]]:
    """Return the columns for the fields of records. All can be null, as a later field is.

    Spark has no type for a time of day, nor for a union of several types that are not all numbers.

    Args:
        written: The schema of the records, as from `parsed_schema`.

    Returns:
        The columns, and the names of the fields that no column can have.
    """
    columns, omitted = [], []
    for field in written["fields"]:
        try:
            columns.append((field["name"], _type(field["type"], written["__named_schemas"])))
        except _NoColumnError:
            omitted.append(field["name"])
    return pa.schema(columns), tuple(omitted)


def _type(kind: Any, named: Mapping[str, Any]) -> pa.DataType:
    if isinstance(kind, list):
        return _union([each for each in kind if each != "null"], named)
    if isinstance(kind, str):
        return _PLAIN[kind] if kind in _PLAIN else _type(named[kind], named)
    name, logical = kind["type"], kind.get("logicalType")
    if not isinstance(name, str):
        return _type(name, named)
    if name in {"record", "error"}:
        return pa.struct([(each["name"], _type(each["type"], named)) for each in kind["fields"]])
    if name == "array":
        return pa.list_(_type(kind["items"], named))
    if name == "map":
        return pa.map_(pa.string(), _type(kind["values"], named))
    if logical == "decimal" and kind["precision"] <= _MAX_DIGITS:
        return pa.decimal128(kind["precision"], kind.get("scale", 0))
    if logical in _WITHOUT_COLUMN:
        raise _NoColumnError
    return _LOGICAL.get((name, logical), _PLAIN[name])


def _union(kinds: Sequence[Any], named: Mapping[str, Any]) -> pa.DataType:
    if len(kinds) < 2:
        return _type(kinds[0], named) if kinds else pa.null()
    if not all(isinstance(each, str) and each in _NUMBERS for each in kinds):
        raise _NoColumnError
    return pa.int64() if {"int", "long"}.issuperset(kinds) else pa.float64()
