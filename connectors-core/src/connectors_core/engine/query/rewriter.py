# SPDX-License-Identifier: Apache-2.0
"""Rewrites rows that a target lost after the decision. Driver.

A decided committable may be lost before its commit: a prepared transaction can expire. Its rows can
still be read, since reports pin them. The same subtasks write them again. A durable rewrite
document replaces the lost committables with the new ones before the commit. If the driver dies
before the rewrite document, it leaves staged rows that no document names. If it dies after that,
the next start commits the new committables.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from typing import Final, Generic, TypeVar

from connectors_core.engine._faults import fault_point
from connectors_core.engine.coordinator.dead_letters import DeadLetters
from connectors_core.engine.coordinator.epoch_committer import GIVE_UP_HINT, EpochCommitter, Lost
from connectors_core.engine.coordinator.fences import taken_by_another
from connectors_core.engine.coordinator.plan_log import rewrites_of
from connectors_core.engine.execution.writer_task import Leases, SinkTask, WriterMessage, WriteTask
from connectors_core.engine.protocol import (
    REWRITES,
    DecidedCommittable,
    Decision,
    Rewrite,
    SinkDecision,
    SinkRewrite,
    rewrite_path,
)
from connectors_core.engine.query.epoch_engine import EpochEngine
from connectors_core.engine.state import Lease, StateStore
from connectors_core.errors import DataLossError, FatalError

BatchT = TypeVar("BatchT")
_LOGGER: Final = logging.getLogger(__name__)


@dataclass(eq=False, repr=False)
class Rewriter(Generic[BatchT]):
    """Rewrites lost rows of decided epochs.

    Args:
        engine: Runs the rows of an epoch.
        sinks: The sinks of the query with their writer settings.
        committer: Commits decided epochs and grants leases.
        store: The state location of the query.
        lease: The lease of this driver.
        dead_letters: Receives bad records.
    """

    engine: EpochEngine[BatchT]
    _: KW_ONLY
    sinks: Sequence[SinkTask]
    committer: EpochCommitter
    store: StateStore
    lease: Lease
    dead_letters: DeadLetters

    def finish(self, batch: BatchT, decision: Decision, lost: Lost) -> None:
        """Rewrite lost rows until the whole epoch is committed, with one job per try.

        Args:
            batch: The rows of the epoch.
            decision: The decision on the epoch.
            lost: The lost committables, perhaps none.

        Raises:
            FatalError: The batch has different rows than before.
            CommitError: Rewritten committables were lost too, until the retries were exhausted.
        """
        if lost:
            self.committer.commit_lost(
                decision, lost, lambda rewritten, gone: self._write(batch, rewritten, gone)
            )

    def _write(self, batch: BatchT, decision: Decision, lost: Lost) -> Decision:
        epoch = decision.epoch
        for uid, subtasks in lost.items():
            _LOGGER.warning(
                "sink %r does not have the rows of writers %s in epoch %d: writing them again",
                uid,
                ", ".join(map(str, sorted(subtasks))),
                epoch,
            )
        self.lease.check()
        fault_point("before_rewrite", epoch=epoch)
        try:
            sinks = self._written(batch, decision, lost)
        except Exception:
            # The rest of the epoch is committed, so no document names the rows staged here.
            self.committer.roll_back(epoch)
            raise
        rewritten = self._record(decision, sinks)
        fault_point("after_rewrite_record", epoch=epoch)
        return rewritten

    def _written(self, batch: BatchT, decision: Decision, lost: Lost) -> dict[str, SinkRewrite]:
        leases = self.committer.leases(decision.epoch)
        task = WriteTask(
            pipeline_id=decision.pipeline_id,
            epoch=decision.epoch,
            store=self.store,
            sinks=tuple(
                replace(
                    sink,
                    subtasks=None
                    if _all_lost(decision.sinks[sink.uid], lost[sink.uid])
                    else lost[sink.uid],
                )
                for sink in self.sinks
                if sink.uid in lost
            ),
        )
        messages = self.engine.write(batch, task, leases) if task.sinks else []
        sinks = {
            sink.uid: _replacement(
                decision, sink.uid, lost[sink.uid], [m for m in messages if m.sink == sink.uid]
            )
            for sink in task.sinks
        }
        # The original writers have already counted these dead letters and written them.
        self.dead_letters.discard([(m.sink, m.spool) for m in messages if m.spool is not None])
        return sinks | self._letters(decision, lost, leases)

    def _letters(self, decision: Decision, lost: Lost, leases: Leases) -> dict[str, SinkRewrite]:
        """Rewrite lost dead letters from the spools that the decision names."""
        written = self.dead_letters.write_again(
            decision.epoch,
            {uid: decision.sinks[uid].spools for uid in lost if uid in self.dead_letters.sinks},
            leases,
        )
        return {
            uid: SinkRewrite(subtasks=tuple(lost[uid]), committables=sink.committables)
            for uid, sink in written.items()
        }

    def _record(self, decision: Decision, sinks: dict[str, SinkRewrite]) -> Decision:
        """Create the rewrite document; it replaces those of former drivers.

        Raises:
            LeaseError: A later driver has rewritten the epoch.
        """
        epoch = decision.epoch
        # A fence does not stop a rewrite. This check detects a driver that took over before these
        # rows were leased. A driver that took over later has revoked the lease.
        self.lease.confirm()
        fault_point("before_rewrite_record", epoch=epoch)
        while True:
            before = rewrites_of(self.store, epoch)
            number = max((each.number for each in before), default=-1) + 1
            rewrite = Rewrite(
                pipeline_id=decision.pipeline_id,
                epoch=epoch,
                number=number,
                incarnation=self.lease.incarnation,
                sinks=sinks,
            )
            for each in before:
                if each.incarnation > rewrite.incarnation:
                    raise taken_by_another(
                        f"the rewrite of epoch {epoch}", each, incarnation=rewrite.incarnation
                    )
            path = rewrite_path(epoch, number)
            # After a repeated request, an object store may report our own file as existing.
            if REWRITES.create(self.store, path, rewrite) or (
                REWRITES.read(self.store, path) == rewrite
            ):
                return decision.rewritten(rewrite)


def _replacement(
    decision: Decision, uid: str, subtasks: frozenset[int], messages: Sequence[WriterMessage]
) -> SinkRewrite:
    """Return the new committables of a sink, after checking that the rows are the same."""
    decided: SinkDecision = decision.sinks[uid]
    if _all_lost(decided, subtasks):
        return _whole_replacement(decision.epoch, uid, decided, messages)
    if len(messages) != decided.number_of_subtasks:
        raise FatalError(
            f"epoch {decision.epoch} of sink {uid!r} cannot be rewritten: its batch has "
            "different partitions than before",
            expected=f"{decided.number_of_subtasks} partitions",
            found=f"{len(messages)}",
            hint="start with the original query, parallelism, and Spark settings; " + GIVE_UP_HINT,
        )
    rows = {each.subtask: each.rows for each in decided.committables}
    again = [message for message in messages if message.subtask in subtasks]
    for message in again:
        if message.written != rows[message.subtask]:
            raise _other_rows(
                f"epoch {decision.epoch} of sink {uid!r} cannot be rewritten: writer "
                f"{message.subtask} has different rows than before",
                expected=rows[message.subtask],
                found=message.written,
            )
    return _rewrite(subtasks, again)


def _all_lost(decided: SinkDecision, lost: Collection[int]) -> bool:
    """Return whether no writer has committed rows, so the rows may have other writers now."""
    return all(each.subtask in lost for each in decided.committables)


def _whole_replacement(
    epoch: int, uid: str, decided: SinkDecision, messages: Sequence[WriterMessage]
) -> SinkRewrite:
    rows = {each.subtask: each.rows for each in decided.committables}
    messages = [message for message in messages if message.committables]
    found = sum(message.written for message in messages)
    if found != sum(rows.values()):
        raise _other_rows(
            f"epoch {epoch} of sink {uid!r} cannot be rewritten: it has different rows than before",
            expected=sum(rows.values()),
            found=found,
        )
    return _rewrite(rows.keys() | {message.subtask for message in messages}, messages)


def _other_rows(message: str, *, expected: int, found: int) -> DataLossError:
    return DataLossError(
        message,
        expected=f"{expected} rows",
        found=f"{found} rows",
        hint="the source must return the same rows when it is read again, and the target must "
        "accept them; check that no rows were removed and that the query is deterministic; "
        + GIVE_UP_HINT,
    )


def _rewrite(subtasks: Collection[int], messages: Sequence[WriterMessage]) -> SinkRewrite:
    return SinkRewrite(
        subtasks=tuple(sorted(subtasks)),
        committables=tuple(
            DecidedCommittable(subtask=message.subtask, committable=each, rows=message.written)
            for message in messages
            for each in message.committables
        ),
    )
