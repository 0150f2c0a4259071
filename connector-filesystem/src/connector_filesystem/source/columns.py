# SPDX-License-Identifier: Apache-2.0
"""Which columns come from the file, from its path and from its status."""

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
    "check_readable",
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
