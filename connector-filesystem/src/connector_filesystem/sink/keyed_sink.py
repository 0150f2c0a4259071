# SPDX-License-Identifier: Apache-2.0
"""A sink that keeps Parquet files equal to a table by applying its changes by key."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from connector_filesystem.formats import FileFormat
from connector_filesystem.new_files import check_creates_files
from connector_filesystem.sink.contents import has_records
from connector_filesystem.sink.file_sink import FileSink
from connector_filesystem.sink.keyed_writer import KeyedFileWriter
from connector_filesystem.sink.overwrite import existing_files
from connector_filesystem.sink.replacement import FileReplacement, ReplacingCommitter
from connector_filesystem.table_logs import refuse_table
from connectors_core.clients import SupportsConnectionCheck
from connectors_core.errors import ConfigurationError, InvalidOptionError
from connectors_core.lineage import LineageDataset, LineageVertexProvider
from connectors_core.options import RecordedOption
from connectors_core.secrets import mask_url
from connectors_core.serialization import JsonDataclassSerializer, VersionedSerializer
from connectors_core.sink import (
    ROW_KIND_COLUMN,
    CommittableMessage,
    CommitterInitContext,
    SupportsPartitioning,
    SupportsPreCommitTopology,
    SupportsPreWriteTopology,
    TwoPhaseCommittingSink,
    WriterInitContext,
    committables_of,
)

__all__ = ["KeyedFileSink"]

_KEY_TYPES: Final = (
    pa.types.is_integer,
    pa.types.is_boolean,
    pa.types.is_string,
    pa.types.is_large_string,
    pa.types.is_binary,
    pa.types.is_date,
    pa.types.is_timestamp,
    pa.types.is_decimal,
)


@dataclass(frozen=True)
class KeyedFileSink(
    TwoPhaseCommittingSink[FileReplacement],
    SupportsPreWriteTopology,
    SupportsPreCommitTopology[FileReplacement],
    SupportsPartitioning,
    SupportsConnectionCheck,
    LineageVertexProvider,
):
    """Applies inserts, updates, and deletions by key to Parquet files, exactly once.

    Each epoch rewrites the folders that its changes touch: the rows of their committed files
    without those of the changed keys, and the last row of each changed key. All changes of a folder
    go to one writer, whose memory is bounded by them. The files are a plain table for any reader.
    While a commit replaces a folder, a reader can see its old files and its new ones together.

    The records of the committed files are below `<path>/_contents`. One pipeline at a time may
    write the folder.

    Attributes:
        files: Writes the files. Its buckets must depend only on columns of the key.
        key_columns: The columns that identify a row. They are never null.

    Raises:
        ConfigurationError: The format is not Parquet, or the key does not determine the folder.
    """

    files: FileSink
    key_columns: tuple[str, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "key_columns", tuple(self.key_columns))
        if not self.key_columns:
            raise ConfigurationError("there are no key columns", expected="at least one column")
        if self.files.format is not FileFormat.PARQUET:
            raise InvalidOptionError(
                "the rows of a table with a key are read again, with their types",
                expected=FileFormat.PARQUET,
                found=self.files.format,
                option="format",
            )
        if self.files.compaction is not None and self.files.compaction.enabled:
            raise InvalidOptionError(
                "each epoch rewrites the folders that its changes touch, so nothing can be merged",
                expected="not set",
                found="compaction",
                option="auto-compaction",
            )
        if self.files.manifests:
            raise InvalidOptionError(
                "a table with a key keeps its own records of files",
                expected="not set",
                found="true",
                option="sink.manifests",
            )
        folder = self.files.bucket_assigner.folder_columns()
        if folder is None or not set(folder) <= set(self.key_columns):
            raise ConfigurationError(
                "the key of a row does not determine a folder of its own, so an update could leave "
                "the old row in another one",
                expected=f"folders by some of the key columns {', '.join(self.key_columns)}",
                found="folders that values share" if folder is None else ", ".join(folder),
                option="partition.columns",
                hint="add the partition columns to the PRIMARY KEY",
            )
        if not folder and self.files.parallelism not in {None, 1}:
            raise InvalidOptionError(
                "one writer has all changes of a folder",
                expected="one, or partition columns",
                found=self.files.parallelism,
                option="sink.parallelism",
            )

    def add_pre_write_topology(self, df: Any) -> Any:
        """Bring all changes of a folder to one writer, in their order. Driver."""
        columns = self.writer_keys()
        return df.repartition(*columns) if columns else df.repartition(1)

    def partition_columns(self) -> Sequence[str]:
        """Return the columns that determine the folder of a row."""
        return self.files.partition_columns()

    def writer_keys(self) -> Sequence[str]:
        """Return the columns of the folder."""
        return self.files.partition_columns()

    def writer_parallelism(self) -> int | None:
        """Return that of the files."""
        return self.files.parallelism

    def recorded_options(self, schema: pa.Schema) -> Sequence[RecordedOption]:
        """Those of the files, and the key."""
        name, value = f"key in {mask_url(self.files.location.url)}", ", ".join(self.key_columns)
        key = RecordedOption(name=name, value=value, hint="keep it, or write to another path")
        return [*self.files.recorded_options(_rows_of(schema)), key]

    def validate(self, schema: pa.Schema) -> None:
        """Refuse rows without their key, or that files cannot hold. Driver."""
        self.files.validate(_rows_of(schema))
        for name in self.key_columns:
            kind = schema.field(name).type if name in schema.names else None
            if kind is None or not any(accepts(kind) for accepts in _KEY_TYPES):
                raise ConfigurationError(
                    f"the column {name!r} cannot be part of the key",
                    expected="a column of texts, integers, decimals, booleans, dates, or times",
                    found="no column" if kind is None else kind,
                )

    def create_writer(self, context: WriterInitContext) -> KeyedFileWriter:
        """Create the writer of one task in one epoch. Executor."""
        return KeyedFileWriter(
            self.files, _rows_of(context.schema), context, key_columns=self.key_columns
        )

    def add_pre_commit_topology(
        self, messages: Iterable[CommittableMessage[FileReplacement]]
    ) -> Sequence[FileReplacement]:
        """Check that one writer has rewritten each folder. Driver."""
        found = committables_of(messages)
        folders = Counter(each.contents.folder for each in found if each.contents is not None)
        several = sorted(folder for folder, count in folders.items() if count > 1)
        if several:
            raise ConfigurationError(
                f"several writers have rewritten the folder {several[0]!r}",
                expected="one writer for all rows of a folder",
                option="sink.parallelism",
                hint="set the parallelism of the FileSink, not that of sink_to",
            )
        return found

    def create_committer(self, context: CommitterInitContext) -> ReplacingCommitter:
        """Create the committer. Driver.

        Raises:
            ConfigurationError: The folder has files that this sink has not written, or its storage
                cannot keep the records of the table.
        """
        location = self.files.location
        if not has_records(location) and existing_files(location):
            raise ConfigurationError(
                f"{location.url_of(location.root)} has files that no key identifies",
                expected="an empty folder, or one that this sink has written",
                found="files that another sink has written",
                option="path",
                hint="choose another folder, and insert the rows of these files into it",
            )
        refuse_table(location)
        check_creates_files(location, "the records of a table with a key")
        return ReplacingCommitter(location, context)

    def committable_serializer(self) -> VersionedSerializer[FileReplacement]:
        """Return the serializer of committables: JSON, layout 1."""
        return JsonDataclassSerializer(FileReplacement, version=1)

    def check_connection(self, timeout: float) -> None:
        """Check that the filesystem responds. Driver."""
        self.files.check_connection(timeout)

    def lineage_datasets(self) -> tuple[LineageDataset, ...]:
        """The folder."""
        return self.files.lineage_datasets()


def _rows_of(schema: pa.Schema) -> pa.Schema:
    """Return the columns of the rows, without the kinds of changes."""
    return pa.schema([each for each in schema if each.name != ROW_KIND_COLUMN])
