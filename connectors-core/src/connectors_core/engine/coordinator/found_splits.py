# SPDX-License-Identifier: Apache-2.0
"""How far the source had come when each split was found. Driver.

A split that was not read may hold rows of any time, so it holds the watermark. Where new splits
are found all the time, there always is one, and the watermark would stand still for ever. So a
split holds the watermark at the place to which the rows of the other splits had brought it when
the split was found, and no lower. Rows below that place are late. Splits of the first discovery
were found before any row was read: none of their rows is late.

That place is :attr:`FoundSplits.reached`. It follows from reports, and travels in plans with the
splits that were found, so a restart and a replay come to the same watermarks.
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
    """The splits that an enumerator found, until they are assigned.

    An enumerator announces a split when it finds it. One that does not is taken to have found it
    after the last time at which it had none to give.
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
        """The watermark of the splits that were read, in microseconds."""
        return self._reached

    def announced(self, split: SourceSplit, *, before: bool = False) -> SplitProgress:
        """A split was found and waits for a reader.

        Args:
            split: The split.
            before: It was found in an earlier life of the driver.
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
        """A split that was not read."""
        return SplitProgress(
            split_id=split.split_id, lower_bound=split.event_time_lower_bound(), found_at=found_at
        )

    def assigned(self, split_id: str) -> int | None:
        """A split was assigned; returns how far the source had come when it was found."""
        self._new.pop(split_id, None)
        for marks in (self._waiting, self._known):
            if split_id in marks:
                return marks.pop(split_id)
        return self._drained

    def withdrawn(self, split_id: str) -> None:
        """A split that waited is gone."""
        self._waiting.pop(split_id, None)
        self._new.pop(split_id, None)

    def given_back(self, split_id: str, found_at: int | None) -> None:
        """A split that was assigned went back to the enumerator."""
        self._known[split_id] = found_at

    def lowest(self) -> SplitProgress | None:
        """Of the announced splits that wait, the one that holds the watermark lowest."""
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
        """Take over what the reports changed.

        Args:
            progress: Every unfinished split.
            highest_finished: Highest watermark of a finished split.
            discovered: Whether the enumerator has answered once.
            none_waits: Whether the enumerator has no split left to give.
        """
        self._reached = source_watermark(
            self._reached,
            # What a split held back is above its head too, and may be all that was read of it.
            (replace(s, watermark=_seen(s)) for s in progress if s.read),
            highest_finished,
            finished=False,
            discovered=discovered,
        )
        if none_waits and discovered:
            self._drained = self._reached

    def switch(self, watermark: int | None) -> None:
        """Another source follows: its first splits hold the watermark where it is."""
        self._waiting.clear()
        self._lowest.clear()
        self._new.clear()
        self._known.clear()
        self._reached = self._drained = watermark

    # --- in plans -------------------------------------------------------------------------------

    def planned(self, *, snapshot: bool) -> Discovery:
        """What a plan tells; the next one tells what comes after it.

        Args:
            snapshot: The plan holds a snapshot too, which tells of the splits.
        """
        found, self._new = self._new, {}
        return Discovery(
            reached=self._reached, drained=self._drained, found={} if snapshot else found
        )

    def snapshot(self) -> _Marks:
        """What :meth:`restore` needs besides the plans: splits that hold the watermark somewhere.

        The enumerator's own snapshot has the splits that wait; one that is not named here holds the
        watermark wherever it is.
        """
        waiting = {name: mark for name, mark in self._waiting.items() if mark is not None}
        return self._known | waiting

    def restore(self, snapshot: SourceSnapshot, plans: Iterable[SourcePlan]) -> None:
        """Go on from a snapshot and the plans from its own to the newest."""
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
    """The lowest event time with which a row of an unread split is on time; None where any is."""
    return None if progress.mark == MIN_WATERMARK else progress.mark + 1
