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
        for attempt in tenacity.Retrying(
            retry=tenacity.retry_if_exception_type(RetryableError),
            wait=tenacity.wait_random_exponential(retries.initial_seconds, retries.max_seconds),
            stop=tenacity.stop_after_attempt(retries.attempts)
            | tenacity.stop_when_event_set(self._stopping),
            sleep=tenacity.sleep_using_event(self._stopping),
            reraise=True,
        ):
            with attempt:
                committer.commit(requests)
                requests = self._unfinished(requests)
                if requests:
                    raise RetryableError(
                        f"{len(requests)} committables of sink {self._uid!r} are not committed yet",
                        hint="see the sink's log for why it asks to retry",
                    )

    def _unfinished(self, requests: Sequence[CommitRequest[Any]]) -> list[CommitRequest[Any]]:
        """Count what ended; returns what must be tried again."""
        for request in requests:
            if request.outcome is CommitOutcome.FAILED:
                self.metrics.inc("failedCommittables")
                raise CommitError(
                    f"sink {self._uid!r} cannot commit {request.committable!r}",
                    hint="the epoch is decided and stays so: mend what the cause names and restart",
                ) from request.error
        done = sum(1 for r in requests if r.outcome is CommitOutcome.COMMITTED)
        already = sum(1 for r in requests if r.outcome is CommitOutcome.ALREADY_COMMITTED)
        self.metrics.inc("successfulCommittables", done)
        self.metrics.inc("alreadyCommittedCommittables", already)
        again = [r.next_try() for r in requests if r.outcome is CommitOutcome.RETRY]
        self.metrics.inc("retriedCommittables", len(again))
        return again

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

    def close(self) -> None:
        """Give up waiting for retries and close the committers."""
        self._stopping.set()
        for committer in self.committers.values():
            committer.close()
