# SPDX-License-Identifier: Apache-2.0
"""The order in which an enumerator assigns its splits."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from typing import Generic

from connectors_core.source.split import SplitT


class SplitAssigner(Generic[SplitT]):
    """The splits that wait for a reader. Driver, one thread; after Flink's ``FileSplitAssigner``.

    By event time, the split with the lowest bound is first, and among equal bounds the largest.
    Splits without a bound precede all others in the order of discovery, because they hold back the
    watermark until they are read. Without event time, the largest split is first, so that the last
    ones to end are short. Equal splits keep the order of discovery, so the same discovery always
    gives the same order.

    To restore it, :meth:`add` the result of :meth:`pending`, which keeps the order.

    Args:
        event_time_order: Order by event time; see ``SplitEnumeratorContext.event_time_order``.
        found: ``SplitEnumeratorContext.split_found``. The coordinator then knows every waiting
            split, and determines the bound of splits that are found late. Without it, a split's own
            bound is used.
        largest_first: Without event time, whether the largest split is first. Otherwise, all splits
            keep the order of discovery.
    """

    def __init__(
        self,
        event_time_order: bool,
        *,
        found: Callable[[SplitT], int | None] | None = None,
        largest_first: bool = True,
    ) -> None:
        self._event_time_order = event_time_order
        self._found = found
        self._largest_first = largest_first
        self._heap: list[tuple[float, int, int, SplitT]] = []
        self._ids: set[str] = set()
        self._added = 0
        self._returned = 0

    def add(self, splits: Sequence[SplitT]) -> None:
        """Add splits in the order of discovery; skip those whose ids already wait."""
        for split in splits:
            self._added += 1
            self._push(split, self._added)

    def add_back(self, splits: Sequence[SplitT]) -> None:
        """Add splits that a reader returned; they precede equal ones that were never assigned."""
        for split in reversed(splits):
            self._returned += 1
            self._push(split, -self._returned)

    def next(self) -> SplitT | None:
        """Remove and return the next split to assign; None if there is none."""
        if not self._heap:
            return None
        split = heapq.heappop(self._heap)[-1]
        self._ids.discard(split.split_id)
        return split

    def pending(self) -> tuple[SplitT, ...]:
        """Return all waiting splits in the order in which they will be assigned."""
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
            key = (0.0, -split.weight() if self._largest_first else 0)
        else:
            # Splits that are found late without their own bound stay in the order of discovery.
            weight = 0 if own_bound is None else -split.weight()
            key = (float("-inf") if bound is None else bound, weight)
        # The number of discovery is unique, so splits themselves are never compared.
        heapq.heappush(self._heap, (*key, found, split))
