# SPDX-License-Identifier: Apache-2.0
"""An exactly-once sink whose pre-commit topology holds files over epochs, for tests."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path

import pyarrow as pa

from connectors_core.sink import (
    CombinedCommittables,
    Committer,
    CommitterInitContext,
    HeldCommittable,
    SupportsPreCommitTopologyOverEpochs,
)
from connectors_core.testing.compacting_sink import KeepingCommitter
from connectors_core.testing.directory_sink import DirectorySink, StagedFile, read_files


class HoldingDirectorySink(DirectorySink, SupportsPreCommitTopologyOverEpochs[StagedFile]):
    """A `DirectorySink` that combines a number of files of several epochs, in order.

    Args:
        path: A local folder.
        files: The number of files to combine.
        max_held: The number of held files above which all are combined.
        max_time: The time after which fewer files are combined.
    """

    def __init__(
        self,
        path: str | Path,
        *,
        files: int = 4,
        max_held: int = 1000,
        max_time: timedelta = timedelta(hours=1),
    ) -> None:
        super().__init__(path)
        self._files, self._max_held, self._max_time = files, max_held, max_time

    def create_committer(self, context: CommitterInitContext) -> Committer[StagedFile]:
        """Create a committer, which keeps held files."""
        staging = self.path / "_staging" / context.sink_uid
        return KeepingCommitter(super().create_committer(context), staging)

    def add_pre_commit_topology_over_epochs(
        self,
        held: Sequence[HeldCommittable[StagedFile]],
        checkpoint_id: int,
        *,
        everything: bool,
    ) -> Sequence[CombinedCommittables[StagedFile]]:
        """Combine held files."""
        groups = [tuple(held[at : at + self._files]) for at in range(0, len(held), self._files)]
        return [
            CombinedCommittables(held=group, committables=(self.combined(group, checkpoint_id),))
            for group in groups
            if everything or len(group) == self._files
        ]

    def combined(
        self, group: Sequence[HeldCommittable[StagedFile]], checkpoint_id: int
    ) -> StagedFile:
        """Stage a file with the rows of all files, for the epoch that commits it."""
        files = [each.committable for each in group]
        rows = read_files(Path(file.staged) for file in files)
        folder = Path(files[0].staged).parents[1] / f"{checkpoint_id:010d}"
        folder.mkdir(exist_ok=True)
        staged = folder / f"combined-{files[0].name}"
        with pa.OSFile(str(staged), "wb") as sink, pa.ipc.new_stream(sink, rows.schema) as writer:
            writer.write_table(rows)
        return StagedFile(str(staged), files[0].name)

    def max_held_committables(self) -> int:
        """Return `max_held`."""
        return self._max_held

    def max_held_time(self) -> timedelta:
        """Return `max_time`."""
        return self._max_time
