# SPDX-License-Identifier: Apache-2.0
"""The shared tools of a sink's unit suites: rows, writers, committers."""

from __future__ import annotations

import contextlib
import itertools
import pickle
import uuid
from collections.abc import Sequence
from typing import Any, Final

import pyarrow as pa
import pytest

from connectors_core.errors import ConfigurationError
from connectors_core.records import RecordErrorHandler, RecordPolicy
from connectors_core.sink import (
    CommitRequest,
    CommittableWithLineage,
    Committer,
    CommitterInitContext,
    StatefulSinkWriter,
    SupportsCommitTasks,
    SupportsLeases,
    SupportsPreCommitTopology,
    TwoPhaseCommittingSink,
    WriterInitContext,
)
from connectors_core.sink.messages import messages_in_order
from connectors_core.testing.context import ROWS, SinkExternalContext
from connectors_core.testing.data import assert_at_least, assert_exactly, make_rows

ROWS_PER_WRITER: Final = 20
WRITERS: Final = 4
_PIPELINE: Final = "0f0e0d0c0b0a09080706050403020100"
UID: Final = "out"


class SinkUnitTrial:
    """A case in progress: its external system, a sink, and the staged data.

    Args:
        context: The external system.
        seed: The seed of the rows.
        exactly_once: Whether each row is visible only once.
    """

    def __init__(
        self, context: SinkExternalContext, seed: int, *, exactly_once: bool = True
    ) -> None:
        self.context = context
        self.sink: TwoPhaseCommittingSink[Any] = self._two_phase(context.create_sink())
        self.rows: dict[int, list[pa.Table]] = {}
        self.states: list[Any] = []
        # A system that cases share may have what another case has left.
        self._pipeline = uuid.uuid4().hex
        self._seed = seed
        self._exactly_once = exactly_once
        self._attempts = itertools.count()
        self._jobs: dict[tuple[str, int], _Job] = {}
        self._leasing = contextlib.ExitStack()

    def close(self) -> None:
        """Close the committers with leases."""
        self._leasing.close()

    @staticmethod
    def _two_phase(sink: object) -> TwoPhaseCommittingSink[Any]:
        if not isinstance(sink, TwoPhaseCommittingSink):
            raise ConfigurationError(
                f"{type(sink).__name__} has no committer",
                expected="a TwoPhaseCommittingSink",
                hint="leave this suite out",
            )
        return sink

    def stage(
        self,
        epoch: int,
        *,
        writers: int = 1,
        first: int = 0,
        rows: int = ROWS_PER_WRITER,
        uid: str = UID,
    ) -> list[Any]:
        """Stage rows of an epoch, and return the committables that a decision would have.

        Args:
            epoch: The epoch, whose number is the split of its rows.
            writers: The number of writers.
            first: The number of the first writer in the epoch.
            rows: The number of rows per writer.
            uid: The uid of the sink in the pipeline.
        """
        staged: list[CommittableWithLineage[Any]] = []
        tables = self.rows.setdefault(epoch, [])
        for subtask in range(first, first + writers):
            table = make_rows(epoch, len(tables) * ROWS_PER_WRITER, rows, self._seed)
            tables.append(table)
            with contextlib.closing(self.writer(epoch, subtask, uid=uid)) as writer:
                for batch in table.to_batches(max_chunksize=7):
                    writer.write(batch)
                writer.flush()
                staged += [
                    CommittableWithLineage(
                        committable=each, checkpoint_id=epoch, subtask_id=subtask
                    )
                    for each in writer.prepare_commit()
                ]
                if isinstance(writer, StatefulSinkWriter):
                    self.states += writer.snapshot_state(epoch)
        if not isinstance(self.sink, SupportsPreCommitTopology):
            return [each.committable for each in staged]
        messages = messages_in_order(
            staged, checkpoint_id=epoch, number_of_subtasks=first + writers
        )
        return list(self.sink.add_pre_commit_topology(messages))

    def fail_writer(self, epoch: int) -> None:
        """Make a writer fail in the middle of its rows."""
        table = make_rows(epoch, 0, ROWS_PER_WRITER, self._seed + 1)
        with contextlib.closing(self.writer(epoch, 0)) as writer:
            for batch in table.to_batches():
                writer.write(batch)

    def lease(self, epoch: int) -> None:
        """Lease resources to the writers of an epoch, before the first of them."""
        self._job(epoch, UID)

    def new_job(self, epoch: int, *, uid: str = UID) -> None:
        """Use a new job for the later writers of an epoch."""
        self._jobs.pop((uid, epoch), None)

    def writer(
        self, epoch: int, subtask: int, *, uid: str = UID, attempt_number: int | None = None
    ) -> Any:
        """Create a writer for a new attempt."""
        attempt = next(self._attempts)
        job = self._job(epoch, uid)
        context = writer_context(
            pipeline_id=self._pipeline,
            sink_uid=uid,
            checkpoint_id=epoch,
            subtask_id=subtask,
            attempt_number=attempt if attempt_number is None else attempt_number,
            nonce=f"{attempt:08x}",
            lease=job.lease,
            claim=job.claim,
        )
        return self.sink.create_writer(context)

    def _job(self, epoch: int, uid: str) -> _Job:
        """Return the job whose writers write an epoch. Its first writer takes its lease."""
        if (uid, epoch) not in self._jobs:
            committer = self.committer(uid=uid)
            self._leasing.callback(committer.close)
            lease = None
            if isinstance(committer, SupportsLeases):
                lease = pickle.loads(pickle.dumps(committer.lease(epoch, WRITERS)))
            self._jobs[uid, epoch] = _Job(lease)
        return self._jobs[uid, epoch]

    def committer(self, *, uid: str = UID) -> Committer[Any]:
        """Create a committer, as in a new driver."""
        return self.sink.create_committer(
            CommitterInitContext(pipeline_id=self._pipeline, sink_uid=uid)
        )

    def task_committer(self) -> Committer[Any]:
        """Create a committer of a task, for a sink that has them."""
        sink = self.sink
        if not isinstance(sink, SupportsCommitTasks) or sink.commit_tasks() is None:
            pytest.skip("only the driver commits for this sink")
        sent: SupportsCommitTasks[Any] = pickle.loads(pickle.dumps(sink))
        return sent.create_task_committer(
            CommitterInitContext(pipeline_id=self._pipeline, sink_uid=UID)
        )

    def assert_visible(self, *epochs: int) -> None:
        """Check that a reader sees the rows of these epochs, once if guaranteed, and no others."""
        expected = [table for epoch in epochs for table in self.rows[epoch]]
        assert_rows = assert_exactly if self._exactly_once else assert_at_least
        assert_rows(self.context.read_back(), expected)

    def assert_nothing_left(self) -> None:
        """Check that no staged data is left."""
        left = list(self.context.leftovers())
        assert not left, f"staged data remains: {', '.join(left[:5])}"


class _Job:
    """State that the attempts of one job share."""

    def __init__(self, lease: Any) -> None:
        self.lease = lease
        self._taken: set[str] = set()

    def claim(self, name: str) -> bool:
        """Return whether the name is claimed for the first time."""
        free = name not in self._taken
        self._taken.add(name)
        return free


def writer_context(**given: Any) -> WriterInitContext:
    """Return the context of a writer of the suites' rows, with typical values as defaults."""
    known: dict[str, Any] = {
        "pipeline_id": _PIPELINE,
        "sink_uid": UID,
        "checkpoint_id": 0,
        "subtask_id": 0,
        "attempt_number": 0,
        "nonce": "0",
        "schema": ROWS,
        "record_errors": RecordErrorHandler(RecordPolicy.fail()),
    }
    return WriterInitContext(**known | given)


def commit(committer: Committer[Any], committables: Sequence[Any]) -> list[CommitRequest[Any]]:
    """Commit with a committer, and return the requests with their outcomes."""
    requests = [CommitRequest(each) for each in committables]
    committer.commit(requests)
    return requests
