# SPDX-License-Identifier: Apache-2.0
"""A file source and an exactly-once file sink."""

from connector_filesystem.formats import (
    Compression,
    CsvOptions,
    Format,
    JsonOptions,
    ParquetOptions,
)
from connector_filesystem.sink import (
    FILE_SINK_OPTIONS,
    BucketAssigner,
    FileCommittable,
    FileSink,
    KeyedFileSink,
    OpenFile,
    OutputFileConfig,
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
    "CsvOptions",
    "FileCommittable",
    "FileOrder",
    "FileSink",
    "FileSource",
    "FileSplit",
    "FileTable",
    "Format",
    "JsonOptions",
    "KeyedFileSink",
    "MetadataColumn",
    "OpenFile",
    "OutputFileConfig",
    "ParquetOptions",
    "PathTime",
    "RollingPolicy",
    "SchemaChange",
    "SchemaChangedError",
]

check_spark("connector-filesystem")
