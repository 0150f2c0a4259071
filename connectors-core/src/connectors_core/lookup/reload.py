# SPDX-License-Identifier: Apache-2.0
"""When a table that is cached as a whole is read again (Flink's FLIP-221). Driver."""

from __future__ import annotations

import enum
import threading
from abc import ABC, abstractmethod
from concurrent.futures import Future
from datetime import UTC, date, datetime, timedelta
from datetime import time as time_of_day
from typing import Final, Protocol

from connectors_core.options import Configured, OptionType, Setting, at_least, option, positive

_LONGEST_WAIT_SECONDS: Final = 60.0
_POLL_SECONDS: Final = 0.05


class CacheReloadContext(Protocol):
    """What a trigger is given."""

    def current_processing_time(self) -> datetime:
        """Now, with a time zone."""
        ...

    def trigger_reload(self) -> Future[None]:
        """Read the table again, behind a reload that runs; the future ends when it is read.

        A reload that fails is reported by the pipeline and keeps what was read before.
        """
        ...


class CacheReloadTrigger(ABC):
    """Says when a table is read again. The first reading is not its business.

    Immutable until it is opened, and used once for each start of a pipeline.
    """

    @abstractmethod
    def open(self, context: CacheReloadContext) -> None:
        """Begin; must return at once. Driver, when the table has been read for the first time."""

    @abstractmethod
    def close(self) -> None:
        """End: no reload is triggered when this has returned."""


class _ByTheClock(CacheReloadTrigger):
    """Triggers reloads at moments, on a thread of its own."""

    _thread: threading.Thread | None = None
    _closed: threading.Event

    @abstractmethod
    def next_reload(self, last: datetime | None, now: datetime) -> datetime:
        """The moment of the next reload; one that has gone by is made up for at once.

        Args:
            last: The moment for which the last one was planned; None before the first.
            now: Now, when the last one has been read.
        """

    def open(self, context: CacheReloadContext) -> None:
        """Begin."""
        self._closed = threading.Event()
        self._thread = threading.Thread(
            target=self._run, args=(context, self._closed), name="lookup-reload", daemon=True
        )
        self._thread.start()

    def close(self) -> None:
        """End."""
        if self._thread is not None:
            self._closed.set()
            self._thread.join()
            self._thread = None

    def _run(self, context: CacheReloadContext, closed: threading.Event) -> None:
        planned: datetime | None = None
        while not closed.is_set():
            planned = self.next_reload(planned, context.current_processing_time())
            # In steps, as the clock may be put and the machine may sleep.
            while (left := (planned - context.current_processing_time()).total_seconds()) > 0:
                if closed.wait(min(left, _LONGEST_WAIT_SECONDS)):
                    return
            reload = context.trigger_reload()
            while not reload.done():
                if closed.wait(_POLL_SECONDS):
                    return


class ScheduleMode(enum.Enum):
    """From where the interval of a `PeriodicCacheReloadTrigger` counts."""

    FIXED_DELAY = "FIXED_DELAY"
    """From the end of the last reload."""
    FIXED_RATE = "FIXED_RATE"
    """From the moment at which the last reload was due. Of several that have gone by while one was
    running, one is made up for."""


class PeriodicCacheReloadTrigger(Configured, _ByTheClock, scope="reload trigger"):
    """Reloads after an interval, repeatedly.

    Raises:
        InvalidOptionError: The interval is not above zero.
    """

    reload_interval: Setting[timedelta, timedelta | str] = option(
        "lookup.full-cache.periodic-reload.interval",
        timedelta,
        kw_only=False,
        doc="Interval between reloads.",
        validator=positive,
    )
    schedule_mode: Setting[ScheduleMode, ScheduleMode | str] = option(
        "lookup.full-cache.periodic-reload.schedule-mode",
        ScheduleMode,
        default=ScheduleMode.FIXED_DELAY,
        kw_only=False,
        doc="Whether the interval starts at the end of a reload or at its scheduled time.",
    )

    def next_reload(self, last: datetime | None, now: datetime) -> datetime:
        """An interval after the last one, or after now."""
        if last is None or self.schedule_mode is ScheduleMode.FIXED_DELAY:
            return now + self.reload_interval
        return last + max(1, (now - last) // self.reload_interval) * self.reload_interval


def _parse_time_of_day(value: object) -> time_of_day:
    if isinstance(value, time_of_day):
        return value
    try:
        return time_of_day.fromisoformat(str(value))
    except ValueError:
        raise ValueError("a time in ISO 8601, such as 03:30, 03:30Z or 03:30+02:00") from None


class TimedCacheReloadTrigger(Configured, _ByTheClock, scope="reload trigger"):
    """Reloads at a time of day, every given number of days.

    A start always reads the table, and the days count from the first such time after it. If
    several reloads are missed while the machine sleeps or a reload runs, one is made up for.
    The zone of a `datetime.time` may have daylight saving time.

    Raises:
        InvalidOptionError: It is not a time of day, or the number of days is less than one.
    """

    reload_time: Setting[time_of_day, time_of_day | str] = option(
        "lookup.full-cache.timed-reload.iso-time",
        OptionType("time of day", _parse_time_of_day, time_of_day.isoformat),
        kw_only=False,
        doc="Time of day of a reload, such as 03:30 (the driver's zone), 03:30Z or 03:30+02:00.",
    )
    reload_interval_in_days: Setting[int] = option(
        "lookup.full-cache.timed-reload.interval-in-days",
        int,
        unit="days",
        default=1,
        kw_only=False,
        doc="Days between reloads.",
        validator=at_least(1),
    )

    def next_reload(self, last: datetime | None, now: datetime) -> datetime:
        """The next such time, or so many days after the last one."""
        today = self._day_of(now)
        if last is None:
            moment = self._at(today)
            return moment if moment > now else self._at(today + timedelta(days=1))
        began = self._day_of(last)
        periods = max(1, (today - began).days // self.reload_interval_in_days)
        moment = self._at(began + timedelta(days=periods * self.reload_interval_in_days))
        if moment > now and periods > 1:  # later today: the one before is made up for
            periods -= 1
        return self._at(began + timedelta(days=periods * self.reload_interval_in_days))

    def _day_of(self, moment: datetime) -> date:
        return moment.astimezone(self.reload_time.tzinfo).date()

    def _at(self, day: date) -> datetime:
        # In UTC: between moments of one zone Python counts by the clock on the wall.
        return datetime.combine(day, self.reload_time).astimezone(UTC)
