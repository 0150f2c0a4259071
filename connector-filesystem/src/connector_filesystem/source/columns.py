# SPDX-License-Identifier: Apache-2.0
"""Columns from the file, its path, and its status."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import pyarrow as pa

from connector_filesystem.formats import FileFormat
from connectors_core.errors import ConfigurationError
from connectors_core.formats.text import unreadable_csv_type, unreadable_json_type

__all__ = [
    "ConstantColumns",
    "FileMetadata",
    "SchemaChange",
    "check_readable",
]


class SchemaChange(StrEnum):
    """What to do with a file whose columns differ from the schema. The values can be combined."""

    FAIL = "fail"
    """Fail with an error that names the file and the columns."""
    NULL_MISSING = "null-missing"
    """Read a missing column as null."""
    IGNORE_NEW = "ignore-new"
    """Ignore a column that is not in the schema."""


class OnUnreadable(StrEnum):
    """What to do with a file that cannot be read, is missing, or has changed."""

    FAIL = "fail"
    """Fail with an error that names the file."""
    SKIP = "skip"
    """Keep the rows read so far, skip the rest, count it, and log a warning."""


class FileMetadata(StrEnum):
    """The metadata of a row's file that the source can provide."""

    PATH = "file.path"
    NAME = "file.name"
    SIZE = "file.size"
    MODIFICATION_TIME = "file.modification-time"

    @property
    def default_name(self) -> str:
        """The name of the column unless the user sets one."""
        return "_" + self.value.replace(".", "_").replace("-", "_")

    @property
    def type(self) -> pa.DataType:
        """The type of the column."""
        if self is FileMetadata.SIZE:
            return pa.int64()
        if self is FileMetadata.MODIFICATION_TIME:
            return pa.timestamp("us", tz="UTC")
        return pa.string()


@dataclass
class ConstantColumns:
    """Appends columns whose value is constant in a file.

    Args:
        fields: The columns.
        values: Their values.
    """

    fields: Sequence[pa.Field]
    values: Sequence[pa.Scalar]
    _arrays: tuple[pa.Array, ...] = ()

    def append_to(self, batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
        """Return the batch with these columns appended."""
        rows = batch.num_rows
        if self.fields and (not self._arrays or len(self._arrays[0]) < rows):
            self._arrays = tuple(pa.repeat(value, rows) for value in self.values)
        arrays = [*batch.columns, *(array.slice(0, rows) for array in self._arrays)]
        return pa.RecordBatch.from_arrays(arrays, schema=schema)


def check_readable(field: pa.Field, format: FileFormat) -> None:
    """Check on the driver that a format can hold a declared column.

    Raises:
        ConfigurationError: The format cannot hold the column.
    """
    kind = field.type
    refused = False
    if format is FileFormat.CSV:
        refused = unreadable_csv_type(kind) is not None
    elif format is FileFormat.JSON:
        refused = unreadable_json_type(kind) is not None
    if refused:
        raise ConfigurationError(
            f"the column {field.name!r} cannot be read from {format.value}",
            expected="a type that the format can hold",
            found=str(kind),
            option="schema",
            hint="declare it as string and convert it in Spark, e.g. with from_json",
        )
