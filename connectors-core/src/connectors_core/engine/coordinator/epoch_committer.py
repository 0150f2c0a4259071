# SPDX-License-Identifier: Apache-2.0
"""Commits what decisions name, for all sinks of a query. Driver, no pyspark."""

from __future__ import annotations

import contextlib
import functools
import logging
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, Final

import tenacity

from connectors_core.clients.retries import RetryLog, RetryPolicy
from connectors_core.engine._faults import fault_point
from connectors_core.engine.coordinator.document_numbers import folder_numbers
from connectors_core.engine.coordinator.plan_log import is_done, mark_done
from connectors_core.engine.execution.writer_task import Leases
from connectors_core.engine.protocol import Decision, SinkDecision, claims_path
from connectors_core.engine.state import Lease, StateStore
from connectors_core.errors import CommitError, RetryableError
from connectors_core.metrics import CommitterMetric
from connectors_core.sink.abilities import SupportsLeases, SupportsRewriting
from connectors_core.sink.committer import (
    CommitOutcome,
    CommitRequest,
    Committer,
    CommitterInitContext,
)
from connectors_core.sink.messages import CommittableWithLineage, messages_in_order
from connectors_core.sink.sink import DeliveryGuarantee, Sink, TwoPhaseCommittingSink
from connectors_core.sink.topology import SupportsPostCommitTopology

_LOGGER: Final = logging.getLogger(__name__)
GIVE_UP_HINT: Final = (
    "where its rows are gone for good, `connectors state give-up` abandons them or writes them "
    "again"
)
"""The last way out for a person whose epoch is decided and cannot be committed."""
_DECIDED_HINT: Final = (
    "the epoch is decided and stays so: correct what the cause names and start again; "
    + GIVE_UP_HINT
)
SWEEP_EVERY_EPOCHS = 8
SWEPT_EPOCHS = 16
_COUNTERS = {
    CommitOutcome.COMMITTED: CommitterMetric.SUCCESSFUL_COMMITTABLES,
    CommitOutcome.ALREADY_COMMITTED: CommitterMetric.ALREADY_COMMITTED_COMMITTABLES,
    CommitOutcome.RETRY: CommitterMetric.RETRIED_COMMITTABLES,
    CommitOutcome.FAILED: CommitterMetric.FAILED_COMMITTABLES,
    CommitOutcome.LOST: CommitterMetric.LOST_COMMITTABLES,
}

Lost = Mapping[str, frozenset[int]]
"""By sink uid, the subtasks of an epoch whose committables are lost."""


@dataclass(frozen=True, kw_only=True)
class CommitRetries:
    """How often and how slowly commits are tried again."""

    attempts: int = 10
    initial_seconds: float = 0.2
    max_seconds: float = 30.0

    def retrying(self, sleep: Callable[[float], None]) -> tenacity.Retrying:
        """Tries again what raises a `RetryableError`; the last one is raised.

        Args:
            sleep: Waits so many seconds.
        """
        policy = RetryPolicy(
            initial_backoff=self.initial_seconds,
            max_backoff=self.max_seconds,
            max_attempts=self.attempts,
        )
        return policy.retrying(RetryLog("a commit"), sleep=sleep)


class SinkCommitter:
    """The committers of one sink.

    Args:
        sink: The sink.
        context: What its committers know of themselves.
        retries: For commits that ask to be tried again.
        stopping: Set when nobody waits any more.
        lease: Under which this driver commits.
    """

    def __init__(
        self,
        sink: TwoPhaseCommittingSink[Any],
        context: CommitterInitContext,
        retries: CommitRetries,
        stopping: threading.Event,
        lease: Lease,
    ) -> None:
        self.metrics = context.metric_group
        self._uid = context.sink_uid
        self._sink = sink
        self._serializer = sink.committable_serializer()
        self._retries = retries
        self._stopping = stopping
        self._lease = lease
        self._counting = threading.Lock()
        self._committers: list[Committer[Any]] = []
        with ExitStack() as made:  # closes them where one of them cannot be made
            for _ in range(max(1, sink.committer_parallelism())):
                self._committers.append(sink.create_committer(context))
                made.callback(self._committers[-1].close)
            made.pop_all()

    def commit(
        self, epoch: int, decision: SinkDecision, subtasks: Collection[int] | None = None
    ) -> frozenset[int]:
        """Commit and, when nothing is lost, run the post-commit topology; idempotent.

        Args:
            epoch: The epoch.
            decision: What it decided for this sink.
            subtasks: Commit what these writers made; None for all.

        Returns:
            Writers whose committables are lost.

        Raises:
            CommitError: A committable can never be committed, or not within the retries.
            RetryableError: The pipeline stops before all are committed.
            LeaseError: Another driver has taken over, and commits what this one waits for.
        """
        committables = [
            CommittableWithLineage(
                committable=self._serializer.deserialize(
                    decided.committable.version, decided.committable.data
                ),
                checkpoint_id=epoch,
                subtask_id=decided.subtask,
            )
            for decided in decision.committables
        ]
        wanted = [each for each in committables if subtasks is None or each.subtask_id in subtasks]
        self.metrics.inc(CommitterMetric.TOTAL_COMMITTABLES, len(wanted))
        shares = [wanted[i :: len(self._committers)] for i in range(len(self._committers))]
        work = [(c, share) for c, share in zip(self._committers, shares, strict=True) if share]
        if len(work) > 1:
            with ThreadPoolExecutor(len(work), thread_name_prefix=f"commit-{self._uid}") as pool:
                lost = list(pool.map(lambda pair: self._commit_share(*pair), work))
        else:
            lost = [self._commit_share(committer, share) for committer, share in work]
        if any(lost):
            return frozenset[int]().union(*lost)
        if isinstance(self._sink, SupportsPostCommitTopology):
            self._sink.add_post_commit_topology(
                messages_in_order(
                    committables,
                    checkpoint_id=epoch,
                    number_of_subtasks=decision.number_of_subtasks,
                )
            )
        return frozenset()

    def _commit_share(
        self, committer: Committer[Any], share: Sequence[CommittableWithLineage[Any]]
    ) -> set[int]:
        """Commit a share of an epoch; returns the subtasks whose committables are lost."""
        pending = [(CommitRequest(message.committable), message.subtask_id) for message in share]
        lost: set[int] = set()

        def sleep(seconds: float) -> None:
            if self._stopping.wait(seconds):
                raise RetryableError(
                    f"the pipeline stops before {len(pending)} committables of sink "
                    f"{self._uid!r} are committed",
                    hint="the epoch is decided: the next start commits them",
                )
            self._lease.check()

        try:
            for attempt in self._retries.retrying(sleep):
                with attempt:
                    try:
                        committer.commit([request for request, _ in pending])
                    except RetryableError:
                        # Nothing is known of any of them, whatever was said on them so far.
                        pending = [(request.next_try(), subtask) for request, subtask in pending]
                        raise
                    self._check([request for request, _ in pending])
                    lost |= {of for request, of in pending if request.outcome is CommitOutcome.LOST}
                    pending = [
                        (request.next_try(), subtask)
                        for request, subtask in pending
                        if request.outcome is CommitOutcome.RETRY
                    ]
                    if pending:
                        raise RetryableError(
                            f"{len(pending)} committables of sink {self._uid!r} are not "
                            "committed yet",
                            hint="see the sink's log for why it asks to retry",
                        )
        except RetryableError as error:
            if self._stopping.is_set():
                raise
            raise CommitError(
                f"sink {self._uid!r} could not commit {len(pending)} committables",
                found=f"{self._retries.attempts} attempts",
                hint=_DECIDED_HINT,
            ) from error
        return lost

    def _check(self, requests: Sequence[CommitRequest[Any]]) -> None:
        """Count how they ended, and refuse what cannot be mended."""
        by_outcome: dict[CommitOutcome, list[CommitRequest[Any]]] = {o: [] for o in CommitOutcome}
        for request in requests:
            by_outcome[request.outcome].append(request)
        with self._counting:  # the committers of a sink run side by side
            for outcome, name in _COUNTERS.items():
                self.metrics.inc(name, len(by_outcome[outcome]))
        if by_outcome[CommitOutcome.LOST] and not self.rewrites:
            raise CommitError(
                f"sink {self._uid!r} has lost {by_outcome[CommitOutcome.LOST][0].committable!r}",
                expected="a sink with the ability SupportsRewriting, whose rows are written again",
                found=type(self._sink).__name__,
                hint="the epoch is decided and stays so: report it to the author of the sink; "
                + GIVE_UP_HINT,
            )
        for failed in by_outcome[CommitOutcome.FAILED]:
            raise CommitError(
                f"sink {self._uid!r} cannot commit {failed.committable!r}",
                hint=_DECIDED_HINT,
            ) from failed.error

    @property
    def guarantee(self) -> DeliveryGuarantee:
        """How often a row arrives."""
        return self._sink.delivery_guarantee

    @property
    def rewrites(self) -> bool:
        """Whether what is lost is written again."""
        return isinstance(self._sink, SupportsRewriting)

    @property
    def leases(self) -> bool:
        """Whether writers need a lease."""
        return isinstance(self._committers[0], SupportsLeases)

    def lease(self, epoch: int, number_of_writers: int) -> Any:
        """What the writers of an epoch may use."""
        committer = self._committers[0]
        assert isinstance(committer, SupportsLeases)
        return committer.lease(epoch, number_of_writers)

    def sweep(self, epoch: int) -> None:
        """Remove what no decision names."""
        self._committers[0].sweep(epoch)

    def recover(self, last_decided: int) -> None:
        """Fence and roll back epochs after the last decided one."""
        self._committers[0].recover(last_decided)

    def close(self) -> None:
        """Close the committers."""
        for committer in self._committers:
            committer.close()


class EpochCommitter:
    """Commits decided epochs, for all sinks, in the order of the epochs.

    Args:
        sinks: All sinks by uid; those without two phases have nothing to commit.
        store: The state location of the query.
        pipeline_id: The pipeline.
        lease: Under which this driver commits.
        retries: For commits that ask to be tried again.
        trigger_interval: Least seconds between two epochs; None in a batch run.
        progress: Called after each sink's commit with epoch and uid.
    """

    def __init__(
        self,
        sinks: Mapping[str, Sink],
        *,
        store: StateStore,
        pipeline_id: str,
        lease: Lease,
        retries: CommitRetries | None = None,
        trigger_interval: float | None = None,
        progress: Callable[[int, str], None] = lambda _epoch, _uid: None,
    ) -> None:
        self._store = store
        self._lease = lease
        self._progress = progress
        self._retries = retries or CommitRetries()
        self._stopping = threading.Event()
        self.committers: dict[str, SinkCommitter] = {}
        with ExitStack() as made:  # closes them where one of them cannot be made
            for uid, sink in sinks.items():
                if isinstance(sink, TwoPhaseCommittingSink):
                    context = CommitterInitContext(
                        pipeline_id=pipeline_id,
                        sink_uid=uid,
                        incarnation=lease.incarnation,
                        trigger_interval=trigger_interval,
                    )
                    committer = SinkCommitter(sink, context, self._retries, self._stopping, lease)
                    made.callback(committer.close)
                    self.committers[uid] = committer
            made.pop_all()

    @property
    def rewrites(self) -> bool:
        """Whether rows of a decided epoch may have to be written again."""
        return any(committer.rewrites for committer in self.committers.values())

    def roll_forward(self, decisions: Mapping[int, Decision], last_epoch: int) -> dict[int, Lost]:
        """Finish decided epochs, then roll back undecided ones.

        Args:
            decisions: The epochs that may be unfinished.
            last_epoch: The newest that was decided or fenced; drivers before this one can have
                staged nothing after it.

        Returns:
            The epochs that were not finished before, each with what of it is lost. Nothing is, as
            a rule; else the epoch is finished by :meth:`commit_lost`.
        """
        unfinished = [
            epoch
            for epoch, decision in sorted(decisions.items())
            if not all(is_done(self._store, epoch, uid) for uid in decision.sinks)
        ]
        lost = {epoch: self.commit(decisions[epoch]) for epoch in unfinished}
        self._sweep(range(last_epoch - SWEPT_EPOCHS + 1, last_epoch + 1))
        for committer in self.committers.values():
            self._lease.confirm()
            fault_point("before_recovery", epoch=last_epoch)
            committer.recover(last_epoch)
        return lost

    def commit(self, decision: Decision, rewritten: Lost | None = None) -> Lost:
        """Commit one epoch; a sink that has done so is passed over.

        Args:
            decision: The epoch.
            rewritten: What was written again: all else of these sinks is committed already.

        Returns:
            What is lost. These sinks are not done with the epoch.
        """
        lost: dict[str, frozenset[int]] = {}
        for uid, sink_decision in decision.sinks.items():
            if is_done(self._store, decision.epoch, uid):
                continue
            self._lease.check()
            fault_point("before_commit", epoch=decision.epoch, sink=uid)
            committer = self.committers.get(uid)
            if committer is not None:
                subtasks = None if rewritten is None else rewritten.get(uid)
                gone = committer.commit(decision.epoch, sink_decision, subtasks)
                if gone:
                    lost[uid] = gone
                    continue
            elif sink_decision.committables:
                raise CommitError(
                    f"epoch {decision.epoch} holds committables of {uid!r}, which has no committer",
                    expected="the two-phase sink that wrote them",
                    hint="start once more with the sink (or record policy) as it was; "
                    + GIVE_UP_HINT,
                )
            fault_point("after_commit", epoch=decision.epoch, sink=uid)
            mark_done(self._store, decision.epoch, uid)
            self._progress(decision.epoch, uid)
            fault_point("after_done", epoch=decision.epoch, sink=uid)
        epoch = decision.epoch
        again = SWEPT_EPOCHS if epoch % SWEEP_EVERY_EPOCHS == 0 else 1
        self._sweep(range(epoch - again + 1, epoch + 1))
        return lost

    def commit_lost(
        self, decision: Decision, lost: Lost, write_again: Callable[[Decision, Lost], Decision]
    ) -> None:
        """Have what is lost written again and commit that, until nothing is lost any more.

        Args:
            decision: The epoch.
            lost: What :meth:`commit` said of it.
            write_again: Writes it again; returns the decision with what takes its place, durable.

        Raises:
            CommitError: It is lost again and again.
            RetryableError: The pipeline stops; the next start goes on.
        """
        hint = "the epoch is decided and stays so: its next try begins with the next start"

        def sleep(seconds: float) -> None:
            if self._stopping.wait(seconds):
                raise RetryableError("the pipeline stops before lost rows are written", hint=hint)
            self._lease.check()

        try:
            for attempt in self._retries.retrying(sleep):
                with attempt:
                    decision = write_again(decision, lost)
                    lost = self.commit(decision, lost)
                    if lost:
                        raise RetryableError(f"rows of {', '.join(lost)} are lost again")
        except RetryableError as error:
            if self._stopping.is_set():
                raise
            raise CommitError(
                f"epoch {decision.epoch} of {', '.join(lost)} is lost as often as it is written",
                found=f"{self._retries.attempts} attempts",
                hint=f"{hint}; {GIVE_UP_HINT}",
            ) from error

    def _sweep(self, epochs: range) -> None:
        """Sweep epochs for all sinks, with a look at the lease before the first and behind each.

        Raises:
            LeaseError: Another driver has taken over; what is left is the later driver's to sweep.
        """
        self._lease.check()
        fault_point("before_sweep", epoch=epochs.stop - 1)
        for committer in self.committers.values():
            for epoch in epochs:
                if epoch >= 0:
                    committer.sweep(epoch)
                    self._lease.check()
        if len(epochs) > 1:
            self._forget_claims(below=epochs.start)

    def _forget_claims(self, *, below: int) -> None:
        """Of later epochs an attempt that was killed may still ask, and must find them taken."""
        for epoch in folder_numbers(self._store, "claims"):
            if epoch < below:
                with contextlib.suppress(OSError):  # where one writes at this moment: next time
                    self._store.delete_tree(claims_path(epoch))

    def leases(self, epoch: int) -> Leases:
        """Who leases to the writers of an epoch; empty where no committer does."""
        self._lease.check()
        return {
            uid: functools.partial(committer.lease, epoch)
            for uid, committer in self.committers.items()
            if committer.leases
        }

    def roll_back(self, epoch: int) -> None:
        """Remove what an epoch of this driver staged, which failed before its decision.

        A driver that no longer holds the lease removes what is its own by its name, and leaves
        alone what a later driver may have taken from it. Never raises: what the epoch failed with
        is what the user must see.
        """
        for uid, committer in self.committers.items():
            if committer.leases and not self._lease.held:
                continue
            fault_point("before_roll_back", epoch=epoch, sink=uid)
            try:
                committer.sweep(epoch)
            except Exception:
                _LOGGER.warning(
                    "what sink %r staged for epoch %d is not removed yet: a later epoch, or the "
                    "next start, tries it again",
                    uid,
                    epoch,
                    exc_info=True,
                )

    def give_up_waiting(self) -> None:
        """End a wait for the next try of a commit, from any thread; what runs is finished."""
        self._stopping.set()

    def close(self) -> None:
        """Give up waiting for retries and close the committers."""
        self.give_up_waiting()
        for committer in self.committers.values():
            committer.close()
