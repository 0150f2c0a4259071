# SPDX-License-Identifier: Apache-2.0
"""Reads the row groups of Parquet files in batches."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from connector_filesystem.filesystem import FileLocation
from connector_filesystem.source.row_groups import RowGroupFilter
from connector_filesystem.source.split import Damaged, Position
from connector_filesystem.source.text import Parsed
from connector_filesystem.source.types import can_become, cast_values
from connectors_core.formats.text import converted
from connectors_core.source import Predicate

__all__ = ["ParquetSplitFile", "changed_types", "isolating_rows", "parquet_schema"]

# Each column is read through a buffer of this size instead of in whole column chunks.
_BUFFER_BYTES: Final = 1 << 20
_BUFFER_BYTES_REMOTE: Final = 4 << 20
_MIN_BATCH_ROWS: Final = 256


@dataclass(frozen=True)
class _RowGroup:
    number: int
    rows: int
    size: int


class ParquetSplitFile:
    """An open Parquet file and those of its row groups that start in a range of bytes.

    Args:
        location: A location on the file's filesystem.
        path: The path of the file.
        start: The first byte of the range.
        end: The byte after the range.
        size: The size of the file in bytes.
    """

    def __init__(
        self, location: FileLocation, path: str, *, start: int, end: int, size: int
    ) -> None:
        self._source: Any
        if location.is_local:
            # Not memory-mapped: a file that is truncated while it is read must raise an error, not
            # end the process.
            self._source = pa.OSFile(path, "rb")
        else:
            self._source = location.fs.open(path, "rb")
        try:
            self._file = pq.ParquetFile(
                self._source,
                pre_buffer=False,
                buffer_size=_BUFFER_BYTES if location.is_local else _BUFFER_BYTES_REMOTE,
                coerce_int96_timestamp_unit="us",
            )
        except BaseException:
            self._source.close()
            raise
        self.schema = _with_instants(self._file)
        metadata = self._file.metadata
        whole = start == 0 and end >= size
        groups = map(metadata.row_group, range(metadata.num_row_groups))
        self._groups = [
            _RowGroup(number, group.num_rows, group.total_byte_size)
            for number, group in enumerate(groups)
            if whole or start <= _begin(group) < end
        ]

    @property
    def is_empty(self) -> bool:
        """Whether the file has neither columns nor rows, as if its table was always empty."""
        return not self.schema.names and not self._file.metadata.num_rows

    def batches(
        self,
        position: Position,
        schema: pa.Schema,
        *,
        batch_rows: int,
        batch_bytes: int,
        filters: Sequence[Predicate] = (),
        filtered: pa.Schema | None = None,
    ) -> Iterator[pa.RecordBatch | int]:
        """Yield batches with the file's own types, starting with the first row after a position.

        Args:
            position: The position to start from.
            schema: The wanted columns, with only the wanted fields of structs.
            batch_rows: The maximum number of rows in a batch.
            batch_bytes: The target size of a batch in bytes, estimated from the footer.
            filters: Conditions; row groups without rows that satisfy them are not read.
            filtered: The columns that the conditions refer to.

        Yields:
            Batches, or the number of the next rows whose row groups are not read.
        """
        groups = [group for group in self._groups if group.number >= position.offset]
        rows = sum(group.rows for group in groups)
        if not rows:
            return
        columns = self._columns_of(schema)
        row_bytes = max(group.size / group.rows for group in groups if group.rows)
        share = len(schema.names) / max(len(self.schema.names), 1)
        fitting = int(batch_bytes / max(row_bytes * share, 1))
        skip = position.rows + position.bad_records
        kept = RowGroupFilter(filters, self._file.metadata, self.schema, filtered or schema)
        for is_read, some in itertools.groupby(groups, lambda each: kept.may_match(each.number)):
            part = list(some)
            if not is_read:
                left = sum(group.rows for group in part)
                dropped = min(skip, left)
                skip -= dropped
                if left > dropped:
                    yield left - dropped
                continue
            for batch in self._file.iter_batches(
                batch_size=min(batch_rows, max(fitting, _MIN_BATCH_ROWS)),
                row_groups=[group.number for group in part],
                columns=columns,
                use_threads=False,
            ):
                dropped = min(skip, batch.num_rows)
                skip -= dropped
                if batch.num_rows > dropped:
                    yield batch.slice(dropped)

    def _columns_of(self, schema: pa.Schema) -> list[str] | None:
        """Return the paths of the wanted columns that the file has; None for all columns."""
        wanted = pa.schema([each for each in schema if each.name in self.schema.names])
        whole = all(
            not pa.types.is_struct(each.type) or each.type.equals(self.schema.field(each.name).type)
            for each in wanted
        )
        if whole:
            return None if len(wanted) == len(self.schema) else wanted.names
        return [
            path
            for each in wanted
            for path in (
                _leaf_paths(pa.schema([each]))
                if pa.types.is_struct(self.schema.field(each.name).type)
                else [each.name]
            )
        ]

    def behind(self, position: Position, rows: int, bad_records: int = 0) -> Position:
        """Return the position after some good rows or bad records that follow a position."""
        left = rows + bad_records
        for group in self._groups:
            if group.number < position.offset:
                continue
            if group.number > position.offset:
                position = Position(offset=group.number)
            read = position.rows + position.bad_records
            taken = min(left, group.rows - read)
            left -= taken
            if read + taken < group.rows:
                return Position(
                    offset=group.number,
                    rows=position.rows + (taken if rows else 0),
                    bad_records=position.bad_records + (taken if bad_records else 0),
                )
            position = Position(offset=group.number + 1)
        return position

    def remaining(self, position: Position) -> int:
        """Return the uncompressed bytes in the row groups from a position on."""
        return sum(group.size for group in self._groups if group.number >= position.offset)

    def close(self) -> None:
        """Close the file."""
        self._file.close()
        self._source.close()


def parquet_schema(location: FileLocation, path: str, size: int) -> pa.Schema:
    """Return the schema in the footer."""
    file = ParquetSplitFile(location, path, start=0, end=0, size=size)
    try:
        return file.schema
    finally:
        file.close()


def changed_types(found: pa.Schema, wanted: pa.Schema) -> list[str]:
    """Return a description of the columns whose type cannot become the wanted type."""
    return [
        f"{field.name} ({found.field(field.name).type} instead of {field.type})"
        for field in wanted
        if field.name in found.names and not can_become(found.field(field.name).type, field.type)
    ]


def isolating_rows(
    batch: pa.RecordBatch, schema: pa.Schema, where: Callable[[int], str], first: int = 0
) -> Iterator[Parsed]:
    """Convert a batch as a whole.

    If that fails, convert its halves until the bad rows are isolated.

    Args:
        batch: The rows.
        schema: The wanted types.
        where: Returns the location of a row of the batch.
        first: The number of the batch's first row.

    Yields:
        Batches and bad rows in order.
    """
    try:
        rows = converted(batch, schema, cast_values)
    except pa.ArrowInvalid as exc:
        if batch.num_rows == 1:
            yield Damaged(reason=_reason(exc), position=where(first), cause=exc)
            return
        middle = batch.num_rows // 2
        yield from isolating_rows(batch.slice(0, middle), schema, where, first)
        yield from isolating_rows(batch.slice(middle), schema, where, first + middle)
    else:
        yield rows


def _reason(exc: pa.ArrowInvalid) -> str:
    # "Integer value 300 not in range: -128 to 127" contains the value.
    return " ".join(word for word in str(exc).split() if not word.strip("-.").isdigit())


def _with_instants(file: pq.ParquetFile) -> pa.Schema:
    """Return the schema of a file, with legacy 96-bit timestamps as instants in UTC.

    Impala, Hive, and Spark (by default) write instants in this form, in UTC. The file does not say
    so, and Arrow reads them as times without a zone.
    """
    leaves = iter(range(len(file.schema)))

    def of_type(kind: pa.DataType) -> pa.DataType:
        if pa.types.is_struct(kind):
            return pa.struct([of_field(field) for field in kind])
        if pa.types.is_map(kind):
            key, item = of_field(kind.key_field), of_field(kind.item_field)
            return pa.map_(key.type, item)
        if pa.types.is_list(kind):
            return pa.list_(of_field(kind.value_field))
        if pa.types.is_large_list(kind):
            return pa.large_list(of_field(kind.value_field))
        if pa.types.is_nested(kind):
            for _ in range(_leaves_in(kind)):
                next(leaves)
            return kind
        of_96_bits = file.schema.column(next(leaves)).physical_type == "INT96"
        return pa.timestamp("us", tz="UTC") if of_96_bits else kind

    def of_field(field: pa.Field) -> pa.Field:
        return field.with_type(of_type(field.type))

    found: pa.Schema = file.schema_arrow
    if not any(file.schema.column(at).physical_type == "INT96" for at in range(len(file.schema))):
        return found
    return pa.schema([of_field(field) for field in found])


def _leaves_in(kind: pa.DataType) -> int:
    return sum(_leaves_in(kind.field(at).type) for at in range(kind.num_fields)) or 1


def _begin(group: Any) -> int:
    if not group.num_columns:
        return 0
    column = group.column(0)
    dictionary = column.dictionary_page_offset
    data = int(column.data_page_offset)
    return min(int(dictionary), data) if dictionary else data


def _leaf_paths(schema: pa.Schema) -> list[str]:
    """Return the dotted paths of the columns, or of the fields of narrowed structs."""

    def paths(name: str, kind: pa.DataType) -> list[str]:
        if not pa.types.is_struct(kind):
            return [name]
        return [path for each in kind for path in paths(f"{name}.{each.name}", each.type)]

    return [path for each in schema for path in paths(each.name, each.type)]
