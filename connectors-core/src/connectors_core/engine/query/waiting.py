# SPDX-License-Identifier: Apache-2.0
"""The held committables of a sink that are in no request, as its author sees them. Driver."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from itertools import islice
from typing import Any

from connectors_core.engine.coordinator.held_sets import HeldSet, Members
from connectors_core.engine.protocol import DecidedCommittable, HeldRef, SinkDecision
from connectors_core.errors import FatalError
from connectors_core.sink.held import HeldCommittable
from connectors_core.sink.sink import TwoPhaseCommittingSink

Requests = tuple[tuple[HeldRef, ...], ...]
Result = tuple[DecidedCommittable, ...]


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
        self._seen: dict[HeldRef, tuple[float, HeldCommittable[Any]]] = {}

    def of(self, held: HeldSet) -> list[HeldCommittable[Any]]:
        """Return the waiting committables of a held set, oldest first."""
        return [self._read(ref, each) for ref, each in held.waiting.items()]

    def is_overdue(self, held: HeldSet) -> bool:
        """Whether a committable waits longer than it may."""
        limit = self._clock() - self._max_wait
        return any(self._seen[ref][0] <= limit for ref in held.waiting if ref in self._seen)

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
        if ref not in self._seen:
            stored = decided.committable
            held = HeldCommittable(
                committable=self._serializer.deserialize(stored.version, stored.data),
                checkpoint_id=ref.epoch,
                number=ref.number,
                subtask_id=decided.subtask,
            )
            self._seen[ref] = self._clock(), held
        return self._seen[ref][1]


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
