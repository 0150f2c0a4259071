# SPDX-License-Identifier: Apache-2.0
"""Commits what one sink staged in a Spark write of its own. Driver, no pyspark.

A batch write is one epoch. In a streaming write, the epoch is Spark's micro-batch. A decision in
the checkpoint lets the commit of a replayed micro-batch repeat the first one.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

from connectors_core.engine._faults import fault_point
from connectors_core.engine.coordinator.document_numbers import document_numbers
from connectors_core.engine.coordinator.epoch_committer import CommitRetries, SinkCommitter
from connectors_core.engine.execution.closing import closed_after
from connectors_core.engine.execution.writer_task import WriterMessage
from connectors_core.engine.protocol import (
    DECISIONS,
    DECISIONS_FOLDER,
    DecidedCommittable,
    Decision,
    SinkDecision,
    decision_path,
)
from connectors_core.engine.state import StateStore
from connectors_core.errors import (
    CommitError,
    DataLossError,
    StateCorruptedError,
    UnsupportedError,
)
from connectors_core.sink.committer import CommitterInitContext
from connectors_core.sink.compaction import SupportsCompaction
from connectors_core.sink.demultiplexing import DemultiplexingSink
from connectors_core.sink.sink import DeliveryGuarantee, Sink, TwoPhaseCommittingSink
from connectors_core.sink.stateful_sink import StatefulSink
from connectors_core.sink.topology import TOPOLOGIES

_LOGGER: Final = logging.getLogger(__name__)
_HINT: Final = "write with Pipeline.sink_to"
# Spark keeps 100 micro-batches in its own log, and replays only the newest.
_KEPT_DECISIONS: Final = 100


class _NoLease:
    """Spark's own logs keep a second driver out, as far as Spark does that."""

    def check(self) -> None:
        """Do nothing."""


def commits_once(sink: Sink) -> bool:
    """Return whether a sink has an exactly-once commit."""
    return (
        isinstance(sink, TwoPhaseCommittingSink)
        and sink.delivery_guarantee is DeliveryGuarantee.EXACTLY_ONCE
    )


def check_abilities(sink: Sink) -> None:
    """Refuse a sink that needs more of its driver than one write of Spark can give.

    Raises:
        UnsupportedError: It has writer state, a topology, or its own number of writers.
    """
    name = type(sink).__name__
    for ability, needs in (
        (StatefulSink, "keeps state between epochs"),
        (DemultiplexingSink, "writes to a sink per route, which may have topologies"),
        *TOPOLOGIES,
    ):
        if isinstance(sink, ability):
            raise UnsupportedError(
                f"{name} cannot be written without a pipeline: it {needs}", hint=_HINT
            )
    if isinstance(sink, SupportsCompaction) and sink.create_compaction() is not None:
        raise UnsupportedError(
            f"{name} cannot compact without a pipeline: a write of Spark has one epoch",
            hint=f"disable compaction, or {_HINT}",
        )
    if sink.writer_parallelism() is not None:
        raise UnsupportedError(
            f"{name} cannot choose its number of writers without a pipeline",
            expected="no option sink.parallelism",
            found=sink.writer_parallelism(),
            hint=f"repartition the DataFrame, or {_HINT}",
        )


@dataclass(frozen=True, kw_only=True)
class SinkWithoutPipeline:
    """The commits of one sink.

    Attributes:
        uid: Names the sink for its writers and committers.
        sink: The sink.
        decisions: The location of decisions; None for a batch write, which is never repeated.
    """

    uid: str
    sink: Sink
    decisions: StateStore | None = None

    def check(self) -> None:
        """Refuse a sink that cannot commit without a pipeline.

        Raises:
            UnsupportedError: It needs more of its driver than one write of Spark can give.
            ConfigurationError: The target does not allow the configured behavior.
        """
        check_abilities(self.sink)
        with self._committer("check") as committer:
            if committer is not None and committer.leases:
                raise UnsupportedError(
                    f"{type(self.sink).__name__} is exactly-once only in a pipeline: its driver "
                    "leases resources to the writers of each epoch",
                    expected="at-least-once",
                    found=committer.guarantee.value,
                    option="sink.delivery-guarantee",
                    hint=f"choose at-least-once, or {_HINT}",
                )

    def commit(
        self, pipeline_id: str, epoch: int, messages: Sequence[WriterMessage]
    ) -> SinkDecision:
        """Commit an epoch; a repeated commit finishes the first one, and drops the new rows.

        Args:
            pipeline_id: The pipeline of the writers.
            epoch: The epoch.
            messages: The messages of its writers.

        Returns:
            What is committed.

        Raises:
            CommitError: A committable can never be committed, or the retries are exhausted.
            StateCorruptedError: The first decision belongs to another query.
            DataLossError: The first decision is on another number of rows.
        """
        decision = self._decided(pipeline_id, epoch, messages)
        own = decision.sinks[self.uid]
        with self._committer(decision.pipeline_id) as committer:
            if committer is None:
                return own
            fault_point("before_commit", epoch=epoch, sink=self.uid)
            if committer.commit(epoch, own):
                raise CommitError(
                    f"{type(self.sink).__name__} has lost rows, which only a pipeline can write "
                    "again",
                    hint=_HINT,
                )
            fault_point("after_commit", epoch=epoch, sink=self.uid)
            for swept in {epoch - 1, epoch} - {-1}:  # late attempts of the epoch before, too
                committer.sweep(swept)
        return own

    def roll_back(self, pipeline_id: str, epoch: int) -> None:
        """Remove what an epoch staged, unless it is decided. Never raises."""
        try:
            if self.decisions is not None and self.decisions.exists(decision_path(epoch)):
                return  # the next start commits it
            with self._committer(pipeline_id) as committer:
                if committer is not None:
                    committer.sweep(epoch)
        except Exception:
            _LOGGER.warning(
                "could not remove the data that sink %r staged for epoch %d",
                self.uid,
                epoch,
                exc_info=True,
            )

    def _decided(self, pipeline_id: str, epoch: int, messages: Sequence[WriterMessage]) -> Decision:
        """Return the first decision on an epoch, creating it if there is none."""
        decision = Decision(
            pipeline_id=pipeline_id,
            epoch=epoch,
            incarnation=0,
            spark_query_id=pipeline_id,
            batch_id=epoch,
            plan=-1,
            sinks={self.uid: _decision_of(messages)},
        )
        store = self.decisions
        if store is None:
            return decision
        first = DECISIONS.read(store, decision_path(epoch))
        if first is None:
            fault_point("before_decision", epoch=epoch)
            DECISIONS.create(store, decision_path(epoch), decision)
            fault_point("after_decision", epoch=epoch)
            first = DECISIONS.read(store, decision_path(epoch))
        first = self._checked(first, decision)
        for number in document_numbers(store, DECISIONS_FOLDER):
            if number <= epoch - _KEPT_DECISIONS:
                store.delete(decision_path(number))
        return first

    def _checked(self, first: Decision | None, mine: Decision) -> Decision:
        """Return the first decision; refuse one on other rows, whose commit would drop mine."""
        hint = "start with another checkpoint location; keep Spark's checkpoint as a whole"
        if first is None or (first.pipeline_id, *first.sinks) != (mine.pipeline_id, self.uid):
            raise StateCorruptedError(
                f"the decision on micro-batch {mine.epoch} is missing or belongs to another query",
                expected=f"query {mine.pipeline_id}, sink {self.uid}",
                found=first and f"query {first.pipeline_id}, sink {', '.join(first.sinks)}",
                hint=hint,
            )
        rows, decided = mine.sinks[self.uid].rows, first.sinks[self.uid].rows
        if rows != decided:
            raise DataLossError(
                f"micro-batch {mine.epoch} has other rows than when it was first written",
                expected=f"{decided} rows",
                found=f"{rows} rows",
                hint="the sources must return the same rows again; otherwise " + hint,
            )
        return first

    @contextmanager
    def _committer(self, pipeline_id: str) -> Iterator[SinkCommitter | None]:
        """Open the committers of a two-phase sink."""
        if not isinstance(self.sink, TwoPhaseCommittingSink):
            yield None
            return
        sink: TwoPhaseCommittingSink[Any] = self.sink
        committer = SinkCommitter(
            sink,
            CommitterInitContext(pipeline_id=pipeline_id, sink_uid=self.uid),
            CommitRetries(),
            threading.Event(),
            _NoLease(),
        )
        with closed_after(committer):
            yield committer


def _decision_of(messages: Sequence[WriterMessage]) -> SinkDecision:
    return SinkDecision(
        committables=tuple(
            DecidedCommittable(
                subtask=message.subtask, committable=committable, rows=message.written
            )
            for message in messages
            for committable in message.committables
        ),
        number_of_subtasks=len({message.subtask for message in messages}),
        rows=sum(message.rows for message in messages),
        bytes=sum(message.bytes for message in messages),
    )
