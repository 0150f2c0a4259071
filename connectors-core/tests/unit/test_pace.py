# SPDX-License-Identifier: Apache-2.0
"""Tests that deadlines of the suites depend on the speed of the machine."""

from __future__ import annotations

import pytest

from connectors_core.testing import pace
from connectors_core.testing.pace import Deadline, stretched

SHORT = 0.005


def wait_longer_than(deadline, seconds):
    while deadline.waited <= seconds:
        pass


@pytest.fixture
def slowness(monkeypatch):
    """Sets how many times as long as on an idle machine work takes."""
    return lambda times: monkeypatch.setattr(pace, "pace", lambda: times)


def test_no_machine_is_faster_than_an_idle_one_and_none_is_slow_without_bound():
    assert 1.0 <= pace.pace() <= 8.0


def test_a_piece_of_work_that_takes_long_is_a_slow_machine(monkeypatch):
    monkeypatch.setattr(pace, "_NOMINAL_SECONDS", 1e-6)
    assert pace.pace() == 8.0


def test_many_processes_for_each_core_are_a_slow_machine(monkeypatch):
    monkeypatch.setattr(pace, "_NOMINAL_SECONDS", 1e6)
    monkeypatch.setattr("os.getloadavg", lambda: (12.0, 0.0, 0.0))
    monkeypatch.setattr("os.cpu_count", lambda: 4)
    assert pace.pace() == 3.0


def test_seconds_of_an_idle_machine_are_more_of_a_busy_one(slowness):
    slowness(3.0)
    assert stretched(2.0) == 6.0


def test_a_wait_on_an_idle_machine_ends_in_time(slowness):
    slowness(1.0)
    deadline = Deadline(SHORT)
    assert not deadline.passed
    wait_longer_than(deadline, SHORT)
    assert deadline.passed
    assert str(deadline) == "0.0 s"


def test_a_wait_on_a_machine_that_became_busy_goes_on(slowness):
    deadline = Deadline(SHORT)
    slowness(1e6)
    wait_longer_than(deadline, SHORT)
    assert deadline.left > 1000


def test_a_wait_that_begins_again_has_all_its_time(slowness):
    slowness(1.0)
    deadline = Deadline(60.0)
    deadline._began -= 61
    assert deadline.passed
    deadline.restart()
    assert not deadline.passed
