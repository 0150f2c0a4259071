# SPDX-License-Identifier: Apache-2.0
"""The held committables of a sink that are in no request, as its author sees them. Driver."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from itertools import islice
from typing import Any, NamedTuple, Protocol

from connectors_core.engine.coordinator.held_sets import HeldSet, Members
from connectors_core.engine.execution.compactor_task import RecordedRequest
from connectors_core.engine.protocol import DecidedCommittable, HeldRef, SinkDecision
from connectors_core.errors import ConfigurationError, FatalError
from connectors_core.sink.held import HeldCommittable
from connectors_core.sink.sink import TwoPhaseCommittingSink

Requests = tuple[tuple[HeldRef, ...], ...]
Result = tuple[DecidedCommittable, ...]


class Holding(Protocol):
    """The committables that a sink holds over epochs. Only one thread uses it at a time."""

    @property
    def sink(self) -> TwoPhaseCommittingSink[Any]:
        """The sink."""

    @property
    def tasks(self) -> int:
        """Maximum number of tasks that run its requests."""

    @property
    def max_held(self) -> int:
        """If it holds more committables, the epochs wait."""

    def step(
        self, held: HeldSet, epoch: int, decision: SinkDecision, *, everything: bool
    ) -> SinkDecision:
        """Return a decision that holds committables, requests merges, and takes results.

        Args:
            held: The held set of the sink before the decision.
            epoch: The epoch of the decision.
            decision: The decision as the writers left it.
            everything: Whether all waiting committables must be in a request.
        """

    def is_ready(self, held: HeldSet) -> bool:
        """Whether a decision could settle or request something now."""

    def open_requests(self, held: HeldSet) -> tuple[RecordedRequest, ...]:
        """Return the requests that a job must run."""

    def take(self, request: HeldRef, result: Result) -> None:
        """Take over the result of a job."""

    def decided(self, held: HeldSet) -> None:
        """Forget what is no longer held, and remember when the rest began to wait."""


class Waiting:
    """The waiting committables of one sink, and how long they have waited.

    Args:
        uid: The sink's uid.
        sink: The sink.
        max_wait: How long a committable may wait.
        clock: Monotonic seconds.
    """

    def __init__(
        self,
        uid: str,
        sink: TwoPhaseCommittingSink[Any],
        max_wait: timedelta,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._uid = uid
        self._serializer = sink.committable_serializer()
        self._max_wait = max_wait.total_seconds()
        self._clock = clock
        self._seen: dict[HeldRef, _Seen] = {}

    def of(self, held: HeldSet) -> list[HeldCommittable[Any]]:
        """Return the waiting committables of a held set, oldest first."""
        return [self._read(ref, each) for ref, each in held.waiting.items()]

    def is_overdue(self, held: HeldSet) -> bool:
        """Whether a committable waits longer than it may."""
        limit = self._clock() - self._max_wait
        return any(self._seen[ref].since <= limit for ref in held.waiting if ref in self._seen)

    def decided(self, held: HeldSet) -> None:
        """Forget what is no longer held, and remember when the rest began to wait."""
        self._seen = {ref: each for ref, each in self._seen.items() if ref in held.waiting}
        for ref, each in held.waiting.items():
            self._read(ref, each)

    def requests(
        self,
        groups: Iterable[Sequence[HeldCommittable[Any]]],
        held: HeldSet,
        *,
        by: str,
        everything: bool,
    ) -> Requests:
        """Return the references of groups of waiting committables.

        Args:
            groups: The groups, none of them empty.
            held: The held set.
            by: Who chose the groups, for errors.
            everything: Whether each waiting committable must be in a group.

        Raises:
            FatalError: A committable is in two groups or does not wait, or one is left over.
        """
        found = tuple(
            tuple(HeldRef(each.checkpoint_id, each.number) for each in group) for group in groups
        )
        named = [ref for refs in found for ref in refs]
        hint = "report this to the author of the sink"
        if len(set(named)) < len(named) or not set(named) <= held.waiting.keys():
            raise FatalError(
                f"the {by} of sink {self._uid!r} requests other committables than the waiting ones",
                expected="each of them at most once",
                found=", ".join(map(str, named)),
                hint=hint,
            )
        if everything and len(named) < len(held.waiting):
            raise FatalError(
                f"the {by} of sink {self._uid!r} leaves committables without a request",
                expected=f"requests for all {len(held.waiting)}",
                found=str(len(named)),
                hint=hint,
            )
        return found

    def _read(self, ref: HeldRef, decided: DecidedCommittable) -> HeldCommittable[Any]:
        seen = self._seen.get(ref)
        # Before its decision, an epoch may give the reference to another committable.
        if seen is None or seen.decided != decided:
            stored = decided.committable
            held = HeldCommittable(
                committable=self._serializer.deserialize(stored.version, stored.data),
                checkpoint_id=ref.epoch,
                number=ref.number,
                subtask_id=decided.subtask,
            )
            seen = self._seen[ref] = _Seen(self._clock(), decided, held)
        return seen.held


class _Seen(NamedTuple):
    since: float
    decided: DecidedCommittable
    held: HeldCommittable[Any]


def cannot_hold(uid: str, number: int) -> ConfigurationError:
    """Return the error for a sink that cannot hold what earlier epochs hold of it."""
    return ConfigurationError(
        f"sink {uid!r} cannot hold committables, but earlier epochs hold {number} committables of "
        "it",
        expected="a sink with compaction, enabled or disabled, or with a pre-commit topology over "
        "epochs",
        found="none",
        hint="start with the sink that wrote them; a sink that compacts drains them with "
        "disable_compact()",
    )


def settleable(
    held: HeldSet,
    result_of: Callable[[HeldRef, Members], Result | None],
    *,
    whole_epochs: bool = False,
) -> dict[HeldRef, Result]:
    """Return the results of the open requests that a decision can settle, in their order.

    Args:
        held: The held set with the requests of the decision.
        result_of: Returns what to commit for a request and its members; None if it is unknown.
        whole_epochs: Whether everything that stays held must be of later epochs.
    """
    results: dict[HeldRef, Result] = {}
    for request, members in held.requests.items():
        result = result_of(request, members)
        if result is None:
            break
        results[request] = result
    if whole_epochs:
        return dict(islice(results.items(), held.whole_requests(len(results))))
    return results


def settled(decision: SinkDecision, results: Mapping[HeldRef, Result]) -> SinkDecision:
    """Return a decision that settles requests with these results."""
    return replace(
        decision,
        committables=tuple(each for result in results.values() for each in result),
        compacted=tuple(results),
    )
