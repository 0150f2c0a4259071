# SPDX-License-Identifier: Apache-2.0
"""A file source and an exactly-once file sink."""

from connector_filesystem.formats import (
    Compression,
    CsvOptions,
    Format,
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
    FileOrder,
    FileSource,
    FileSplit,
    MetadataColumn,
    PathTime,
    SchemaChange,
    SchemaChangedError,
)
from connector_filesystem.table import FILE_TABLE_OPTIONS, FileTable
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
    "FileOrder",
    "FileSink",
    "FileSource",
    "FileSplit",
    "FileTable",
    "Format",
    "IdenticalFileCompactor",
    "InputFile",
    "JsonOptions",
    "KeyedFileSink",
    "MergedFile",
    "Merging",
    "MetadataColumn",
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

check_spark("connector-filesystem")
