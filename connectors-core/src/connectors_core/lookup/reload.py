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

from connectors_core.errors import ConfigurationError

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


class PeriodicCacheReloadTrigger(_ByTheClock):
    """Reloads after an interval, again and again.

    Args:
        reload_interval: The interval.
        schedule_mode: From where it counts.

    Raises:
        ConfigurationError: The interval is not more than nothing.
    """

    def __init__(
        self,
        reload_interval: timedelta,
        schedule_mode: ScheduleMode = ScheduleMode.FIXED_DELAY,
    ) -> None:
        if reload_interval <= timedelta(0):
            raise ConfigurationError(
                "a reload interval must be greater than 0",
                found=reload_interval,
                option="reload_interval",
            )
        self.reload_interval = reload_interval
        self.schedule_mode = schedule_mode

    def next_reload(self, last: datetime | None, now: datetime) -> datetime:
        """An interval after the last one, or after now."""
        if last is None or self.schedule_mode is ScheduleMode.FIXED_DELAY:
            return now + self.reload_interval
        return last + max(1, (now - last) // self.reload_interval) * self.reload_interval


class TimedCacheReloadTrigger(_ByTheClock):
    """Reloads at a time of day, every given number of days.

    A start always reads the table, and the days count from the first such time after it. If
    several
    reloads are missed while the machine sleeps or a reload runs, one is made up for.

    Args:
        reload_time: The time of day, as an ISO text such as "03:30", "03:30Z" or "03:30+02:00",
            or
            as a `datetime.time`, whose zone may have daylight saving time. Without a zone, it
            is in
            the driver's zone.
        reload_interval_in_days: Days between reloads.

    Raises:
        ConfigurationError: It is not a time of day, or the number of days is less than one.
    """

    def __init__(self, reload_time: time_of_day | str, reload_interval_in_days: int = 1) -> None:
        if isinstance(reload_time, str):
            try:
                reload_time = time_of_day.fromisoformat(reload_time)
            except ValueError as error:
                raise ConfigurationError(
                    "the time of a reload is not a time of day",
                    expected="a time in ISO 8601, such as 03:30, 03:30Z or 03:30+02:00",
                    found=reload_time,
                    option="reload_time",
                ) from error
        if reload_interval_in_days < 1:
            raise ConfigurationError(
                "the number of days between reloads is out of range",
                expected="at least 1",
                found=reload_interval_in_days,
                option="reload_interval_in_days",
            )
        self.reload_time = reload_time
        self.reload_interval_in_days = reload_interval_in_days

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
