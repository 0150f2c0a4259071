# SPDX-License-Identifier: Apache-2.0
"""The settings of the file sink."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Final, Literal

from connector_filesystem.filesystem import STORAGE_OPTIONS
from connector_filesystem.formats import (
    Compression,
    CsvOptions,
    FileFormat,
    JsonOptions,
    ParquetOptions,
)
from connector_filesystem.sink.buckets import (
    COLUMNS_OPTION,
    DATE_COLUMN_OPTION,
    PATTERN_OPTION,
    TIME_ZONE_OPTION,
    BucketAssigner,
)
from connector_filesystem.sink.compaction import FileCompaction, compaction_of
from connector_filesystem.sink.rolling_policy import OutputFileConfig, RollingPolicy
from connectors_core.errors import ConfigurationError
from connectors_core.options import (
    MEMORY_SIZE,
    Configured,
    Option,
    Options,
    Setting,
    list_of,
    not_empty,
    option,
    option_like,
    part,
    positive,
)
from connectors_core.sink import SINK_COMMIT_TASKS_THRESHOLD, SINK_PARALLELISM

__all__ = ["FileSinkOptions"]

_SINCE: Final = "2.0.0"

_COLUMNS: Final = Option(
    COLUMNS_OPTION,
    list_of(str),
    doc="Columns that name the folders, as in Hive: `month=1/origin=EWR`.",
    aliases=("partitionBy", "partition_by", "partitioned-by"),
    since=_SINCE,
)
_KEEP_COLUMNS: Final = Option(
    "partition.keep-columns",
    bool,
    default=False,
    doc="Whether the files also contain the columns of `partition.columns`.",
    since=_SINCE,
)
_DATE_COLUMN: Final = Option(
    DATE_COLUMN_OPTION,
    str,
    doc="Date or timestamp column to which `partition.date-pattern` applies.",
    since=_SINCE,
)
_DATE_PATTERN: Final = Option(
    PATTERN_OPTION,
    str,
    doc="Folders by date, such as `year=%Y/month=%m`, instead of by columns.",
    since=_SINCE,
)
_TIME_ZONE: Final = Option(
    TIME_ZONE_OPTION,
    str,
    default="UTC",
    doc="Time zone of `partition.date-pattern`, for timestamps that have a zone.",
    since="3.0.0",
)


def _bucket_assigner(options: Options) -> BucketAssigner | None:
    columns = options.get(_COLUMNS)
    date_column, date_pattern = options.get(_DATE_COLUMN), options.get(_DATE_PATTERN)
    if (date_column is None) != (date_pattern is None):
        raise ConfigurationError(
            f"{DATE_COLUMN_OPTION!r} and {PATTERN_OPTION!r} must be set together",
            expected="both or none",
            found="one",
            option=DATE_COLUMN_OPTION if date_column is None else PATTERN_OPTION,
        )
    if date_column is not None and date_pattern is not None:
        if columns:
            raise ConfigurationError(
                "rows are assigned to folders by columns or by a date, not by both",
                expected=f"{COLUMNS_OPTION!r} or {PATTERN_OPTION!r}",
                found="both",
                option=COLUMNS_OPTION,
            )
        zone = options[_TIME_ZONE]
        return BucketAssigner.date_pattern(date_column, date_pattern, time_zone=zone)
    if columns:
        return BucketAssigner.columns(*columns, keep_columns=options[_KEEP_COLUMNS])
    return None


class FileSinkOptions(
    Configured,
    scope="file sink",
    since=_SINCE,
    elsewhere={
        "checkpointlocation": "the pipeline keeps its state in its own checkpoint location; "
        "remove it",
        "partition.date-timezone": f"use {TIME_ZONE_OPTION!r}",
        **CsvOptions.OPTIONS.elsewhere,
        "mode": "an epoch only adds files; remove it",
        "maxrecordsperfile": "use 'sink.rolling-policy.row-count'",
        "sink.partition-commit.*": "a file is visible when its epoch is committed; remove it",
        "partition.time-extractor.*": "a file is visible when its epoch is committed; remove it",
    },
):
    """What to write and how: the settings of `FileSink`."""

    path: Setting[str, str | os.PathLike[str]] = option(
        "path",
        str,
        kw_only=False,
        validator=not_empty,
        doc="Target folder, as a path or a URL of any fsspec filesystem.",
    )
    format: Setting[FileFormat, FileFormat | Literal["csv", "json", "parquet"]] = option(
        "format", FileFormat, default=FileFormat.PARQUET, doc="File format."
    )
    compression: Setting[Compression, Compression | Literal["none", "gzip", "zstd"]] = option(
        "compression",
        Compression,
        default=Compression.NONE,
        doc="Compression of whole text files. For Parquet, set `parquet.compression`.",
    )
    bucket_assigner: Setting[BucketAssigner] = part(
        BucketAssigner,
        _COLUMNS,
        _KEEP_COLUMNS,
        _DATE_COLUMN,
        _DATE_PATTERN,
        _TIME_ZONE,
        build=_bucket_assigner,
        default=BucketAssigner.none,
        doc="Assigns each row to a folder. By default, all rows go to `path`.",
    )
    rolling_policy: Setting[RollingPolicy] = part(
        RollingPolicy,
        default=RollingPolicy,
        doc="When to complete a file before the end of the epoch.",
    )
    output_file: Setting[OutputFileConfig] = part(
        OutputFileConfig, default=OutputFileConfig, doc="Names of the finished files."
    )
    compaction: Setting[FileCompaction | None] = part(
        FileCompaction,
        *FileCompaction.OPTIONS,
        build=compaction_of,
        default=None,
        doc="Merges small files before they become visible. By default, every file is committed "
        "with its epoch.",
    )
    manifests: Setting[bool] = option(
        "sink.manifests",
        bool,
        default=False,
        since="3.0.0",
        doc="Whether the sink writes a manifest per epoch below `_manifests`, from which readers "
        "see whole epochs. Only the driver then commits, regardless of "
        "`sink.commit-tasks.threshold`.",
    )
    csv: Setting[CsvOptions] = part(CsvOptions, default=CsvOptions, doc="CSV dialect.")
    json: Setting[JsonOptions] = part(JsonOptions, default=JsonOptions, doc="JSON lines dialect.")
    parquet: Setting[ParquetOptions] = part(
        ParquetOptions, default=ParquetOptions, doc="Settings for writing Parquet."
    )
    storage_options: Setting[dict[str, Any], Mapping[str, Any] | None] = STORAGE_OPTIONS
    max_open_buckets: Setting[int] = option(
        "sink.max-open-buckets",
        int,
        unit="files",
        default=64,
        validator=positive,
        doc="Maximum number of files for which a writer holds a handle. Uncompressed local files "
        "beyond it stay open without a handle. For other files, the writer completes the least "
        "recently used one.",
    )
    buffer_size: Setting[int, int | str] = option(
        "sink.buffer-size",
        MEMORY_SIZE,
        default=16 * 1024 * 1024,
        validator=positive,
        doc="Maximum size of the rows buffered for one folder, at most 4 MiB for text formats. "
        "All folders together can buffer four times as much.",
    )
    parallelism: Setting[int | None] = option_like(SINK_PARALLELISM)
    commit_tasks_threshold: Setting[int] = option_like(SINK_COMMIT_TASKS_THRESHOLD, since="3.0.0")
