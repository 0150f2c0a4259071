# SPDX-License-Identifier: Apache-2.0
"""The committables that decisions hold back for later epochs, a fold of these decisions. Driver."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import accumulate
from math import inf
from typing import Final

from connectors_core.engine.protocol import DecidedCommittable, Decision, HeldRef, SinkDecision

SWEPT_EPOCHS: Final = 16
"""Number of epochs whose staged data is removed again, because a killed attempt may still write."""

Members = Mapping[HeldRef, DecidedCommittable]


@dataclass(frozen=True)
class HeldSet:
    """The held committables of one sink after a decision. Immutable.

    Attributes:
        waiting: Those that are in no request, oldest first.
        requests: The members of each open request, oldest first.
    """

    waiting: Members = field(default_factory=dict)
    requests: Mapping[HeldRef, Members] = field(default_factory=dict)

    def after(self, epoch: int, decision: SinkDecision) -> HeldSet:
        """Return the set after the next decision of the sink.

        References to committables that no decision holds are ignored: they were merged earlier, or
        belong to an epoch that was given up.
        """
        waiting = dict(self.waiting)
        requests = dict(self.requests)
        waiting |= {HeldRef(epoch, number): each for number, each in enumerate(decision.held)}
        for number, members in enumerate(decision.requests):
            requests[HeldRef(epoch, number)] = {
                each: waiting.pop(each) for each in members if each in waiting
            }
        for request in decision.compacted:
            requests.pop(request, None)
        return HeldSet(waiting, requests)

    def __len__(self) -> int:
        return len(self.waiting) + sum(len(each) for each in self.requests.values())

    def __iter__(self) -> Iterator[tuple[HeldRef, DecidedCommittable]]:
        yield from self.waiting.items()
        for members in self.requests.values():
            yield from members.items()

    @property
    def is_empty(self) -> bool:
        """Whether nothing is held and no request is open."""
        return not self.waiting and not self.requests

    @property
    def since(self) -> int | None:
        """The oldest decision that a restart needs; None if nothing is held."""
        epochs = [ref.epoch for ref, _ in self] + [ref.epoch for ref in self.requests]
        return min(epochs, default=None)

    def whole_requests(self, count: int) -> int:
        """Return how many of the first requests can be settled together with whole epochs.

        Nothing of their epochs, or of earlier ones, stays held.

        Args:
            count: The number of requests that can be settled at most.
        """
        members = [[ref.epoch for ref in each] for each in self.requests.values()]
        newest = list(accumulate((max(each, default=-1) for each in members), max))
        kept = [ref.epoch for ref in self.waiting]
        kept += [epoch for each in members[count:] for epoch in each]
        oldest: float = min(kept, default=inf)
        for number in range(count, 0, -1):
            if newest[number - 1] < oldest:
                return number
            oldest = min([oldest, *members[number - 1]])
        return 0

    def of_epoch(self, epoch: int) -> list[DecidedCommittable]:
        """Return what is held of an epoch."""
        return [each for ref, each in self if ref.epoch == epoch]


@dataclass(frozen=True)
class Merged:
    """The requests that a decision has merged. They can be removed once the decision is committed.

    Attributes:
        requests: The members of each request.
        epochs: The epochs of the members.
    """

    requests: Mapping[HeldRef, Members]
    epochs: frozenset[int]


class HeldSets:
    """The held sets of all sinks of a query, by uid."""

    def __init__(self) -> None:
        self._sets: dict[str, HeldSet] = {}
        self._merged: dict[int, dict[str, Merged]] = {}

    def __getitem__(self, uid: str) -> HeldSet:
        return self._sets.get(uid, HeldSet())

    def decided(self, decision: Decision) -> None:
        """Take over a decision, in the order of the epochs."""
        merged = {}
        for uid, sink in decision.sinks.items():
            if not (sink.held or sink.requests or sink.compacted):
                continue
            asked = self[uid].after(decision.epoch, replace(sink, compacted=()))
            requests = {each: asked.requests.get(each, {}) for each in sink.compacted}
            epochs = frozenset(ref.epoch for members in requests.values() for ref in members)
            merged[uid] = Merged(requests, epochs)
            self._sets[uid] = self[uid].after(decision.epoch, sink)
        self._merged[decision.epoch] = merged
        oldest = decision.epoch - SWEPT_EPOCHS
        self._merged = {epoch: each for epoch, each in self._merged.items() if epoch > oldest}

    def merged_by(self, epoch: int, uid: str) -> Merged:
        """Return what one of the last decisions has merged for a sink."""
        return self._merged.get(epoch, {}).get(uid, Merged({}, frozenset()))

    def since_after(self, epoch: int, sinks: Mapping[str, SinkDecision]) -> int | None:
        """Return the oldest decision that a restart needs after another decision.

        Args:
            epoch: The epoch of that decision.
            sinks: Its sinks.
        """
        uids = self._sets.keys() | sinks.keys()
        after = (self[uid].after(epoch, sinks.get(uid, SinkDecision())) for uid in uids)
        return min((each.since for each in after if each.since is not None), default=None)

    def holding(self) -> dict[str, HeldSet]:
        """Return the held sets that are not empty, by sink."""
        return {uid: each for uid, each in self._sets.items() if not each.is_empty}
