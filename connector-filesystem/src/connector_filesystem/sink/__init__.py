# SPDX-License-Identifier: Apache-2.0
"""The exactly-once file sink (Flink's FileSink)."""

from connector_filesystem.sink.buckets import (
    DEFAULT_PARTITION,
    BucketAssigner,
    escape_path_name,
    unescape_path_name,
)
from connector_filesystem.sink.compact_strategy import FileCompactStrategy
from connector_filesystem.sink.compaction import FileCompaction
from connector_filesystem.sink.compactors import (
    ConcatFileCompactor,
    FileCompactor,
    IdenticalFileCompactor,
    InputFile,
    MergedFile,
    Merging,
    RecordWiseFileCompactor,
)
from connector_filesystem.sink.file_sink import FILE_SINK_OPTIONS, FileSink
from connector_filesystem.sink.keyed_sink import KeyedFileSink
from connector_filesystem.sink.rolling_policy import OpenFile, OutputFileConfig, RollingPolicy
from connector_filesystem.sink.writer import FileCommittable

__all__ = [
    "DEFAULT_PARTITION",
    "FILE_SINK_OPTIONS",
    "BucketAssigner",
    "ConcatFileCompactor",
    "FileCommittable",
    "FileCompactStrategy",
    "FileCompaction",
    "FileCompactor",
    "FileSink",
    "IdenticalFileCompactor",
    "InputFile",
    "KeyedFileSink",
    "MergedFile",
    "Merging",
    "OpenFile",
    "OutputFileConfig",
    "RecordWiseFileCompactor",
    "RollingPolicy",
    "escape_path_name",
    "unescape_path_name",
]
