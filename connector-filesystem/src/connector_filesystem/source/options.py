# SPDX-License-Identifier: Apache-2.0
"""The settings of the file source."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, Final, Literal, TypeAlias

import pyarrow as pa

from connector_filesystem.filesystem import STORAGE_OPTIONS
from connector_filesystem.formats import Compression, CsvOptions, FileFormat, JsonOptions
from connector_filesystem.source.columns import FileMetadata, OnUnreadable, SchemaChange
from connector_filesystem.source.discovery import IGNORED_SUFFIXES
from connector_filesystem.source.memory import FileOrder
from connector_filesystem.source.paths import PathTime
from connectors_core.errors import ConfigurationError
from connectors_core.formats import FORMAT_OPTIONS
from connectors_core.options import (
    DURATION,
    JSON_MAP,
    MEMORY_SIZE,
    REGEX,
    Configured,
    Option,
    Options,
    OptionType,
    Setting,
    at_least,
    list_of,
    not_empty,
    option,
    option_like,
    part,
    positive,
)
from connectors_core.schema import SCHEMA, SchemaLike
from connectors_core.source import SOURCE_BATCH_ROWS

__all__ = ["FileSourceOptions"]

PathLike: TypeAlias = str | os.PathLike[str]
Order: TypeAlias = Literal["any", "modification-time", "name", "manifest"]
Change: TypeAlias = SchemaChange | Literal["fail", "null-missing", "ignore-new"]

_SINCE: Final = "2.0.0"


def _paths(value: Any) -> tuple[str, ...]:
    """Return the paths of a keyword. A text is a single path, even if it contains commas."""
    return list_of(str).parse([value] if isinstance(value, str) else value)


def _partition_columns(value: Any) -> tuple[tuple[str, pa.DataType | None], ...]:
    if isinstance(value, Mapping):
        return tuple((name, _type(kind)) for name, kind in value.items())
    if isinstance(value, Sequence) and not isinstance(value, str):
        return tuple((str(name), None) for name in value)
    return tuple((each.name, each.type) for each in SCHEMA.parse(value))


def _type(kind: pa.DataType | str) -> pa.DataType:
    return SCHEMA.parse(f"value {kind}").field(0).type if isinstance(kind, str) else kind


def _metadata_columns(value: Any) -> tuple[tuple[FileMetadata, str], ...]:
    is_map = isinstance(value, Mapping | str)
    try:
        names = JSON_MAP.parse(value) if is_map else dict.fromkeys(value, "")
        columns = {FileMetadata(key): name for key, name in names.items()}
    except (TypeError, ValueError):
        raise ValueError("a map from " + ", ".join(FileMetadata) + " to names") from None
    return tuple((column, name or column.default_name) for column, name in columns.items())


_EVENT_TIME_REGEX: Final = Option(
    "event-time.path-regex",
    str,
    since=_SINCE,
    doc="Finds the lowest event time of a file in its path, so that waiting files do not hold "
    "back the watermark forever. Several groups are joined by `-`.",
)
_EVENT_TIME_FORMAT: Final = Option(
    "event-time.format",
    str,
    since=_SINCE,
    doc="`strptime` pattern of the text that `event-time.path-regex` finds, e.g. `%Y-%m`.",
)
_EVENT_TIME_ZONE: Final = Option(
    "event-time.time-zone",
    str,
    since="3.0.0",
    default="UTC",
    doc="Time zone of `event-time.format`, unless it contains one.",
)


def _event_time(options: Options) -> PathTime | None:
    regex, pattern = options.get(_EVENT_TIME_REGEX), options.get(_EVENT_TIME_FORMAT)
    if (regex is None) != (pattern is None):
        missing = _EVENT_TIME_FORMAT if pattern is None else _EVENT_TIME_REGEX
        raise ConfigurationError(
            "the event time of a file needs both a regular expression and a format",
            option=missing.key,
        )
    if not (regex and pattern):
        return None
    return PathTime(regex=regex, format=pattern, time_zone=options[_EVENT_TIME_ZONE])


_READERS: Final = (
    "the number of readers is `Pipeline.from_source(..., parallelism=...)`; in SQL, "
    "'parallelism.default' of the session"
)


class FileSourceOptions(
    Configured,
    scope="file source",
    since=_SINCE,
    elsewhere={
        "maxfilespertrigger": "limit a micro-batch by `Pipeline.from_source(..., limits="
        "ReadLimits(splits=...))`",
        "maxbytespertrigger": "limit a micro-batch by `Pipeline.from_source(..., limits="
        "ReadLimits(bytes=...))`",
        "minpartitions": _READERS,
        "scan.parallelism": _READERS,
        "ignoremissingfiles": "remove files only after the pipeline has read them; the source "
        "never skips a missing file",
        "maxoffsetspertrigger": "limit a micro-batch by `Pipeline.from_source(..., limits="
        "ReadLimits(rows=...))`",
        "latestfirst": "'source.order' determines the order of files, and the oldest come first; "
        "remove it",
        "maxfileage": "use 'source.late-file-window'",
        "cleansource": "the source leaves files in place; delete them after the pipeline has read "
        "them",
        "filenameonly": "the path and version identify a file; remove it",
        "recursivefilelookup": "folders are always read recursively; remove it",
        "modifiedbefore": "choose the files by 'source.path.regex-pattern'",
        "modifiedafter": "choose the files by 'source.path.regex-pattern'",
        "inferschema": "without 'schema', the source always infers the schema; remove it",
        "mode": "the record policy of the pipeline handles bad records; remove it",
        "columnnameofcorruptrecord": "bad records go to the dead letters of the record policy; "
        "remove it",
        **CsvOptions.OPTIONS.elsewhere,
        **FORMAT_OPTIONS.elsewhere,
    },
):
    """What to read and how: the settings of `FileSource`."""

    path: Setting[tuple[str, ...], PathLike | Sequence[PathLike]] = option(
        "path",
        replace(list_of(str), accept=_paths),
        kw_only=False,
        validator=not_empty,
        aliases=("paths", "input", "url", "location"),
        doc="Files, folders (recursively), or patterns (`*`, `?`, `[...]`, `**`) on one "
        "filesystem, as paths or URLs.",
    )
    format: Setting[FileFormat | None, FileFormat | Literal["csv", "json", "parquet"] | None] = (
        option(
            "format",
            FileFormat,
            default=None,
            aliases=("file.format",),
            doc="Format of all files. By default, the suffix of each file determines it.",
        )
    )
    declared_schema: Setting[pa.Schema | None, SchemaLike | None] = option(
        "schema",
        SCHEMA,
        default=None,
        alias="schema",
        doc="Columns in the files, as a Spark SQL schema. By default, the source reads them from "
        "the footer of the first file (Parquet) or infers them from a sample.",
    )
    compression: Setting[
        Compression | None, Compression | Literal["none", "gzip", "zstd"] | None
    ] = option(
        "compression",
        Compression,
        default=None,
        aliases=("codec", "compression-codec"),
        doc="Compression of all text files. By default, the suffix of each file determines it.",
    )
    monitor_interval: Setting[timedelta | None, timedelta | str | None] = option(
        "source.monitor-interval",
        DURATION,
        default=None,
        validator=positive,
        aliases=("monitor-interval", "streaming-source.monitor-interval", "discovery.interval"),
        doc="Interval between listings for new files. Setting it makes the source unbounded. By "
        "default, the source lists files once.",
    )
    order: Setting[
        FileOrder, FileOrder | Literal["any", "modification-time", "name", "manifest"]
    ] = option(
        "source.order",
        FileOrder,
        default=FileOrder.ANY,
        aliases=("order", "streaming-source.partition-order"),
        doc="What makes a file new: (`any`) that it has not been read, a later modification time "
        "or name than the files already read, or (`manifest`) a manifest of the sink. `any` "
        "remembers every file, in 16 bytes each. `modification-time` and `name` remember less and "
        "do not read a file that appears too late. `manifest` reads whole epochs, also without a "
        "monitor interval.",
    )
    late_file_window: Setting[timedelta, timedelta | str] = option(
        "source.late-file-window",
        DURATION,
        default=timedelta(hours=1),
        validator=at_least(timedelta(0)),
        aliases=("late-file-window", "max-file-age"),
        doc="In the order of modification times, how late a file may become visible: the maximum "
        "difference between its time and that of the newest file. The source remembers the files "
        "of this period.",
    )
    forget_after: Setting[timedelta, timedelta | str] = option(
        "source.forget-after",
        DURATION,
        default=timedelta(days=7),
        validator=at_least(timedelta(0)),
        since="3.0.0",
        doc="In the order `any`, how long a removed file still counts as read if it reappears.",
    )
    path_regex: Setting[str | None] = option(
        "source.path.regex-pattern",
        REGEX,
        default=None,
        aliases=("path-regex", "path.regex-pattern", "pathglobfilter"),
        doc="Pattern that must match the whole path of a file relative to `path`. Named groups "
        "can be partition columns.",
    )
    ignored_suffixes: Setting[tuple[str, ...], str | Sequence[str]] = option(
        "source.ignored-suffixes",
        list_of(str),
        default=IGNORED_SUFFIXES,
        doc="Suffixes of incomplete files, which the source ignores. It also ignores names that "
        "start with `.` or `_`.",
    )
    allow_missing_paths: Setting[bool] = option(
        "source.allow-missing-paths",
        bool,
        default=False,
        since="3.1.0",
        doc="Read no rows from a path that does not exist or a pattern that matches nothing, "
        "instead of failing. A source with a monitor interval always waits for them.",
    )
    ignore_table_log: Setting[bool] = option(
        "source.ignore-table-log",
        bool,
        default=False,
        since="3.1.0",
        doc="Read all files of a folder although they belong to a table of Delta Lake, Hudi, "
        "Iceberg, or Spark's file sink, whose log lists the valid ones. By default, that is an "
        "error.",
    )
    columns: Setting[tuple[str, ...], str | Sequence[str]] = option(
        "source.columns",
        list_of(str),
        default=(),
        since="3.0.0",
        aliases=("columns",),
        doc="Columns to read, in the order of the schema. By default, all columns.",
    )
    partition_columns: Setting[
        tuple[tuple[str, pa.DataType | None], ...],
        Mapping[str, pa.DataType | str] | Sequence[str] | SchemaLike | None,
    ] = option(
        "partition.columns",
        OptionType("schema", _partition_columns),
        default=(),
        aliases=("partition-columns", "partitioned-by", "partition-keys"),
        doc="Columns whose values come from the path, as folders `key=value` or as named groups "
        "of the path's pattern, e.g. `month INT`. They follow the columns of the files.",
    )
    partition_time_zone: Setting[str | None] = option(
        "partition.time-zone",
        str,
        default=None,
        since="3.1.0",
        doc="Time zone of the times without one in paths, for `partition.columns` of the type "
        "TIMESTAMP. Spark writes such folders in its `spark.sql.session.timeZone`. A time that "
        "occurs twice is the earlier one.",
    )
    metadata_columns: Setting[
        tuple[tuple[FileMetadata, str], ...], Mapping[str, str] | Sequence[str] | None
    ] = option(
        "metadata.columns",
        OptionType("map", _metadata_columns),
        default=(),
        aliases=("metadata-columns",),
        doc="Metadata columns: a map from `file.path`, `file.name`, `file.size`, or "
        "`file.modification-time` to a column name. They come last.",
    )
    event_time_lower_bound: Setting[Callable[[str], datetime | None] | None] = part(
        None,
        _EVENT_TIME_REGEX,
        _EVENT_TIME_FORMAT,
        _EVENT_TIME_ZONE,
        build=_event_time,
        default=None,
        doc="Returns the lowest event time in a file for its path, e.g. `PathTime`, so that "
        "waiting files do not hold back the watermark forever. It must be picklable.",
    )
    on_schema_change: Setting[tuple[SchemaChange, ...], Change | str | Sequence[Change]] = option(
        "on-schema-change",
        list_of(SchemaChange),
        default=(SchemaChange.FAIL,),
        aliases=("schema-change", "mergeschema"),
        doc="What to do with a file whose columns differ from the schema: `fail`, or "
        "`null-missing`, `ignore-new`, or both. A missing field in a JSON record is always null.",
    )
    on_unreadable: Setting[OnUnreadable, OnUnreadable | Literal["fail", "skip"]] = option(
        "source.on-unreadable",
        OnUnreadable,
        default=OnUnreadable.FAIL,
        since="3.1.0",
        aliases=("ignorecorruptfiles", "ignoremissingfiles"),
        doc="What to do with a file that is damaged, missing, changed since its discovery, or of "
        "another schema: `fail`, or `skip` the rest of it. A skipped rest is counted in "
        "`unreadableSplits`, logged, and a dead letter if the record policy has a sink for them.",
    )
    split_size: Setting[int, int | str] = option(
        "source.split-size",
        MEMORY_SIZE,
        default=64 << 20,
        validator=positive,
        aliases=("split-size", "maxpartitionbytes", "spark.sql.files.maxpartitionbytes"),
        doc="Approximate size of the splits of larger files. Uncompressed text is cut at records "
        "and Parquet at row groups.",
    )
    batch_rows: Setting[int] = option_like(SOURCE_BATCH_ROWS, aliases=("batch-size", "batch.rows"))
    block_size: Setting[int, int | str] = option(
        "source.block-size",
        MEMORY_SIZE,
        default=4 << 20,
        validator=positive,
        doc="Bytes of text to read and parse at a time.",
    )
    max_record_size: Setting[int, int | str] = option(
        "source.max-record-size",
        MEMORY_SIZE,
        default=64 << 20,
        validator=positive,
        doc="Maximum size of a line of text. It protects memory against files that are not text.",
    )
    csv: Setting[CsvOptions, CsvOptions | None] = part(
        CsvOptions, default=CsvOptions, doc="CSV dialect."
    )
    json: Setting[JsonOptions, JsonOptions | None] = part(
        JsonOptions, default=JsonOptions, doc="JSON lines dialect."
    )
    storage_options: Setting[dict[str, Any], Mapping[str, Any] | None] = STORAGE_OPTIONS
