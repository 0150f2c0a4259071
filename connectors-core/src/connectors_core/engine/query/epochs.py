# SPDX-License-Identifier: Apache-2.0
"""Turns a micro-batch into a committed epoch: write, decide, commit."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import cached_property
from typing import Final, Generic, TypeVar

from connectors_core.engine._faults import fault_point
from connectors_core.engine.coordinator.dead_letters import DeadLetters
from connectors_core.engine.coordinator.epoch_committer import GIVE_UP_HINT, EpochCommitter, Lost
from connectors_core.engine.coordinator.fences import taken_by_another
from connectors_core.engine.coordinator.plan_log import (
    decisions_since,
    given_up_splits,
    newest_decision,
    newest_number,
    read_decision,
    read_plan,
    read_reports,
)
from connectors_core.engine.coordinator.writer_states import SinkStates
from connectors_core.engine.execution.writer_task import SinkTask, WriterMessage, WriteTask
from connectors_core.engine.protocol import (
    DECISIONS,
    DECISIONS_FOLDER,
    DecidedCommittable,
    Decision,
    Report,
    SinkDecision,
    accepted_replay_path,
    decision_path,
)
from connectors_core.engine.query.compactions import Compactions
from connectors_core.engine.query.epoch_engine import EpochEngine
from connectors_core.engine.query.pre_commit import pre_commit
from connectors_core.engine.query.rewriter import Rewriter
from connectors_core.engine.query.status import SinkProgress, SinkStatus, sink_status
from connectors_core.engine.state import Lease, StateStore
from connectors_core.errors import DataLossError, FatalError
from connectors_core.metrics import SinkMetric
from connectors_core.sink.topology import SupportsPreCommitTopology

BatchT = TypeVar("BatchT")
_LOGGER: Final = logging.getLogger(__name__)
_WAIT_SECONDS: Final = 0.1


@dataclass
class EpochProgress:
    """Counters since this driver started, for the status."""

    epochs: int = 0
    sinks: dict[str, SinkProgress] = field(default_factory=dict)

    def committed(self, _epoch: int, uid: str) -> None:
        """Count an epoch that a sink has committed."""
        self.sink(uid).metrics.inc(SinkMetric.NUM_EPOCHS_COMMITTED)

    def decided(
        self, decision: Decision, messages: Sequence[WriterMessage], seconds: float
    ) -> None:
        """Count a decided epoch.

        Args:
            decision: The decision.
            messages: The messages of its writers.
            seconds: How long they wrote.
        """
        self.epochs += 1
        for uid, sink in decision.sinks.items():
            errors = sink.skipped + sink.dead_letters
            counted = {
                SinkMetric.NUM_RECORDS_SEND.value: sink.rows - errors,
                SinkMetric.NUM_BYTES_SEND.value: sink.bytes,
                SinkMetric.NUM_RECORDS_SEND_ERRORS.value: errors,
                SinkMetric.NUM_RECORDS_SKIPPED.value: sink.skipped,
                SinkMetric.NUM_DEAD_LETTERS.value: sink.dead_letters,
            }
            own: dict[str, int] = {}
            for message in messages:
                if message.sink == uid:
                    for name, number in message.counters.items():
                        own[name] = own.get(name, 0) + number
            progress = self.sink(uid)
            progress.rows.mark(sink.rows - errors)
            if sink.rows:
                progress.metrics.set(SinkMetric.CURRENT_SEND_TIME, seconds * 1e3)
            for name, number in (counted | own).items():
                progress.metrics.inc(name, number)

    def sink(self, uid: str) -> SinkProgress:
        """Return the counters of a sink."""
        return self.sinks.setdefault(uid, SinkProgress())


@dataclass(eq=False, repr=False)
class EpochRunner(Generic[BatchT]):
    """Runs the epochs of one query. A deleted Spark checkpoint does not reset their numbers.

    Args:
        engine: Runs the rows of an epoch.
        sinks: The sinks of the query with their writer settings.
        committer: Commits decided epochs.
        compactions: Combines what the sinks hold over epochs.
        store: The state location of the query.
        pipeline_id: The pipeline.
        lease: The lease of this driver.
        dead_letters: Receives bad records.
        reported: Called with the number of a plan when all its reports exist.
        decided: Called with each epoch between its decision and its commit.
        stateful: Whether each micro-batch needs a decision, because Spark keeps state or reads
            streams of its own.
        keeps_state: Whether Spark keeps state for the query.
        spark_inputs: The inputs of Spark by sink; see `SinkSettings`.
        progress: Counters of epochs; the committer's callback uses them too.
    """

    engine: EpochEngine[BatchT]
    _: KW_ONLY
    sinks: Sequence[SinkTask]
    committer: EpochCommitter
    compactions: Compactions
    store: StateStore
    pipeline_id: str
    lease: Lease
    dead_letters: DeadLetters
    reported: Callable[[int], None]
    decided: Callable[[int], None] = lambda _epoch: None
    stateful: Callable[[], bool] = lambda: False
    keeps_state: Callable[[], bool] = lambda: False
    spark_inputs: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    progress: EpochProgress = field(default_factory=EpochProgress)

    def __post_init__(self) -> None:
        self._rewriter = Rewriter(
            self.engine,
            sinks=self.sinks,
            committer=self.committer,
            store=self.store,
            lease=self.lease,
            dead_letters=self.dead_letters,
        )
        for sink in self.sinks:
            self.progress.sink(sink.uid)
        self._bad_records: dict[str, int] = {}
        self._decided: dict[tuple[str, int], int] = {}  # in the order of the epochs
        self._keep_epochs = 0
        self._lost: tuple[Decision, Lost] | None = None
        self._states = SinkStates(self.sinks)
        self._last_epoch = -1
        self._last_decided = -1
        self._last: Decision | None = None
        self._turn = threading.Lock()

    @property
    def last_decided(self) -> int:
        """The newest decided epoch, -1 for none."""
        return self._last_decided

    @property
    def has_lost_rows(self) -> bool:
        """Whether a sink has lost rows of a decided epoch, which must be written again."""
        return self._lost is not None

    @property
    def holds(self) -> bool:
        """Whether a sink holds committables for a later epoch."""
        return not self.compactions.is_empty

    def oldest_needed(self, keep_epochs: int) -> int:
        """Return the oldest epoch whose decision a restart may need.

        Args:
            keep_epochs: Number of past epochs whose batches Spark may run again.
        """
        kept = self._last_decided - keep_epochs
        since = None if self._last is None else self._last.holds_since
        return kept if since is None else min(kept, since)

    def is_decided(self, spark_query_id: str, batch_id: int) -> bool:
        """Return whether this driver or an earlier one has decided on a batch or run."""
        return (spark_query_id, batch_id) in self._decided

    def sink_statuses(self) -> tuple[SinkStatus, ...]:
        """Return the status of each sink since this driver started. From any thread."""
        committers = self.committer.committers
        return tuple(
            sink_status(
                uid, progress, committers.get(uid), spark_inputs=self.spark_inputs.get(uid, ())
            )
            for uid, progress in list(self.progress.sinks.items())
        )

    def recover(self, keep_epochs: int, replayed: tuple[str, int] | None) -> bool:
        """Commit unfinished decided epochs and roll back undecided ones, after this driver's fence.

        Args:
            keep_epochs: Number of past epochs whose batches Spark may run again.
            replayed: Spark's id of the query, and the batch that will certainly run again. Its
                replay rewrites rows that a sink has lost.

        Returns:
            Whether there were unfinished decisions.

        Raises:
            FatalError: A sink has lost rows of a batch that does not run again.
            LeaseError: A later driver has taken over.
        """
        self._keep_epochs = keep_epochs
        self._last_epoch = newest_number(self.store, DECISIONS_FOLDER)
        self._last_decided = newest_decision(self.store)
        if self._last_decided >= 0:
            self._last = DECISIONS.read(self.store, decision_path(self._last_decided))
        decisions = decisions_since(self.store, self.oldest_needed(keep_epochs))
        for epoch, decision in decisions.items():
            self._decided.setdefault((decision.spark_query_id, decision.batch_id), epoch)
            self._bad_records = decision.bad_records
        if self._last is not None:
            self._states.restore(self._last)
        self.compactions.restore(list(decisions.values()))
        self.lease.confirm()  # so a successor made none of these decisions
        unfinished = self.committer.roll_forward(decisions, self._last_epoch)
        for epoch, lost in unfinished.items():
            if lost:
                self._lost = decisions[epoch], lost
                if (decisions[epoch].spark_query_id, decisions[epoch].batch_id) != replayed:
                    raise FatalError(
                        f"epoch {epoch} of {', '.join(lost)} is lost, and Spark does not run its "
                        "batch again",
                        expected="a start with the original query, sinks, and state, which "
                        "rewrites it",
                        hint="undo all changes since the pipeline ended; " + GIVE_UP_HINT,
                    )
        return bool(unfinished)

    def run(self, batch: BatchT, batch_id: int, spark_query_id: str, plans: Sequence[int]) -> None:
        """Write, decide, and commit one micro-batch; exactly one Spark action runs over it.

        Args:
            batch: Its rows.
            batch_id: Spark's number.
            spark_query_id: Spark's id of the query.
            plans: Plans whose entries it reads.
        """
        with self._turn:
            self._run(batch, batch_id, spark_query_id, plans)

    def _run(self, batch: BatchT, batch_id: int, spark_query_id: str, plans: Sequence[int]) -> None:
        if self.is_decided(spark_query_id, batch_id):
            if not self._write_lost(batch):
                self._replay(batch, batch_id, spark_query_id)
            self._complete_reports(plans)
            return
        self._run_epoch(
            batch, batch_id, spark_query_id, plans, lambda: self._complete_reports(plans)
        )

    def run_batch(
        self, batch: BatchT, run_id: str, complete_reports: Callable[[], list[Report]]
    ) -> None:
        """Write, decide, and commit the rows of a batch run.

        Args:
            batch: All rows.
            run_id: The run.
            complete_reports: Returns all its reports when the rows are written.
        """
        with self._turn:
            self._run_epoch(batch, 0, run_id, (), complete_reports)

    def write_lost(self, batch: BatchT) -> None:
        """Write the rows of the last decided epoch that a sink has lost.

        Args:
            batch: All rows of the epoch.
        """
        with self._turn:
            self._write_lost(batch)

    def advance(self) -> None:
        """Decide on the results of compactions while no micro-batch runs. From any thread.

        Raises:
            Exception: A compaction or a commit failed.
        """
        if self._turn.acquire(blocking=False):
            try:
                # Lost rows of the last epoch are committed before there is another one.
                if self._lost is None and self.compactions.is_ready:
                    self._decide_between()
            finally:
                self._turn.release()

    def drain(self) -> bool:
        """Merge and commit everything that is held, at the end of the input.

        Returns:
            False if the pipeline stops before the end.

        Raises:
            Exception: A compaction or a commit failed.
        """
        with self._turn:
            return self._compact_while(lambda: not self.compactions.is_empty)

    def close(self) -> None:
        """Cancel compactions, and close the committers."""
        try:
            self.compactions.close()
        finally:
            self.committer.close()

    def _compact_while(self, needed: Callable[[], bool]) -> bool:
        """Decide on compactions of everything as long as needed, unless the pipeline stops."""
        while needed():
            if self.committer.gives_up_waiting:
                return False
            self.lease.check()
            if not self._decide_between(everything=True):
                self.compactions.wait(_WAIT_SECONDS)
        return True

    def _decide_between(self, *, everything: bool = False) -> bool:
        """Decide on held committables without a micro-batch; return whether there was something."""
        epoch = self._last_epoch + 1
        carried = self._states.carried()
        sinks = self.compactions.step(epoch, carried, everything=everything)
        if sinks == carried or self._last is None:
            return False
        decision = replace(
            self._last,
            epoch=epoch,
            incarnation=self.lease.incarnation,
            sinks=sinks,
            skipped=0,
            dead_letters=0,
            between=True,
            holds_since=self.compactions.held.since_after(epoch, sinks),
        )
        self._decide(decision)
        self.committer.commit(decision)
        return True

    def _replay(self, batch: BatchT, batch_id: int, spark_query_id: str) -> None:
        """Run a micro-batch that an earlier driver has committed, if Spark's state needs it.

        Without state, its rows are not needed: they may be other rows, or gone. State operators
        must run, or Spark 4 refuses the next micro-batch.

        Raises:
            DataLossError: State operators received other rows than those that were written.
        """
        epoch = self._decided[spark_query_id, batch_id]
        if not self.keeps_state():
            _LOGGER.warning(
                "epoch %d has committed micro-batch %d of Spark: its rows are not read again",
                epoch,
                batch_id,
            )
            return
        replayed = self.engine.drain(batch)
        decision = read_decision(self.store, epoch)
        if decision.between:
            return  # its own decision is so old that it is gone
        for uid, rows in replayed.items():
            decided = decision.sinks.get(uid, SinkDecision()).rows
            if rows != decided and not self.store.exists(accepted_replay_path(epoch)):
                raise _other_rows(batch_id, epoch, uid, expected=decided, found=rows)

    def _write_lost(self, batch: BatchT) -> bool:
        """Rewrite the lost rows of an earlier driver's epoch; return whether it ran."""
        if self._lost is None:
            return False
        decision, lost = self._lost
        self._rewriter.finish(batch, decision, lost)
        self._lost = None
        return any(sink.uid in lost for sink in self.sinks)

    def _run_epoch(
        self,
        batch: BatchT,
        batch_id: int,
        spark_query_id: str,
        plans: Sequence[int],
        complete_reports: Callable[[], list[Report]],
    ) -> None:
        epoch = self._last_epoch + 1
        task = WriteTask(
            pipeline_id=self.pipeline_id,
            epoch=epoch,
            store=self.store,
            sinks=self._states.given_to(self.sinks),
        )
        began = time.monotonic()
        try:
            messages = self.engine.write(batch, task, self.committer.leases(epoch))
            seconds = time.monotonic() - began
            reports = complete_reports()
            decision = self._decision(task, batch_id, spark_query_id, plans, messages, reports)
        except Exception:
            self.committer.roll_back(epoch)
            raise
        if decision is not None:
            self._decide(decision)
            self._states.decided(decision)
            self.progress.decided(decision, messages, seconds)
            self._rewriter.finish(batch, decision, self.committer.commit(decision))
            self._bad_records = decision.bad_records
            self.dead_letters.discard(_spools(messages, reports))
            # The next plan waits for this epoch, so the source is not read meanwhile.
            self._compact_while(lambda: self.compactions.is_full)

    @cached_property
    def _given_up(self) -> frozenset[tuple[str, str]]:
        return given_up_splits(self.store)

    def _complete_reports(self, plans: Sequence[int]) -> list[Report]:
        """Read the entries that the micro-batch skipped; return all reports of its plans."""
        reports: list[Report] = []
        for number in plans:
            plan = read_plan(self.store, number).giving_up(self._given_up)
            found = read_reports(self.store, plan)
            missing = [
                entry
                for uid, source in plan.sources.items()
                for entry, report in zip(source.entries, found[uid], strict=True)
                if report is None
            ]
            if missing:
                self.engine.read(missing)  # a downstream limit ended them early
                found = read_reports(self.store, plan)
            reports += [report for own in found.values() for report in own if report is not None]
            self.reported(number)
        return reports

    def _decision(
        self,
        task: WriteTask,
        batch_id: int,
        spark_query_id: str,
        plans: Sequence[int],
        messages: Sequence[WriterMessage],
        reports: Sequence[Report],
    ) -> Decision | None:
        """Return the decision on an epoch; None for an empty epoch.

        An epoch that read rows needs a decision even if it wrote none. Otherwise a missing decision
        could not be detected.
        """
        epoch = task.epoch
        sinks = {sink.uid: self._sink_decision(sink, epoch, messages) for sink in task.sinks}
        bad_records = self._count_bad_records(messages, reports)
        sinks |= self.dead_letters.write(
            epoch, _spools(messages, reports), self.committer.leases(epoch)
        )
        sinks = self.compactions.step(epoch, sinks)
        skipped = sum(r.skipped for r in reports)
        dead_letters = sum(r.dead_letters for r in reports)
        if not (skipped or dead_letters or any(_something(sink) for sink in sinks.values())):
            if not (any(report.rows for report in reports) or self.stateful()):
                return None
            # There is nothing to commit, so no sink needs a done mark.
            sinks = {uid: sink for uid, sink in sinks.items() if sink.writer_states}
        return Decision(
            pipeline_id=self.pipeline_id,
            epoch=epoch,
            incarnation=self.lease.incarnation,
            spark_query_id=spark_query_id,
            batch_id=batch_id,
            plan=max(plans, default=-1),
            sinks=sinks,
            skipped=skipped,
            dead_letters=dead_letters,
            bad_records=bad_records,
            holds_since=self.compactions.held.since_after(epoch, sinks),
        )

    def _count_bad_records(
        self, messages: Sequence[WriterMessage], reports: Sequence[Report]
    ) -> dict[str, int]:
        """Return the numbers of bad records so far, including this epoch.

        Raises:
            BadRecordLimitError: They exceed the limit of a record policy.
        """
        totals = dict(self._bad_records)
        for uid, found in (
            *((report.source, report.skipped + report.dead_letters) for report in reports),
            *((message.sink, message.skipped + message.dead_letters) for message in messages),
        ):
            if found:
                totals[uid] = totals.get(uid, 0) + found
                self.dead_letters.policies[uid].check_total(totals[uid])
        return totals

    def _sink_decision(
        self, task: SinkTask, epoch: int, messages: Sequence[WriterMessage]
    ) -> SinkDecision:
        own = [message for message in messages if message.sink == task.uid]
        subtasks = len({message.subtask for message in own})
        committables = tuple(
            DecidedCommittable(
                subtask=message.subtask, committable=committable, rows=message.written
            )
            for message in own
            for committable in message.committables
        )
        if isinstance(task.sink, SupportsPreCommitTopology):
            committables = pre_commit(task.sink, committables, epoch, subtasks)
        return SinkDecision(
            committables=committables,
            number_of_subtasks=subtasks,
            rows=sum(message.rows for message in own),
            bytes=sum(message.bytes for message in own),
            skipped=sum(message.skipped for message in own),
            dead_letters=sum(message.dead_letters for message in own),
            writer_states=SinkStates.left_by(task, own),
        )

    def _decide(self, decision: Decision) -> None:
        """Create the decision: the commit point of the query.

        Raises:
            LeaseError: Another driver has taken over.
        """
        self.lease.check()
        fault_point("before_decision", epoch=decision.epoch)
        path = decision_path(decision.epoch)
        if not DECISIONS.create(self.store, path, decision):
            found = DECISIONS.read(self.store, path)
            # After a repeated request, an object store may report our own file as existing.
            if found != decision:
                self.committer.roll_back(decision.epoch)
                raise taken_by_another(
                    f"epoch {decision.epoch}", found, incarnation=self.lease.incarnation
                )
        fault_point("after_decision", epoch=decision.epoch)
        self._last_epoch = self._last_decided = decision.epoch
        self._last = decision
        self._decided.setdefault((decision.spark_query_id, decision.batch_id), decision.epoch)
        while len(self._decided) > 1 and self._decided[oldest := next(iter(self._decided))] < (
            self._last_decided - self._keep_epochs
        ):
            del self._decided[oldest]  # Spark does not run such an old micro-batch again
        self.compactions.decided(decision)
        self.decided(decision.epoch)


def _other_rows(batch: int, epoch: int, uid: str, *, expected: int, found: int) -> DataLossError:
    return DataLossError(
        f"micro-batch {batch} of sink {uid!r} has other rows than when epoch {epoch} wrote them, "
        "and Spark keeps state of them",
        expected=f"{expected} rows",
        found=f"{found} rows",
        hint="undo the change of the input that Spark reads itself; or keep the output as it is "
        "and let Spark's state have the rows as they are now, with `connectors state "
        f"accept-replay LOCATION {epoch}`",
    )


def _spools(messages: Sequence[WriterMessage], reports: Sequence[Report]) -> list[tuple[str, str]]:
    """Return uid and name of the dead-letter spools of an epoch."""
    spools = [(report.source, report.spool) for report in reports if report.spool is not None]
    return spools + [(message.sink, message.spool) for message in messages if message.spool]


def _something(sink: SinkDecision) -> bool:
    return bool(
        sink.committables
        or sink.rows
        or sink.skipped
        or sink.dead_letters
        or sink.held
        or sink.requests
        or sink.compacted
    )
