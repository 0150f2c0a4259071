# SPDX-License-Identifier: Apache-2.0
"""The shared tools of a sink's unit suites: rows, writers, committers."""

from __future__ import annotations

import contextlib
import itertools
import pickle
from collections.abc import Sequence
from typing import Any, Final

import pyarrow as pa

from connectors_core.errors import ConfigurationError
from connectors_core.records import RecordErrorHandler, RecordPolicy
from connectors_core.sink import (
    CommitRequest,
    Committer,
    CommitterInitContext,
    StatefulSinkWriter,
    SupportsLeases,
    TwoPhaseCommittingSink,
    WriterInitContext,
)
from connectors_core.testing.context import ROWS, SinkExternalContext
from connectors_core.testing.data import assert_exactly, make_rows

ROWS_PER_WRITER: Final = 20
WRITERS: Final = 4
_PIPELINE: Final = "0f0e0d0c0b0a09080706050403020100"
UID: Final = "out"


class SinkUnitTrial:
    """One case at work: its external system, a sink, and what was staged."""

    def __init__(self, context: SinkExternalContext, seed: int) -> None:
        self.context = context
        self.sink: TwoPhaseCommittingSink[Any] = self._two_phase(context.create_sink())
        self.rows: dict[int, list[pa.Table]] = {}
        self.states: list[Any] = []
        self._seed = seed
        self._attempts = itertools.count()
        self._jobs: dict[tuple[str, int], _Job] = {}
        self._leasing = contextlib.ExitStack()

    def close(self) -> None:
        """Close the committers that leased."""
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
        """Have writers stage rows of an epoch; returns the committables.

        Args:
            epoch: The epoch; its rows have its number as split.
            writers: Number of writers.
            first: Number of the first one within the epoch.
            rows: Rows of each.
            uid: The sink within the pipeline.
        """
        committables: list[Any] = []
        tables = self.rows.setdefault(epoch, [])
        for subtask in range(first, first + writers):
            table = make_rows(epoch, len(tables) * ROWS_PER_WRITER, rows, self._seed)
            tables.append(table)
            with contextlib.closing(self.writer(epoch, subtask, uid=uid)) as writer:
                for batch in table.to_batches(max_chunksize=7):
                    writer.write(batch)
                writer.flush()
                committables += writer.prepare_commit()
                if isinstance(writer, StatefulSinkWriter):
                    self.states += writer.snapshot_state(epoch)
        return committables

    def fail_writer(self, epoch: int) -> None:
        """Have a writer fail in the middle of its rows."""
        table = make_rows(epoch, 0, ROWS_PER_WRITER, self._seed + 1)
        with contextlib.closing(self.writer(epoch, 0)) as writer:
            for batch in table.to_batches():
                writer.write(batch)

    def new_job(self, epoch: int, *, uid: str = UID) -> None:
        """Have the writers of an epoch from now on be those of another job."""
        self._jobs.pop((uid, epoch), None)

    def writer(
        self, epoch: int, subtask: int, *, uid: str = UID, attempt_number: int | None = None
    ) -> Any:
        """A writer of a new attempt."""
        attempt = next(self._attempts)
        job = self._job(epoch, uid)
        context = writer_context(
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
        """The job whose writers write an epoch; its lease is taken when the first one is made."""
        if (uid, epoch) not in self._jobs:
            committer = self.committer(uid=uid)
            self._leasing.callback(committer.close)
            lease = None
            if isinstance(committer, SupportsLeases):
                lease = pickle.loads(pickle.dumps(committer.lease(epoch, WRITERS)))
            self._jobs[uid, epoch] = _Job(lease)
        return self._jobs[uid, epoch]

    def committer(self, *, uid: str = UID) -> Committer[Any]:
        """A committer, as of a new life of the driver."""
        return self.sink.create_committer(CommitterInitContext(pipeline_id=_PIPELINE, sink_uid=uid))

    def assert_visible(self, *epochs: int) -> None:
        """A reader sees the rows of these epochs, each once, and no others."""
        expected = [table for epoch in epochs for table in self.rows[epoch]]
        assert_exactly(self.context.read_back(), expected)

    def assert_nothing_left(self) -> None:
        """Nothing staged is left behind."""
        left = list(self.context.leftovers())
        assert not left, f"left behind: {', '.join(left[:5])}"


class _Job:
    """What the attempts of one job share."""

    def __init__(self, lease: Any) -> None:
        self.lease = lease
        self._taken: set[str] = set()

    def claim(self, name: str) -> bool:
        """Return whether the name is claimed for the first time."""
        free = name not in self._taken
        self._taken.add(name)
        return free


def writer_context(**given: Any) -> WriterInitContext:
    """What a writer of the suites' rows knows of itself; what is not given is as it often is."""
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
    """Have a committer commit; returns the requests with what it said on them."""
    requests = [CommitRequest(each) for each in committables]
    committer.commit(requests)
    return requests
