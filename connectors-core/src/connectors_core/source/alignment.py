# SPDX-License-Identifier: Apache-2.0
"""The watermark of a source, and the alignment of sources (Flink's FLIP-182 and FLIP-217). Driver.

All values are watermarks: microseconds since the epoch, UTC. A split that holds a row is
represented by its *head*, the watermark that this row would cause. The maximum of a group is its
lowest mark plus the drift, so it is never below the lowest head: the slowest split can always emit
its next row, and no gap in event time stops the group.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from connectors_core.errors import ConfigurationError
from connectors_core.source.watermarks import (
    END_OF_TIME,
    MAX_WATERMARK,
    MIN_WATERMARK,
    WatermarkAlignment,
    micros,
)

__all__ = [
    "LOWEST",
    "NO_LIMIT",
    "AlignmentGroup",
    "CoordinatorStore",
    "IdlenessClock",
    "MaxWatermark",
    "SplitProgress",
    "alignment_minimum",
    "source_watermark",
]


@dataclass(frozen=True, kw_only=True)
class SplitProgress:
    """State of an unfinished split in the coordinator, assigned or not.

    Attributes:
        split_id: The split.
        watermark: Its watermark, None if it has none yet.
        head: The watermark that its first held row would cause, None if no row is held.
        lower_bound: Lowest event time that it can still deliver, None if unknown.
        found_at: The watermark of the source, by the rows of other splits, when this split was
            found; None if nothing had been read. Rows of this split up to that watermark are late.
        read: Whether it was ever read.
        idle: Whether it was polled for long enough without rows.
    """

    split_id: str
    watermark: int | None = None
    head: int | None = None
    lower_bound: int | None = None
    found_at: int | None = None
    read: bool = False
    idle: bool = False

    @property
    def counts(self) -> bool:
        """Return whether the split holds back others: all splits do, except idle ones.

        A split that was never read or holds a row is not idle, regardless of the clock.
        """
        return not self.idle or not self.read or self.head is not None

    @property
    def safe_watermark(self) -> int | None:
        """The watermark that this split allows its source, None if it may deliver any event time.

        Rows at the lower bound itself are still to come, so the result is one less.
        """
        bound = None if self.lower_bound is None else self.lower_bound - 1
        return _highest(self.watermark, bound, self.found_at)

    @property
    def mark(self) -> int:
        """The value of the split for the alignment: its head, or else its watermark.

        :data:`~connectors_core.source.watermarks.MIN_WATERMARK` if neither is known yet.
        """
        if self.head is not None:
            return self.head
        watermark = self.safe_watermark
        return MIN_WATERMARK if watermark is None else watermark


def source_watermark(
    previous: int | None,
    active: Iterable[SplitProgress],
    highest_finished: int | None,
    *,
    finished: bool,
    discovered: bool,
) -> int | None:
    """Return the watermark of a source; it never falls.

    It is the minimum over the unfinished splits that are not idle. If there are none, it is the
    highest watermark of any split, as in Flink. The order in which a slow and a fast split become
    idle must make no difference.

    Args:
        previous: The previous watermark, None if there is none.
        active: Every unfinished split, including unassigned and idle ones. A split that was not
            read, has no known lower bound, and was found before any other was read keeps the
            watermark where it is.
        highest_finished: Highest watermark of a finished split, None if there is none.
        finished: Whether the source has ended. Its watermark is the end of time.
        discovered: Whether the enumerator has discovered splits at least once, so that
            ``active`` can be complete.
    """
    if finished:
        return END_OF_TIME
    if not discovered:
        return previous
    splits = list(active)
    marks = [split.safe_watermark for split in splits if split.counts]
    if not marks:
        marks = [split.watermark for split in splits]
        return _highest(previous, highest_finished, *marks)
    known = [mark for mark in marks if mark is not None]
    return _highest(previous, min(known) if len(known) == len(marks) else None)


def _highest(*marks: int | None) -> int | None:
    return max((mark for mark in marks if mark is not None), default=None)


def alignment_minimum(active: Iterable[SplitProgress], *, finished: bool, discovered: bool) -> int:
    """Return the lowest mark of a source, which holds back its alignment group.

    Returns:
        ``MIN_WATERMARK`` if nothing is known yet: before the first discovery, or while a split
        without a lower bound is unread. ``MAX_WATERMARK`` if the source holds back no other: it is
        finished, has no split, or all its splits are idle.
    """
    if finished:
        return MAX_WATERMARK
    if not discovered:
        return MIN_WATERMARK
    return min((split.mark for split in active if split.counts), default=MAX_WATERMARK)


@dataclass(frozen=True, order=True)
class MaxWatermark:
    """The highest watermark that a split of a group may reach in the next plan.

    It is :data:`NO_LIMIT` if no split holds back the group, and :data:`LOWEST` if a split with an
    unknown mark does. Under ``LOWEST``, every split may be read, but no row with an event time is
    emitted. Reading determines the head of each split, which gives the next plan a real maximum.

    Attributes:
        micros: The watermark. Plans pass it to ``SplitWatermarks.admit``.
    """

    micros: int

    def admits(self, mark: int | None) -> bool:
        """Return whether reading a split can have an effect; None is a split with an unknown mark.

        The split that holds back its group is always admitted.
        """
        return mark is None or mark <= self.micros


NO_LIMIT: Final = MaxWatermark(MAX_WATERMARK)
"""No split of the group is held."""

LOWEST: Final = MaxWatermark(MIN_WATERMARK)
"""Every row that has an event time is held."""


class AlignmentGroup:
    """The sources that advance together (Flink's FLIP-182). Thread safe.

    A member holds back the group from :meth:`join` or its first :meth:`update` until its end, with
    the mark that it reported last. All members report before the maximum of a plan is computed.

    The group cannot deadlock as long as the split that holds it back is read. Held splits are left
    out of their reader's queue, because the slowest split may come after them. A reader whose
    splits are all held must get another one, because the slowest split may not be assigned yet.
    """

    def __init__(
        self, alignment: WatermarkAlignment, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.alignment = alignment
        self._clock = clock
        self._lock = threading.Lock()
        self._minima: dict[str, int] = {}
        self._maximum: MaxWatermark | None = None
        self._updated = 0.0

    def join(self, uid: str) -> None:
        """Add a source before its first report: it holds back the group until discovery."""
        with self._lock:
            self._minima.setdefault(uid, MIN_WATERMARK)

    def update(
        self, uid: str, active: Iterable[SplitProgress], *, finished: bool, discovered: bool
    ) -> None:
        """Update the splits of one source; see :func:`alignment_minimum`."""
        minimum = alignment_minimum(active, finished=finished, discovered=discovered)
        with self._lock:
            self._minima[uid] = minimum

    def leave(self, uid: str) -> None:
        """Remove a source whose query has stopped."""
        with self._lock:
            self._minima.pop(uid, None)

    @property
    def minimum(self) -> int:
        """Return the lowest mark of all members, ``MAX_WATERMARK`` if none holds back the group."""
        with self._lock:
            return min(self._minima.values(), default=MAX_WATERMARK)

    def max_allowed_watermark(self, now: float | None = None) -> MaxWatermark:
        """Return the maximum for the next plan.

        A lower maximum (because a slower split was found) applies immediately. A higher one applies
        when the update interval has passed since the last increase. The result is never above the
        lowest mark plus the drift.

        Args:
            now: Monotonic seconds; by default from the group's clock.
        """
        now = self._clock() if now is None else now
        minimum = self.minimum
        if minimum in (MIN_WATERMARK, MAX_WATERMARK):
            fresh = MaxWatermark(minimum)
        else:
            fresh = MaxWatermark(minimum + micros(self.alignment.max_drift))
        interval = self.alignment.update_interval.total_seconds()
        with self._lock:
            if (
                self._maximum is None
                or fresh < self._maximum
                or (fresh > self._maximum and now - self._updated >= interval)
            ):
                self._maximum, self._updated = fresh, now
            return self._maximum


class CoordinatorStore:
    """The alignment groups that the coordinators of a pipeline share. Thread safe.

    Args:
        clock: Monotonic seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._groups: dict[str, AlignmentGroup] = {}

    def group(self, alignment: WatermarkAlignment) -> AlignmentGroup:
        """Return the group with this name, the same for all its members.

        Raises:
            ConfigurationError: Another member has a different drift or update interval.
        """
        with self._lock:
            group = self._groups.get(alignment.group)
            if group is None:
                group = self._groups[alignment.group] = AlignmentGroup(alignment, self._clock)
        if group.alignment != alignment:
            drift = group.alignment.max_drift != alignment.max_drift
            raise ConfigurationError(
                f"the sources of the alignment group {alignment.group!r} have different settings",
                expected=group.alignment,
                found=alignment,
                option="max_drift" if drift else "update_interval",
                hint="give all sources of a group the same max_drift and update_interval",
            )
        return group


class IdlenessClock:
    """How long the splits of one source were polled without rows (Flink's FLIP-182, FLIP-217).

    Time during which a split was not polled does not count: alignment, a limit, or the rate held
    it, or it was not assigned. Starts from zero after a restart, as in Flink.

    Args:
        idleness: Time after which a split is idle; None if splits never become idle.
        clock: Monotonic seconds.
    """

    def __init__(
        self, idleness: timedelta | None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._idleness = None if idleness is None else idleness.total_seconds()
        self._clock = clock
        self._waited: dict[str, float] = {}
        self._asked_at: dict[str, float] = {}

    def observe(self, split_id: str, asked: bool, rows: int, seconds: float | None = None) -> None:
        """Record the effect of a plan on a split.

        Args:
            split_id: The split.
            asked: Whether it was read and could have returned rows.
            rows: Its number of rows, including held ones; any row resets its idle time.
            seconds: The duration to record. None measures the time since the previous
                observation, if the split was polled then too. This includes the time between two
                plans, which is most of it if a source is idle and plans are short.
        """
        now = self._clock()
        last = self._asked_at.pop(split_id, None)
        if rows > 0:
            self._waited.pop(split_id, None)
        elif asked:
            if seconds is None:
                seconds = 0.0 if last is None else now - last
            self._waited[split_id] = self._waited.get(split_id, 0.0) + seconds
        if asked:
            self._asked_at[split_id] = now

    def idle(self, split_id: str) -> bool:
        """Return whether the split is idle."""
        if self._idleness is None:
            return False
        return self._waited.get(split_id, 0.0) >= self._idleness

    def forget(self, split_id: str) -> None:
        """Remove the state of a split that is finished or was taken away."""
        self._waited.pop(split_id, None)
        self._asked_at.pop(split_id, None)
