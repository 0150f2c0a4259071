# SPDX-License-Identifier: Apache-2.0
"""The order in which an enumerator hands out the splits it has found."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from typing import Generic

from connectors_core.source.split import SplitT


class SplitAssigner(Generic[SplitT]):
    """The splits that wait for a reader. Driver, one thread; after Flink's ``FileSplitAssigner``.

    By event time the lowest bound goes first, and among equal bounds the heaviest split. Splits
    without a bound go before all others, as found, because they hold back the watermark until they
    are read. Without event time the heaviest goes first, so that the last ones to end are short.
    What is equal goes in the order of discovery, so the same discovery gives the same order.

    To restore it, :meth:`add` what :meth:`pending` gave: the order stays.

    Args:
        event_time_order: Order by event time; see ``SplitEnumeratorContext.event_time_order``.
        found: ``SplitEnumeratorContext.split_found``: the coordinator then knows of every split
            that waits, and says where those begin that are found late. Without it a split's own
            bound counts.
    """

    def __init__(
        self, event_time_order: bool, *, found: Callable[[SplitT], int | None] | None = None
    ) -> None:
        self._event_time_order = event_time_order
        self._found = found
        self._heap: list[tuple[float, int, int, SplitT]] = []
        self._ids: set[str] = set()
        self._added = 0
        self._returned = 0

    def add(self, splits: Sequence[SplitT]) -> None:
        """Take splits, in the order they were found; one whose id waits already is passed over."""
        for split in splits:
            self._added += 1
            self._push(split, self._added)

    def add_back(self, splits: Sequence[SplitT]) -> None:
        """Take splits back that a reader had; they go before equal ones that no one had yet."""
        for split in reversed(splits):
            self._returned += 1
            self._push(split, -self._returned)

    def next(self) -> SplitT | None:
        """Take out the split to hand out now; None if there is none."""
        if not self._heap:
            return None
        split = heapq.heappop(self._heap)[-1]
        self._ids.discard(split.split_id)
        return split

    def pending(self) -> tuple[SplitT, ...]:
        """All splits that wait, in the order in which they will be handed out."""
        return tuple(entry[-1] for entry in sorted(self._heap))

    def __len__(self) -> int:
        return len(self._heap)

    def _push(self, split: SplitT, found: int) -> None:
        if split.split_id in self._ids:
            return
        self._ids.add(split.split_id)
        own_bound = split.event_time_lower_bound()
        bound = own_bound if self._found is None else self._found(split)
        if not self._event_time_order:
            key = (0.0, -split.weight())
        else:
            # What is found late without a bound of its own stays in the order of discovery.
            weight = 0 if own_bound is None else -split.weight()
            key = (float("-inf") if bound is None else bound, weight)
        # The number of discovery is unique, so splits themselves are never compared.
        heapq.heappush(self._heap, (*key, found, split))
