# SPDX-License-Identifier: Apache-2.0
"""Files as a source and as an exactly-once sink."""

from connector_filesystem.formats import (
    Compression,
    CsvOptions,
    Format,
    JsonOptions,
    ParquetOptions,
)
from connector_filesystem.sink import (
    BucketAssigner,
    FileCommittable,
    FileSink,
    OpenFile,
    OutputFileConfig,
    RollingPolicy,
)

__all__ = [
    "BucketAssigner",
    "Compression",
    "CsvOptions",
    "FileCommittable",
    "FileSink",
    "Format",
    "JsonOptions",
    "OpenFile",
    "OutputFileConfig",
    "ParquetOptions",
    "RollingPolicy",
]
