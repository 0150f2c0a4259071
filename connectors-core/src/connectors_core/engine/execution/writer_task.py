# SPDX-License-Identifier: Apache-2.0
"""Writes the rows of one task of an epoch, with the writers of all sinks. Executor."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from connectors_core.engine._faults import fault_point
from connectors_core.engine.execution.claims import Claims
from connectors_core.engine.execution.closing import closed_after
from connectors_core.engine.execution.dead_letter_spools import spool_factory
from connectors_core.engine.execution.task_messages import TaskMessages
from connectors_core.engine.protocol import Versioned, WriterStates, claims_path
from connectors_core.engine.state import StateStore
from connectors_core.errors import FatalError, UnsupportedError
from connectors_core.metrics import MetricGroup
from connectors_core.records import RecordErrorHandler, RecordPolicy
from connectors_core.schema.nested_columns import cast_column
from connectors_core.sink.abilities import SupportsRewriting
from connectors_core.sink.sink import (
    CommittingSinkWriter,
    Sink,
    SinkWriter,
    TwoPhaseCommittingSink,
    WriterInitContext,
)
from connectors_core.sink.stateful_sink import StatefulSink, StatefulSinkWriter

BRANCH_COLUMN = "_branch"


@dataclass(frozen=True, kw_only=True)
class SinkTask:
    """A sink and the settings of its writers.

    Attributes:
        uid: Its uid.
        sink: The sink.
        schema: Arrow schema of its rows.
        branch: The branch of the tagged union that it writes; None without a union.
        policy: Handles rows that cannot be written.
        lease: The lease that its committer gave to the writers of this job.
        subtasks: The tasks whose rows are to be written; None for all. In a rewrite, the rows of
            the other tasks are already written.
        writers: Number of writers, if it is fixed.
        states: Of a stateful sink, the states that each writer restores.
    """

    uid: str
    sink: Sink
    schema: pa.Schema
    branch: int | None = None
    policy: RecordPolicy = field(default_factory=RecordPolicy.fail)
    lease: Any = None
    subtasks: frozenset[int] | None = None
    writers: int | None = None
    states: WriterStates = ()

    def written_by(self, subtask: int) -> bool:
        """Return whether a task writes to this sink."""
        return self.subtasks is None or subtask in self.subtasks


@dataclass(frozen=True, kw_only=True)
class WriteTask:
    """The work of all tasks of one epoch; sent to executors.

    Attributes:
        pipeline_id: The pipeline.
        epoch: The epoch.
        store: The state location of the query.
        sinks: The sinks to write to.
        job: A new value each time the epoch is written. A name that an attempt claims in one job is
            free again in the next job, which has its own leases.
    """

    pipeline_id: str
    epoch: int
    store: StateStore
    sinks: tuple[SinkTask, ...]
    job: str = field(default_factory=lambda: secrets.token_hex(8))

    def written_by(self, subtask: int) -> bool:
        """Return whether a task writes to any sink; otherwise it need not produce rows."""
        return any(sink.written_by(subtask) for sink in self.sinks)

    def with_leases(self, leases: Leases, number_of_writers: int) -> WriteTask:
        """Return the task with a lease for each sink that uses one. Driver.

        Args:
            leases: The sinks that use leases.
            number_of_writers: Tasks of the job.
        """
        sinks = (
            replace(sink, lease=leases[sink.uid](number_of_writers)) if sink.uid in leases else sink
            for sink in self.sinks
        )
        return replace(self, sinks=tuple(sinks))


Leases = Mapping[str, Callable[[int], Any]]
"""By sink uid, a function that returns the lease for a number of writers. Driver."""


@dataclass(frozen=True, kw_only=True)
class WriterMessage:
    """The summary and committables of one writer, returned through Spark's ``collect``.

    The states are those of a stateful sink. They are None if no row arrived and so no writer was
    created.
    """

    sink: str
    subtask: int
    rows: int
    bytes: int
    committables: tuple[Versioned, ...] = ()
    skipped: int = 0
    dead_letters: int = 0
    spool: str | None = None
    counters: dict[str, int] = field(default_factory=dict)
    states: tuple[Versioned, ...] | None = None

    @property
    def written(self) -> int:
        """Number of rows that were written, without bad rows."""
        return self.rows - self.skipped - self.dead_letters


WRITER_MESSAGES: Final = TaskMessages(WriterMessage)


def write_task(
    task: WriteTask, subtask: int, attempt: int, batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Run the writers of all sinks over the rows of one Spark task.

    Args:
        task: The epoch and its sinks.
        subtask: Spark's partition.
        attempt: Spark's attempt number.
        batches: The rows, with a branch column if the query is a union.

    Yields:
        One batch of :data:`WRITER_MESSAGES`: a message for every sink.
    """
    with ExitStack() as stack:
        writings = [_Writing(task, sink, subtask, attempt) for sink in task.sinks]
        for writing in writings:  # exits last, when it is known whether all were closed
            stack.push(writing.discard_spool_on_error)
        for writing in writings:
            stack.enter_context(closed_after(writing))
        for batch in batches:
            for writing in writings:
                writing.write(batch)
            fault_point("writer_wrote", epoch=task.epoch, subtask=subtask)
        fault_point("before_prepare", epoch=task.epoch, subtask=subtask)
        messages = WRITER_MESSAGES.encode(*(writing.finish() for writing in writings))
    fault_point("after_prepare", epoch=task.epoch, subtask=subtask)
    yield messages


class _Writing:
    """One sink in one task; the first row creates its writer."""

    def __init__(self, task: WriteTask, sink: SinkTask, subtask: int, attempt: int) -> None:
        self._sink = sink
        self._subtask = subtask
        nonce = secrets.token_hex(8)
        self._errors = RecordErrorHandler(
            sink.policy, spool_factory(task.store, sink.uid, f"{task.epoch:010d}")
        )
        self._context = WriterInitContext(
            pipeline_id=task.pipeline_id,
            sink_uid=sink.uid,
            checkpoint_id=task.epoch,
            subtask_id=subtask,
            attempt_number=attempt,
            nonce=nonce,
            schema=sink.schema,
            record_errors=self._errors,
            metric_group=MetricGroup(),
            lease=sink.lease,
            claim=Claims(store=task.store, folder=claims_path(task.epoch, sink.uid, task.job)),
        )
        self._store = task.store
        self._writer: SinkWriter | None = None
        self._rows = 0
        self._bytes = 0

    def write(self, batch: pa.RecordBatch) -> None:
        if not self._sink.written_by(self._subtask):
            return
        rows = self._rows_of(batch)
        if rows.num_rows == 0:
            return
        if self._writer is None:
            self._writer = self._new_writer()
        self._writer.write(rows)
        self._rows += rows.num_rows
        self._bytes += rows.nbytes

    def _new_writer(self) -> SinkWriter:
        sink = self._sink.sink
        if isinstance(sink, StatefulSink) and self._sink.states[self._subtask]:
            serializer = sink.writer_state_serializer()
            stored = self._sink.states[self._subtask]
            states = [serializer.deserialize(each.version, each.data) for each in stored]
            return sink.restore_writer(self._context, states)
        return sink.create_writer(self._context)

    def _rows_of(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        if self._sink.branch is None:
            return conform(batch, self._sink.schema)
        mine = pc.equal(batch.column(BRANCH_COLUMN), self._sink.branch)
        structs = batch.column(branch_column(self._sink.branch))
        if not pc.all(mine).as_py():  # batches of a union normally come from one branch
            structs = structs.filter(mine)
        return conform(pa.RecordBatch.from_struct_array(structs), self._sink.schema)

    def finish(self) -> WriterMessage:
        committables: Sequence[Any] = ()
        states: Sequence[Any] | None = None
        if self._writer is not None:
            self._writer.flush()
            if isinstance(self._writer, CommittingSinkWriter):
                committables = self._writer.prepare_commit()
            if isinstance(self._writer, StatefulSinkWriter):
                states = self._writer.snapshot_state(self._context.checkpoint_id)
        self._errors.close()
        errors = self._errors.summary()
        return WriterMessage(
            sink=self._sink.uid,
            subtask=self._subtask,
            rows=self._rows,
            bytes=self._bytes,
            committables=encode_committables(self._sink.sink, committables),
            skipped=errors["skipped"],
            dead_letters=errors["dead_letters"],
            spool=errors["spool"],
            counters=dict(self._context.metric_group.counters),
            states=None if states is None else encode_states(self._sink.sink, states),
        )

    def close(self) -> None:
        try:
            self._errors.abort()  # no effect on a closed spool
        finally:
            if self._writer is not None:
                self._writer.close()

    def discard_spool_on_error(self, kind: type[BaseException] | None, *_: object) -> None:
        spool = self._errors.summary()["spool"]
        if kind is not None and spool is not None:
            self._store.delete(spool)


def encode_committables(sink: Sink, committables: Sequence[object]) -> tuple[Versioned, ...]:
    """Return the stored form of the committables of one writer.

    Raises:
        UnsupportedError: They are several, so the sink could not rewrite a single lost one.
    """
    if not isinstance(sink, TwoPhaseCommittingSink):
        return ()
    if len(committables) > 1 and isinstance(sink, SupportsRewriting):
        raise UnsupportedError(
            f"a writer of {type(sink).__name__} created several committables: if one of them "
            "were lost, the rows of all would be written again",
            expected="at most one per writer of a sink with the ability SupportsRewriting",
            found=str(len(committables)),
        )
    serializer = sink.committable_serializer()
    return tuple(
        Versioned(version=serializer.version, data=serializer.serialize(each))
        for each in committables
    )


def encode_states(sink: Sink, states: Sequence[object]) -> tuple[Versioned, ...]:
    """Return the stored form of the states of one writer.

    Raises:
        FatalError: They exceed the size that may be stored with every epoch.
        UnsupportedError: The sink cannot restore them.
    """
    if not isinstance(sink, StatefulSink):
        raise UnsupportedError(
            f"a writer of {type(sink).__name__} keeps state, but the sink cannot restore it",
            expected="a StatefulSink",
            found=type(sink).__name__,
        )
    serializer = sink.writer_state_serializer()
    stored = tuple(
        Versioned(version=serializer.version, data=serializer.serialize(each)) for each in states
    )
    size, most = sum(len(each.data) for each in stored), sink.max_writer_state_bytes()
    if size > most:
        raise FatalError(
            f"the state of a writer of {type(sink).__name__} is too large; it passes through the "
            "driver in every epoch",
            expected=f"at most {most} bytes",
            found=f"{size} bytes in {len(stored)} states",
            option="max_writer_state_bytes",
            hint="make sure that snapshot_state drops what is no longer needed; report this to "
            "the author of the sink",
        )
    return stored


def branch_column(branch: int) -> str:
    """Return the name of the struct column that holds the rows of a branch."""
    return f"_branch_{branch}"


def conform(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Cast a batch to this schema; Spark labels timestamps with the session's time zone."""
    if batch.schema.equals(schema):
        return batch
    return pa.RecordBatch.from_arrays(
        [cast_column(column, wanted) for column, wanted in zip(batch.columns, schema, strict=True)],
        schema=schema,
    )
