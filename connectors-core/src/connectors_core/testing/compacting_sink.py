# SPDX-License-Identifier: Apache-2.0
"""An exactly-once sink that merges the files of several epochs, for tests of the runtime."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import pyarrow as pa

from connectors_core.sink import (
    CommitRequest,
    Committer,
    CommitterInitContext,
    CompactContext,
    CompactCoordinator,
    Compaction,
    Compactor,
    CompactRequest,
    HeldCommittable,
    SupportsCompaction,
    SupportsHeldCommittables,
)
from connectors_core.testing.directory_sink import DirectorySink, StagedFile, read_files


class CompactingDirectorySink(DirectorySink, SupportsCompaction[StagedFile]):
    """A `DirectorySink` that merges a number of files, in order.

    Args:
        path: A local folder.
        files: The number of files to merge.
        max_held: The number of held files above which epochs wait.
        max_wait: The time after which fewer files are merged.
        holds: Whether compaction is enabled. If it is not, the sink only drains.
        whole_epochs: Whether the files of an epoch become visible together.
    """

    def __init__(
        self,
        path: str | Path,
        *,
        files: int = 4,
        max_held: int = 1000,
        max_wait: timedelta = timedelta(hours=1),
        holds: bool = True,
        whole_epochs: bool = False,
    ) -> None:
        super().__init__(path)
        self._compaction = Compaction(
            coordinator=InGroups(files),
            compactor=_Merging(self.path),
            compactors=2,
            max_held=max_held,
            max_wait=max_wait,
            holds=holds,
            whole_epochs=whole_epochs,
        )

    def create_compaction(self) -> Compaction[StagedFile]:
        """Return how it merges files."""
        return self._compaction

    def create_committer(self, context: CommitterInitContext) -> Committer[StagedFile]:
        """Create a committer, which keeps held files."""
        staging = self.path / "_staging" / context.sink_uid
        return KeepingCommitter(super().create_committer(context), staging)


class KeepingCommitter(Committer[StagedFile], SupportsHeldCommittables[StagedFile]):
    """Removes staged files, except held ones.

    Args:
        committer: Commits files.
        staging: The folder of the sink's staged files.
    """

    def __init__(self, committer: Committer[StagedFile], staging: Path) -> None:
        self._committer = committer
        self._staging = staging

    def commit(self, requests: Sequence[CommitRequest[StagedFile]]) -> None:
        """Move files."""
        self._committer.commit(requests)

    def sweep(self, checkpoint_id: int) -> None:
        """Remove the files of an epoch."""
        self._committer.sweep(checkpoint_id)

    def sweep_others(self, checkpoint_id: int, held: Sequence[StagedFile]) -> None:
        """Remove the files of an epoch that are not held."""
        kept = {file.staged for file in held}
        for path in (self._staging / f"{checkpoint_id:010d}").glob("*"):
            if str(path) not in kept:
                path.unlink()

    def sweep_request(self, request_id: str) -> None:
        """Remove the merged files of a request."""
        shutil.rmtree(self._staging / f"compacted-{request_id}", ignore_errors=True)


@dataclass(frozen=True)
class InGroups(CompactCoordinator[StagedFile]):
    """Asks for groups of a number of files, in order."""

    files: int

    def requests(
        self,
        held: Sequence[HeldCommittable[StagedFile]],
        checkpoint_id: int,
        *,
        everything: bool,
    ) -> Sequence[CompactRequest[StagedFile]]:
        """Return the full groups, and at the end the rest."""
        groups = [held[at : at + self.files] for at in range(0, len(held), self.files)]
        return [
            CompactRequest(held=tuple(each))
            for each in groups
            if everything or len(each) == self.files
        ]


@dataclass(frozen=True)
class _Merging(Compactor[StagedFile]):
    path: Path

    def compact(
        self, committables: Sequence[StagedFile], context: CompactContext
    ) -> Sequence[StagedFile]:
        folder = self.path / "_staging" / context.sink_uid / f"compacted-{context.request_id}"
        folder.mkdir(parents=True, exist_ok=True)
        staged = folder / f"{context.attempt_number}-{context.nonce}"
        rows = read_files(Path(each.staged) for each in committables)
        with pa.OSFile(str(staged), "wb") as sink, pa.ipc.new_stream(sink, rows.schema) as writer:
            writer.write_table(rows)
        context.metric_group.inc("mergedFiles", len(committables))
        return [StagedFile(str(staged), committables[0].name)]
