# SPDX-License-Identifier: Apache-2.0
"""Records the progress of the source when each split was found. Driver.

An unread split may hold rows of any time, so it holds back the watermark. If the enumerator keeps
finding splits, there is always an unread one, and the watermark would never advance. A split
therefore holds the watermark only at the level that the other splits had reached when it was found.
Rows below that level are late. The splits of the first discovery were found before any row was
read, so none of their rows is late.

That level is :attr:`FoundSplits.reached`. Reports determine it, and plans store it with the found
splits, so a restart and a replay compute the same watermarks.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from dataclasses import replace

from connectors_core.engine.protocol import Discovery, SourcePlan, SourceSnapshot
from connectors_core.source.alignment import SplitProgress, source_watermark
from connectors_core.source.split import SourceSplit
from connectors_core.source.watermarks import MIN_WATERMARK

_Marks = dict[str, int | None]


class FoundSplits:
    """The splits that an enumerator has found and not yet assigned.

    An enumerator announces a split when it finds it. Without an announcement, the split counts as
    found after the enumerator last ran out of splits.
    """

    def __init__(self) -> None:
        self._reached: int | None = None
        self._drained: int | None = None
        self._waiting: _Marks = {}
        self._lowest: list[tuple[int, str, SplitProgress]] = []
        self._new: _Marks = {}
        self._known: _Marks = {}

    @property
    def reached(self) -> int | None:
        """The watermark of the splits read so far, in microseconds."""
        return self._reached

    def announced(self, split: SourceSplit, *, before: bool = False) -> SplitProgress:
        """Record a split that was found and waits for a reader.

        Args:
            split: The split.
            before: Whether an earlier driver found it.
        """
        split_id = split.split_id
        if split_id not in self._waiting:
            if split_id in self._known:
                mark = self._known.pop(split_id)
            else:
                mark = None if before else self._reached
            self._waiting[split_id] = self._new[split_id] = mark
            progress = self.progress(split, mark)
            heapq.heappush(self._lowest, (progress.mark, split_id, progress))
            return progress
        return self.progress(split, self._waiting[split_id])

    @staticmethod
    def progress(split: SourceSplit, found_at: int | None) -> SplitProgress:
        """Return the progress of an unread split."""
        return SplitProgress(
            split_id=split.split_id, lower_bound=split.event_time_lower_bound(), found_at=found_at
        )

    def assigned(self, split_id: str) -> int | None:
        """Record an assignment; return the source's progress when the split was found."""
        self._new.pop(split_id, None)
        for marks in (self._waiting, self._known):
            if split_id in marks:
                return marks.pop(split_id)
        return self._drained

    def withdrawn(self, split_id: str) -> None:
        """Forget a waiting split that no longer exists."""
        self._waiting.pop(split_id, None)
        self._new.pop(split_id, None)

    def given_back(self, split_id: str, found_at: int | None) -> None:
        """Record that an assigned split returned to the enumerator."""
        self._known[split_id] = found_at

    def lowest(self) -> SplitProgress | None:
        """Return the waiting split that holds the watermark lowest, if any."""
        while self._lowest and self._lowest[0][1] not in self._waiting:
            heapq.heappop(self._lowest)
        return self._lowest[0][2] if self._lowest else None

    def advance(
        self,
        progress: Iterable[SplitProgress],
        highest_finished: int | None,
        *,
        discovered: bool,
        none_waits: bool,
    ) -> None:
        """Update the progress after new reports.

        Args:
            progress: Every unfinished split.
            highest_finished: Highest watermark of a finished split.
            discovered: Whether the enumerator has answered once.
            none_waits: Whether the enumerator has no more splits to assign.
        """
        self._reached = source_watermark(
            self._reached,
            # The rows that a split holds back start at its head, and may be all rows that were read
            # from it.
            (replace(s, watermark=_seen(s)) for s in progress if s.read),
            highest_finished,
            finished=False,
            discovered=discovered,
        )
        if none_waits and discovered:
            self._drained = self._reached

    def switch(self, watermark: int | None) -> None:
        """Reset for the next source, whose first splits hold the watermark at its current value."""
        self._waiting.clear()
        self._lowest.clear()
        self._new.clear()
        self._known.clear()
        self._reached = self._drained = watermark

    # --- in plans -------------------------------------------------------------------------------

    def planned(self, *, snapshot: bool) -> Discovery:
        """Return the progress for a plan; each found split is recorded in only one plan.

        Args:
            snapshot: The plan holds a snapshot, which already contains the splits.
        """
        found, self._new = self._new, {}
        return Discovery(
            reached=self._reached, drained=self._drained, found={} if snapshot else found
        )

    def snapshot(self) -> _Marks:
        """Return the splits that hold the watermark at a known level, for :meth:`restore`.

        The enumerator's own snapshot contains all waiting splits. A split that is not named here
        holds the watermark at its current value.
        """
        waiting = {name: mark for name, mark in self._waiting.items() if mark is not None}
        return self._known | waiting

    def restore(self, snapshot: SourceSnapshot, plans: Iterable[SourcePlan]) -> None:
        """Restore from a snapshot, its plan, and all later plans."""
        self._known = dict(snapshot.found)
        for plan in plans:
            self._reached, self._drained = plan.discovery.reached, plan.discovery.drained
            if plan.snapshot is not None:
                continue
            self._known.update(plan.discovery.found)
            for assigned in plan.assigned:
                self._known.pop(assigned.split.split_id, None)


def _seen(split: SplitProgress) -> int | None:
    return split.watermark if split.head is None else split.head


def lower_bound(progress: SplitProgress) -> int | None:
    """Return the lowest event time that is on time in an unread split; None if every one is."""
    return None if progress.mark == MIN_WATERMARK else progress.mark + 1
