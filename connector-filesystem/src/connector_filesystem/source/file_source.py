# SPDX-License-Identifier: Apache-2.0
"""The source of files."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final

import pyarrow as pa

from connector_filesystem.filesystem import STORAGE_OPTIONS, FileLocation
from connector_filesystem.formats import Compression, CsvOptions, Format
from connector_filesystem.source.columns import MetadataColumn, SchemaChange, check_readable
from connector_filesystem.source.discovery import IGNORED_SUFFIXES, FileSelection
from connector_filesystem.source.enumerator import (
    FileEnumerator,
    FileEnumeratorState,
    state_serializer,
)
from connector_filesystem.source.inference import found_schema
from connector_filesystem.source.memory import FileOrder
from connector_filesystem.source.paths import PathColumns, PathTime
from connector_filesystem.source.reader import FileSourceReader, ReadSettings
from connector_filesystem.source.split import FileSplit, split_serializer
from connectors_core.annotations import public
from connectors_core.clients.connection_check import SupportsConnectionCheck
from connectors_core.errors import ConfigurationError, InvalidOptionError
from connectors_core.options import (
    MEMORY_SIZE,
    Option,
    OptionSet,
    OptionType,
    at_least,
    list_of,
    not_empty,
    positive,
)
from connectors_core.schema.ddl import SCHEMA as SCHEMA_TYPE
from connectors_core.serialization import VersionedSerializer
from connectors_core.source import (
    Boundedness,
    PlanLimits,
    Source,
    SourceReaderContext,
    SplitEnumeratorContext,
    SplitTraits,
)
from connectors_core.spelling import spelled_in_python

__all__ = ["FILE_SOURCE_OPTIONS", "FileSource"]

_SINCE: Final = "2.0.0"
DEFAULT_SPLIT_SIZE: Final = 64 << 20
DEFAULT_BATCH_ROWS: Final = 65_536
DEFAULT_BLOCK_SIZE: Final = 4 << 20
DEFAULT_MAX_RECORD_SIZE: Final = 64 << 20
DEFAULT_LATE_FILE_WINDOW: Final = timedelta(hours=1)
DEFAULT_FORGET_AFTER: Final = timedelta(days=7)
DEFAULT_BYTES_PER_PLAN: Final = 256 << 20


PATH: Final = Option(
    "path",
    list_of(str),
    required=True,
    validator=not_empty,
    since=_SINCE,
    aliases=("paths", "input", "url", "location"),
    doc="Files, folders (with all below them) or patterns (`*`, `?`, `[...]`, `**`) on one "
    "filesystem, as paths or URLs.",
)
FORMAT: Final = Option(
    "format",
    Format,
    since=_SINCE,
    aliases=("file.format",),
    doc="Format of all files. By default each file's suffix tells it.",
)
COMPRESSION: Final = Option(
    "compression",
    Compression,
    since=_SINCE,
    aliases=("codec", "compression-codec"),
    doc="Compression of all text files. By default each file's suffix tells it.",
)
SCHEMA: Final = Option(
    "schema",
    SCHEMA_TYPE,
    since=_SINCE,
    doc="Columns in the files, in the words of Spark SQL. By default they are read from the footer "
    "of the first file (Parquet) or inferred from a sample.",
)
MONITOR_INTERVAL: Final = Option(
    "source.monitor-interval",
    timedelta,
    validator=positive,
    since=_SINCE,
    aliases=("monitor-interval", "streaming-source.monitor-interval", "discovery.interval"),
    doc="Time between two looks for new files; makes the source unbounded. By default files are "
    "listed once.",
)
ORDER: Final = Option(
    "source.order",
    FileOrder,
    default=FileOrder.MODIFICATION_TIME,
    since=_SINCE,
    aliases=("order", "streaming-source.partition-order"),
    doc="What makes a file new: a time or a name behind those of the files read, or (`any`) that "
    "it is none of them. They are then remembered one by one.",
)
LATE_FILE_WINDOW: Final = Option(
    "source.late-file-window",
    timedelta,
    default=DEFAULT_LATE_FILE_WINDOW,
    validator=at_least(timedelta(0)),
    since=_SINCE,
    aliases=("late-file-window", "max-file-age"),
    doc="In the order of modification times: how much older than the newest file another one may "
    "be when it becomes visible, by a rename for example. The files of this time are remembered.",
)
FORGET_AFTER: Final = Option(
    "source.forget-after",
    timedelta,
    default=DEFAULT_FORGET_AFTER,
    validator=at_least(timedelta(0)),
    since="3.0.0",
    doc="In the order `any`: how long a file that is gone still counts as read, should it come "
    "back.",
)
PATH_REGEX: Final = Option(
    "source.path.regex-pattern",
    str,
    since=_SINCE,
    aliases=("path-regex", "path.regex-pattern", "pathglobfilter"),
    doc="The path of a file relative to `path` must match this as a whole. Named groups can be "
    "partition columns.",
)
IGNORED: Final = Option(
    "source.ignored-suffixes",
    list_of(str),
    default=IGNORED_SUFFIXES,
    since=_SINCE,
    doc="Ends of names of incomplete files, which are left out; names that begin with `.` or `_` "
    "are as well.",
)
PARTITION_COLUMNS: Final = Option(
    "partition.columns",
    SCHEMA_TYPE,
    since=_SINCE,
    aliases=("partition-columns", "partitioned-by", "partition-keys"),
    doc="Columns whose values stand in the path, as folders `key=value` or named groups of the "
    "path's pattern, e.g. `month INT`. They follow the files' columns.",
)
METADATA_COLUMNS: Final = Option(
    "metadata.columns",
    dict,
    since=_SINCE,
    aliases=("metadata-columns",),
    doc="Columns about the file: a map from `file.path`, `file.name`, `file.size` or "
    "`file.modification_time` to a column's name. They come last.",
)
EVENT_TIME_REGEX: Final = Option(
    "event-time.path-regex",
    str,
    since=_SINCE,
    doc="Finds the lowest event time of a file in its path, so that files which wait do not hold "
    "the watermark back for ever. Several groups are joined by `-`.",
)
EVENT_TIME_FORMAT: Final = Option(
    "event-time.format",
    str,
    since=_SINCE,
    doc="Pattern of `strptime` of what `event-time.path-regex` finds, e.g. `%Y-%m`; UTC.",
)
ON_SCHEMA_CHANGE: Final = Option(
    "on-schema-change",
    list_of(OptionType("schema change", lambda value: SchemaChange(str(value)), str)),
    default=(SchemaChange.FAIL,),
    since=_SINCE,
    aliases=("schema-change", "mergeschema"),
    doc="What to do with a file of other columns: `fail`, or `null-missing`, `ignore-new` or both. "
    "A field that records of JSON lack is always null.",
)
SPLIT_SIZE: Final = Option(
    "source.split-size",
    MEMORY_SIZE,
    default=DEFAULT_SPLIT_SIZE,
    validator=positive,
    since=_SINCE,
    aliases=("split-size", "maxpartitionbytes"),
    doc="Larger files are cut into parts of about this size, uncompressed text at records and "
    "Parquet at row groups.",
)
BATCH_ROWS: Final = Option(
    "source.batch-rows",
    int,
    default=DEFAULT_BATCH_ROWS,
    validator=positive,
    since=_SINCE,
    aliases=("batch-size", "batch.rows"),
    doc="Most rows of a batch.",
)
BLOCK_SIZE: Final = Option(
    "source.block-size",
    MEMORY_SIZE,
    default=DEFAULT_BLOCK_SIZE,
    validator=positive,
    since=_SINCE,
    doc="Bytes of text that are read and parsed at a time.",
)
MAX_RECORD_SIZE: Final = Option(
    "source.max-record-size",
    MEMORY_SIZE,
    default=DEFAULT_MAX_RECORD_SIZE,
    validator=positive,
    since=_SINCE,
    doc="Most bytes of a line of text; guards memory against files that are no text.",
)
_CSV_DEFAULTS: Final = CsvOptions()
CSV: Final[Mapping[str, Option[Any]]] = {
    "delimiter": Option(
        "csv.delimiter",
        str,
        default=",",
        since=_SINCE,
        aliases=("csv.field-delimiter", "delimiter", "sep"),
        doc="Between fields.",
    ),
    "quote_char": Option(
        "csv.quote-char", str, default='"', since=_SINCE, aliases=("quote",), doc="Around fields."
    ),
    "escape_char": Option(
        "csv.escape-char",
        str,
        since=_SINCE,
        aliases=("escape", "csv.escape-character"),
        doc="Takes the next character literally. By default there is none.",
    ),
    "double_quote": Option(
        "csv.double-quote",
        bool,
        default=True,
        since=_SINCE,
        doc="A quote within quotes is written twice.",
    ),
    "header": Option(
        "csv.header",
        bool,
        default=True,
        since=_SINCE,
        aliases=("header",),
        doc="The first line names the columns.",
    ),
    "newlines_in_values": Option(
        "csv.newlines-in-values",
        bool,
        default=False,
        since=_SINCE,
        aliases=("multiline",),
        doc="Quoted fields may hold line breaks; files are then not cut.",
    ),
    "null_values": Option(
        "csv.null-values",
        list_of(str),
        default=_CSV_DEFAULTS.null_values,
        since=_SINCE,
        aliases=("csv.null-literal", "nullvalue"),
        doc='Spellings of a missing value, e.g. `["", "NA"]`.',
    ),
    "true_values": Option(
        "csv.true-values",
        list_of(str),
        default=_CSV_DEFAULTS.true_values,
        since=_SINCE,
        doc="Spellings of true.",
    ),
    "false_values": Option(
        "csv.false-values",
        list_of(str),
        default=_CSV_DEFAULTS.false_values,
        since=_SINCE,
        doc="Spellings of false.",
    ),
    "timestamp_formats": Option(
        "csv.timestamp-formats",
        list_of(str),
        default=(),
        since=_SINCE,
        aliases=("timestampformat",),
        doc="Patterns of `strptime`; by default ISO 8601.",
    ),
    "assume_time_zone": Option(
        "csv.assume-time-zone",
        str,
        since=_SINCE,
        aliases=("timezone",),
        doc="Zone of the times in the files, where the column's type has one. By default each time "
        "carries its offset.",
    ),
}

FILE_SOURCE_OPTIONS: Final = OptionSet(
    PATH,
    FORMAT,
    COMPRESSION,
    SCHEMA,
    MONITOR_INTERVAL,
    ORDER,
    LATE_FILE_WINDOW,
    FORGET_AFTER,
    PATH_REGEX,
    IGNORED,
    PARTITION_COLUMNS,
    METADATA_COLUMNS,
    EVENT_TIME_REGEX,
    EVENT_TIME_FORMAT,
    ON_SCHEMA_CHANGE,
    SPLIT_SIZE,
    BATCH_ROWS,
    BLOCK_SIZE,
    MAX_RECORD_SIZE,
    STORAGE_OPTIONS,
    *CSV.values(),
    scope="file source",
)


PathLike = str | os.PathLike[str]


@public
@spelled_in_python(
    {
        "event-time.path-regex": "event_time_lower_bound",
        "event-time.format": "event_time_lower_bound",
    }
)
class FileSource(Source[FileSplit, FileEnumeratorState], SupportsConnectionCheck):
    """Reads CSV, JSON lines and Parquet from any filesystem of fsspec, batch and streaming.

    Guarantee: exactly once. A split is a range of one *version* of a file (its size, and its tag or
    else its modification time); a file that is changed, cut off or removed before it was read to
    its end is an error, and what was read before it is kept. Files are taken only when they are
    complete: write them under a name that begins with `.` or `_`, or ends in `.tmp`, and rename
    them.

    Uncompressed text and Parquet go on where they stopped. Compressed text is decompressed again
    from its start up to the position, which is counted in decompressed bytes: a file that is much
    larger than a plan (256 MB by default) is better written in parts.

    Args:
        path: File, folder or pattern, or several of them on one filesystem.
        format: Format of all files; None to tell it by the suffix.
        schema: Columns in the files; None to find them in the first files.
        compression: Compression of all text files; None to tell it by the suffix.
        monitor_interval: Time between looks for new files; None lists once (a bounded source).
        order: What makes a file new: its modification time, its name, or (`any`) that it was not
            read; then state holds 16 bytes for each file.
        late_file_window: In the order of modification times, how much older than the newest file
            another one may be when it becomes visible. State holds the files of this time.
        forget_after: In the order `any`, how long a file that is gone still counts as read.
        path_regex: The path relative to `path` must match this as a whole.
        ignored_suffixes: Ends of names of incomplete files.
        partition_columns: Columns from the path, with their types, or names of strings.
        metadata_columns: Columns about the file, or a map from them to columns' names.
        event_time_lower_bound: Gives the lowest event time in a file by its path, e.g. `PathTime`.
            Must be picklable.
        on_schema_change: What may differ between files and schema; the default is nothing.
        split_size: Larger files are cut, where they can be.
        batch_rows: Most rows of a batch.
        block_size: Bytes of text to parse at a time.
        max_record_size: Most bytes of a line.
        csv: Dialect of CSV.
        storage_options: For the filesystem; values may be a `Secret`.

    Raises:
        ConfigurationError: Something given cannot be used, or does not fit together.
    """

    def __init__(
        self,
        path: PathLike | Sequence[PathLike],
        *,
        format: Format | str | None = None,
        schema: pa.Schema | str | None = None,
        compression: Compression | str | None = None,
        monitor_interval: timedelta | None = None,
        order: FileOrder | str = FileOrder.MODIFICATION_TIME,
        late_file_window: timedelta = DEFAULT_LATE_FILE_WINDOW,
        forget_after: timedelta = DEFAULT_FORGET_AFTER,
        path_regex: str | None = None,
        ignored_suffixes: Sequence[str] = IGNORED_SUFFIXES,
        partition_columns: Mapping[str, pa.DataType] | Sequence[str] = (),
        metadata_columns: Mapping[str, str] | Sequence[str] = (),
        event_time_lower_bound: Callable[[str], datetime | None] | None = None,
        on_schema_change: SchemaChange | str | Sequence[SchemaChange | str] = (),
        split_size: int = DEFAULT_SPLIT_SIZE,
        batch_rows: int = DEFAULT_BATCH_ROWS,
        block_size: int = DEFAULT_BLOCK_SIZE,
        max_record_size: int = DEFAULT_MAX_RECORD_SIZE,
        csv: CsvOptions | None = None,
        storage_options: Mapping[str, Any] | None = None,
    ) -> None:
        paths = [path] if isinstance(path, (str, os.PathLike)) else list(path)
        given: dict[str, Any] = {
            PATH.key: [os.fspath(each) for each in paths],
            FORMAT.key: format,
            COMPRESSION.key: compression,
            SCHEMA.key: schema,
            MONITOR_INTERVAL.key: monitor_interval,
            ORDER.key: order,
            LATE_FILE_WINDOW.key: late_file_window,
            FORGET_AFTER.key: forget_after,
            PATH_REGEX.key: path_regex,
            IGNORED.key: list(ignored_suffixes),
            SPLIT_SIZE.key: split_size,
            BATCH_ROWS.key: batch_rows,
            BLOCK_SIZE.key: block_size,
            MAX_RECORD_SIZE.key: max_record_size,
            ON_SCHEMA_CHANGE.key: (
                on_schema_change if isinstance(on_schema_change, str) else list(on_schema_change)
            ),
        }
        options = FILE_SOURCE_OPTIONS.parse(given)
        declared = options.get(SCHEMA)
        changes: frozenset[SchemaChange] = frozenset(options.values[ON_SCHEMA_CHANGE.key])
        self._csv = csv or CsvOptions()
        self._format = options.get(FORMAT)
        self._compression = options.get(COMPRESSION)
        self._monitor_interval = options.get(MONITOR_INTERVAL)
        self._order = options[ORDER]
        self._late_file_window = options[LATE_FILE_WINDOW]
        self._forget_after = options[FORGET_AFTER]
        self._on_schema_change = changes - {SchemaChange.FAIL}
        self._batch_rows = options[BATCH_ROWS]
        self._block_size = options[BLOCK_SIZE]
        self._max_record_size = options[MAX_RECORD_SIZE]
        locations = _locations(options.values[PATH.key], storage_options or {})
        self._path_columns = PathColumns(
            fields=_partition_fields(partition_columns, declared),
            regex=_checked_regex(options.get(PATH_REGEX)),
        )
        self._metadata = _metadata_fields(metadata_columns)
        self._location = locations[0]
        self._selection = FileSelection(
            locations=locations,
            path_columns=self._path_columns,
            path_regex=options.get(PATH_REGEX),
            ignored_suffixes=options.values[IGNORED.key],
            format=self._format,
            compression=self._compression,
            split_size=options[SPLIT_SIZE],
            whole_files=self._csv.newlines_in_values,
            event_time_lower_bound=event_time_lower_bound,
        )
        self._data_schema: pa.Schema | None = None
        if declared is not None:
            self._data_schema = self._without_path_columns(declared)
            self._check_schema(self._data_schema)
        if self._format is Format.PARQUET and self._compression not in (None, Compression.NONE):
            raise InvalidOptionError(
                "a Parquet file is not compressed as a whole",
                expected="none",
                found=self._compression,
                option=COMPRESSION.key,
            )

    @classmethod
    def from_options(cls, mapping: Mapping[str, Any]) -> FileSource:
        """Make a source from options by key, as Spark and SQL give them.

        Args:
            mapping: Values by key of `FILE_SOURCE_OPTIONS`, strings or Python values.

        Raises:
            OptionError: A key is not known, is missing or has a value that cannot be used.
        """
        options = FILE_SOURCE_OPTIONS.parse(mapping)
        csv: dict[str, Any] = {
            name: options.get(option) for name, option in CSV.items() if options.is_given(option)
        }
        regex, pattern = options.get(EVENT_TIME_REGEX), options.get(EVENT_TIME_FORMAT)
        if (regex is None) != (pattern is None):
            raise ConfigurationError(
                "the event time of a file needs both a regular expression and a format",
                option=(EVENT_TIME_FORMAT if pattern is None else EVENT_TIME_REGEX).key,
            )
        partitions = options.get(PARTITION_COLUMNS)
        return cls(
            options.values[PATH.key],
            format=options.get(FORMAT),
            schema=options.get(SCHEMA),
            compression=options.get(COMPRESSION),
            monitor_interval=options.get(MONITOR_INTERVAL),
            order=options[ORDER],
            late_file_window=options[LATE_FILE_WINDOW],
            forget_after=options[FORGET_AFTER],
            path_regex=options.get(PATH_REGEX),
            ignored_suffixes=options.values[IGNORED.key],
            partition_columns={each.name: each.type for each in partitions or ()},
            metadata_columns=options.values[METADATA_COLUMNS.key] or (),
            event_time_lower_bound=(
                PathTime(regex=regex, format=pattern) if regex and pattern else None
            ),
            on_schema_change=options.values[ON_SCHEMA_CHANGE.key],
            split_size=options[SPLIT_SIZE],
            batch_rows=options[BATCH_ROWS],
            block_size=options[BLOCK_SIZE],
            max_record_size=options[MAX_RECORD_SIZE],
            csv=CsvOptions(**csv),
            storage_options=options.get(STORAGE_OPTIONS),
        )

    def boundedness(self) -> Boundedness:
        """Bounded unless files are monitored."""
        if self._monitor_interval is None:
            return Boundedness.BOUNDED
        return Boundedness.CONTINUOUS_UNBOUNDED

    def schema(self) -> pa.Schema:
        """Columns of the files, then of their paths, then about them.

        Without a declared schema the first files are looked at, once: what was found travels with
        the source. Driver.

        Raises:
            ConfigurationError: There is no file to look at, or it cannot be understood.
        """
        if self._data_schema is None:
            found = found_schema(
                self._location,
                self._selection.files(may_be_missing=self._monitor_interval is not None),
                format=self._format,
                compression=self._compression,
                csv=self._csv,
                max_record_size=self._max_record_size,
            )
            found = self._without_path_columns(found)
            self._check_schema(found)
            self._data_schema = found
        return pa.schema(
            [
                *self._data_schema,
                *self._path_columns.fields,
                *(pa.field(name, kind.type) for kind, name in self._metadata),
            ]
        )

    def create_enumerator(self, context: SplitEnumeratorContext[FileSplit]) -> FileEnumerator:
        """Discover from the start."""
        return self._enumerator(context, None)

    def restore_enumerator(
        self, context: SplitEnumeratorContext[FileSplit], state: FileEnumeratorState
    ) -> FileEnumerator:
        """Go on discovering."""
        return self._enumerator(context, state)

    def create_reader(self, context: SourceReaderContext) -> FileSourceReader:
        """A reader of splits, one after another."""
        return FileSourceReader(context, self.read_settings())

    def split_serializer(self) -> VersionedSerializer[FileSplit]:
        """JSON."""
        return split_serializer()

    def enumerator_state_serializer(self) -> VersionedSerializer[FileEnumeratorState]:
        """JSON."""
        return state_serializer()

    def split_traits(self) -> SplitTraits:
        """Splits end, are read in order and can be read again."""
        return SplitTraits(end=True, ordered=True, replayable=True)

    def default_limits(self) -> PlanLimits:
        """256 MB for each plan, so that memory and latency stay bounded."""
        return PlanLimits(bytes=DEFAULT_BYTES_PER_PLAN)

    def read_settings(self) -> ReadSettings:
        """How the readers read; looks at the first files where no schema is known yet."""
        schema = self.schema()
        assert self._data_schema is not None
        return ReadSettings(
            location=self._location,
            format=self._format,
            compression=self._compression,
            data_schema=self._data_schema,
            schema=schema,
            path_columns=self._selection.rooted_columns,
            metadata_columns=self._metadata,
            on_schema_change=self._on_schema_change,
            csv=self._csv,
            batch_rows=self._batch_rows,
            block_size=self._block_size,
            max_record_size=self._max_record_size,
        )

    def check_connection(self, timeout: float) -> None:
        """See whether the filesystem answers; see `SupportsConnectionCheck`. Driver."""
        self._location.check_reachable()

    def __repr__(self) -> str:
        shown = ", ".join(repr(each) for each in self._selection.locations)
        return f"FileSource({shown}, {self.boundedness().value})"

    def _enumerator(
        self, context: SplitEnumeratorContext[FileSplit], state: FileEnumeratorState | None
    ) -> FileEnumerator:
        return FileEnumerator(
            context,
            self._selection,
            order=self._order,
            monitor_interval=self._monitor_interval,
            late_file_window=self._late_file_window,
            forget_after=self._forget_after,
            state=state,
        )

    def _without_path_columns(self, schema: pa.Schema) -> pa.Schema:
        names = set(self._path_columns.names)
        return pa.schema([each for each in schema if each.name not in names])

    def _check_schema(self, schema: pa.Schema) -> None:
        names = [*schema.names, *self._path_columns.names, *(name for _, name in self._metadata)]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice or not schema.names:
            raise InvalidOptionError(
                "the columns of the source cannot be used",
                expected="at least one column in the files, and no name twice",
                found=f"twice: {', '.join(twice)}" if twice else "no column",
                option=SCHEMA.key,
            )
        if self._format is not None:
            for each in schema:
                check_readable(each, self._format)


def _locations(
    paths: Sequence[str], storage_options: Mapping[str, Any]
) -> tuple[FileLocation, ...]:
    locations = tuple(FileLocation(path, storage_options) for path in paths)
    protocols = {
        each.url.partition("://")[0] if "://" in each.url else "file" for each in locations
    }
    if len(protocols) > 1:
        raise InvalidOptionError(
            "the paths of a source are on different filesystems",
            expected="one filesystem",
            found=", ".join(sorted(protocols)),
            option=PATH.key,
            hint="make one source of each",
        )
    return locations


def _checked_regex(regex: str | None) -> str | None:
    try:
        re.compile(regex or "")
    except re.error as exc:
        raise InvalidOptionError(
            "the pattern of paths is no regular expression",
            found=f"{regex!r}: {exc}",
            option=PATH_REGEX.key,
        ) from exc
    return regex


def _partition_fields(
    columns: Mapping[str, pa.DataType] | Sequence[str], declared: pa.Schema | None
) -> tuple[pa.Field, ...]:
    if isinstance(columns, Mapping):
        return tuple(pa.field(name, kind) for name, kind in columns.items())
    known = {each.name: each for each in declared or ()}
    return tuple(known.get(name, pa.field(name, pa.string())) for name in columns)


def _metadata_fields(
    columns: Mapping[str, str] | Sequence[str],
) -> tuple[tuple[MetadataColumn, str], ...]:
    pairs = columns.items() if isinstance(columns, Mapping) else ((each, "") for each in columns)
    fields = []
    for key, name in pairs:
        try:
            column = MetadataColumn(key)
        except ValueError as exc:
            raise InvalidOptionError(
                f"there is no metadata column {key!r}",
                expected="one of " + ", ".join(MetadataColumn),
                found=key,
                option=METADATA_COLUMNS.key,
            ) from exc
        fields.append((column, name or column.default_name))
    return tuple(fields)
