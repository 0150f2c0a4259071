# SPDX-License-Identifier: Apache-2.0
"""An exactly-once sink into a local folder, for tests of the runtime and of sources."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from connectors_core.engine._faults import fault_point
from connectors_core.errors import DataLossError
from connectors_core.lineage import LineageDataset, LineageVertexProvider, file_dataset
from connectors_core.serialization import JsonDataclassSerializer, VersionedSerializer
from connectors_core.sink import (
    CommitRequest,
    Committer,
    CommitterInitContext,
    CommittingSinkWriter,
    TwoPhaseCommittingSink,
    WriterInitContext,
)


@dataclass(frozen=True)
class StagedFile:
    """An Arrow file that waits for its commit."""

    staged: str
    name: str


class DirectorySink(TwoPhaseCommittingSink[StagedFile], LineageVertexProvider):
    """Writes each epoch's rows as Arrow files that appear with the epoch's commit.

    Args:
        path: A local folder.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)

    def lineage_datasets(self) -> tuple[LineageDataset, ...]:
        """The folder."""
        return (file_dataset(str(self.path.absolute())),)

    def create_writer(self, context: WriterInitContext) -> CommittingSinkWriter[StagedFile]:
        """Create a writer with one file."""
        return DirectoryWriter(self.path, context)

    def create_committer(self, context: CommitterInitContext) -> Committer[StagedFile]:
        """Create a committer, which renames files."""
        return _Committer(self.path, context.sink_uid)

    def committable_serializer(self) -> VersionedSerializer[StagedFile]:
        """JSON."""
        return JsonDataclassSerializer(StagedFile)

    def read(self, epoch: int | None = None) -> pa.Table:
        """Return the committed rows of all epochs in order, or of one epoch."""
        prefix = "" if epoch is None else f"{epoch:010d}-"
        return read_files(sorted(self.path.glob(f"{prefix}*.arrow")))

    def staged(self) -> list[Path]:
        """Return the files that were staged and neither committed nor swept."""
        return [path for path in self.path.glob("_staging/*/*/*") if path.is_file()]


def read_files(files: Iterable[Path]) -> pa.Table:
    """Return the rows of some files, in their order."""
    tables = []
    for file in files:
        with pa.OSFile(str(file)) as source, pa.ipc.open_stream(source) as reader:
            tables.append(reader.read_all())
    return pa.concat_tables(tables, promote_options="default") if tables else pa.table({})


class DirectoryWriter(CommittingSinkWriter[StagedFile]):
    """Writes one Arrow file.

    Args:
        path: The folder of the sink.
        context: The context of the attempt.
        staged_as: The name of the file until its commit. The default contains the attempt.
    """

    def __init__(
        self, path: Path, context: WriterInitContext, staged_as: str | None = None
    ) -> None:
        name = f"{context.checkpoint_id:010d}-{context.attempt_name}.arrow"
        folder = path / "_staging" / context.sink_uid / f"{context.checkpoint_id:010d}"
        folder.mkdir(parents=True, exist_ok=True)
        self._file = StagedFile(str(folder / (staged_as or name)), name)
        self._sink = pa.OSFile(self._file.staged, "wb")
        self._writer = pa.ipc.new_stream(self._sink, context.schema)

    def write(self, batch: pa.RecordBatch) -> None:
        """Append rows."""
        self._writer.write_batch(batch)

    def flush(self) -> None:
        """Close the file."""
        self._writer.close()
        self._sink.close()

    def prepare_commit(self) -> Sequence[StagedFile]:
        """Return the file."""
        return [self._file]

    def close(self) -> None:
        """Close the file."""
        self._sink.close()


class _Committer(Committer[StagedFile]):
    def __init__(self, path: Path, uid: str) -> None:
        self._path = path
        self._staging = path / "_staging" / uid

    def commit(self, requests: Sequence[CommitRequest[StagedFile]]) -> None:
        for request in requests:
            file = request.committable
            final = self._path / file.name
            if final.exists():
                request.signal_already_committed()
            elif Path(file.staged).exists():
                Path(file.staged).rename(final)
            else:
                request.signal_failed(DataLossError(f"{file.staged} is gone"))
            fault_point("directory_sink.committed")

    def sweep(self, checkpoint_id: int) -> None:
        shutil.rmtree(self._staging / f"{checkpoint_id:010d}", ignore_errors=True)
