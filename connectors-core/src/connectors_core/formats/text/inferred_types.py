# SPDX-License-Identifier: Apache-2.0
"""The types of inferred columns: the nearest ones that Spark has."""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from connectors_core.formats.text.texts import is_binary, is_string
from connectors_core.schema.nested_columns import is_any_list

__all__ = ["nearest_spark_schema", "nearest_spark_type"]

_MOST_DIGITS: Final = 38


def nearest_spark_type(kind: pa.DataType) -> pa.DataType:
    """Return the nearest type that Spark has. A type without values becomes a string."""
    types = pa.types
    if types.is_dictionary(kind):
        return nearest_spark_type(kind.value_type)
    if isinstance(kind, pa.UuidType) or types.is_null(kind) or types.is_time(kind):
        return pa.string()
    if is_string(kind) or (types.is_struct(kind) and not kind.num_fields):
        return pa.string()
    if isinstance(kind, pa.BaseExtensionType):
        return nearest_spark_type(kind.storage_type)
    if is_binary(kind):
        return pa.binary()
    if types.is_timestamp(kind):
        return pa.timestamp("us", tz=None if kind.tz is None else "UTC")
    if types.is_duration(kind):
        return pa.duration("us")
    if types.is_date(kind):
        return pa.date32()
    if types.is_float16(kind):
        return pa.float32()
    if types.is_unsigned_integer(kind):
        wider = {8: pa.int16(), 16: pa.int32(), 32: pa.int64(), 64: pa.decimal128(20, 0)}
        return wider[kind.bit_width]
    if types.is_decimal(kind):
        fits = kind.precision <= _MOST_DIGITS and 0 <= kind.scale <= kind.precision
        return pa.decimal128(kind.precision, kind.scale) if fits else pa.string()
    if is_any_list(kind):
        return pa.list_(_nearest_field(kind.value_field))
    if types.is_struct(kind):
        return pa.struct([_nearest_field(field) for field in kind])
    if types.is_map(kind):
        return pa.map_(nearest_spark_type(kind.key_type), _nearest_field(kind.item_field))
    return kind


def nearest_spark_schema(schema: pa.Schema) -> pa.Schema:
    """Return an inferred schema with types that Spark has. Every column is nullable."""
    return pa.schema([pa.field(each.name, nearest_spark_type(each.type)) for each in schema])


def _nearest_field(field: pa.Field) -> pa.Field:
    return pa.field(field.name, nearest_spark_type(field.type), field.nullable)
