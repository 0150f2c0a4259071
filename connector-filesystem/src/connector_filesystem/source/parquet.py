# SPDX-License-Identifier: Apache-2.0
"""Reads the row groups of Parquet files in batches."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from connector_filesystem.filesystem import FileLocation
from connector_filesystem.source.calendars import LegacyCalendar, check_int96
from connector_filesystem.source.row_groups import RowGroupFilter, leaves_in
from connector_filesystem.source.split import Damaged, Position
from connector_filesystem.source.text import Parsed
from connector_filesystem.source.types import can_become, cast_values
from connectors_core.formats.text import converted, explained
from connectors_core.schema import cast_column, nullable_type
from connectors_core.source import Predicate

__all__ = [
    "ParquetSplitFile",
    "UnsupportedFileError",
    "changed_types",
    "isolating_rows",
    "parquet_schema",
]

# Each column is read through a buffer of this size instead of in whole column chunks.
_BUFFER_BYTES: Final = 1 << 20
_BUFFER_BYTES_REMOTE: Final = 4 << 20
_TAIL_BYTES: Final = 8
_LENGTH_BYTES: Final = 4
_SPARK_SCHEMA: Final = b"org.apache.spark.sql.parquet.row.metadata"
_VARIANT_FIELDS: Final = frozenset({"metadata", "value", "typed_value"})
_MIN_BATCH_ROWS: Final = 256
# The names of the columns that hold the seconds of timestamps of 96 bits start with this text.
_SECONDS: Final = "\0seconds of "
_INSTANT: Final = pa.timestamp("us", tz="UTC")


@dataclass(frozen=True)
class _RowGroup:
    number: int
    rows: int
    size: int


class UnsupportedFileError(pa.ArrowNotImplementedError):  # type: ignore[misc]
    """A file cannot be read, for a reason that contains no values."""


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
        metadata = self._file.metadata
        self._calendar = LegacyCalendar.of(metadata.metadata)
        self.schema, self._corrected = _types_of(self._file, self._calendar)
        self._is_signed = signed = _is_signed(self._source, metadata, size)
        whole = start == 0 and (end >= size or signed)
        numbers = range(0 if signed and not whole else metadata.num_row_groups)
        groups = [metadata.row_group(number) for number in numbers]
        for group in groups:
            if not signed and group.num_columns and (elsewhere := group.column(0).file_path):
                self.close()
                raise UnsupportedFileError(f"its rows are in other files: {elsewhere}")
        self._groups = [
            _RowGroup(number, group.num_rows, group.total_byte_size)
            for number, group in enumerate(groups)
            if whole or start <= _begin(group) < end
        ]

    def refuse_variants(self, names: Collection[str]) -> None:
        """Refuse columns whose values are VARIANT at any depth. Arrow has only their bytes.

        Raises:
            pa.ArrowNotImplementedError: There is such a column among these.
        """
        found = [each for each in self.schema if each.name in names and _may_be_variant(each.type)]
        by_spark = (self._file.metadata.metadata or {}).get(_SPARK_SCHEMA, b"")
        if found and ("(Variant(" in str(self._file.schema) or b'"variant"' in by_spark):
            raise UnsupportedFileError(f"the column {found[0].name!r} has VARIANT values")

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
        if self._is_signed:
            filters = ()
        kept = RowGroupFilter(
            filters, self._file.metadata, self.schema, filtered or schema, self._calendar
        )
        for is_read, some in itertools.groupby(groups, lambda each: kept.may_match(each.number)):
            part = list(some)
            if not is_read:
                left = sum(group.rows for group in part)
                dropped = min(skip, left)
                skip -= dropped
                if left > dropped:
                    yield left - dropped
                continue
            for batch in self._raw_batches(
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

    def _raw_batches(
        self, *, columns: Sequence[str] | None, **settings: Any
    ) -> Iterator[pa.RecordBatch]:
        """Yield batches, with timestamps of 96 bits also in seconds."""
        found = self._file.iter_batches(columns=columns, **settings)
        names = [
            name
            for name in self._corrected
            if not self.schema.field(name).type.equals(self._file.schema_arrow.field(name).type)
            and (columns is None or any(_leads_to(name, each) for each in columns))
        ]
        if not names:
            yield from found
            return
        file = pq.ParquetFile(
            self._source,
            metadata=self._file.metadata,
            pre_buffer=False,
            buffer_size=_BUFFER_BYTES,
            coerce_int96_timestamp_unit="s",
        )
        paths = [each for each in columns or names if any(_leads_to(name, each) for name in names)]
        seconds = file.iter_batches(columns=paths, **settings)
        held: list[pa.RecordBatch] = []
        for batch in found:
            while sum(each.num_rows for each in held) < batch.num_rows:
                held.append(next(seconds))
            (joined,) = pa.Table.from_batches(held).combine_chunks().to_batches()
            for name in names:
                column = joined.column(name).slice(0, batch.num_rows)
                batch = batch.append_column(f"{_SECONDS}{name}", column)
            rest = joined.slice(batch.num_rows)
            held = [rest] if rest.num_rows else []
            yield batch

    def corrected(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return rows of `batches` with the times that the writer of the file meant.

        Raises:
            pa.ArrowInvalid: A time cannot be converted.
        """
        for name, field in self._corrected.items():
            at = batch.schema.get_field_index(name)
            if at < 0:
                continue
            seconds: list[pa.Array] = []
            beside = batch.schema.get_field_index(f"{_SECONDS}{name}")
            if beside >= 0:
                cast_column(batch.column(beside), field, partial(_collect, seconds))
            correct = partial(self._correct, iter(seconds))
            batch = batch.set_column(at, field, cast_column(batch.column(at), field, correct))
        return batch

    def _correct(
        self, seconds: Iterator[pa.Array], column: pa.Array, kind: pa.DataType
    ) -> pa.Array:
        """Correct a flat column, as a `CastValues`."""
        if pa.types.is_date(kind):
            return self._calendar.dates(column)
        if kind.tz is not None:
            check_int96(next(seconds))
        if kind.tz is None or self._calendar.int96:
            column = self._calendar.timestamps(column)
        return column.view(kind)

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
        file.refuse_variants(file.schema.names)
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
    batch: pa.RecordBatch,
    schema: pa.Schema,
    where: Callable[[int], str],
    first: int = 0,
    *,
    corrected: Callable[[pa.RecordBatch], pa.RecordBatch],
) -> Iterator[Parsed]:
    """Convert a batch as a whole.

    If that fails, convert its halves until the bad rows are isolated.

    Args:
        batch: The rows.
        schema: The wanted types.
        where: Returns the location of a row of the batch.
        first: The number of the batch's first row.
        corrected: See `ParquetSplitFile.corrected`.

    Yields:
        Batches and bad rows in order.
    """
    try:
        rows = converted(corrected(batch), schema, cast_values)
    except pa.ArrowInvalid as exc:
        if batch.num_rows == 1:
            yield Damaged(reason=explained(exc), position=where(first), cause=exc)
            return
        middle = batch.num_rows // 2
        for at, part in ((0, batch.slice(0, middle)), (middle, batch.slice(middle))):
            yield from isolating_rows(part, schema, where, first + at, corrected=corrected)
    else:
        yield rows


def _types_of(
    file: pq.ParquetFile, calendar: LegacyCalendar
) -> tuple[pa.Schema, dict[str, pa.Field]]:
    """Return the schema of a file, and the types into which its times must be corrected.

    A timestamp of 96 bits is an instant in UTC, and Arrow reads it as a time without a zone. Each
    type to correct becomes another one that means the same, so that a cast finds its values.
    """
    found: pa.Schema = file.schema_arrow

    def with_instants(kind: pa.DataType, is_int96: bool) -> pa.DataType:
        return _INSTANT if is_int96 else kind

    def to_correct(kind: pa.DataType, is_int96: bool) -> pa.DataType:
        if is_int96:
            return _INSTANT
        if calendar.datetimes and pa.types.is_date32(kind):
            return pa.date64()
        if calendar.datetimes and pa.types.is_timestamp(kind) and kind.tz is not None:
            return pa.timestamp(kind.unit)
        return kind

    schema = _mapped(file, found, with_instants)
    return schema, {
        field.name: pa.field(field.name, nullable_type(field.type))
        for field, before in zip(_mapped(file, found, to_correct), found, strict=True)
        if not field.type.equals(before.type) and found.names.count(field.name) == 1
    }


def _mapped(
    file: pq.ParquetFile, schema: pa.Schema, change: Callable[[pa.DataType, bool], pa.DataType]
) -> pa.Schema:
    """Change the types of flat columns and fields, given whether they have 96 bits."""
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
        first, *others = itertools.islice(leaves, leaves_in(kind))
        if others or pa.types.is_nested(kind):
            return kind
        return change(kind, file.schema.column(first).physical_type == "INT96")

    def of_field(field: pa.Field) -> pa.Field:
        return field.with_type(of_type(field.type))

    return pa.schema([of_field(field) for field in schema])


def _collect(seconds: list[pa.Array], column: pa.Array, kind: pa.DataType) -> pa.Array:
    """Collect flat columns in seconds, as a `CastValues`."""
    if pa.types.is_timestamp(column.type) and column.type.unit == "s":
        seconds.append(column)
    return pa.nulls(len(column), kind)


def _leads_to(column: str, path: str) -> bool:
    """Return whether the path of a projection may be that of a column or of a field in it."""
    return path == column or path.startswith(f"{column}.")


def _may_be_variant(kind: pa.DataType) -> bool:
    """Return whether a type contains a struct with the fields of a VARIANT."""
    if not pa.types.is_nested(kind):
        return False
    fields = [kind.field(at) for at in range(kind.num_fields)]
    names = {each.name for each in fields}
    if pa.types.is_struct(kind) and {"metadata"} < names <= _VARIANT_FIELDS:
        return True
    return any(_may_be_variant(each.type) for each in fields)


def _is_signed(source: Any, metadata: pq.FileMetaData, size: int) -> bool:
    """Return whether a readable footer has a signature, because columns of the file are encrypted.

    If asked for the place or the statistics of an encrypted column, Arrow ends the process.
    """
    source.seek(size - _TAIL_BYTES)
    length = int.from_bytes(source.read(_LENGTH_BYTES), "little")
    return bool(metadata.serialized_size < length)


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
