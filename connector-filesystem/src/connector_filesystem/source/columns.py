# SPDX-License-Identifier: Apache-2.0
"""Which columns come from the file, its path and its status, and how types are brought together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import pyarrow as pa

from connector_filesystem.formats import Format
from connectors_core.errors import ConfigurationError
from connectors_core.formats.text import unreadable_csv_type, unreadable_json_type

__all__ = [
    "ConstantColumns",
    "MetadataColumn",
    "SchemaChange",
    "can_become",
    "check_readable",
    "spark_schema",
]


class SchemaChange(StrEnum):
    """What to do with a file whose columns are not those of the schema. They can be combined."""

    FAIL = "fail"
    """Stop with an error that names the file and the columns."""
    NULL_MISSING = "null-missing"
    """Read a missing column as null."""
    IGNORE_NEW = "ignore-new"
    """Leave out a column that is not in the schema."""


class MetadataColumn(StrEnum):
    """What can be told of the file that a row stands in."""

    PATH = "file.path"
    NAME = "file.name"
    SIZE = "file.size"
    MODIFICATION_TIME = "file.modification_time"

    @property
    def default_name(self) -> str:
        """Name of the column unless another is given."""
        return "_" + self.value.replace(".", "_")

    @property
    def type(self) -> pa.DataType:
        """Type of the column."""
        if self is MetadataColumn.SIZE:
            return pa.int64()
        if self is MetadataColumn.MODIFICATION_TIME:
            return pa.timestamp("us", tz="UTC")
        return pa.string()


@dataclass
class ConstantColumns:
    """Appends columns that have one value throughout a file.

    Args:
        fields: The columns.
        values: Their values.
    """

    fields: Sequence[pa.Field]
    values: Sequence[Any]
    _arrays: tuple[pa.Array, ...] = ()

    def append_to(self, batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
        """Return the batch with these columns behind its own."""
        rows = batch.num_rows
        if self.fields and (not self._arrays or len(self._arrays[0]) < rows):
            self._arrays = tuple(
                pa.repeat(pa.scalar(value, field.type), rows)
                for field, value in zip(self.fields, self.values, strict=True)
            )
        arrays = [*batch.columns, *(array.slice(0, rows) for array in self._arrays)]
        return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _kind(kind: pa.DataType) -> str:
    types = pa.types
    if types.is_dictionary(kind):
        return _kind(kind.value_type)
    for name, matches in (
        ("number", (types.is_integer, types.is_floating, types.is_decimal)),
        ("text", (types.is_string, types.is_large_string)),
        ("binary", (types.is_binary, types.is_large_binary, types.is_fixed_size_binary)),
        ("timestamp", (types.is_timestamp,)),
        ("date", (types.is_date,)),
        ("list", (types.is_list, types.is_large_list, types.is_fixed_size_list)),
    ):
        if any(match(kind) for match in matches):
            return name
    return str(kind.id)


def can_become(found: pa.DataType, wanted: pa.DataType) -> bool:
    """Return whether values of one type fit another, most of them at least."""
    if pa.types.is_null(found) or found.equals(wanted):
        return True
    if pa.types.is_struct(found) and pa.types.is_struct(wanted):
        names = {field.name for field in found}
        return all(
            field.name in names and can_become(found.field(field.name).type, field.type)
            for field in wanted
        )
    if _kind(found) == "list" and _kind(wanted) == "list":
        return can_become(found.value_type, wanted.value_type)
    if pa.types.is_map(found) and pa.types.is_map(wanted):
        return can_become(found.key_type, wanted.key_type) and can_become(
            found.item_type, wanted.item_type
        )
    if _kind(found) == "number" and _kind(wanted) == "number":
        # 1.5 must not become 1; whole numbers may become broken ones.
        return not pa.types.is_integer(wanted) or pa.types.is_integer(found)
    return _kind(found) == _kind(wanted)


def spark_type(kind: pa.DataType) -> pa.DataType:
    """Return the nearest type that Spark has, for schemas that were found in files."""
    types = pa.types
    if types.is_null(kind) or types.is_large_string(kind) or types.is_time(kind):
        return pa.string()
    if types.is_dictionary(kind):
        return spark_type(kind.value_type)
    if types.is_large_binary(kind) or types.is_fixed_size_binary(kind):
        return pa.binary()
    if types.is_timestamp(kind):
        return pa.timestamp("us", tz=None if kind.tz is None else "UTC")
    if types.is_date(kind):
        return pa.date32()
    if types.is_float16(kind):
        return pa.float32()
    if types.is_unsigned_integer(kind):
        wider = {8: pa.int16(), 16: pa.int32(), 32: pa.int64(), 64: pa.decimal128(20, 0)}
        return wider[kind.bit_width]
    if types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        return pa.list_(_spark_field(kind.value_field))
    if types.is_struct(kind):
        return pa.struct([_spark_field(field) for field in kind])
    if types.is_map(kind):
        return pa.map_(spark_type(kind.key_type), _spark_field(kind.item_field))
    if isinstance(kind, pa.BaseExtensionType):
        return spark_type(kind.storage_type)
    return kind


def _spark_field(field: pa.Field) -> pa.Field:
    return pa.field(field.name, spark_type(field.type), field.nullable)


def spark_schema(schema: pa.Schema) -> pa.Schema:
    """Return a found schema with types that Spark has; every column may be null."""
    return pa.schema([pa.field(field.name, spark_type(field.type)) for field in schema])


def check_readable(field: pa.Field, format: Format) -> None:
    """Check that a format can hold a declared column; on the driver.

    Raises:
        ConfigurationError: It cannot.
    """
    kind = field.type
    refused = False
    if format is Format.CSV:
        refused = unreadable_csv_type(kind) is not None
    elif format is Format.JSON_LINES:
        refused = unreadable_json_type(kind) is not None
    if refused:
        raise ConfigurationError(
            f"the column {field.name!r} cannot be read from {format.value}",
            expected="a type that the format can hold",
            found=str(kind),
            option="schema",
            hint="declare it as string and convert it in Spark, e.g. with from_json",
        )
