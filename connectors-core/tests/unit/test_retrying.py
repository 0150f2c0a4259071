# SPDX-License-Identifier: Apache-2.0
"""Tests that retries are logged when they start and at intervals, not each time."""

from __future__ import annotations

import asyncio
import logging
import math
import threading
import time
from dataclasses import replace
from unittest.mock import Mock

import pytest

from connectors_core.clients.retries import RetryLog, RetryPolicy
from connectors_core.errors import FatalError, RetryableError


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    assert {record.levelno for record in caplog.records} <= {logging.WARNING}
    return [record.getMessage() for record in caplog.records]


def test_the_first_failure_is_logged_with_its_reason(caplog: pytest.LogCaptureFixture) -> None:
    log = RetryLog("a commit", clock=Clock())
    log.failed(RetryableError("the service is busy", found="503"))
    log.failed(RetryableError("the service is busy"))
    assert lines(caplog) == ["a commit failed; retrying: the service is busy (503)"]


def test_continuing_failures_are_logged_at_intervals(caplog: pytest.LogCaptureFixture) -> None:
    clock = Clock()
    log = RetryLog("a commit", every=30.0, clock=clock)
    for _ in range(65):
        log.failed("busy")
        clock.now += 1.0
    assert lines(caplog)[1:] == [
        "a commit still fails after 30 s and 31 attempts; retrying: busy",
        "a commit still fails after 60 s and 61 attempts; retrying: busy",
    ]


def test_a_short_failure_may_be_left_out_of_the_log(caplog: pytest.LogCaptureFixture) -> None:
    clock = Clock()
    log = RetryLog("sending", after=1.0, clock=clock)
    for _ in range(3):
        log.failed("busy")
    assert lines(caplog) == []
    clock.now += 1.0
    log.failed("busy")
    assert len(lines(caplog)) == 1


def test_a_failure_after_a_long_pause_is_logged_as_a_new_one(
    caplog: pytest.LogCaptureFixture,
) -> None:
    clock = Clock()
    log = RetryLog("a commit", clock=clock)
    log.failed("busy")
    clock.now += 31.0
    log.failed("away")
    assert lines(caplog)[1] == "a commit failed; retrying: away"


def test_the_recovery_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    clock = Clock()
    log = RetryLog("reading", forget_after=math.inf, clock=clock)
    log.succeeded()
    log.failed("away")
    assert log.failing
    clock.now += 40.0
    log.failed("away")
    log.succeeded()
    log.succeeded()
    assert not log.failing
    assert lines(caplog)[1:] == [
        "reading still fails after 40 s and 2 attempts; retrying: away",
        "reading works again after 40 s and 2 failed attempts",
    ]


def test_alternating_failures_and_successes_do_not_flood_the_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    clock = Clock()
    log = RetryLog("reading", every=30.0, clock=clock)
    for _ in range(31):
        log.failed("cut")
        log.succeeded()
        clock.now += 1.0
    begins, ends = lines(caplog)[::2], lines(caplog)[1::2]
    assert begins == ["reading failed; retrying: cut"] * 2
    assert ends == ["reading works again after 0 s and 1 failed attempts"] * 2


def test_tenacity_logs_each_failure(caplog: pytest.LogCaptureFixture) -> None:
    answers = iter([RetryableError("busy"), RetryableError("busy"), None])

    def ask() -> None:
        error = next(answers)
        if error is not None:
            raise error

    AT_ONCE.retrying(RetryLog("asking"))(ask)
    assert lines(caplog) == ["asking failed; retrying: busy"]


# --- The policy -----------------------------------------------------------------------------------

AT_ONCE = RetryPolicy(initial_backoff=0.0, max_backoff=0.0)


def test_pauses_double_up_to_the_maximum() -> None:
    policy = RetryPolicy(initial_backoff=1.0, max_backoff=10.0, jitter=0.0)
    assert [policy.pause(tries) for tries in (1, 2, 3, 4, 5, 10_000)] == [1, 2, 4, 8, 10, 10]


def test_a_share_of_each_pause_is_random() -> None:
    slightly = RetryPolicy(initial_backoff=1.0, max_backoff=1.0, jitter=0.2)
    assert all(0.8 <= slightly.pause(1) <= 1.0 for _ in range(100))
    fully = RetryPolicy(initial_backoff=1.0, max_backoff=1.0)
    assert min(fully.pause(1) for _ in range(100)) < 0.5


def test_the_requested_pause_of_a_system_is_respected_up_to_the_timeout() -> None:
    policy = RetryPolicy(initial_backoff=1.0, max_backoff=1.0, timeout=60.0)
    busy = RetryableError("busy", retry_after=20.0)
    assert policy.pause(1, busy) == 20.0
    assert policy.pause(3, busy, 55.0) == 5.0
    assert policy.pause(3, busy, 61.0) == 0.0


@pytest.mark.parametrize(
    ("tries", "elapsed", "over"), [(3, 59.9, False), (4, 0.0, True), (1, 60.0, True)]
)
def test_retries_end_with_the_last_attempt_or_the_timeout(
    tries: int, elapsed: float, over: bool
) -> None:
    policy = RetryPolicy(initial_backoff=1.0, max_backoff=1.0, max_attempts=4, timeout=60.0)
    assert policy.is_over(tries, elapsed) is over


def test_the_last_error_is_raised() -> None:
    errors = [RetryableError(str(number)) for number in range(3)]
    with pytest.raises(RetryableError, match="2"):
        replace(AT_ONCE, max_attempts=3).retrying(RetryLog("asking"))(Mock(side_effect=errors))


def test_a_fatal_error_is_not_retried() -> None:
    with pytest.raises(FatalError):
        AT_ONCE.retrying(RetryLog("asking"))(Mock(side_effect=[FatalError("no"), None]))


def test_no_retry_follows_when_no_one_waits() -> None:
    ended = threading.Event()

    def ask() -> None:
        ended.set()
        raise RetryableError("busy")

    policy = RetryPolicy(initial_backoff=3600.0, max_backoff=3600.0)
    with pytest.raises(RetryableError):
        policy.retrying(RetryLog("asking"), ended=ended)(ask)


def test_no_attempt_follows_if_the_wait_ends_early() -> None:
    class Ended(threading.Event):
        def wait(self, timeout: float | None = None) -> bool:
            self.set()
            return super().wait(timeout)

    attempts: list[RetryableError] = []

    def ask() -> None:
        attempts.append(RetryableError("busy"))
        raise attempts[-1]

    policy = RetryPolicy(initial_backoff=3600.0, max_backoff=3600.0)
    with pytest.raises(RetryableError) as failure:
        policy.retrying(RetryLog("asking"), ended=Ended())(ask)
    assert attempts == [failure.value]


def test_only_long_pauses_that_the_system_requests_are_not_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = Clock()
    monkeypatch.setattr(time, "monotonic", clock)
    pauses: list[float] = []

    def sleep(seconds: float) -> None:
        pauses.append(seconds)
        clock.now += seconds

    def ask() -> None:
        raise RetryableError("busy", retry_after=None if len(pauses) in (1, 2) else 3600.0)

    policy = RetryPolicy(
        initial_backoff=4.0, max_backoff=8.0, jitter=0.0, timeout=10.0, longest_request=3600.0
    )
    with pytest.raises(RetryableError):
        policy.retrying(RetryLog("asking", clock=clock), sleep=sleep)(ask)
    assert pauses == [3600.0, 8.0, 2.0], "the last request comes after the timeout"


def test_the_log_masks_passwords(caplog: pytest.LogCaptureFixture) -> None:
    failure = OSError("https://ann:hunter2@host/ is away")  # pragma: allowlist secret
    RetryLog("asking").failed(failure)
    assert "https://******@host/ is away" in caplog.text
    assert "hunter2" not in caplog.text


def test_a_coroutine_is_retried() -> None:
    answers = iter([RetryableError("busy"), None])

    async def ask() -> str:
        error = next(answers)
        if error is not None:
            raise error
        return "done"

    assert asyncio.run(AT_ONCE.async_retrying(RetryLog("asking"))(ask)) == "done"
