# SPDX-License-Identifier: Apache-2.0
"""Commits the committables of decisions, for all sinks of a query. Driver, no pyspark."""

from __future__ import annotations

import contextlib
import functools
import logging
import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import compress
from operator import not_
from typing import Any, Final, Protocol

import tenacity

from connectors_core.clients.retries import RetryLog, RetryPolicy
from connectors_core.engine._faults import fault_point
from connectors_core.engine.coordinator.committer_in_tasks import CommitterInTasks, RunTasks
from connectors_core.engine.coordinator.document_numbers import folder_numbers
from connectors_core.engine.coordinator.held_sets import SWEPT_EPOCHS, HeldSets, Members
from connectors_core.engine.coordinator.plan_log import is_done, mark_done
from connectors_core.engine.execution.routes import RouteSinks
from connectors_core.engine.execution.writer_task import Leases
from connectors_core.engine.protocol import (
    DecidedCommittable,
    Decision,
    HeldRef,
    SinkDecision,
    claims_path,
)
from connectors_core.engine.state import Lease, StateStore
from connectors_core.errors import CommitError, RetryableError, UnsupportedError
from connectors_core.metrics import CommitterMetric
from connectors_core.sink.abilities import (
    SupportsCommittedEpoch,
    SupportsLeases,
    SupportsRewriting,
)
from connectors_core.sink.commit_tasks import SupportsCommitTasks
from connectors_core.sink.committer import (
    CommitOutcome,
    CommitRequest,
    Committer,
    CommitterInitContext,
)
from connectors_core.sink.compaction import SupportsCompaction
from connectors_core.sink.demultiplexing import DemultiplexingSink
from connectors_core.sink.demultiplexing.committer import DemultiplexingCommitter
from connectors_core.sink.demultiplexing.routed import request_of
from connectors_core.sink.held import SupportsHeldCommittables
from connectors_core.sink.messages import messages_of
from connectors_core.sink.sink import DeliveryGuarantee, Sink, TwoPhaseCommittingSink
from connectors_core.sink.topology import (
    SupportsPostCommitTopology,
    SupportsPreCommitTopologyOverEpochs,
)

_LOGGER: Final = logging.getLogger(__name__)
GIVE_UP_HINT: Final = (
    "if its rows are lost permanently, `connectors state give-up LOCATION EPOCH` abandons them, or "
    "writes them again with `--read-again`; `connectors state show LOCATION` lists the epochs"
)
"""The last resort for a decided epoch that cannot be committed."""
_DECIDED_HINT: Final = (
    "the epoch remains decided: fix the cause and restart the pipeline; " + GIVE_UP_HINT
)
SWEEP_EVERY_EPOCHS = 8
_COUNTERS = {
    CommitOutcome.COMMITTED: CommitterMetric.SUCCESSFUL_COMMITTABLES,
    CommitOutcome.ALREADY_COMMITTED: CommitterMetric.ALREADY_COMMITTED_COMMITTABLES,
    CommitOutcome.RETRY: CommitterMetric.RETRIED_COMMITTABLES,
    CommitOutcome.FAILED: CommitterMetric.FAILED_COMMITTABLES,
    CommitOutcome.LOST: CommitterMetric.LOST_COMMITTABLES,
}

_OfSubtask = tuple[int, Any]
"""A committable and the writer that created it."""

_Share = tuple[Committer[Any], Sequence[_OfSubtask]]
"""A committer and what it commits of an epoch."""

Lost = Mapping[str, frozenset[int]]
"""By sink uid, the subtasks of an epoch whose committables are lost."""


@dataclass(frozen=True, kw_only=True)
class CommitRetries:
    """Number and backoff of commit retries."""

    attempts: int = 10
    initial_seconds: float = 0.2
    max_seconds: float = 30.0

    def retrying(self, sleep: Callable[[float], None]) -> tenacity.Retrying:
        """Return a retrying call that retries on `RetryableError` and raises the last one.

        Args:
            sleep: Sleeps for a number of seconds.
        """
        policy = RetryPolicy(
            initial_backoff=self.initial_seconds,
            max_backoff=self.max_seconds,
            max_attempts=self.attempts,
        )
        return policy.retrying(RetryLog("a commit"), sleep=sleep)


class Holder(Protocol):
    """Whoever may commit; a :class:`Lease` in a pipeline."""

    def check(self) -> None:
        """Raise a `LeaseError` if another driver has taken over."""


class SinkCommitter:
    """The committers of one sink.

    Args:
        sink: The sink.
        context: The context of its committers.
        retries: Retries of commits that request one.
        stopping: Set when the pipeline stops waiting for commits.
        lease: The lease of this driver.
        run_tasks: Runs the tasks of a commit; None if only the driver commits.
    """

    def __init__(
        self,
        sink: TwoPhaseCommittingSink[Any],
        context: CommitterInitContext,
        retries: CommitRetries,
        stopping: threading.Event,
        lease: Holder,
        run_tasks: RunTasks | None = None,
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
        with ExitStack() as made:  # closes the others if one cannot be created
            for _ in range(max(1, sink.committer_parallelism())):
                self._committers.append(sink.create_committer(context))
                made.callback(self._committers[-1].close)
            self._check_abilities()
            made.pop_all()
        self._in_tasks: CommitterInTasks | None = None
        if isinstance(sink, SupportsCommitTasks) and run_tasks is not None:
            self._in_tasks = CommitterInTasks(sink, context, run_tasks)
        self._routes = RouteSinks(sink) if isinstance(sink, DemultiplexingSink) else None

    def _check_abilities(self) -> None:
        sink = self._sink
        holds = isinstance(sink, SupportsPreCommitTopologyOverEpochs) or (
            isinstance(sink, SupportsCompaction) and sink.create_compaction() is not None
        )
        if holds and not isinstance(self._committers[0], SupportsHeldCommittables):
            raise UnsupportedError(
                f"sink {self._uid!r} holds committables, but its committer cannot keep them",
                expected="a committer with the ability SupportsHeldCommittables",
                found=type(self._committers[0]).__name__,
                hint="report this to the author of the sink",
            )
        if self.leases and isinstance(self._sink, SupportsCommitTasks):
            raise UnsupportedError(
                f"tasks commit for sink {self._uid!r}, but its committer leases resources: a late "
                "task could use a resource that a later lease has taken over",
                expected="SupportsCommitTasks, or a committer with the ability SupportsLeases",
                found=type(self._committers[0]).__name__,
                hint="report this to the author of the sink",
            )

    def commit(
        self, epoch: int, decision: SinkDecision, subtasks: Collection[int] | None = None
    ) -> frozenset[int]:
        """Commit and, if nothing is lost, run the post-commit topology. Idempotent.

        Args:
            epoch: The epoch.
            decision: The decision for this sink.
            subtasks: The writers whose committables to commit; None for all.

        Returns:
            Writers whose committables are lost.

        Raises:
            CommitError: A committable can never be committed, or the retries are exhausted.
            RetryableError: The pipeline stops before all are committed.
            LeaseError: Another driver has taken over and commits the rest.
        """
        committables = [(decided.subtask, self._read(decided)) for decided in decision.committables]
        wanted = [each for each in committables if subtasks is None or each[0] in subtasks]
        self.metrics.inc(CommitterMetric.TOTAL_COMMITTABLES, len(wanted))
        by_tasks, own = self._divided(wanted)
        lost = [self._commit_share(committer, share) for committer, share in by_tasks]
        if len(own) > 1:
            with ThreadPoolExecutor(len(own), thread_name_prefix=f"commit-{self._uid}") as pool:
                lost += pool.map(lambda pair: self._commit_share(*pair), own)
        else:
            lost += [self._commit_share(committer, share) for committer, share in own]
        if any(lost):
            return frozenset[int]().union(*lost)
        if self._routes is not None:
            self._open({routed.route for _, routed in committables})  # tasks may commit them
        for sink, committed, where in self._post_commits(committables):
            self._post_commit(sink, epoch, decision.number_of_subtasks, committed, where)
        return frozenset()

    def _post_commits(
        self, committables: Sequence[_OfSubtask]
    ) -> Iterator[tuple[SupportsPostCommitTopology[Any], Sequence[_OfSubtask], str]]:
        """Yield the post-commit topologies of the sink or of its routes, and what they get."""
        if isinstance(self._sink, SupportsPostCommitTopology):
            yield self._sink, committables, ""
        if self._routes is None:
            return
        by_route: dict[str, list[_OfSubtask]] = {}
        for subtask, committable in committables:
            by_route.setdefault(committable.route, []).append((subtask, committable))
        for route, routed in by_route.items():
            sink = self._routes[route]
            if isinstance(sink, SupportsPostCommitTopology):
                own = [(subtask, each.committable_of(sink)) for subtask, each in routed]
                yield sink, own, f" for route {route!r}"

    def _post_commit(
        self,
        sink: SupportsPostCommitTopology[Any],
        epoch: int,
        subtasks: int,
        committables: Sequence[_OfSubtask],
        where: str,
    ) -> None:
        """Run a post-commit topology until it is finished."""
        # Held committables of writers that this epoch does not have may be among them.
        writers = max((subtask + 1 for subtask, _ in committables), default=0)
        messages = messages_of(
            committables,
            checkpoint_id=epoch,
            number_of_subtasks=max(writers, subtasks),
            committed=True,
        )
        self._retry(
            lambda: sink.add_post_commit_topology(iter(messages)),
            lambda: f"finish the step after the commits of epoch {epoch}{where}",
        )

    def _divided(self, wanted: Sequence[_OfSubtask]) -> tuple[list[_Share], list[_Share]]:
        """Return the share of the tasks, if they commit, and the shares of the driver."""
        by_tasks: list[_Share] = []
        if self._in_tasks is not None:
            taken = self._in_tasks.takes([committable for _, committable in wanted])
            share = list(compress(wanted, taken))
            wanted = list(compress(wanted, map(not_, taken)))
            by_tasks = [(self._in_tasks, share)] if share else []
        shares = [wanted[i :: len(self._committers)] for i in range(len(self._committers))]
        own = zip(self._committers, shares, strict=True)
        return by_tasks, [(committer, share) for committer, share in own if share]

    def _commit_share(self, committer: Committer[Any], share: Sequence[_OfSubtask]) -> set[int]:
        """Commit a share of an epoch; return the subtasks whose committables are lost."""
        pending = [(CommitRequest(committable), subtask) for subtask, committable in share]
        lost: set[int] = set()

        def commit() -> None:
            nonlocal pending
            try:
                committer.commit([request for request, _ in pending])
            except RetryableError:
                # The state of all of them is unknown, regardless of their outcomes so far.
                pending = [(request.next_try(), subtask) for request, subtask in pending]
                raise
            self._check([request for request, _ in pending])
            lost.update(of for request, of in pending if request.outcome is CommitOutcome.LOST)
            retried = [each for each in pending if each[0].outcome is CommitOutcome.RETRY]
            reasons = [request.error for request, _ in retried if request.error is not None]
            pending = [(request.next_try(), subtask) for request, subtask in retried]
            if pending:
                raise RetryableError(
                    f"{len(pending)} committables of sink {self._uid!r} are not committed yet",
                    hint="see the sink's log for why it asks to retry",
                ) from next(iter(reasons), None)

        self._retry(commit, lambda: f"commit {len(pending)} committables")
        return lost

    def _retry(self, step: Callable[[], None], unfinished: Callable[[], str]) -> None:
        """Repeat a step after each `RetryableError`.

        Args:
            step: The step.
            unfinished: Returns what the sink has yet to do.

        Raises:
            CommitError: The retries are exhausted.
            RetryableError: The pipeline stops.
            LeaseError: Another driver has taken over.
        """

        def sleep(seconds: float) -> None:
            if self._stopping.wait(seconds):
                raise RetryableError(
                    f"the pipeline stops before sink {self._uid!r} can {unfinished()}",
                    hint="restart the pipeline: the epoch is decided, and the next start commits "
                    "it",
                )
            self._lease.check()

        try:
            for attempt in self._retries.retrying(sleep):
                with attempt:
                    step()
        except RetryableError as error:
            if self._stopping.is_set():
                raise
            raise CommitError(
                f"sink {self._uid!r} could not {unfinished()}",
                found=f"{self._retries.attempts} attempts",
                hint=_DECIDED_HINT,
            ) from error

    def _check(self, requests: Sequence[CommitRequest[Any]]) -> None:
        """Count the outcomes and raise an error for unrecoverable ones."""
        by_outcome: dict[CommitOutcome, list[CommitRequest[Any]]] = {o: [] for o in CommitOutcome}
        for request in requests:
            by_outcome[request.outcome].append(request)
        with self._counting:  # the committers of a sink run concurrently
            for outcome, name in _COUNTERS.items():
                self.metrics.inc(name, len(by_outcome[outcome]))
        if by_outcome[CommitOutcome.LOST] and not self.rewrites:
            raise CommitError(
                f"sink {self._uid!r} has lost {by_outcome[CommitOutcome.LOST][0].committable!r}",
                expected="a sink with the ability SupportsRewriting, whose rows can be rewritten",
                found=type(self._sink).__name__,
                hint="the epoch remains decided: report this to the author of the sink; "
                + GIVE_UP_HINT,
            )
        for failed in by_outcome[CommitOutcome.FAILED]:
            raise CommitError(
                f"sink {self._uid!r} cannot commit {failed.committable!r}",
                hint=_DECIDED_HINT,
            ) from failed.error

    @property
    def guarantee(self) -> DeliveryGuarantee:
        """The guarantee of the sink."""
        return self._sink.delivery_guarantee

    @property
    def rewrites(self) -> bool:
        """Whether the sink supports rewriting lost rows."""
        return isinstance(self._sink, SupportsRewriting)

    @property
    def leases(self) -> bool:
        """Whether its writers need a lease."""
        return isinstance(self._committers[0], SupportsLeases)

    def lease(self, epoch: int, number_of_writers: int) -> Any:
        """Return the lease for the writers of an epoch."""
        committer = self._committers[0]
        assert isinstance(committer, SupportsLeases)
        return committer.lease(epoch, number_of_writers)

    def sweep(self, epoch: int, held: Sequence[DecidedCommittable] = ()) -> None:
        """Remove the staged data of an epoch that is not held for a compaction."""
        committer = self._committers[0]
        if held:
            assert isinstance(committer, SupportsHeldCommittables)
            committer.sweep_others(epoch, [self._read(each) for each in held])
        else:
            committer.sweep(epoch)

    def sweep_request(self, request: HeldRef, members: Members) -> None:
        """Remove the staged data of a compaction whose result is committed."""
        committer = self._committers[0]
        names = [str(request)]
        if self._routes is not None:
            routes = self._routes.routes_of(members.values())
            names = [request_of(route, str(request)) for route in routes]
        if isinstance(committer, SupportsHeldCommittables):  # a changed sink may not have it
            for name in names:
                committer.sweep_request(name)

    def learn(self, decision: SinkDecision) -> None:
        """Open the committers of the routes of a decision, so that sweeps include them."""
        if self._routes is not None:
            self._open(self._routes.routes_of((*decision.committables, *decision.held)))

    def _open(self, routes: Collection[str]) -> None:
        committer = self._committers[0]
        if isinstance(committer, DemultiplexingCommitter):
            self._retry(
                lambda: committer.open(routes),
                lambda: f"open the committers of {len(routes)} routes",
            )

    def _read(self, decided: DecidedCommittable) -> Any:
        stored = decided.committable
        return self._serializer.deserialize(stored.version, stored.data)

    def recover(self, last_decided: int) -> None:
        """Fence and roll back epochs after the last decided one."""
        self._committers[0].recover(last_decided)

    def warn_of_newer_output(self, newest: int) -> None:
        """Warn if the target has output of an epoch after the newest decided one."""
        committer = self._committers[0]
        if not isinstance(committer, SupportsCommittedEpoch):
            return
        found = committer.newest_committed_epoch()
        if found is not None and found > newest:
            _LOGGER.warning(
                "sink %r has output of epoch %d, but the state of the pipeline %s: the state is "
                "older than the output, as after the restore of a backup. The pipeline reads the "
                "rows of the later epochs again, and writes them again",
                self._uid,
                found,
                f"ends with epoch {newest}" if newest >= 0 else "has no epoch",
            )

    def epoch_committed(self, epoch: int) -> None:
        """Keep the number of a committed epoch in the target, if it can."""
        committer = self._committers[0]
        if isinstance(committer, SupportsCommittedEpoch):
            committer.epoch_committed(epoch)

    def close(self) -> None:
        """Close the committers."""
        with ExitStack() as stack:  # closes all, even if one fails
            for committer in self._committers:
                stack.callback(committer.close)


class EpochCommitter:
    """Commits decided epochs in order, for all sinks.

    Args:
        sinks: All sinks by uid, including those without two-phase commit.
        store: The state location of the query.
        pipeline_id: The pipeline.
        lease: The lease of this driver.
        retries: Retries of commits that request one.
        trigger_interval: Minimum number of seconds between two epochs; None in a batch run.
        progress: Called with epoch and uid after each commit of a sink.
        held: The held sets of the sinks. Sweeps spare their committables.
        run_tasks: Runs the tasks of a commit; None if only the driver commits.
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
        held: HeldSets | None = None,
        run_tasks: RunTasks | None = None,
    ) -> None:
        self._held = HeldSets() if held is None else held
        self._store = store
        self._lease = lease
        self._progress = progress
        self._retries = retries or CommitRetries()
        self._stopping = threading.Event()
        self.committers: dict[str, SinkCommitter] = {}
        with ExitStack() as made:  # closes the others if one cannot be created
            for uid, sink in sinks.items():
                if isinstance(sink, TwoPhaseCommittingSink):
                    context = CommitterInitContext(
                        pipeline_id=pipeline_id,
                        sink_uid=uid,
                        incarnation=lease.incarnation,
                        trigger_interval=trigger_interval,
                    )
                    committer = SinkCommitter(
                        sink, context, self._retries, self._stopping, lease, run_tasks
                    )
                    made.callback(committer.close)
                    self.committers[uid] = committer
            made.pop_all()

    @property
    def rewrites(self) -> bool:
        """Whether rows of a decided epoch may have to be rewritten."""
        return any(committer.rewrites for committer in self.committers.values())

    def roll_forward(self, decisions: Mapping[int, Decision], last_epoch: int) -> dict[int, Lost]:
        """Commit unfinished decided epochs, then roll back undecided ones.

        Args:
            decisions: The epochs that may be unfinished.
            last_epoch: The newest decided or fenced epoch. Earlier drivers cannot have staged rows
                for a later one.

        Returns:
            The lost committables of each epoch that was unfinished, usually none. If there are any,
            :meth:`commit_lost` must finish the epoch.
        """
        for epoch in sorted(decisions)[-SWEPT_EPOCHS:]:
            for uid, committer in self.committers.items():
                committer.learn(decisions[epoch].sinks.get(uid, SinkDecision()))
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
            committer.warn_of_newer_output(max(decisions, default=-1))
        return lost

    def commit(self, decision: Decision, rewritten: Lost | None = None) -> Lost:
        """Commit one epoch for all sinks that have not committed it yet.

        Args:
            decision: The decision on the epoch.
            rewritten: The rewritten committables, if any. All others of these sinks are already
                committed.

        Returns:
            The lost committables. Their sinks have not finished the epoch.
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
                    hint="start once with the original sink or record policy; " + GIVE_UP_HINT,
                )
            fault_point("after_commit", epoch=decision.epoch, sink=uid)
            mark_done(self._store, decision.epoch, uid)
            if committer is not None and sink_decision.committables:
                committer.epoch_committed(decision.epoch)
            self._progress(decision.epoch, uid)
            fault_point("after_done", epoch=decision.epoch, sink=uid)
        epoch = decision.epoch
        again = SWEPT_EPOCHS if epoch % SWEEP_EVERY_EPOCHS == 0 else 1
        self._sweep(range(epoch - again + 1, epoch + 1))
        return lost

    def commit_lost(
        self, decision: Decision, lost: Lost, write_again: Callable[[Decision, Lost], Decision]
    ) -> None:
        """Rewrite and commit the lost rows of an epoch, until all are committed.

        Args:
            decision: The decision on the epoch.
            lost: The lost committables that :meth:`commit` returned.
            write_again: Rewrites them; returns the decision with the new committables, which are
                durable.

        Raises:
            CommitError: Rewritten committables were lost too, until the retries were exhausted.
            RetryableError: The pipeline stops. The next start continues.
        """
        hint = "restart the pipeline: the epoch stays decided, and the next start commits it"

        def sleep(seconds: float) -> None:
            if self._stopping.wait(seconds):
                raise RetryableError("the pipeline stops before lost rows are rewritten", hint=hint)
            self._lease.check()

        try:
            for attempt in self._retries.retrying(sleep):
                with attempt:
                    before, decision = decision, write_again(decision, lost)
                    lost = self.commit(decision, _rewritten(before, decision, lost))
                    if lost:
                        raise RetryableError(f"rows of {', '.join(lost)} are lost again")
        except RetryableError as error:
            if self._stopping.is_set():
                raise
            raise CommitError(
                f"epoch {decision.epoch} of {', '.join(lost)} is lost after every rewrite",
                found=f"{self._retries.attempts} attempts",
                hint=f"{hint}; {GIVE_UP_HINT}",
            ) from error

    def _sweep(self, epochs: range) -> None:
        """Sweep epochs for all sinks; check the lease before the first sweep and after each.

        Raises:
            LeaseError: Another driver has taken over and sweeps the remaining epochs.
        """
        self._lease.check()
        fault_point("before_sweep", epoch=epochs.stop - 1)
        for uid, committer in self.committers.items():
            merged = [self._held.merged_by(epoch, uid) for epoch in epochs]
            originals = {epoch for each in merged for epoch in each.epochs}
            for epoch in sorted(originals | {epoch for epoch in epochs if epoch >= 0}):
                committer.sweep(epoch, self._held[uid].of_epoch(epoch))
                self._lease.check()
            for request, members in (pair for each in merged for pair in each.requests.items()):
                committer.sweep_request(request, members)
                self._lease.check()
        if len(epochs) > 1:
            self._forget_claims(below=epochs.start)

    def _forget_claims(self, *, below: int) -> None:
        """Remove the claims of old epochs. Killed attempts may still check those of later ones."""
        for epoch in folder_numbers(self._store, "claims"):
            if epoch < below:
                with contextlib.suppress(OSError):  # an attempt is writing one: retry later
                    self._store.delete_tree(claims_path(epoch))

    def leases(self, epoch: int) -> Leases:
        """Return the leases for the writers of an epoch; empty if no committer uses leases."""
        self._lease.check()
        return {
            uid: functools.partial(committer.lease, epoch)
            for uid, committer in self.committers.items()
            if committer.leases
        }

    def roll_back(self, epoch: int) -> None:
        """Remove the staged data of an epoch of this driver that failed before its decision.

        A driver that no longer holds the lease removes only data under its own names, because a
        later driver may have taken over the rest. Never raises: the user must see the original
        error.
        """
        for uid, committer in self.committers.items():
            if committer.leases and not self._lease.held:
                continue
            fault_point("before_roll_back", epoch=epoch, sink=uid)
            try:
                committer.sweep(epoch, self._held[uid].of_epoch(epoch))
            except Exception:
                _LOGGER.warning(
                    "could not remove the data that sink %r staged for epoch %d: a later epoch or "
                    "the "
                    "next start retries",
                    uid,
                    epoch,
                    exc_info=True,
                )

    @property
    def gives_up_waiting(self) -> bool:
        """Whether the pipeline is stopping."""
        return self._stopping.is_set()

    def give_up_waiting(self) -> None:
        """End waits for commit retries; a running commit finishes. From any thread."""
        self._stopping.set()

    def close(self) -> None:
        """End waits for retries and close the committers."""
        self.give_up_waiting()
        with ExitStack() as stack:  # closes all, even if one fails
            for committer in self.committers.values():
                stack.callback(committer.close)


def _rewritten(before: Decision, after: Decision, lost: Lost) -> Lost:
    """Add to the writers that lost rows those that a rewrite with other partitions has added."""

    def writers(decision: Decision, uid: str) -> set[int]:
        return {each.subtask for each in decision.sinks[uid].committables}

    return {uid: gone | (writers(after, uid) - writers(before, uid)) for uid, gone in lost.items()}
