# SPDX-License-Identifier: Apache-2.0
"""The watermark of one source, its idleness and its part in an alignment group. Driver."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from connectors_core.engine.coordinator.enumerator_context import EnumeratorContext
from connectors_core.engine.coordinator.source_settings import SourceSettings
from connectors_core.engine.coordinator.split_ledger import SplitLedger, TrackedSplit
from connectors_core.source.alignment import (
    CoordinatorStore,
    MaxWatermark,
    SplitProgress,
    source_watermark,
)
from connectors_core.source.enumerator import SupportsUnassignedSplits
from connectors_core.source.watermarks import MIN_WATERMARK, heartbeat_event_time

# Stands for the source in its idleness clock while there is no split.
_NO_SPLIT = ""


class WatermarkTracker:
    """Moves the watermark of a source by what its splits reached. One thread.

    Attributes:
        watermark: The watermark in microseconds, None where there is none yet.
        idle: Whether the source has no rows, and no splits that may have some, for the time of its
            strategy.

    Args:
        settings: The source.
        context: Its enumerator.
        ledger: Its splits.
        groups: Alignment groups, shared by the sources of the pipeline.
        only_windows: Windows are all that looks at Spark's watermark.
    """

    def __init__(
        self,
        settings: SourceSettings,
        *,
        context: EnumeratorContext,
        ledger: SplitLedger,
        groups: CoordinatorStore,
        only_windows: bool,
    ) -> None:
        self.watermark: int | None = None
        self.idle = False
        self._uid = settings.uid
        self._strategy = settings.strategy
        self._context = context
        self._ledger = ledger
        self._only_windows = only_windows
        self._planned: int | None = None
        self._told: set[str] = set()  # splits that the enumerator said to wait when it was asked
        alignment = None if self._strategy is None else self._strategy.alignment
        self._group = None if alignment is None else groups.group(alignment)
        if self._group is not None:
            self._group.join(self._uid)

    def close(self) -> None:
        """Leave the alignment group."""
        if self._group is not None:
            self._group.leave(self._uid)

    # --- the watermark --------------------------------------------------------------------------

    def advance(self, *, none_waits: bool, ends_time: bool) -> None:
        """Move the watermark by what was read, and tell the alignment group.

        Args:
            none_waits: Whether the enumerator has no split left to give.
            ends_time: Whether the end of the source is the end of time.
        """
        if self._strategy is None:
            return
        progress = list(self._progress())
        self._ledger.found.advance(
            progress,
            self._ledger.highest_finished,
            discovered=self._context.answered,
            none_waits=none_waits,
        )
        self.watermark = source_watermark(
            self.watermark,
            progress,
            self._ledger.highest_finished,
            finished=self._context.finished and ends_time,
            discovered=self._context.answered,
        )
        self._note_idleness(progress)
        self._tell_group(progress)

    def _note_idleness(self, progress: Sequence[SplitProgress]) -> None:
        idleness = self._ledger.idleness
        if progress or not self._context.answered:
            idleness.forget(_NO_SPLIT)
            self.idle = bool(progress) and not any(split.counts for split in progress)
        else:
            idleness.observe(_NO_SPLIT, True, 0)
            self.idle = idleness.idle(_NO_SPLIT)

    @property
    def may_become_idle(self) -> bool:
        """Whether the source becomes idle by the mere passing of time."""
        return self._strategy is not None and self._strategy.idleness is not None and not self.idle

    def follow(self, watermark: int) -> None:
        """Go along with the watermark of other sources, while this one is idle."""
        own = self.watermark
        self.watermark = watermark if own is None else max(own, watermark)

    @property
    def is_new(self) -> bool:
        """Whether no plan has told this watermark yet."""
        return self._strategy is not None and self.watermark != self._planned

    def planned(self, watermark: int | None) -> None:
        """A plan tells this watermark."""
        self._planned = watermark

    def heartbeat(self) -> int | None:
        """The event time that brings Spark's watermark here."""
        if self._strategy is None or self.watermark is None:
            return None
        return heartbeat_event_time(self.watermark, only_windows=self._only_windows)

    @property
    def max_event_time(self) -> int | None:
        """Highest event time of the finished splits in microseconds, where watermarks tell."""
        highest = self._ledger.highest_finished
        if self._strategy is None or highest is None:
            return None
        return self._strategy.max_event_time(highest)

    # --- alignment ------------------------------------------------------------------------------

    def align(self) -> None:
        """Tell the alignment group what the last reports changed."""
        if self._group is None:
            return
        progress = list(self._progress())
        if progress:  # without any, the splits to come are not known yet
            self._tell_group(progress)

    def _tell_group(self, progress: Sequence[SplitProgress]) -> None:
        if self._group is not None:
            self._group.update(
                self._uid,
                progress,
                finished=self._context.finished,
                discovered=self._context.answered,
            )

    def max_allowed(self) -> MaxWatermark | None:
        """The highest watermark that the group allows; None where the source has no group."""
        return None if self._group is None else self._group.max_allowed_watermark()

    def mark(self, split: TrackedSplit) -> int | None:
        """The watermark up to which a split was read; None where nothing is known."""
        mark = self._ledger.progress_of(split).mark
        return None if mark == MIN_WATERMARK else mark

    # --- splits that wait -----------------------------------------------------------------------

    def _progress(self) -> Iterator[SplitProgress]:
        yield from (self._ledger.progress_of(split) for split in self._ledger.splits.values())
        yield from self.waiting()

    def waiting(self) -> Iterator[SplitProgress]:
        """What waits in the enumerator, as far as it tells; the lowest stands for all."""
        self.ask_what_waits()
        lowest = self._ledger.found.lowest()
        if lowest is not None:
            yield lowest

    def ask_what_waits(self, *, before: bool = False) -> None:
        """Ask the enumerator which splits wait.

        Args:
            before: They were found in an earlier life of the driver.
        """
        enumerator = self._context.enumerator
        if self._strategy is None or not isinstance(enumerator, SupportsUnassignedSplits):
            return
        told, self._told = self._told, set()
        for split in enumerator.unassigned_splits():
            if not self._ledger.was_assigned(split.split_id):
                self._ledger.found.announced(split, before=before)
                self._told.add(split.split_id)
        for split_id in told - self._told:
            self._ledger.found.withdrawn(split_id)

    def switch(self) -> None:
        """Another source follows."""
        self._told.clear()
