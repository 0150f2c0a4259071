# SPDX-License-Identifier: Apache-2.0
"""The watermark of a split. Executor only."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import numpy as np
import numpy.typing as npt

from connectors_core.source.event_time import (
    MAX_WATERMARK,
    NO_EVENT_TIME,
    EventTimes,
    event_times_of,
    micros,
)


class WatermarkGenerator(ABC):
    """Turns the event times of one split into its watermark (Flink's ``WatermarkGenerator``).

    The result must depend only on the rows and their order: not on the clock, and, unless the
    generator is periodic, not on how the rows are cut into batches. Executor only.
    """

    @abstractmethod
    def on_batch(self, event_times: EventTimes) -> None:
        """Process the event times of emitted rows, in order, without rows that have none.

        Args:
            event_times: Microseconds since the epoch, UTC. Do not change the array.
        """

    @abstractmethod
    def current(self) -> int | None:
        """Return the watermark after the rows so far, None if there is none yet.

        It must not fall. No row is expected with this event time or an earlier one.
        """

    @abstractmethod
    def state(self) -> Mapping[str, Any]:
        """Return the state for :meth:`restore`: small, plain JSON values. Reports contain it."""

    @abstractmethod
    def restore(self, state: Mapping[str, Any]) -> None:
        """Continue from a state; called on a new generator."""


@dataclass(frozen=True)
class Admission:
    """How much of a batch may be emitted.

    Attributes:
        rows: Number of leading rows.
        head: The watermark that the first held row would cause, None if no row is held. Always
            above the maximum that held it.
    """

    rows: int
    head: int | None


class SplitWatermarks(ABC):
    """The watermark of one split; its state passes from report to plan. Executor only.

    Event times are the event-time column of a batch from :meth:`WatermarkStrategy.assign` (or its
    microseconds). Rows without an event time, or with one outside the valid range, do not move the
    watermark and are never the ones that are held.
    """

    @property
    @abstractmethod
    def watermark(self) -> int | None:
        """The watermark after the rows so far, None if there is none yet."""

    @abstractmethod
    def admit(self, batch_times: Any, max_watermark: int | None) -> Admission:
        """Return how many leading rows may be emitted. Does not change the state.

        The cut is at the first row after which the watermark would exceed the maximum. If the
        watermark is already beyond the maximum (because a slower split joined the group), the split
        emits nothing, as in Flink.

        Args:
            batch_times: Event times of the rows that come next.
            max_watermark: Maximum of the watermark. None and :data:`MAX_WATERMARK` mean no limit;
                :data:`MIN_WATERMARK` holds every row that has an event time.
        """

    @abstractmethod
    def advance(self, batch_times: Any) -> None:
        """Process the event times of emitted rows."""

    @abstractmethod
    def state(self) -> dict[str, Any]:
        """Return plain JSON for :meth:`WatermarkStrategy.tracker`."""


def split_watermarks(
    factory: Callable[[], WatermarkGenerator] | None,
    *,
    out_of_orderness: timedelta,
    per_record: bool,
    state: Mapping[str, Any],
) -> SplitWatermarks:
    """Return the watermark of one split.

    Args:
        factory: Creates the generator of the split; None for the built-in one.
        out_of_orderness: Bound of the built-in generator.
        per_record: Whether the generator is called for every row or once per batch.
        state: The last state of the split's watermark.
    """
    if factory is None:
        return _BoundedOutOfOrderness(out_of_orderness, state)
    return _GeneratedWatermarks(factory, per_record, state)


class _BoundedOutOfOrderness(SplitWatermarks):
    def __init__(self, bound: timedelta, state: Mapping[str, Any]) -> None:
        self._lag = micros(bound) + 1
        self._highest: int | None = state.get("max_event_time")

    @property
    def watermark(self) -> int | None:
        return None if self._highest is None else self._highest - self._lag

    def admit(self, batch_times: Any, max_watermark: int | None) -> Admission:
        times = event_times_of(batch_times)
        if max_watermark is None:
            return Admission(len(times), None)
        highest = NO_EVENT_TIME if self._highest is None else self._highest
        limit = min(max_watermark + self._lag, MAX_WATERMARK)
        row = _first(times != NO_EVENT_TIME if highest > limit else times > limit)
        if row is None:
            return Admission(len(times), None)
        return Admission(row, max(highest, int(times[row])) - self._lag)

    def advance(self, batch_times: Any) -> None:
        times = event_times_of(batch_times)
        highest = int(times.max(initial=NO_EVENT_TIME))
        if highest != NO_EVENT_TIME:
            self._highest = highest if self._highest is None else max(self._highest, highest)

    def state(self) -> dict[str, Any]:
        return {} if self._highest is None else {"max_event_time": self._highest}


class _GeneratedWatermarks(SplitWatermarks):
    def __init__(
        self,
        factory: Callable[[], WatermarkGenerator],
        per_record: bool,
        state: Mapping[str, Any],
    ) -> None:
        self._factory = factory
        self._per_record = per_record
        self._generator = factory()
        if "generator" in state:
            self._generator.restore(state["generator"])
        self._watermark: int | None = state.get("watermark")

    @property
    def watermark(self) -> int | None:
        return self._watermark

    def admit(self, batch_times: Any, max_watermark: int | None) -> Admission:
        times = event_times_of(batch_times)
        rows = np.flatnonzero(times != NO_EVENT_TIME)
        if max_watermark is None or len(rows) == 0:
            return Admission(len(times), None)
        values = times[rows]
        head = self._watermark_after(values)
        if head is None or head <= max_watermark:
            return Admission(len(times), None)
        if not self._per_record:
            return Admission(int(rows[0]), head)
        # Watermarks do not fall, so a binary search finds the first row that exceeds the maximum.
        passes, held = 0, len(values)
        while held - passes > 1:
            middle = (passes + held) // 2
            after = self._watermark_after(values[:middle])
            if after is not None and after > max_watermark:
                held, head = middle, after
            else:
                passes = middle
        return Admission(int(rows[held - 1]), head)

    def _watermark_after(self, values: EventTimes) -> int | None:
        generator = self._factory()
        generator.restore(self._generator.state())
        generator.on_batch(values)
        return _later(self._watermark, generator.current())

    def advance(self, batch_times: Any) -> None:
        times = event_times_of(batch_times)
        values = times[times != NO_EVENT_TIME]
        if len(values):
            self._generator.on_batch(values)
            self._watermark = _later(self._watermark, self._generator.current())

    def state(self) -> dict[str, Any]:
        return {"watermark": self._watermark, "generator": dict(self._generator.state())}


def _later(left: int | None, right: int | None) -> int | None:
    if right is None:
        return left
    return int(right) if left is None else max(left, int(right))


def _first(mask: npt.NDArray[np.bool_]) -> int | None:
    row = int(mask.argmax()) if len(mask) else 0
    return row if row < len(mask) and mask[row] else None
