# SPDX-License-Identifier: Apache-2.0
"""Commits what decisions name, for all sinks of a query. Driver, no pyspark."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import tenacity

from connectors_core._faults import fault_point
from connectors_core.coordinator.plan_log import is_done, mark_done
from connectors_core.errors import CommitError, RetryableError
from connectors_core.metrics import MetricGroup
from connectors_core.protocol import Decision, SinkDecision
from connectors_core.sink.committer import (
    CommitOutcome,
    CommitRequest,
    Committer,
    CommitterInitContext,
)
from connectors_core.sink.messages import CommittableWithLineage, messages_in_order
from connectors_core.sink.sink import Sink, TwoPhaseCommittingSink
from connectors_core.sink.topology import SupportsPostCommitTopology
from connectors_core.state import StateStore

SWEEP_EVERY_EPOCHS = 8
SWEPT_EPOCHS = 16
_COUNTERS = {
    CommitOutcome.COMMITTED: "successfulCommittables",
    CommitOutcome.ALREADY_COMMITTED: "alreadyCommittedCommittables",
    CommitOutcome.RETRY: "retriedCommittables",
    CommitOutcome.FAILED: "failedCommittables",
}


@dataclass(frozen=True, kw_only=True)
class CommitRetries:
    """How often and how slowly commits are tried again."""

    attempts: int = 10
    initial_seconds: float = 0.2
    max_seconds: float = 30.0


class SinkCommitter:
    """The committers of one sink."""

    def __init__(
        self,
        uid: str,
        sink: TwoPhaseCommittingSink[Any],
        pipeline_id: str,
        retries: CommitRetries,
        stopping: threading.Event,
    ) -> None:
        self.metrics = MetricGroup()
        self._uid = uid
        self._sink = sink
        self._serializer = sink.committable_serializer()
        self._retries = retries
        self._stopping = stopping
        self._counting = threading.Lock()
        context = CommitterInitContext(
            pipeline_id=pipeline_id, sink_uid=uid, metric_group=self.metrics
        )
        self._committers: list[Committer[Any]] = [
            sink.create_committer(context) for _ in range(max(1, sink.committer_parallelism()))
        ]

    def commit(self, epoch: int, decision: SinkDecision) -> None:
        """Commit and run the post-commit topology; idempotent.

        Raises:
            CommitError: A committable can never be committed, or not within the retries.
            RetryableError: The pipeline stops before all are committed.
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
        self.metrics.inc("totalCommittables", len(committables))
        shares = [committables[i :: len(self._committers)] for i in range(len(self._committers))]
        work = [(c, share) for c, share in zip(self._committers, shares, strict=True) if share]
        if len(work) > 1:
            with ThreadPoolExecutor(len(work), thread_name_prefix=f"commit-{self._uid}") as pool:
                list(pool.map(lambda pair: self._commit_share(*pair), work))
        else:
            for committer, share in work:
                self._commit_share(committer, share)
        if isinstance(self._sink, SupportsPostCommitTopology):
            self._sink.add_post_commit_topology(
                messages_in_order(
                    committables,
                    checkpoint_id=epoch,
                    number_of_subtasks=decision.number_of_subtasks,
                )
            )

    def _commit_share(
        self, committer: Committer[Any], share: Sequence[CommittableWithLineage[Any]]
    ) -> None:
        requests = [CommitRequest(message.committable) for message in share]
        retries = self._retries
        backoff = tenacity.wait_random_exponential(retries.initial_seconds, retries.max_seconds)

        def wait(state: tenacity.RetryCallState) -> float:
            error = state.outcome.exception() if state.outcome is not None else None
            asked = error.retry_after if isinstance(error, RetryableError) else None
            return max(backoff(state), asked or 0.0)

        def sleep(seconds: float) -> None:
            if self._stopping.wait(seconds):
                raise RetryableError(
                    f"the pipeline stops before {len(requests)} committables of sink "
                    f"{self._uid!r} are committed",
                    hint="the epoch is decided: the next start commits them",
                )

        try:
            for attempt in tenacity.Retrying(
                retry=tenacity.retry_if_exception_type(RetryableError),
                wait=wait,
                stop=tenacity.stop_after_attempt(retries.attempts),
                sleep=sleep,
                reraise=True,
            ):
                with attempt:
                    try:
                        committer.commit(requests)
                    except RetryableError:
                        # Nothing is known of any of them, whatever was said on them so far.
                        requests = [request.next_try() for request in requests]
                        raise
                    requests = self._unfinished(requests)
                    if requests:
                        raise RetryableError(
                            f"{len(requests)} committables of sink {self._uid!r} are not "
                            "committed yet",
                            hint="see the sink's log for why it asks to retry",
                        )
        except RetryableError as error:
            if self._stopping.is_set():
                raise
            raise CommitError(
                f"sink {self._uid!r} could not commit {len(requests)} committables",
                found=f"{retries.attempts} attempts",
                hint="the epoch is decided and stays so: mend what the cause names and restart",
            ) from error

    def _unfinished(self, requests: Sequence[CommitRequest[Any]]) -> list[CommitRequest[Any]]:
        """Count what ended; returns what must be tried again."""
        by_outcome: dict[CommitOutcome, list[CommitRequest[Any]]] = {o: [] for o in CommitOutcome}
        for request in requests:
            by_outcome[request.outcome].append(request)
        with self._counting:  # the committers of a sink run side by side
            for outcome, name in _COUNTERS.items():
                self.metrics.inc(name, len(by_outcome[outcome]))
        for failed in by_outcome[CommitOutcome.FAILED]:
            raise CommitError(
                f"sink {self._uid!r} cannot commit {failed.committable!r}",
                hint="the epoch is decided and stays so: mend what the cause names and restart",
            ) from failed.error
        return [request.next_try() for request in by_outcome[CommitOutcome.RETRY]]

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
        retries: For commits that ask to be tried again.
        progress: Called after each sink's commit with epoch and uid.
    """

    def __init__(
        self,
        sinks: Mapping[str, Sink],
        *,
        store: StateStore,
        pipeline_id: str,
        retries: CommitRetries | None = None,
        progress: Callable[[int, str], None] = lambda _epoch, _uid: None,
    ) -> None:
        self._store = store
        self._progress = progress
        self._stopping = threading.Event()
        self.committers = {
            uid: SinkCommitter(uid, sink, pipeline_id, retries or CommitRetries(), self._stopping)
            for uid, sink in sinks.items()
            if isinstance(sink, TwoPhaseCommittingSink)
        }

    def roll_forward(self, decisions: Mapping[int, Decision], last_decided: int) -> list[int]:
        """Finish decided epochs, then fence and roll back undecided ones.

        Returns:
            The epochs that were not finished before.
        """
        unfinished = [
            epoch
            for epoch, decision in sorted(decisions.items())
            if not all(is_done(self._store, epoch, uid) for uid in decision.sinks)
        ]
        for epoch in unfinished:
            self.commit(decisions[epoch])
        for committer in self.committers.values():
            committer.recover(last_decided)
            for epoch in range(max(0, last_decided - SWEPT_EPOCHS + 1), last_decided + 1):
                committer.sweep(epoch)
        return unfinished

    def commit(self, decision: Decision) -> None:
        """Commit one epoch; a sink that has done so is passed over."""
        for uid, sink_decision in decision.sinks.items():
            if is_done(self._store, decision.epoch, uid):
                continue
            fault_point("before_commit", epoch=decision.epoch, sink=uid)
            committer = self.committers.get(uid)
            if committer is not None:
                committer.commit(decision.epoch, sink_decision)
            elif sink_decision.committables:
                raise CommitError(
                    f"epoch {decision.epoch} holds committables of {uid!r}, which has no committer",
                    expected="the two-phase sink that wrote them",
                    hint="start once more with the sink (or record policy) as it was",
                )
            fault_point("after_commit", epoch=decision.epoch, sink=uid)
            mark_done(self._store, decision.epoch, uid)
            self._progress(decision.epoch, uid)
            fault_point("after_done", epoch=decision.epoch, sink=uid)
        self._sweep(decision.epoch)

    def _sweep(self, epoch: int) -> None:
        oldest = epoch - SWEPT_EPOCHS + 1 if epoch % SWEEP_EVERY_EPOCHS == 0 else epoch
        for committer in self.committers.values():
            for each in range(max(0, oldest), epoch + 1):
                committer.sweep(each)

    def roll_back(self, epoch: int) -> None:
        """An epoch failed before its decision: remove what it staged so far."""
        for committer in self.committers.values():
            committer.sweep(epoch)

    def give_up_waiting(self) -> None:
        """End a wait for the next try of a commit, from any thread; what runs is finished."""
        self._stopping.set()

    def close(self) -> None:
        """Give up waiting for retries and close the committers."""
        self.give_up_waiting()
        for committer in self.committers.values():
            committer.close()
