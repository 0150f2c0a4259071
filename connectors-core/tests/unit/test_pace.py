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
    """Return a function that sets how much slower than an idle machine this machine is."""
    return lambda times: monkeypatch.setattr(pace, "pace", lambda: times)


def test_the_pace_is_at_least_that_of_an_idle_machine_and_is_bounded():
    assert 1.0 <= pace.pace() <= 8.0


def test_a_slow_calculation_indicates_a_slow_machine(monkeypatch):
    monkeypatch.setattr(pace, "_NOMINAL_SECONDS", 1e-6)
    assert pace.pace() == 8.0


def test_many_processes_per_core_indicate_a_slow_machine(monkeypatch):
    monkeypatch.setattr(pace, "_NOMINAL_SECONDS", 1e6)
    monkeypatch.setattr("os.getloadavg", lambda: (12.0, 0.0, 0.0))
    monkeypatch.setattr("os.cpu_count", lambda: 4)
    assert pace.pace() == 3.0


def test_seconds_are_stretched_on_a_busy_machine(slowness):
    slowness(3.0)
    assert stretched(2.0) == 6.0


def test_a_wait_on_an_idle_machine_ends_on_time(slowness):
    slowness(1.0)
    deadline = Deadline(SHORT)
    assert not deadline.passed
    wait_longer_than(deadline, SHORT)
    assert deadline.passed
    assert str(deadline) == "0.0 s"


def test_a_wait_is_extended_if_the_machine_becomes_busy(slowness):
    deadline = Deadline(SHORT)
    slowness(1e6)
    wait_longer_than(deadline, SHORT)
    assert deadline.left > 1000


def test_a_restarted_wait_has_its_full_time_again(slowness):
    slowness(1.0)
    deadline = Deadline(60.0)
    deadline._began -= 61
    assert deadline.passed
    deadline.restart()
    assert not deadline.passed
