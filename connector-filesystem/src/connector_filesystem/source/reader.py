# SPDX-License-Identifier: Apache-2.0
"""Reads splits of files: the fetcher thread reads chunks, and the task's thread emits rows."""

from __future__ import annotations

import csv
import logging
import posixpath
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final, TypeAlias, cast

import pyarrow as pa

from connector_filesystem.filesystem import FileLocation
from connector_filesystem.formats import (
    Compression,
    CsvOptions,
    FileFormat,
    JsonOptions,
    detect_format,
)
from connector_filesystem.source.columns import (
    ConstantColumns,
    FileMetadata,
    SchemaChange,
    check_readable,
)
from connector_filesystem.source.errors import SchemaChangedError, check_unchanged, file_error
from connector_filesystem.source.parquet import ParquetSplitFile, changed_types, isolating_rows
from connector_filesystem.source.parsers import CsvParser, JsonParser, TextParser
from connector_filesystem.source.paths import PathColumns
from connector_filesystem.source.split import (
    Damaged,
    FileChunk,
    FileSplit,
    FileSplitState,
    Position,
)
from connector_filesystem.source.text import (
    Block,
    ByteStream,
    Parsed,
    blocks_of,
    csv_header,
    distinct_names,
    isolating,
)
from connectors_core.errors import ConfigurationError, ConnectorError, FatalError, RetryableError
from connectors_core.records import BadRecord
from connectors_core.schema import narrowed_schema, widened_column
from connectors_core.source import (
    FieldPath,
    Predicate,
    SourceOutput,
    SourceReaderContext,
    skip_unreadable,
)
from connectors_core.source.base import (
    RecordEmitter,
    RecordsBySplits,
    SingleThreadSequentialFetcherManager,
    SourceReaderBase,
    SplitReader,
    SplitsAddition,
)

__all__ = ["FileSourceReader", "ReadSettings", "read_split"]

_logger = logging.getLogger(__name__)

_PARQUET_BATCH_BYTES: Final = 16 << 20
_SCHEMA_CHANGES: Final = "schemaChangedFiles"
_FILES_READ: Final = "filesRead"


@dataclass(frozen=True, kw_only=True)
class ReadSettings:
    """The settings of the readers, which the source ships to executors.

    Attributes:
        location: A location on the filesystem of all files.
        format: The format of all files, or None to infer it from the suffix.
        compression: The compression of all files, or None to infer it from the suffix.
        data_schema: Columns that come from the files themselves.
        schema: All columns to read.
        fields: The columns and nested fields to read, or None for all.
        filters: Conditions on the rows; rows that do not satisfy them need not be read.
        path_columns: Columns that come from the path.
        metadata_columns: Columns from the file's status, by their content.
        on_schema_change: The differences allowed between the files and the schema.
        csv: The dialect of CSV.
        json: The dialect of JSON.
        batch_rows: The maximum number of rows in a batch.
        block_size: The number of bytes of text to parse at a time.
        max_record_size: The maximum size of a record in bytes.
        skips_unreadable: Whether to skip the rest of a split that cannot be read.
    """

    location: FileLocation
    format: FileFormat | None
    compression: Compression | None
    data_schema: pa.Schema
    schema: pa.Schema
    path_columns: PathColumns
    metadata_columns: tuple[tuple[FileMetadata, str], ...] = ()
    fields: tuple[FieldPath, ...] | None = None
    filters: tuple[Predicate, ...] = ()
    on_schema_change: frozenset[SchemaChange] = frozenset()
    csv: CsvOptions = field(default_factory=CsvOptions)
    json: JsonOptions = field(default_factory=JsonOptions)
    batch_rows: int = 65_536
    block_size: int = 4 << 20
    max_record_size: int = 64 << 20
    skips_unreadable: bool = False

    def layout_of(self, path: str) -> tuple[FileFormat, Compression]:
        """Return the format and compression of a file."""
        return layout_of(path, self.format, self.compression)

    @cached_property
    def read_schema(self) -> pa.Schema:
        """The columns to decode: at least one, because a file without columns shows no rows."""
        if self.fields is None:
            return self.data_schema
        wanted = narrowed_schema(self.data_schema, self.fields)
        return wanted if wanted.names else pa.schema([self.data_schema.field(0)])

    def constants_of(self, split: FileSplit) -> dict[str, pa.Scalar]:
        """Return the values of the columns that are constant in a file."""
        found = dict(
            zip(self.path_columns.names, self.path_columns.values_of(split.path), strict=True)
        )
        return found | {
            name: pa.scalar(self._metadata_of(split, kind), kind.type)
            for kind, name in self.metadata_columns
        }

    def _metadata_of(self, split: FileSplit, kind: FileMetadata) -> str | int | None:
        match kind:
            case FileMetadata.PATH:
                return self.location.url_of(split.path)
            case FileMetadata.NAME:
                return posixpath.basename(split.path)
            case FileMetadata.SIZE:
                return split.size
            case FileMetadata.MODIFICATION_TIME:
                return split.modification_time


def layout_of(
    path: str, format: FileFormat | None, compression: Compression | None
) -> tuple[FileFormat, Compression]:
    """Return the format and compression of a file, from the settings or else from its suffixes.

    Raises:
        ConfigurationError: Neither determines the format.
    """
    detected, squeezed = detect_format(path)
    found = format or detected
    if found is None:
        raise ConfigurationError(
            f"the format of the file {path} is unknown",
            expected="the option format, or a suffix such as .csv, .jsonl.gz or .parquet",
            found=posixpath.basename(path),
            option="format",
            hint="set format, or exclude such files with source.path.regex-pattern",
        )
    if found is FileFormat.PARQUET:
        return found, Compression.NONE
    return found, squeezed if compression is None else compression


def read_split(settings: ReadSettings, split: FileSplit) -> Iterator[FileChunk]:
    """Yield the rest of a split, in order. The same split always yields the same rows.

    Closing the iterator closes the file.

    Args:
        settings: The settings of the readers.
        split: The range of the file and the position.

    Raises:
        DataLossError: The file no longer exists.
        SplitChangedError: The file has another version than at discovery.
        SchemaChangedError: The columns of the file differ from the schema.
        FatalError: The file is truncated or damaged.
        RetryableError: The filesystem cannot be read now.
    """
    reading = _SplitReading(settings, split)
    try:
        check_unchanged(settings.location, split, lambda: reading.where)
        yield from reading.chunks()
        check_unchanged(settings.location, split, lambda: reading.where)
    except ConnectorError:
        raise
    except (OSError, EOFError, csv.Error, pa.ArrowException) as exc:
        raise file_error(settings.location, split, reading.where, exc) from exc


class _SplitReading:
    def __init__(self, settings: ReadSettings, split: FileSplit) -> None:
        self._settings = settings
        self._split = split
        self._format, self._compression = settings.layout_of(split.path)
        self._position = split.position
        self._counters: list[str] = []
        self._read = 0
        if split.start == 0 and split.position == Position(offset=0):
            self._counters.append(_FILES_READ)
        self._columns = self._constant_columns()

    @property
    def where(self) -> str:
        position = self._position
        unit = "row group" if self._format is FileFormat.PARQUET else "byte"
        return (
            f"{unit} {position.offset}, row {position.rows} after it; this task has read "
            f"{self._read:,} rows of it"
        )

    def chunks(self) -> Iterator[FileChunk]:
        if self._split.size == 0:
            return
        if self._format is FileFormat.PARQUET:
            yield from self._parquet()
        else:
            yield from self._text()

    # --- Parquet ---

    def _parquet(self) -> Iterator[FileChunk]:
        settings, split = self._settings, self._split
        file = ParquetSplitFile(
            settings.location, split.path, start=split.start, end=split.end, size=split.size
        )
        try:
            if file.is_empty:
                return
            file.refuse_variants(settings.data_schema.names)
            names = file.schema.names
            twice = sorted(
                name for name in set(settings.data_schema.names) if names.count(name) > 1
            )
            changed = [f"{name} (twice)" for name in twice]
            self._check_columns(names, changed or changed_types(file.schema, settings.data_schema))
            for raw in file.batches(
                self._position,
                settings.read_schema,
                batch_rows=settings.batch_rows,
                batch_bytes=_PARQUET_BATCH_BYTES,
                filters=settings.filters,
                filtered=settings.data_schema,
            ):
                start = self._position
                if isinstance(raw, int):
                    self._position = file.behind(start, raw)
                    yield self._chunk(raw, file.remaining(self._position))
                    continue
                parsed = isolating_rows(
                    raw,
                    settings.read_schema,
                    lambda row, start=start: _row_text(file.behind(start, row)),  # type: ignore[misc]
                    corrected=file.corrected,
                )
                for item in _grouped(parsed):
                    if isinstance(item, pa.RecordBatch):
                        self._position = file.behind(self._position, item.num_rows)
                    else:
                        self._position = file.behind(self._position, 0, len(item))
                    yield self._chunk(item, file.remaining(self._position))
        finally:
            file.close()

    # --- Text ---

    def _text(self) -> Iterator[FileChunk]:
        settings, split = self._settings, self._split
        parser, first_record = self._parser()
        if parser is None:
            return
        quote = None
        if self._format is FileFormat.CSV and settings.csv.newlines_in_values:
            quote = settings.csv.quote_char.encode()
        stream = self._open()
        try:
            if quote is not None and stream.ends_in_cr:
                raise FatalError(
                    f"lines of {self._url} end in CR, and values may contain line breaks",
                    expected="lines that end in LF or CRLF",
                    found="CR",
                    option="csv.newlines-in-values",
                    hint="turn off quoted line breaks, or set source.on-unreadable to skip, and "
                    "write the file under another name, e.g. with mac2unix",
                )
            is_plain = self._compression is Compression.NONE
            to_skip = split.rows + split.bad_records
            for block in blocks_of(
                stream,
                start=split.start,
                offset=split.offset or split.start,
                end=split.end if is_plain else None,
                first_record=first_record,
                block_size=settings.block_size,
                max_record_size=settings.max_record_size,
                quote=quote,
            ):
                remaining = split.end - block.end if is_plain else split.size - stream.consumed
                skip = _Skip(to_skip)
                yield from self._block(block, parser, skip, remaining, quote)
                to_skip = skip.records
        finally:
            stream.close()

    def _block(
        self,
        block: Block,
        parser: TextParser,
        skip: _Skip,
        remaining: int,
        quote: bytes | None,
    ) -> Iterator[FileChunk]:
        self._position = Position(offset=block.offset)
        parsed = isolating(block, parser.parse, parser.explain, quote)
        pending: FileChunk | None = None
        for item in _grouped(self._without_new_fields(parsed, parser)):
            for piece in self._pieces(skip.drop(item)):
                at = self._position
                if isinstance(piece, pa.RecordBatch):
                    self._position = Position(
                        offset=at.offset,
                        rows=skip.dropped_rows + at.rows + piece.num_rows,
                        bad_records=skip.dropped_bad + at.bad_records,
                    )
                else:
                    self._position = Position(
                        offset=at.offset,
                        rows=skip.dropped_rows + at.rows,
                        bad_records=skip.dropped_bad + at.bad_records + len(piece),
                    )
                skip.dropped_rows = skip.dropped_bad = 0
                if pending is not None:
                    yield pending
                pending = self._chunk(piece, remaining + len(block.data))
        self._position = Position(offset=block.end)
        if pending is not None:
            # The last chunk of a block links to the next block.
            yield FileChunk(
                position=self._position,
                remaining=remaining,
                batch=pending.batch,
                bad_records=pending.bad_records,
                counters=pending.counters,
            )

    def _pieces(self, item: _Item | None) -> Iterator[_Item]:
        if not isinstance(item, pa.RecordBatch):
            if item:
                yield item
            return
        for at in range(0, item.num_rows, self._settings.batch_rows):
            yield item.slice(at, self._settings.batch_rows)

    def _without_new_fields(self, parsed: Iterator[Parsed], parser: TextParser) -> Iterator[Parsed]:
        """A JSON record with an undeclared field is not bad: the schema changed."""
        for item in parsed:
            if isinstance(item, Damaged) and isinstance(parser, JsonParser) and item.raw:
                new = parser.new_fields(item.raw) if "unexpected field" in item.reason else []
                new = [name for name in new if name not in self._settings.path_columns.names]
                if new:
                    raise SchemaChangedError(self._url, new=new, position=item.position)
            yield item

    def _parser(self) -> tuple[TextParser | None, int]:
        settings = self._settings
        for each in settings.data_schema:
            check_readable(each, self._format)
        if self._format is FileFormat.JSON:
            may_ignore = SchemaChange.IGNORE_NEW in settings.on_schema_change
            may_ignore |= settings.fields is not None  # fields that are not read are unknown too
            return JsonParser(settings.read_schema, may_ignore, settings.json.strict), 0
        if not settings.csv.header:
            return CsvParser(settings.data_schema, settings.data_schema.names, settings.csv), 0
        stream = self._open()
        try:
            names, first_record = csv_header(stream.read, settings.csv, settings.max_record_size)
        finally:
            stream.close()
        if not names:
            return None, first_record
        wanted = set(settings.data_schema.names)
        twice = sorted({name for name in names if names.count(name) > 1 and name in wanted})
        names = distinct_names(names)
        self._check_columns(names, [f"{name} (twice)" for name in twice])
        return CsvParser(settings.read_schema, names, settings.csv), first_record

    def _open(self) -> ByteStream:
        return ByteStream(
            self._settings.location, self._split.path, self._compression, self._split.size
        )

    # --- Both ---

    def _check_columns(self, found: Any, changed: list[str]) -> None:
        settings = self._settings
        wanted = settings.data_schema
        missing = [name for name in wanted.names if name not in found]
        known = {*wanted.names, *settings.path_columns.names}
        new = [name for name in found if name not in known]
        if not (missing or new or changed):
            return
        required = [name for name in missing if not wanted.field(name).nullable]
        allowed = settings.on_schema_change
        if (
            changed
            or required
            or (missing and SchemaChange.NULL_MISSING not in allowed)
            or (new and SchemaChange.IGNORE_NEW not in allowed)
            or len(missing) == len(wanted.names) > 0
        ):
            raise SchemaChangedError(self._url, missing=missing, new=new, changed=changed)
        _logger.warning(
            "the columns of %s do not match the schema: missing %s, new %s; continuing, because "
            "on-schema-change allows it",
            self._url,
            missing,
            new,
        )
        self._counters.append(_SCHEMA_CHANGES)

    @property
    def _url(self) -> str:
        return self._settings.location.url_of(self._split.path)

    def _constant_columns(self) -> ConstantColumns:
        constants = self._settings.constants_of(self._split)
        fields = [each for each in self._settings.schema if each.name in constants]
        return ConstantColumns(fields, [constants[each.name] for each in fields])

    def _rows(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the rows with all columns of the source."""
        schema = self._settings.schema
        if self._settings.fields is not None:
            columns = [each for each in schema if each.name in batch.schema.names]
            batch = batch.select([each.name for each in columns])
            for at, each in enumerate(columns):
                if not batch.column(at).type.equals(each.type):
                    batch = batch.set_column(at, each, widened_column(batch.column(at), each.type))
        return self._columns.append_to(batch, schema)

    def _chunk(self, item: _Item | int, remaining: int) -> FileChunk:
        counters, self._counters = tuple(self._counters), []
        if isinstance(item, int):
            return FileChunk(
                position=self._position,
                remaining=max(remaining, 0),
                passed_over=item,
                counters=counters,
            )
        if isinstance(item, pa.RecordBatch):
            self._read += item.num_rows
            return FileChunk(
                position=self._position,
                remaining=max(remaining, 0),
                batch=self._rows(item),
                counters=counters,
            )
        return FileChunk(
            position=self._position,
            remaining=max(remaining, 0),
            bad_records=item,
            counters=counters,
        )


#: Rows, or consecutive bad records.
_Item: TypeAlias = "pa.RecordBatch | tuple[Damaged, ...]"


class _Skip:
    """Drops the records before the start position.

    It drops that many records, good or bad: a record that was good when few columns were read may
    be bad when all are.
    """

    def __init__(self, records: int) -> None:
        self.records = records
        self.dropped_rows = 0
        self.dropped_bad = 0

    def drop(self, item: _Item) -> _Item | None:
        if isinstance(item, pa.RecordBatch):
            dropped = self._take(item.num_rows)
            self.dropped_rows += dropped
            return item.slice(dropped) if dropped < item.num_rows else None
        dropped = self._take(len(item))
        self.dropped_bad += dropped
        return item[dropped:] or None

    def _take(self, count: int) -> int:
        dropped = min(self.records, count)
        self.records -= dropped
        return dropped


def _grouped(parsed: Iterator[Parsed]) -> Iterator[_Item]:
    """Group consecutive bad records, and consecutive rows."""
    bad: list[Damaged] = []
    good: list[pa.RecordBatch] = []
    for item in parsed:
        if isinstance(item, Damaged):
            if good:
                yield _joined(good)
                good = []
            bad.append(item)
        elif item.num_rows:
            if bad:
                yield tuple(bad)
                bad = []
            good.append(item)
    if good:
        yield _joined(good)
    if bad:
        yield tuple(bad)


def _joined(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    if len(batches) == 1:
        return batches[0]
    return pa.Table.from_batches(batches).combine_chunks().to_batches()[0]


def _row_text(position: Position) -> str:
    return f"row group {position.offset}, row {position.rows + position.bad_records}"


def _stays_unreadable(error: Exception) -> bool:
    """Whether neither a later attempt nor another option reads the file."""
    return isinstance(error, ConnectorError) and not isinstance(
        error, RetryableError | ConfigurationError
    )


# --- The reader ----------------------------------------------------------------------------------


class FileSplitReader(SplitReader[FileChunk, FileSplit]):
    """Reads one split after another, one chunk per fetch. Fetcher thread."""

    def __init__(self, settings: ReadSettings) -> None:
        self._settings = settings
        self._waiting: deque[FileSplit] = deque()
        self._split: FileSplit | None = None
        self._chunks: Iterator[FileChunk] | None = None
        self._next: FileChunk | None = None
        self._error: Exception | None = None

    def fetch(self) -> RecordsBySplits[FileChunk]:
        """Return the next chunk."""
        if self._split is None:
            if not self._waiting:
                return RecordsBySplits()
            self._split = self._waiting.popleft()
            self._chunks = read_split(self._settings, self._split)
            self._read_ahead()
        split_id = self._split.split_id
        chunk = self._next
        if chunk is not None and self._error is None:
            self._read_ahead()
        elif self._error is not None:
            error, self._error = self._error, None
            if not (self._settings.skips_unreadable and _stays_unreadable(error)):
                raise error
            chunk = FileChunk(
                position=self._split.position,
                remaining=0,
                unreadable=cast(ConnectorError, error),
            )
        records = () if chunk is None else ((split_id, chunk),)
        if self._next is not None or self._error is not None:
            return RecordsBySplits(records)
        self._split = self._chunks = None
        return RecordsBySplits(records, frozenset([split_id]))

    def _read_ahead(self) -> None:
        """Read one chunk ahead, to know whether the current chunk is the last.

        An error waits until the chunk before it is returned.
        """
        assert self._chunks is not None
        self._next = None
        try:
            self._next = next(self._chunks, None)
        except Exception as exc:
            self._error = exc

    def handle_splits_changes(self, change: SplitsAddition[FileSplit]) -> None:
        """Add splits."""
        self._waiting.extend(change.splits)

    def wake_up(self) -> None:
        """Do nothing: a fetch ends by itself after one block."""

    def close(self) -> None:
        """Close the open file."""
        if self._chunks is not None:
            self._chunks.close()  # type: ignore[attr-defined]


class FileRecordEmitter(RecordEmitter[FileChunk, FileSplitState]):
    """Emits rows and reports bad records. Task's thread."""

    def __init__(self, context: SourceReaderContext, location: FileLocation) -> None:
        self._context = context
        self._location = location

    def emit_record(
        self, element: FileChunk, output: SourceOutput, split_state: FileSplitState
    ) -> None:
        """See `RecordEmitter`."""
        for name in element.counters:
            self._context.metric_group.inc(name)
        if element.unreadable is not None:
            split_id = split_state.to_split().split_id
            skip_unreadable(self._context, split_id, element.unreadable)
        for bad in element.bad_records:
            split = split_state.to_split()
            record = BadRecord(
                reason=f"{bad.reason} (in {self._location.url_of(split.path)})",
                source_uid="",
                split_id=split.split_id,
                position=bad.position,
                raw=bad.raw,
            )
            self._context.record_errors.handle(record, cause=bad.cause)
        if element.batch is not None:
            output.collect(element.batch)
        if element.passed_over:
            output.pass_over(element.passed_over)
        split_state.move_behind(element)


class FileSourceReader(SourceReaderBase[FileChunk, FileSplit, FileSplitState]):
    """Reads files one after another, and the next block while the task processes the last one."""

    def __init__(self, context: SourceReaderContext, settings: ReadSettings) -> None:
        manager: SingleThreadSequentialFetcherManager[FileChunk, FileSplit] = (
            SingleThreadSequentialFetcherManager(
                lambda: FileSplitReader(settings), name="file-reader"
            )
        )
        super().__init__(
            context,
            manager,
            FileRecordEmitter(context, settings.location),
            request_splits=True,
        )

    def initialized_state(self, split: FileSplit) -> FileSplitState:
        """The mutable position in a split."""
        return FileSplitState(split)
