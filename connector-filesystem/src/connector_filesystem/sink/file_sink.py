# SPDX-License-Identifier: Apache-2.0
"""The exactly-once sink of files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from connector_filesystem.filesystem import STORAGE_OPTIONS, FileLocation
from connector_filesystem.formats import (
    Compression,
    CsvOptions,
    Format,
    JsonOptions,
    ParquetOptions,
    detect_format,
)
from connector_filesystem.sink.buckets import (
    COLUMNS_OPTION,
    DATE_COLUMN_OPTION,
    PATTERN_OPTION,
    TIME_ZONE_OPTION,
    BucketAssigner,
)
from connector_filesystem.sink.committer import FileCommitter
from connector_filesystem.sink.part_file import EncoderConfig
from connector_filesystem.sink.rolling import OutputFileConfig, RollingPolicy
from connector_filesystem.sink.writer import FileCommittable, FileSinkWriter
from connectors_core.annotations import public
from connectors_core.clients.connection_check import SupportsConnectionCheck
from connectors_core.errors import ConfigurationError, InvalidOptionError
from connectors_core.formats.text import unsupported_csv_type, unsupported_json_type
from connectors_core.options import (
    DURATION,
    MEMORY_SIZE,
    Option,
    OptionSet,
    list_of,
    not_empty,
    positive,
)
from connectors_core.secrets import mask_url
from connectors_core.serialization import JsonDataclassSerializer, VersionedSerializer
from connectors_core.sink import CommitterInitContext, TwoPhaseCommittingSink, WriterInitContext
from connectors_core.spelling import spelled_in_python

__all__ = ["FILE_SINK_OPTIONS", "FileSink"]

_SINCE: Final = "2.0.0"
_DEFAULT_MAX_OPEN: Final = 64
_DEFAULT_BUFFER: Final = 16 * 1024 * 1024
_DEFAULT_FILE_SIZE: Final = 128 * 1024 * 1024
_PARQUET_CODECS: Final = ("snappy", "zstd", "gzip", "lz4", "brotli", "none")

_PATH = Option(
    "path",
    str,
    required=True,
    validator=not_empty,
    doc="Folder of the files, or URL.",
    since=_SINCE,
)
_FORMAT = Option("format", Format, default=Format.PARQUET, doc="Format of the files.", since=_SINCE)
_COMPRESSION = Option(
    "compression",
    Compression,
    default=Compression.NONE,
    doc="Compression of whole files, for text formats. Parquet has `parquet.compression`.",
    since=_SINCE,
)
_COLUMNS = Option(
    COLUMNS_OPTION,
    list_of(str),
    doc="Columns that name the folders, Hive style: `month=1/origin=EWR`.",
    aliases=("partitionBy", "partition_by", "partitioned-by"),
    since=_SINCE,
)
_KEEP_COLUMNS = Option(
    "partition.keep-columns",
    bool,
    default=False,
    doc="Whether the files hold the columns of `partition.columns` too.",
    since=_SINCE,
)
_DATE_COLUMN = Option(
    DATE_COLUMN_OPTION,
    str,
    doc="Date or timestamp column that `partition.date-pattern` is for.",
    since=_SINCE,
)
_DATE_PATTERN = Option(
    PATTERN_OPTION,
    str,
    doc="Folders by date, such as `year=%Y/month=%m`; instead of columns.",
    since=_SINCE,
)
_TIME_ZONE = Option(
    TIME_ZONE_OPTION,
    str,
    default="UTC",
    doc="Time zone of `partition.date-pattern`, for timestamps that have one.",
    since=_SINCE,
)
_PREFIX = Option(
    "sink.file-prefix", str, default="part", doc="How the names of files begin.", since=_SINCE
)
_SUFFIX = Option(
    "sink.file-suffix",
    str,
    doc="How they end; by default that of format and compression.",
    since=_SINCE,
)
_FILE_SIZE = Option(
    "sink.rolling-policy.file-size",
    MEMORY_SIZE,
    default=_DEFAULT_FILE_SIZE,
    validator=positive,
    doc="A file of this size is closed and the next one begun. Each epoch ends all its files.",
    since=_SINCE,
)
_ROW_COUNT = Option(
    "sink.rolling-policy.row-count",
    int,
    validator=positive,
    doc="Most rows of a file.",
    since=_SINCE,
)
_INTERVAL = Option(
    "sink.rolling-policy.rollover-interval",
    DURATION,
    validator=positive,
    doc="A file of this age is closed when the next batch comes.",
    since=_SINCE,
)
_MAX_OPEN = Option(
    "sink.max-open-buckets",
    int,
    default=_DEFAULT_MAX_OPEN,
    validator=positive,
    doc="Files that a writer has a handle for. Others wait without one, on local filesystems and "
    "uncompressed; elsewhere the one unused the longest is completed.",
    since=_SINCE,
)
_BUFFER_SIZE = Option(
    "sink.buffer-size",
    MEMORY_SIZE,
    default=_DEFAULT_BUFFER,
    validator=positive,
    doc="Rows gathered in memory for one folder; all folders together gather four times as much.",
    since=_SINCE,
)
_PARALLELISM = Option(
    "sink.parallelism",
    int,
    validator=positive,
    doc="Writers; by default those of the input.",
    since=_SINCE,
)
_DELIMITER = Option(
    "csv.delimiter", str, default=",", doc="Character between fields.", since=_SINCE
)
_QUOTE = Option("csv.quote-char", str, default='"', doc="Character around texts.", since=_SINCE)
_DOUBLE_QUOTE = Option(
    "csv.double-quote", bool, default=True, doc="Write a quote within a text twice.", since=_SINCE
)
_ESCAPE = Option(
    "csv.escape-char", str, doc="Character that takes the next one literally.", since=_SINCE
)
_HEADER = Option(
    "csv.header", bool, default=True, doc="The first line names the columns.", since=_SINCE
)
_NEWLINES = Option(
    "csv.newlines-in-values",
    bool,
    default=False,
    doc="Texts may hold line breaks; otherwise such a row is a bad record.",
    since=_SINCE,
)
_NULL_VALUES = Option(
    "csv.null-values",
    list_of(str),
    doc="Spellings of null; the first is written. Default: empty.",
    since=_SINCE,
)
_WRITE_NULLS = Option(
    "json.write-nulls",
    bool,
    default=False,
    doc="Write fields that are null, as `null`.",
    since=_SINCE,
)
_CODEC = Option(
    "parquet.compression",
    str,
    default="zstd",
    choices=_PARQUET_CODECS,
    doc="Compression within Parquet files.",
    since=_SINCE,
)
_ROW_GROUP = Option(
    "parquet.row-group-rows",
    int,
    default=1024 * 1024,
    validator=positive,
    doc="Most rows of a row group; `sink.buffer-size` bounds it too.",
    since=_SINCE,
)
_DICTIONARY = Option(
    "parquet.use-dictionary",
    bool,
    default=True,
    doc="Dictionary-encode columns of few different values.",
    since=_SINCE,
)

FILE_SINK_OPTIONS: Final = OptionSet(
    _PATH,
    _FORMAT,
    _COMPRESSION,
    _COLUMNS,
    _KEEP_COLUMNS,
    _DATE_COLUMN,
    _DATE_PATTERN,
    _TIME_ZONE,
    _FILE_SIZE,
    _ROW_COUNT,
    _INTERVAL,
    _PREFIX,
    _SUFFIX,
    _MAX_OPEN,
    _BUFFER_SIZE,
    _PARALLELISM,
    _DELIMITER,
    _QUOTE,
    _DOUBLE_QUOTE,
    _ESCAPE,
    _HEADER,
    _NEWLINES,
    _NULL_VALUES,
    _WRITE_NULLS,
    _CODEC,
    _ROW_GROUP,
    _DICTIONARY,
    STORAGE_OPTIONS,
    scope="file sink",
)
"""The options of `FileSink.from_options`."""


@public
@spelled_in_python(
    dict.fromkeys((COLUMNS_OPTION, DATE_COLUMN_OPTION, PATTERN_OPTION), "bucket_assigner")
)
@dataclass(frozen=True, repr=False)
class FileSink(TwoPhaseCommittingSink[FileCommittable], SupportsConnectionCheck):
    """Writes files exactly once: readers see whole files of committed epochs and nothing else.

    A file is *in progress* while a writer fills it and *pending* when it is complete, both below
    `<path>/_staging`, which Spark, Hive and `FileSource` ignore; the commit of its epoch *finishes*
    it by moving it to `<path>/<folder>/<prefix>-<epoch>-<attempt>-<number><suffix>`. Every attempt
    of a writer has names of its own, so that a late one disturbs nobody. What failed attempts
    leave behind is swept.

    The files of an epoch appear one after another: a reader may see some before the others. Where
    a move is a copy and a removal (object stores), a commit reads and writes each file once more;
    on local disks, HDFS and the like it is a rename.

    Immutable and picklable; no I/O in the constructor.

    Args:
        path: Folder of the files, or URL of anything that fsspec reaches.
        format: Format of the files.
        compression: Of whole files, for text formats. Parquet has `ParquetOptions.compression`.
        bucket_assigner: Which folder each row goes to; by default all to `path`.
        rolling_policy: When a file is complete before the epoch ends.
        output_file: How finished files are called.
        csv: Dialect of CSV.
        json: Dialect of JSON lines.
        parquet: How Parquet is written.
        storage_options: Passed to the filesystem.
        max_open_buckets: Files that a writer has a handle for; others wait without one, on local
            filesystems and uncompressed, or else the one unused the longest is completed.
        buffer_size: Bytes of rows gathered in memory for one folder. All folders together gather
            four times as much at most. Text formats gather 4 MiB at most.
        parallelism: Number of writers; None takes the partitions of the input.

    Raises:
        ConfigurationError: What was asked for does not go together.
    """

    path: str
    _: KW_ONLY
    format: Format = Format.PARQUET
    compression: Compression = Compression.NONE
    bucket_assigner: BucketAssigner = field(default_factory=BucketAssigner.none)
    rolling_policy: RollingPolicy = field(default_factory=RollingPolicy)
    output_file: OutputFileConfig = field(default_factory=OutputFileConfig)
    csv: CsvOptions = field(default_factory=CsvOptions)
    json: JsonOptions = field(default_factory=JsonOptions)
    parquet: ParquetOptions = field(default_factory=ParquetOptions)
    storage_options: Mapping[str, Any] = field(default_factory=dict, hash=False)
    max_open_buckets: int = _DEFAULT_MAX_OPEN
    buffer_size: int = _DEFAULT_BUFFER
    parallelism: int | None = None
    _location: FileLocation = field(init=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "path", str(self.path))
        object.__setattr__(self, "format", _FORMAT.parse(self.format))
        object.__setattr__(self, "compression", _COMPRESSION.parse(self.compression))
        _MAX_OPEN.parse(self.max_open_buckets)
        _BUFFER_SIZE.parse(self.buffer_size)
        _ROW_GROUP.parse(self.parquet.row_group_rows)
        _CODEC.parse(self.parquet.compression)
        if self.parallelism is not None:
            _PARALLELISM.parse(self.parallelism)
        if set("*?[") & set(self.path):
            raise InvalidOptionError(
                "files cannot be written to a pattern",
                expected="one folder, without '*', '?' and '['",
                found=mask_url(self.path),
                option="path",
            )
        if not self.format.is_text and self.compression is not Compression.NONE:
            raise InvalidOptionError(
                "a Parquet file is not compressed as a whole",
                expected="none",
                found=self.compression.value,
                option="compression",
                hint="set parquet.compression, the codec within the file",
            )
        self._check_csv()
        self._check_suffix()
        object.__setattr__(self, "_location", FileLocation(self.path, self.storage_options))

    def _check_csv(self) -> None:
        if self.format is not Format.CSV:
            return
        for option, value in (
            ("csv.timestamp-formats", self.csv.timestamp_formats),
            ("csv.assume-time-zone", self.csv.assume_time_zone),
        ):
            if value:
                raise InvalidOptionError(
                    "the sink writes times as ISO 8601 in UTC",
                    expected="not set",
                    found=value,
                    option=option,
                )
        for name in ("null_values", "true_values", "false_values"):
            values = getattr(self.csv, name)
            special = {self.csv.delimiter, self.csv.quote_char, "\n", "\r"}
            if not values or special & set(values[0]):
                raise InvalidOptionError(
                    "the sink writes the first of these spellings, which cannot be read back",
                    expected="at least one, without delimiter, quote and line break",
                    found=values,
                    option="csv." + name.replace("_", "-"),
                )

    def _check_suffix(self) -> None:
        if self.output_file.suffix is None:
            return
        found, compression = detect_format("file" + self.suffix)
        if found not in (None, self.format) or compression is not self.compression:
            said = f"{found or self.format}, compression {compression}"
            raise InvalidOptionError(
                "the suffix of file names says something else than what is written",
                expected=f"a suffix for {self.format}, compression {self.compression}",
                found=f"{self.output_file.suffix!r}: {said}",
                option=_SUFFIX.key,
            )

    @classmethod
    def from_options(cls, options: Mapping[str, Any]) -> FileSink:
        """Make a sink of options, as Spark and SQL give them.

        Args:
            options: Values by key; see `FILE_SINK_OPTIONS`.

        Raises:
            ConfigurationError: An option is unknown, missing or cannot be used.
        """
        parsed = FILE_SINK_OPTIONS.parse(options)
        storage_options: dict[str, Any] = parsed[STORAGE_OPTIONS]
        return cls(
            parsed[_PATH],
            format=parsed[_FORMAT],
            compression=parsed[_COMPRESSION],
            bucket_assigner=_assigner(
                parsed.get(_COLUMNS),
                parsed[_KEEP_COLUMNS],
                parsed.get(_DATE_COLUMN),
                parsed.get(_DATE_PATTERN),
                parsed[_TIME_ZONE],
            ),
            rolling_policy=RollingPolicy(
                max_rows=parsed.get(_ROW_COUNT),
                max_size=parsed[_FILE_SIZE],
                max_age=parsed.get(_INTERVAL),
            ),
            output_file=OutputFileConfig(prefix=parsed[_PREFIX], suffix=parsed.get(_SUFFIX)),
            csv=CsvOptions(
                delimiter=parsed[_DELIMITER],
                quote_char=parsed[_QUOTE],
                double_quote=parsed[_DOUBLE_QUOTE],
                escape_char=parsed.get(_ESCAPE),
                header=parsed[_HEADER],
                newlines_in_values=parsed[_NEWLINES],
                null_values=parsed.get(_NULL_VALUES) or ("",),
            ),
            json=JsonOptions(write_nulls=parsed[_WRITE_NULLS]),
            parquet=ParquetOptions(
                compression=parsed[_CODEC],
                row_group_rows=parsed[_ROW_GROUP],
                use_dictionary=parsed[_DICTIONARY],
            ),
            storage_options=storage_options,
            max_open_buckets=parsed[_MAX_OPEN],
            buffer_size=parsed[_BUFFER_SIZE],
            parallelism=parsed.get(_PARALLELISM),
        )

    @property
    def suffix(self) -> str:
        """How the names of finished files end."""
        given = self.output_file.suffix
        if given is None:
            return self.format.suffix + self.compression.suffix
        return given if given.startswith(".") or not given else f".{given}"

    def check_connection(self, timeout: float) -> None:
        """See whether the filesystem answers; see `SupportsConnectionCheck`. Driver."""
        self._location.check_reachable(writable=True)

    def __repr__(self) -> str:
        return (
            f"FileSink({mask_url(self.path)!r}, format={self.format.value!r}, "
            f"compression={self.compression.value!r}, bucket_assigner={self.bucket_assigner!r})"
        )

    def validate(self, schema: pa.Schema) -> None:
        """Refuse rows that can never be written. Driver.

        Raises:
            ConfigurationError: A column has a type that the format lacks, is there twice, or a
                bucket column is missing.
        """
        twice = sorted({name for name in schema.names if schema.names.count(name) > 1})
        if twice:
            raise ConfigurationError(
                "columns have the same name",
                expected="each name once",
                found=", ".join(twice),
                hint="rename them with an alias",
            )
        self.bucket_assigner.validate(schema)
        written = self._written_schema(schema)
        if self.format is Format.PARQUET:
            _check_parquet(written)
            return
        unsupported = unsupported_csv_type if self.format is Format.CSV else unsupported_json_type
        for each in written:
            found = unsupported(each.type)
            if found is not None:
                raise _type_error(self.format, each.name, found)

    def writer_parallelism(self) -> int | None:
        """Return `parallelism`."""
        return self.parallelism

    def create_writer(self, context: WriterInitContext) -> FileSinkWriter:
        """Make the writer of one task of one epoch. Executor."""
        config = EncoderConfig(
            self.format,
            self.compression,
            csv=self.csv,
            json=self.json,
            parquet=self.parquet,
            schema=self._written_schema(context.schema),
        )
        return FileSinkWriter(
            self._location,
            config,
            context,
            bucket_assigner=self.bucket_assigner,
            rolling_policy=self.rolling_policy,
            output_file=self.output_file,
            suffix=self.suffix,
            max_open_buckets=self.max_open_buckets,
            buffer_size=self.buffer_size,
        )

    def create_committer(self, context: CommitterInitContext) -> FileCommitter:
        """Make the committer. Driver."""
        return FileCommitter(self._location, context)

    def committable_serializer(self) -> VersionedSerializer[FileCommittable]:
        """Return the serializer of committables: JSON, layout 1."""
        return JsonDataclassSerializer(FileCommittable, version=1)

    def _written_schema(self, schema: pa.Schema) -> pa.Schema:
        dropped = set(self.bucket_assigner.dropped_columns())
        return pa.schema([each for each in schema if each.name not in dropped])


def _assigner(
    columns: tuple[str, ...] | None,
    keep_columns: bool,
    date_column: str | None,
    date_pattern: str | None,
    time_zone: str,
) -> BucketAssigner:
    if (date_column is None) != (date_pattern is None):
        missing = DATE_COLUMN_OPTION if date_column is None else PATTERN_OPTION
        raise ConfigurationError(
            f"{DATE_COLUMN_OPTION!r} and {PATTERN_OPTION!r} belong together",
            expected="both or none",
            found="one",
            option=missing,
        )
    if date_column is not None and date_pattern is not None:
        if columns:
            raise ConfigurationError(
                "files are put into folders by columns or by a date, not by both",
                expected=f"{COLUMNS_OPTION!r} or {PATTERN_OPTION!r}",
                found="both",
                option=COLUMNS_OPTION,
            )
        return BucketAssigner.date_pattern(date_column, date_pattern, timezone=time_zone)
    if columns:
        return BucketAssigner.columns(*columns, keep_columns=keep_columns)
    return BucketAssigner.none()


def _check_parquet(schema: pa.Schema) -> None:
    for each in schema:
        one = pa.schema([each])
        try:
            with pq.ParquetWriter(pa.BufferOutputStream(), one) as writer:
                writer.write_table(one.empty_table())
        except (pa.ArrowException, NotImplementedError) as exc:
            raise _type_error(Format.PARQUET, each.name, each.type) from exc


def _type_error(file_format: Format, column: str, found: pa.DataType) -> ConfigurationError:
    return ConfigurationError(
        f"the column {column!r} has a type that {file_format.value} files cannot hold",
        expected="text, numbers, booleans, dates and times"
        if file_format is Format.CSV
        else "a type that the format has",
        found=found,
        option="format",
        hint="cast the column, drop it, or choose another format",
    )
