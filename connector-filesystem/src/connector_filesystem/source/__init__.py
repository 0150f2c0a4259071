# SPDX-License-Identifier: Apache-2.0
"""The file source."""

from connector_filesystem.source.columns import FileMetadata, OnUnreadable, SchemaChange
from connector_filesystem.source.enumerator import FileEnumeratorState
from connector_filesystem.source.errors import SchemaChangedError
from connector_filesystem.source.file_source import FILE_SOURCE_OPTIONS, FileSource
from connector_filesystem.source.memory import FileOrder
from connector_filesystem.source.paths import PathTime
from connector_filesystem.source.split import FileSplit

__all__ = [
    "FILE_SOURCE_OPTIONS",
    "FileEnumeratorState",
    "FileMetadata",
    "FileOrder",
    "FileSource",
    "FileSplit",
    "OnUnreadable",
    "PathTime",
    "SchemaChange",
    "SchemaChangedError",
]
