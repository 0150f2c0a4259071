# SPDX-License-Identifier: Apache-2.0
"""An exactly-once sink with leases and losses, for tests of the runtime."""

from __future__ import annotations

import json
import secrets
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from connectors_core.engine._faults import fault_point
from connectors_core.errors import FatalError
from connectors_core.sink import (
    CommitRequest,
    Committer,
    CommitterInitContext,
    CommittingSinkWriter,
    SupportsLeases,
    SupportsRewriting,
    WriterInitContext,
)
from connectors_core.testing.directory_sink import DirectorySink, DirectoryWriter, StagedFile

_LOSSES = "_losses"


@dataclass(frozen=True)
class SlotLease:
    """Slots for the writers of one job. Each attempt takes one."""

    generation: str
    slots: tuple[str, ...]


class LeasedDirectorySink(DirectorySink, SupportsRewriting):
    """A `DirectorySink` that stages files in a limited number of slots.

    It behaves like a system with leased transaction IDs. A new lease deletes the staged files of
    all owners. Two attempts in the same slot destroy each other's rows. A missing staged file
    counts as lost.

    Args:
        path: A local folder.
        attempts: The number of attempts per writer for which slots exist.
    """

    def __init__(self, path: str | Path, attempts: int = 4) -> None:
        super().__init__(path)
        self.attempts = attempts

    def create_writer(self, context: WriterInitContext) -> CommittingSinkWriter[StagedFile]:
        """Create a writer with one file, in its own slot."""
        return LeasedWriter(self.path, context)

    def create_committer(self, context: CommitterInitContext) -> Committer[StagedFile]:
        """Create a committer, which leases slots and renames files."""
        return _Committer(self.path, context.sink_uid, self.attempts)

    def lose(self, times: int = 1, *, subtask: int | None = None) -> None:
        """Make the next commits lose their committables.

        Args:
            times: The number of committables.
            subtask: The writer, or None for all.
        """
        folder = self.path / _LOSSES
        folder.mkdir(parents=True, exist_ok=True)
        for _ in range(times):
            (folder / secrets.token_hex(8)).write_text(json.dumps(subtask))

    def losses(self) -> int:
        """Return how many committables are still to be lost."""
        return len(list((self.path / _LOSSES).glob("*")))


class LeasedWriter(DirectoryWriter):
    """Writes one Arrow file, in a slot.

    Args:
        path: The folder of the sink.
        context: The context of the attempt.
    """

    def __init__(self, path: Path, context: WriterInitContext) -> None:
        lease = context.lease
        assert isinstance(lease, SlotLease)
        super().__init__(path, context, f"{lease.generation}.{self.slot(context)}")

    def slot(self, context: WriterInitContext) -> str:
        """Return a slot that no other attempt uses."""
        slots: tuple[str, ...] = context.lease.slots
        slot = next((slot for slot in slots if context.claim(slot)), None)
        if slot is None:
            raise FatalError("no slot is left for this attempt", found=f"{len(slots)} slots")
        return slot


class _Committer(Committer[StagedFile], SupportsLeases):
    def __init__(self, path: Path, uid: str, attempts: int) -> None:
        self._path = path
        self._staging = path / "_staging" / uid
        self._attempts = attempts

    def lease(self, checkpoint_id: int, number_of_writers: int) -> SlotLease:
        shutil.rmtree(self._staging, ignore_errors=True)
        slots = tuple(f"slot-{number}" for number in range(self._attempts * number_of_writers))
        return SlotLease(secrets.token_hex(4), slots)

    def commit(self, requests: Sequence[CommitRequest[StagedFile]]) -> None:
        for request in requests:
            final = self._path / request.committable.name
            staged = Path(request.committable.staged)
            if final.exists():
                request.signal_already_committed()
                continue
            if self._loses(request.committable):
                staged.unlink(missing_ok=True)
            if staged.exists():
                staged.rename(final)
            else:
                request.signal_lost()
            fault_point("directory_sink.committed")

    def _loses(self, file: StagedFile) -> bool:
        subtask = int(file.name.split("-")[1])
        for token in (self._path / _LOSSES).glob("*"):
            if json.loads(token.read_text()) in (None, subtask):
                token.unlink()
                return True
        return False

    def sweep(self, checkpoint_id: int) -> None:
        shutil.rmtree(self._staging / f"{checkpoint_id:010d}", ignore_errors=True)

    def recover(self, last_decided: int) -> None:
        shutil.rmtree(self._staging, ignore_errors=True)
