# SPDX-License-Identifier: Apache-2.0
"""Tests reload triggers: due times, missed reloads, and the end."""

from __future__ import annotations

import threading
from concurrent.futures import Future
from datetime import UTC, datetime, time, timedelta
from zoneinfo import ZoneInfo

import pytest

from connectors_core.errors import ConfigurationError
from connectors_core.lookup import (
    PeriodicCacheReloadTrigger,
    ScheduleMode,
    TimedCacheReloadTrigger,
)

NOON = datetime(2024, 3, 10, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)
DAY = timedelta(days=1)


class Context:
    """A clock that does not move. Each reload ends on the test's request."""

    def __init__(self):
        self.asked = threading.Semaphore(0)
        self.reloads = []

    def current_processing_time(self):
        return datetime.now(UTC)

    def trigger_reload(self):
        self.reloads.append(Future())
        self.asked.release()
        return self.reloads[-1]


def test_a_fixed_delay_counts_from_the_end_of_the_last_reload():
    trigger = PeriodicCacheReloadTrigger(HOUR)
    assert trigger.next_reload(None, NOON) == NOON + HOUR
    assert trigger.next_reload(NOON + HOUR, NOON + 3 * HOUR) == NOON + 4 * HOUR


def test_a_fixed_rate_counts_from_the_due_time_of_the_last_reload():
    trigger = PeriodicCacheReloadTrigger(HOUR, ScheduleMode.FIXED_RATE)
    assert trigger.next_reload(None, NOON) == NOON + HOUR
    assert trigger.next_reload(NOON, NOON + HOUR / 4) == NOON + HOUR


def test_a_fixed_rate_runs_one_reload_for_several_missed_ones():
    trigger = PeriodicCacheReloadTrigger(HOUR, ScheduleMode.FIXED_RATE)
    late = NOON + 3.5 * HOUR
    made_up = trigger.next_reload(NOON, late)
    assert made_up == NOON + 3 * HOUR
    assert trigger.next_reload(made_up, late) == NOON + 4 * HOUR


def test_the_next_time_of_day_is_today_or_tomorrow():
    trigger = TimedCacheReloadTrigger("13:30Z", 3)
    assert trigger.next_reload(None, NOON) == NOON + 1.5 * HOUR
    assert trigger.next_reload(None, NOON + 2 * HOUR) == NOON + 1.5 * HOUR + DAY


def test_a_time_of_day_can_recur_after_several_days():
    trigger = TimedCacheReloadTrigger("13:30Z", 3)
    first = NOON + 1.5 * HOUR
    assert trigger.next_reload(first, first) == first + 3 * DAY


def test_a_time_of_day_can_have_a_time_zone():
    trigger = TimedCacheReloadTrigger("02:00+05:30")
    assert trigger.next_reload(None, NOON) == datetime(2024, 3, 10, 20, 30, tzinfo=UTC)


def test_a_time_of_day_follows_daylight_saving_time():
    trigger = TimedCacheReloadTrigger(time(3, 30, tzinfo=ZoneInfo("America/New_York")))
    before = datetime(2024, 3, 9, 8, 30, tzinfo=UTC)
    assert trigger.next_reload(None, before - HOUR) == before
    assert trigger.next_reload(before, before) == before + DAY - HOUR


@pytest.mark.parametrize("days", [1, 2])
def test_a_time_of_day_runs_one_reload_for_several_missed_ones(days):
    trigger = TimedCacheReloadTrigger("13:30Z", days)
    first = NOON + 1.5 * HOUR
    for late in (first + 4 * DAY + HOUR, first + 4 * DAY + 23 * HOUR, first + 6 * DAY - HOUR):
        made_up = trigger.next_reload(first, late)
        assert late - days * DAY < made_up <= late
        following = trigger.next_reload(made_up, late)
        assert following == made_up + days * DAY
        assert following > late


def test_a_time_of_day_without_a_zone_uses_the_zone_of_the_driver():
    local = datetime.now().astimezone().replace(hour=5, minute=0, second=0, microsecond=0)
    trigger = TimedCacheReloadTrigger("05:00")
    assert trigger.next_reload(None, local - HOUR) == local


@pytest.mark.parametrize(
    ("make", "option"),
    [
        (lambda: PeriodicCacheReloadTrigger(timedelta(0)), "reload_interval"),
        (lambda: TimedCacheReloadTrigger("noon"), "reload_time"),
        (lambda: TimedCacheReloadTrigger("12:00", 0), "reload_interval_in_days"),
    ],
)
def test_an_invalid_schedule_is_refused(make, option):
    with pytest.raises(ConfigurationError) as refused:
        make()
    assert refused.value.keyword == option


def test_reloads_run_one_after_another_until_close():
    context = Context()
    trigger = PeriodicCacheReloadTrigger(timedelta(milliseconds=1))
    trigger.open(context)
    for number in range(3):
        assert context.asked.acquire(timeout=10)
        assert len(context.reloads) == number + 1, "it did not wait for the reload before"
        context.reloads[-1].set_result(None)
    trigger.close()
    left = len(context.reloads)
    assert not any(thread.name == "lookup-reload" for thread in threading.enumerate())
    assert len(context.reloads) == left


def test_a_failed_reload_does_not_prevent_later_ones():
    context = Context()
    trigger = PeriodicCacheReloadTrigger(timedelta(milliseconds=1))
    trigger.open(context)
    assert context.asked.acquire(timeout=10)
    context.reloads[-1].set_exception(OSError("gone"))
    assert context.asked.acquire(timeout=10)
    trigger.close()


def test_a_trigger_can_close_during_a_reload_and_open_again():
    context = Context()
    trigger = PeriodicCacheReloadTrigger(timedelta(milliseconds=1))
    for _ in range(2):
        trigger.open(context)
        assert context.asked.acquire(timeout=10)
        trigger.close()
