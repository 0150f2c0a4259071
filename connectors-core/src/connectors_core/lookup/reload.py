# SPDX-License-Identifier: Apache-2.0
"""Triggers that reload fully cached tables (Flink's FLIP-221). Driver."""

from __future__ import annotations

import enum
import threading
from abc import ABC, abstractmethod
from concurrent.futures import Future
from datetime import UTC, date, datetime, timedelta
from datetime import time as time_of_day
from typing import Final, Literal, Protocol

from connectors_core.options import Configured, OptionType, Setting, at_least, option, positive

_LONGEST_WAIT_SECONDS: Final = 60.0
_POLL_SECONDS: Final = 0.05


class CacheReloadContext(Protocol):
    """The context of a trigger."""

    def current_processing_time(self) -> datetime:
        """Return the current time, with a time zone."""
        ...

    def trigger_reload(self) -> Future[None]:
        """Reload the table after a running reload; the future completes with the reload.

        If a reload fails, the pipeline reports the error and keeps the previous rows.
        """
        ...


class CacheReloadTrigger(ABC):
    """Triggers the reloads of a table, but not its first load.

    Immutable until it is opened, and used once for each start of a pipeline.
    """

    @abstractmethod
    def open(self, context: CacheReloadContext) -> None:
        """Start; must return at once. Driver, after the first load of the table."""

    @abstractmethod
    def close(self) -> None:
        """Stop; triggers no reload after it has returned."""


class _ByTheClock(CacheReloadTrigger):
    """Triggers reloads at scheduled times, on a separate thread."""

    _thread: threading.Thread | None = None
    _closed: threading.Event

    @abstractmethod
    def next_reload(self, last: datetime | None, now: datetime) -> datetime:
        """Return the time of the next reload; a missed one runs at once.

        Args:
            last: The scheduled time of the last reload; None before the first.
            now: The current time, after the last reload.
        """

    def open(self, context: CacheReloadContext) -> None:
        """Start."""
        self._closed = threading.Event()
        self._thread = threading.Thread(
            target=self._run, args=(context, self._closed), name="lookup-reload", daemon=True
        )
        self._thread.start()

    def close(self) -> None:
        """Stop."""
        if self._thread is not None:
            self._closed.set()
            self._thread.join()
            self._thread = None

    def _run(self, context: CacheReloadContext, closed: threading.Event) -> None:
        planned: datetime | None = None
        while not closed.is_set():
            planned = self.next_reload(planned, context.current_processing_time())
            # In steps, because the clock may change and the machine may sleep.
            while (left := (planned - context.current_processing_time()).total_seconds()) > 0:
                if closed.wait(min(left, _LONGEST_WAIT_SECONDS)):
                    return
            reload = context.trigger_reload()
            while not reload.done():
                if closed.wait(_POLL_SECONDS):
                    return


class ScheduleMode(enum.Enum):
    """The start of the interval of a `PeriodicCacheReloadTrigger`."""

    FIXED_DELAY = "FIXED_DELAY"
    """From the end of the last reload."""
    FIXED_RATE = "FIXED_RATE"
    """From the scheduled time of the last reload. If several were missed during a reload, one runs
    afterward.
    """


class PeriodicCacheReloadTrigger(Configured, _ByTheClock, scope="reload trigger", since="1.0.0"):
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
    schedule_mode: Setting[ScheduleMode, ScheduleMode | Literal["FIXED_DELAY", "FIXED_RATE"]] = (
        option(
            "lookup.full-cache.periodic-reload.schedule-mode",
            ScheduleMode,
            default=ScheduleMode.FIXED_DELAY,
            kw_only=False,
            doc="Whether the interval starts at the end of a reload or at its scheduled time.",
        )
    )

    def next_reload(self, last: datetime | None, now: datetime) -> datetime:
        """Return the last or current time plus the interval."""
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


class TimedCacheReloadTrigger(Configured, _ByTheClock, scope="reload trigger", since="1.0.0"):
    """Reloads at a time of day, every given number of days.

    A start always reads the table, and the days count from the first such time after it. If
    several reloads are missed while the machine sleeps or a reload runs, one runs afterward.
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
        """Return the next such time, or the last one plus the interval."""
        today = self._day_of(now)
        if last is None:
            moment = self._at(today)
            return moment if moment > now else self._at(today + timedelta(days=1))
        began = self._day_of(last)
        periods = max(1, (today - began).days // self.reload_interval_in_days)
        moment = self._at(began + timedelta(days=periods * self.reload_interval_in_days))
        if moment > now and periods > 1:  # later today: run the missed one now
            periods -= 1
        return self._at(began + timedelta(days=periods * self.reload_interval_in_days))

    def _day_of(self, moment: datetime) -> date:
        return moment.astimezone(self.reload_time.tzinfo).date()

    def _at(self, day: date) -> datetime:
        # In UTC, because Python subtracts times of one zone by their wall clock.
        return datetime.combine(day, self.reload_time).astimezone(UTC)
