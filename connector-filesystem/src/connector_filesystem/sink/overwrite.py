# SPDX-License-Identifier: Apache-2.0
"""The file sink of `INSERT OVERWRITE`, whose commit removes the replaced files."""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from connector_filesystem.filesystem import FileLocation
from connector_filesystem.listing import visible_files
from connector_filesystem.sink.buckets import bucket_problem
from connector_filesystem.sink.replacement import FileReplacement, ReplacingCommitter
from connector_filesystem.sink.writer import FileSinkWriter
from connectors_core.clients import SupportsConnectionCheck
from connectors_core.errors import ConfigurationError
from connectors_core.lineage import LineageDataset, LineageVertexProvider
from connectors_core.options import RecordedOption
from connectors_core.serialization import JsonDataclassSerializer, VersionedSerializer
from connectors_core.sink import (
    CommittableMessage,
    CommitterInitContext,
    CommittingSinkWriter,
    SupportsPreCommitTopology,
    TwoPhaseCommittingSink,
    WriterInitContext,
    committables_of,
)

if TYPE_CHECKING:
    from connector_filesystem.sink.file_sink import FileSink

__all__ = ["FileOverwrite", "ReplacingWriter", "existing_files"]


@dataclass(frozen=True, kw_only=True)
class FileOverwrite(
    TwoPhaseCommittingSink[FileReplacement],
    SupportsPreCommitTopology[FileReplacement],
    SupportsConnectionCheck,
    LineageVertexProvider,
):
    """Writes the files of a batch run, and removes files that existed before it.

    The decision of the run has the names of both. Its commit moves the new files to where readers
    see them, and then removes the others. After a crash, the next driver completes it.

    Attributes:
        sink: Writes the files.
        existing: The files before the run, relative to the target. Known only to the driver.
        partition: The values of all partition columns, for the partition to replace. Empty to
            replace the folders that receive rows, or all files if the sink has one folder. Known
            only to the driver.
    """

    sink: FileSink
    existing: tuple[str, ...] = field(repr=False)
    partition: Mapping[str, pa.Scalar]

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "existing": (), "partition": {}}

    def create_writer(self, context: WriterInitContext) -> ReplacingWriter:
        """Create the writer of one task. Executor."""
        return ReplacingWriter(self.sink.create_writer(context))

    def create_committer(self, context: CommitterInitContext) -> ReplacingCommitter:
        """Create the committer. Driver."""
        self.sink.check_storage()
        return ReplacingCommitter(self.sink.location, context, manifests=self.sink.manifests)

    def committable_serializer(self) -> VersionedSerializer[FileReplacement]:
        """Return the serializer of committables: JSON, layout 1."""
        return JsonDataclassSerializer(FileReplacement, version=1)

    def add_pre_commit_topology(
        self, messages: Iterable[CommittableMessage[FileReplacement]]
    ) -> Sequence[FileReplacement]:
        """Return one replacement, with the names of the files to remove. Driver."""
        files = tuple(file for each in committables_of(messages) for file in each.files)
        written = {posixpath.dirname(file.final_path) for file in files}
        if self.partition:
            folders = {self._static_folder()}
            if written - folders:
                raise ConfigurationError(
                    "the rows belong to other partitions than the one to replace",
                    expected=", ".join(folders),
                    found=", ".join(sorted(written - folders)),
                    option="partition",
                )
        elif self.sink.bucket_assigner.folder_columns() != ():
            folders = written
        else:
            return [FileReplacement(files=files, replaced=self.existing)]
        replaced = tuple(each for each in self.existing if not folders.isdisjoint(_above(each)))
        return [FileReplacement(files=files, replaced=replaced)] if files or replaced else []

    def writer_parallelism(self) -> int | None:
        """Return that of the sink."""
        return self.sink.writer_parallelism()

    def recorded_options(self, schema: pa.Schema) -> Sequence[RecordedOption]:
        """Return its path. Other options may change, as it replaces the former files."""
        return [each for each in self.sink.recorded_options(schema) if each.until_committed]

    def validate(self, schema: pa.Schema) -> None:
        """Refuse what the sink refuses. Driver."""
        self.sink.validate(schema)

    def check_connection(self, timeout: float) -> None:
        """Check that the filesystem responds. Driver."""
        self.sink.check_connection(timeout)

    def lineage_datasets(self) -> tuple[LineageDataset, ...]:
        """Those of the sink."""
        return self.sink.lineage_datasets()

    def _static_folder(self) -> str:
        row = pa.RecordBatch.from_pydict(
            {name: pa.array([value.as_py()], value.type) for name, value in self.partition.items()}
        )
        buckets = self.sink.bucket_assigner.assign(row)
        folder = "" if buckets is None else buckets[0].as_py()
        problem = bucket_problem(folder)
        if problem is not None:
            raise ConfigurationError(
                f"the partition to replace has no folder: {problem}", option="partition"
            )
        return str(folder)


class ReplacingWriter(CommittingSinkWriter[FileReplacement]):
    """Writes files that replace others. Executor.

    Args:
        writer: Writes the files.
    """

    def __init__(self, writer: FileSinkWriter) -> None:
        self._writer = writer

    def write(self, batch: pa.RecordBatch) -> None:
        """Buffer the rows of a batch."""
        self._writer.write(batch)

    def flush(self) -> None:
        """Stage all files."""
        self._writer.flush()

    def prepare_commit(self) -> Sequence[FileReplacement]:
        """Return the staged files."""
        files = tuple(self._writer.prepare_commit())
        return [FileReplacement(files=files)] if files else []

    def close(self) -> None:
        """Close all handles."""
        self._writer.close()


def existing_files(location: FileLocation) -> tuple[str, ...]:
    """Return the files that readers of a folder see, relative to it. Driver.

    Raises:
        RetryableError: The filesystem cannot list it now.
    """
    return tuple(location.relative(file.path) for file in visible_files(location))


def _above(path: str) -> set[str]:
    """Return the folders above a path."""
    parts = path.split("/")[:-1]
    return {"/".join(parts[:count]) for count in range(len(parts) + 1)}
