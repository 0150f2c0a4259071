# SPDX-License-Identifier: Apache-2.0
"""A file source and an exactly-once file sink."""

from connector_filesystem.formats import (
    Compression,
    CsvOptions,
    FileFormat,
    JsonOptions,
    ParquetOptions,
)
from connector_filesystem.manifests import manifest_files
from connector_filesystem.sink import (
    FILE_SINK_OPTIONS,
    BucketAssigner,
    ConcatFileCompactor,
    FileCommittable,
    FileCompaction,
    FileCompactor,
    FileCompactStrategy,
    FileSink,
    IdenticalFileCompactor,
    InputFile,
    KeyedFileSink,
    MergedFile,
    Merging,
    OpenFile,
    OutputFileConfig,
    RecordWiseFileCompactor,
    RollingPolicy,
)
from connector_filesystem.source import (
    FILE_SOURCE_OPTIONS,
    FileMetadata,
    FileOrder,
    FileSource,
    FileSplit,
    OnUnreadable,
    PathTime,
    SchemaChange,
    SchemaChangedError,
)
from connector_filesystem.table import FILE_TABLE_OPTIONS, FileTable
from connectors_core.annotations import removed_names
from connectors_core.compatibility import check_spark

__all__ = [
    "FILE_SINK_OPTIONS",
    "FILE_SOURCE_OPTIONS",
    "FILE_TABLE_OPTIONS",
    "BucketAssigner",
    "Compression",
    "ConcatFileCompactor",
    "CsvOptions",
    "FileCommittable",
    "FileCompactStrategy",
    "FileCompaction",
    "FileCompactor",
    "FileFormat",
    "FileMetadata",
    "FileOrder",
    "FileSink",
    "FileSource",
    "FileSplit",
    "FileTable",
    "IdenticalFileCompactor",
    "InputFile",
    "JsonOptions",
    "KeyedFileSink",
    "MergedFile",
    "Merging",
    "OnUnreadable",
    "OpenFile",
    "OutputFileConfig",
    "ParquetOptions",
    "PathTime",
    "RecordWiseFileCompactor",
    "RollingPolicy",
    "SchemaChange",
    "SchemaChangedError",
    "manifest_files",
]

__getattr__ = removed_names(
    __name__,
    {"Format": "FileFormat, with JSON for JSON_LINES", "MetadataColumn": "FileMetadata"},
)

check_spark("connector-filesystem")
