# SPDX-License-Identifier: Apache-2.0
"""Combines what the sinks of a query hold over epochs, in jobs next to its epochs. Driver.

Decisions record everything: committables that are held, requests to merge them, and their results.
A job only produces results, which a later decision takes. If the driver dies, the next one runs
open requests again. A pre-commit topology over epochs needs no job: its results are in the decision
that requests them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import replace
from typing import Any, Final

from connectors_core.engine._faults import fault_point
from connectors_core.engine.coordinator.held_sets import HeldSet, HeldSets, Members
from connectors_core.engine.execution.compactor_task import (
    CompactMessage,
    CompactTask,
    RecordedRequest,
)
from connectors_core.engine.protocol import DecidedCommittable, Decision, HeldRef, SinkDecision
from connectors_core.engine.query.pre_commit import SinkTopologyOverEpochs
from connectors_core.engine.query.route_topologies import RouteTopologies
from connectors_core.engine.query.waiting import (
    Holding,
    Requests,
    Result,
    Waiting,
    cannot_hold,
    settleable,
    settled,
)
from connectors_core.metrics import MetricGroup, SinkMetric
from connectors_core.sink.compaction import Compaction, SupportsCompaction
from connectors_core.sink.demultiplexing import DemultiplexingSink
from connectors_core.sink.sink import Sink, TwoPhaseCommittingSink
from connectors_core.sink.topology import SupportsPreCommitTopologyOverEpochs

_CANCEL_AGAIN_SECONDS: Final = 0.2


class SinkCompaction:
    """The compaction of one sink.

    Args:
        uid: The sink's uid.
        sink: The sink.
        compaction: How it compacts.
        clock: Monotonic seconds.
    """

    def __init__(
        self,
        uid: str,
        sink: TwoPhaseCommittingSink[Any],
        compaction: Compaction[Any],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.sink = sink
        self.settings = compaction
        self.tasks = compaction.compactors
        self.max_held = compaction.max_held
        self.results: dict[HeldRef, Result] = {}
        self._waiting = Waiting(uid, sink, compaction.max_wait, clock)

    def step(
        self, held: HeldSet, epoch: int, decision: SinkDecision, *, everything: bool
    ) -> SinkDecision:
        """Return a decision that holds its committables, requests merges, and takes results.

        Args:
            held: The held set of the sink before the decision.
            epoch: The epoch of the decision.
            decision: The decision without compaction.
            everything: Whether all waiting committables must be in a request.
        """
        if not self.settings.holds:
            return self._drained(held, epoch, decision)
        decision = replace(decision, held=decision.committables, committables=())
        waiting = held.after(epoch, decision)
        everything = everything or len(waiting) > self.max_held or self._waiting.is_overdue(held)
        decision = replace(decision, requests=self._requests(waiting, epoch, everything))
        return settled(decision, self._settleable(held.after(epoch, decision)))

    def _drained(self, held: HeldSet, epoch: int, decision: SinkDecision) -> SinkDecision:
        alone = tuple((ref,) for ref in held.waiting)
        drained = settled(
            replace(decision, requests=alone, committables=()),
            settleable(
                held.after(epoch, SinkDecision(requests=alone)),
                lambda _request, members: tuple(members.values()),
                whole_epochs=self.settings.whole_epochs,
            ),
        )
        return replace(drained, committables=drained.committables + decision.committables)

    def _result(self, request: HeldRef, members: Members) -> Result | None:
        if len(members) <= 1:
            return tuple(members.values())
        return self.results.get(request)

    def _requests(self, held: HeldSet, epoch: int, everything: bool) -> Requests:
        waiting = self._waiting.of(held)
        if not waiting:
            return ()
        asked = self.settings.coordinator.requests(waiting, epoch, everything=everything)
        return self._waiting.requests(
            [each.held for each in asked if each.held],
            held,
            by="compact coordinator",
            everything=everything,
        )

    def is_ready(self, held: HeldSet) -> bool:
        """Whether a decision could settle or request something now."""
        if not self.settings.holds:
            return not held.is_empty
        return bool(self._settleable(held)) or self._waiting.is_overdue(held)

    def _settleable(self, held: HeldSet) -> dict[HeldRef, Result]:
        return settleable(held, self._result, whole_epochs=self.settings.whole_epochs)

    def open_requests(self, held: HeldSet) -> tuple[RecordedRequest, ...]:
        """Return the requests that a compactor must run."""
        if not self.settings.holds:
            return ()
        return tuple(
            RecordedRequest(
                ref=request, committables=tuple(each.committable for each in members.values())
            )
            for request, members in held.requests.items()
            if self._result(request, members) is None
        )

    def take(self, request: HeldRef, result: Result) -> None:
        """Take over the result of a job."""
        self.results[request] = result

    def decided(self, held: HeldSet) -> None:
        """Forget what is no longer held, and remember when the rest began to wait."""
        self.results = {ref: each for ref, each in self.results.items() if ref in held.requests}
        self._waiting.decided(held)


def holding_of(uid: str, sink: TwoPhaseCommittingSink[Any]) -> Holding | None:
    """Return how a sink without routes holds committables; None if it does not."""
    compaction = sink.create_compaction() if isinstance(sink, SupportsCompaction) else None
    if compaction is not None:
        return SinkCompaction(uid, sink, compaction)
    if isinstance(sink, SupportsPreCommitTopologyOverEpochs):
        return SinkTopologyOverEpochs(uid, sink)
    return None


class Compactions:
    """The compactions and the pre-commit topologies over epochs of a query.

    Only the thread that runs an epoch uses it, one at a time; see `EpochRunner`.

    Args:
        sinks: All sinks by uid.
        held: Their held sets.
        run: Runs the requests of a job and returns their results.
        cancel: Cancels the jobs.
        pipeline_id: The pipeline.
        metrics: Returns the metrics of a sink.
    """

    def __init__(
        self,
        sinks: Mapping[str, Sink],
        *,
        held: HeldSets,
        run: Callable[[CompactTask], list[CompactMessage]],
        cancel: Callable[[], None],
        pipeline_id: str,
        metrics: Callable[[str], MetricGroup],
    ) -> None:
        self.held = held
        self._run = run
        self._cancel = cancel
        self._pipeline_id = pipeline_id
        self._metrics = metrics
        self._sinks: dict[str, Holding] = {}
        for uid, sink in sinks.items():
            own: Holding | None = None
            if isinstance(sink, DemultiplexingSink):
                own = RouteTopologies(uid, sink, holding_of)
            elif isinstance(sink, TwoPhaseCommittingSink):
                own = holding_of(uid, sink)
            if own is not None:
                self._sinks[uid] = own
        self._jobs: dict[str, Future[list[CompactMessage]]] = {}
        self._threads = ThreadPoolExecutor(
            max(1, len(self._sinks)), thread_name_prefix="compaction"
        )

    def restore(self, decisions: Sequence[Decision]) -> None:
        """Take over the decisions of earlier drivers.

        Args:
            decisions: All decisions since the oldest one that still holds something, in order.

        Raises:
            ConfigurationError: They hold committables of a sink that no longer holds any.
        """
        for decision in decisions:
            self.held.decided(decision)
        for uid, held in self.held.holding().items():
            if uid not in self._sinks:
                raise cannot_hold(uid, len(held))
        self._forget()

    def step(
        self, epoch: int, sinks: Mapping[str, SinkDecision], *, everything: bool = False
    ) -> dict[str, SinkDecision]:
        """Return the sinks of a decision after holding, requesting, and taking results.

        Args:
            epoch: The epoch of the decision.
            sinks: Its sinks without compaction.
            everything: Whether all waiting committables must be in a request.

        Raises:
            Exception: A job failed.
        """
        self._collect()
        changed = dict(sinks)
        for uid, own in self._sinks.items():
            before = sinks.get(uid, SinkDecision())
            after = own.step(self.held[uid], epoch, before, everything=everything)
            if after != before:
                changed[uid] = after
        return changed

    def decided(self, decision: Decision) -> None:
        """Take over a decision of this driver."""
        self.held.decided(decision)
        self._forget()
        self.start_jobs()
        for uid, sink in decision.sinks.items():
            if sink.compacted:
                self._metrics(uid).inc(SinkMetric.NUM_COMPACTIONS, len(sink.compacted))

    def start_jobs(self) -> None:
        """Start a job for each sink that has open requests and no job."""
        for uid, own in self._sinks.items():
            requests = () if uid in self._jobs else own.open_requests(self.held[uid])
            if requests:
                task = CompactTask(
                    pipeline_id=self._pipeline_id,
                    uid=uid,
                    sink=own.sink,
                    requests=requests,
                    tasks=min(own.tasks, len(requests)),
                )
                self._jobs[uid] = self._threads.submit(self._job, task)

    def _job(self, task: CompactTask) -> list[CompactMessage]:
        fault_point("before_compaction", sink=task.uid)
        messages = self._run(task)
        fault_point("after_compaction", sink=task.uid)
        return messages

    @property
    def is_ready(self) -> bool:
        """Whether a decision could settle or request something now.

        Raises:
            Exception: A job failed.
        """
        self._collect()
        return any(own.is_ready(self.held[uid]) for uid, own in self._sinks.items())

    @property
    def is_full(self) -> bool:
        """Whether a sink holds more than it may, so that the next epoch must wait."""
        return any(len(self.held[uid]) > own.max_held for uid, own in self._sinks.items())

    @property
    def is_empty(self) -> bool:
        """Whether no sink holds anything."""
        return not self.held.holding()

    def wait(self, seconds: float) -> None:
        """Wait until a job ends, at most some seconds."""
        if self._jobs:
            wait(self._jobs.values(), timeout=seconds, return_when=FIRST_COMPLETED)

    def close(self) -> None:
        """Cancel the jobs; the next driver runs their requests again."""
        self._threads.shutdown(wait=False, cancel_futures=True)
        while running := [job for job in self._jobs.values() if not job.done()]:
            self._cancel()  # repeat, since a job may be about to start
            wait(running, timeout=_CANCEL_AGAIN_SECONDS)
        self._threads.shutdown(wait=True)

    def _collect(self) -> None:
        """Take the results of the jobs that have ended."""
        for uid, job in list(self._jobs.items()):
            if job.done():
                del self._jobs[uid]
                for message in job.result():
                    result = tuple(
                        DecidedCommittable(subtask=0, committable=each)
                        for each in message.committables
                    )
                    self._sinks[uid].take(message.ref, result)
                    for name, number in message.counters.items():
                        self._metrics(uid).inc(name, number)
        self.start_jobs()

    def _forget(self) -> None:
        for uid, own in self._sinks.items():
            held = self.held[uid]
            own.decided(held)
            metrics = self._metrics(uid)
            metrics.set(SinkMetric.HELD_COMMITTABLES, len(held))
            metrics.set(SinkMetric.PENDING_COMPACTIONS, len(held.requests))
