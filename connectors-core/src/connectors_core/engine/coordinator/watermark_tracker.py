# SPDX-License-Identifier: Apache-2.0
"""The watermark of one source, its idleness, and its part in an alignment group. Driver."""

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

# Represents the source in its idleness clock while there is no split.
_NO_SPLIT = ""


class WatermarkTracker:
    """Advances the watermark of a source by the progress of its splits. One thread.

    Attributes:
        watermark: The watermark in microseconds, None if there is none yet.
        idle: Whether the source had neither rows nor splits for the idle timeout of its strategy.

    Args:
        settings: The source.
        context: Its enumerator.
        ledger: Its splits.
        groups: Alignment groups, shared by the sources of the pipeline.
        only_windows: Whether only windows use Spark's watermark.
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
        self._told: set[str] = set()  # splits that the enumerator reported as waiting
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
        """Advance the watermark and update the alignment group.

        Args:
            none_waits: Whether the enumerator has no more splits to assign.
            ends_time: Whether the end of the source moves the watermark to the end of time.
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
        """Whether the passing of time alone can make the source idle."""
        return self._strategy is not None and self._strategy.idleness is not None and not self.idle

    def follow(self, watermark: int) -> None:
        """Follow the watermark of other sources while this one is idle."""
        own = self.watermark
        self.watermark = watermark if own is None else max(own, watermark)

    @property
    def is_new(self) -> bool:
        """Whether no plan contains this watermark yet."""
        return self._strategy is not None and self.watermark != self._planned

    def planned(self, watermark: int | None) -> None:
        """Record the watermark of a plan."""
        self._planned = watermark

    def heartbeat(self) -> int | None:
        """Return the event time that moves Spark's watermark to this one."""
        if self._strategy is None or self.watermark is None:
            return None
        return heartbeat_event_time(self.watermark, only_windows=self._only_windows)

    @property
    def max_event_time(self) -> int | None:
        """Highest event time of the finished splits in microseconds, if watermarks show it."""
        highest = self._ledger.highest_finished
        if self._strategy is None or highest is None:
            return None
        return self._strategy.max_event_time(highest)

    # --- alignment ------------------------------------------------------------------------------

    def align(self) -> None:
        """Report the progress since the last plan to the alignment group."""
        if self._group is None:
            return
        progress = list(self._progress())
        if progress:  # without splits, those of the next plan are unknown
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
        """Return the highest watermark that the group allows; None without a group."""
        return None if self._group is None else self._group.max_allowed_watermark()

    def mark(self, split: TrackedSplit) -> int | None:
        """Return the watermark up to which a split was read; None if unknown."""
        mark = self._ledger.progress_of(split).mark
        return None if mark == MIN_WATERMARK else mark

    # --- waiting splits -------------------------------------------------------------------------

    def _progress(self) -> Iterator[SplitProgress]:
        yield from (self._ledger.progress_of(split) for split in self._ledger.splits.values())
        yield from self.waiting()

    def waiting(self) -> Iterator[SplitProgress]:
        """Yield the lowest split that waits in the enumerator, if it reports any."""
        self.ask_what_waits()
        lowest = self._ledger.found.lowest()
        if lowest is not None:
            yield lowest

    def ask_what_waits(self, *, before: bool = False) -> None:
        """Ask the enumerator which splits wait.

        Args:
            before: Whether an earlier driver found them.
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
        """Forget the waiting splits of the previous source."""
        self._told.clear()
