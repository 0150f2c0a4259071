# SPDX-License-Identifier: Apache-2.0
"""Pre-commit topologies: within an epoch, and over several epochs. Driver."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from connectors_core.engine.coordinator.held_sets import HeldSet, Members
from connectors_core.engine.execution.compactor_task import RecordedRequest
from connectors_core.engine.execution.writer_task import encode_committables
from connectors_core.engine.protocol import DecidedCommittable, HeldRef, SinkDecision, Versioned
from connectors_core.engine.query.waiting import Result, Waiting, settleable, settled
from connectors_core.errors import FatalError
from connectors_core.sink.messages import messages_of
from connectors_core.sink.sink import TwoPhaseCommittingSink
from connectors_core.sink.topology import SupportsPreCommitTopologyOverEpochs


class SinkTopologyOverEpochs:
    """The pre-commit topology of one sink over epochs.

    What it combines is a request that the same decision settles, so a restart sees only what is
    still held.

    Args:
        uid: The sink's uid.
        sink: The sink.
    """

    tasks = 0

    def __init__(self, uid: str, sink: TwoPhaseCommittingSink[Any]) -> None:
        assert isinstance(sink, SupportsPreCommitTopologyOverEpochs)
        self.sink = sink
        self.max_held = sink.max_held_committables()
        self._uid = uid
        self._topology: SupportsPreCommitTopologyOverEpochs[Any] = sink
        self._waiting = Waiting(uid, sink, sink.max_held_time())

    def step(
        self, held: HeldSet, epoch: int, decision: SinkDecision, *, everything: bool
    ) -> SinkDecision:
        """Return a decision that holds its committables, and commits what the topology combines.

        Args:
            held: The held set of the sink before the decision.
            epoch: The epoch of the decision.
            decision: The decision without the topology.
            everything: Whether nothing may stay held.
        """
        decision = replace(decision, held=decision.committables, committables=())
        after = held.after(epoch, decision)
        everything = (
            everything or len(after.waiting) > self.max_held or self._waiting.is_overdue(held)
        )
        results: dict[HeldRef, Result] = {}
        if after.waiting:
            combined = self._topology.add_pre_commit_topology_over_epochs(
                self._waiting.of(after), epoch, everything=everything
            )
            if not all(each.held for each in combined):
                raise FatalError(
                    f"the pre-commit topology of sink {self._uid!r} commits something in place of "
                    "nothing",
                    expected="the held committables of each combination",
                    hint="report this to the author of the sink",
                )
            requests = self._waiting.requests(
                [each.held for each in combined],
                after,
                by="pre-commit topology",
                everything=everything,
            )
            decision = replace(decision, requests=requests)
            for number, each in enumerate(combined):
                results[HeldRef(epoch, number)] = tuple(
                    DecidedCommittable(subtask=each.held[0].subtask_id, committable=stored)
                    for stored in encode_committables(self.sink, each.committables)
                )

        def result(request: HeldRef, members: Members) -> Result:
            # An earlier driver may have left requests of a compaction open.
            return results.get(request, tuple(members.values()))

        return settled(decision, settleable(held.after(epoch, decision), result))

    def is_ready(self, held: HeldSet) -> bool:
        """Whether a decision could settle something now."""
        return bool(held.requests) or self._waiting.is_overdue(held)

    def open_requests(self, held: HeldSet) -> tuple[RecordedRequest, ...]:
        """Return no requests: no job runs for them."""
        return ()

    def take(self, request: HeldRef, result: tuple[DecidedCommittable, ...]) -> None:
        """Do nothing: no job has results."""

    def decided(self, held: HeldSet) -> None:
        """Forget what is no longer held, and remember when the rest began to wait."""
        self._waiting.decided(held)


def pre_commit(
    sink: Any, committables: tuple[DecidedCommittable, ...], epoch: int, subtasks: int
) -> tuple[DecidedCommittable, ...]:
    """Pass the committables of an epoch through the sink's pre-commit topology."""
    serializer = sink.committable_serializer()
    messages = messages_of(
        [
            (
                each.subtask,
                serializer.deserialize(each.committable.version, each.committable.data),
            )
            for each in committables
        ],
        checkpoint_id=epoch,
        number_of_subtasks=subtasks,
    )
    return tuple(
        DecidedCommittable(
            subtask=0,
            committable=Versioned(
                version=serializer.version, data=serializer.serialize(committable)
            ),
        )
        for committable in sink.add_pre_commit_topology(messages)
    )
