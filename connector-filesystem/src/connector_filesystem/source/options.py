# SPDX-License-Identifier: Apache-2.0
"""The settings of the source of files."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, Final, Literal, TypeAlias

import pyarrow as pa

from connector_filesystem.filesystem import STORAGE_OPTIONS
from connector_filesystem.formats import Compression, CsvOptions, Format
from connector_filesystem.source.columns import MetadataColumn, SchemaChange
from connector_filesystem.source.discovery import IGNORED_SUFFIXES
from connector_filesystem.source.memory import FileOrder
from connector_filesystem.source.paths import PathTime
from connectors_core.errors import ConfigurationError
from connectors_core.options import (
    DURATION,
    JSON_MAP,
    MEMORY_SIZE,
    Configured,
    Option,
    Options,
    OptionType,
    Setting,
    at_least,
    list_of,
    not_empty,
    option,
    part,
    positive,
)
from connectors_core.schema import SCHEMA

__all__ = ["FileSourceOptions"]

PathLike: TypeAlias = str | os.PathLike[str]
Change: TypeAlias = SchemaChange | Literal["fail", "null-missing", "ignore-new"]

_SINCE: Final = "2.0.0"


def _paths(value: Any) -> tuple[str, ...]:
    """The paths that a keyword gives: a text is one of them, commas and all."""
    return list_of(str).parse([value] if isinstance(value, str) else value)


def _regex(value: Any) -> str:
    try:
        return str(re.compile(value).pattern)
    except (re.error, TypeError) as exc:
        raise ValueError(f"a regular expression ({exc})") from exc


def _partition_columns(value: Any) -> tuple[tuple[str, pa.DataType | None], ...]:
    if isinstance(value, Mapping):
        return tuple(value.items())
    if isinstance(value, Sequence) and not isinstance(value, str):
        return tuple((str(name), None) for name in value)
    return tuple((each.name, each.type) for each in SCHEMA.parse(value))


def _metadata_columns(value: Any) -> tuple[tuple[MetadataColumn, str], ...]:
    is_map = isinstance(value, Mapping | str)
    try:
        names = JSON_MAP.parse(value) if is_map else dict.fromkeys(value, "")
        columns = {MetadataColumn(key): name for key, name in names.items()}
    except (TypeError, ValueError):
        raise ValueError("a map from " + ", ".join(MetadataColumn) + " to names") from None
    return tuple((column, name or column.default_name) for column, name in columns.items())


_EVENT_TIME_REGEX: Final = Option(
    "event-time.path-regex",
    str,
    since=_SINCE,
    doc="Finds the lowest event time of a file in its path, so that files which wait do not hold "
    "the watermark back for ever. Several groups are joined by `-`.",
)
_EVENT_TIME_FORMAT: Final = Option(
    "event-time.format",
    str,
    since=_SINCE,
    doc="Pattern of `strptime` of what `event-time.path-regex` finds, e.g. `%Y-%m`; UTC.",
)


def _event_time(options: Options) -> PathTime | None:
    regex, pattern = options.get(_EVENT_TIME_REGEX), options.get(_EVENT_TIME_FORMAT)
    if (regex is None) != (pattern is None):
        missing = _EVENT_TIME_FORMAT if pattern is None else _EVENT_TIME_REGEX
        raise ConfigurationError(
            "the event time of a file needs both a regular expression and a format",
            option=missing.key,
        )
    return PathTime(regex=regex, format=pattern) if regex and pattern else None


class FileSourceOptions(
    Configured,
    scope="file source",
    elsewhere={
        "maxfilespertrigger": "limit a micro-batch by `Pipeline.from_source(..., limits="
        "ReadLimits(splits=...))`",
        "maxbytespertrigger": "limit a micro-batch by `Pipeline.from_source(..., limits="
        "ReadLimits(bytes=...))`",
        "latestfirst": "files are read in the order of 'source.order'; the oldest come first",
        "maxfileage": "use 'source.late-file-window'",
        "cleansource": "files stay where they are; remove them when the pipeline has read them",
        "filenameonly": "a file is known by its path and version; remove it",
        "recursivefilelookup": "folders are always read with all below them; remove it",
        "modifiedbefore": "choose the files by 'source.path.regex-pattern'",
        "modifiedafter": "choose the files by 'source.path.regex-pattern'",
        "inferschema": "a schema is always inferred where 'schema' is not given; remove it",
        "mode": "what happens to a bad record is the record policy of the pipeline",
        "columnnameofcorruptrecord": "bad records go to the dead letters of the record policy",
    },
):
    """What is read, and how; the settings of `FileSource`."""

    path: Setting[tuple[str, ...], PathLike | Sequence[PathLike]] = option(
        "path",
        replace(list_of(str), accept=_paths),
        kw_only=False,
        validator=not_empty,
        since=_SINCE,
        aliases=("paths", "input", "url", "location"),
        doc="Files, folders (with all below them) or patterns (`*`, `?`, `[...]`, `**`) on one "
        "filesystem, as paths or URLs.",
    )
    format: Setting[Format | None, Format | Literal["csv", "json-lines", "parquet"] | None] = (
        option(
            "format",
            Format,
            default=None,
            since=_SINCE,
            aliases=("file.format",),
            doc="Format of all files. By default each file's suffix tells it.",
        )
    )
    declared_schema: Setting[pa.Schema | None, Any] = option(
        "schema",
        SCHEMA,
        default=None,
        alias="schema",
        since=_SINCE,
        doc="Columns in the files, in the words of Spark SQL. By default they are read from the "
        "footer of the first file (Parquet) or inferred from a sample.",
    )
    compression: Setting[
        Compression | None, Compression | Literal["none", "gzip", "zstd"] | None
    ] = option(
        "compression",
        Compression,
        default=None,
        since=_SINCE,
        aliases=("codec", "compression-codec"),
        doc="Compression of all text files. By default each file's suffix tells it.",
    )
    monitor_interval: Setting[timedelta | None, timedelta | str | None] = option(
        "source.monitor-interval",
        DURATION,
        default=None,
        validator=positive,
        since=_SINCE,
        aliases=("monitor-interval", "streaming-source.monitor-interval", "discovery.interval"),
        doc="Time between two looks for new files; makes the source unbounded. By default files "
        "are listed once.",
    )
    order: Setting[FileOrder, FileOrder | Literal["modification-time", "name", "any"]] = option(
        "source.order",
        FileOrder,
        default=FileOrder.MODIFICATION_TIME,
        since=_SINCE,
        aliases=("order", "streaming-source.partition-order"),
        doc="What makes a file new: a time or a name after those of the files read, or (`any`) "
        "that it is none of them. They are then remembered one by one, in 16 bytes each.",
    )
    late_file_window: Setting[timedelta, timedelta | str] = option(
        "source.late-file-window",
        DURATION,
        default=timedelta(hours=1),
        validator=at_least(timedelta(0)),
        since=_SINCE,
        aliases=("late-file-window", "max-file-age"),
        doc="In the order of modification times: how much older than the newest file another one "
        "may be when it becomes visible, by a rename for example. The files of this time are "
        "remembered.",
    )
    forget_after: Setting[timedelta, timedelta | str] = option(
        "source.forget-after",
        DURATION,
        default=timedelta(days=7),
        validator=at_least(timedelta(0)),
        since="3.0.0",
        doc="In the order `any`: how long a file that is gone still counts as read, should it "
        "come back.",
    )
    path_regex: Setting[str | None] = option(
        "source.path.regex-pattern",
        OptionType("string", _regex),
        default=None,
        since=_SINCE,
        aliases=("path-regex", "path.regex-pattern", "pathglobfilter"),
        doc="The path of a file relative to `path` must match this as a whole. Named groups can "
        "be partition columns.",
    )
    ignored_suffixes: Setting[tuple[str, ...], str | Sequence[str]] = option(
        "source.ignored-suffixes",
        list_of(str),
        default=IGNORED_SUFFIXES,
        since=_SINCE,
        doc="Ends of names of incomplete files, which are left out; names that begin with `.` or "
        "`_` are as well.",
    )
    partition_columns: Setting[
        tuple[tuple[str, pa.DataType | None], ...],
        Mapping[str, pa.DataType] | Sequence[str] | pa.Schema | str | None,
    ] = option(
        "partition.columns",
        OptionType("schema", _partition_columns),
        default=(),
        since=_SINCE,
        aliases=("partition-columns", "partitioned-by", "partition-keys"),
        doc="Columns whose values stand in the path, as folders `key=value` or named groups of "
        "the path's pattern, e.g. `month INT`. They follow the files' columns.",
    )
    metadata_columns: Setting[
        tuple[tuple[MetadataColumn, str], ...], Mapping[str, str] | Sequence[str] | None
    ] = option(
        "metadata.columns",
        OptionType("map", _metadata_columns),
        default=(),
        since=_SINCE,
        aliases=("metadata-columns",),
        doc="Columns about the file: a map from `file.path`, `file.name`, `file.size` or "
        "`file.modification_time` to a column's name. They come last.",
    )
    event_time_lower_bound: Setting[Callable[[str], datetime | None] | None] = part(
        None,
        _EVENT_TIME_REGEX,
        _EVENT_TIME_FORMAT,
        build=_event_time,
        default=None,
        doc="Gives the lowest event time in a file by its path, e.g. `PathTime`, so that files "
        "which wait do not hold the watermark back for ever. Must be picklable.",
    )
    on_schema_change: Setting[tuple[SchemaChange, ...], Change | str | Sequence[Change]] = option(
        "on-schema-change",
        list_of(SchemaChange),
        default=(SchemaChange.FAIL,),
        since=_SINCE,
        aliases=("schema-change", "mergeschema"),
        doc="What to do with a file of other columns: `fail`, or `null-missing`, `ignore-new` or "
        "both. A field that records of JSON lack is always null.",
    )
    split_size: Setting[int, int | str] = option(
        "source.split-size",
        MEMORY_SIZE,
        default=64 << 20,
        validator=positive,
        since=_SINCE,
        aliases=("split-size", "maxpartitionbytes", "spark.sql.files.maxpartitionbytes"),
        doc="Larger files are cut into parts of about this size, uncompressed text at records and "
        "Parquet at row groups.",
    )
    batch_rows: Setting[int] = option(
        "source.batch-rows",
        int,
        default=65_536,
        validator=positive,
        since=_SINCE,
        aliases=("batch-size", "batch.rows"),
        doc="Most rows of a batch.",
    )
    block_size: Setting[int, int | str] = option(
        "source.block-size",
        MEMORY_SIZE,
        default=4 << 20,
        validator=positive,
        since=_SINCE,
        doc="Bytes of text that are read and parsed at a time.",
    )
    max_record_size: Setting[int, int | str] = option(
        "source.max-record-size",
        MEMORY_SIZE,
        default=64 << 20,
        validator=positive,
        since=_SINCE,
        doc="Most bytes of a line of text; guards memory against files that are no text.",
    )
    csv: Setting[CsvOptions, CsvOptions | None] = part(
        CsvOptions, default=CsvOptions, doc="Dialect of CSV."
    )
    storage_options: Setting[dict[str, Any], Mapping[str, Any] | None] = STORAGE_OPTIONS
