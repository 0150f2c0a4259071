# SPDX-License-Identifier: Apache-2.0
"""What is tried again is logged when it begins and while it continues, not each time."""

from __future__ import annotations

import logging
import math

import pytest
import tenacity

from connectors_core.clients.retries import IF_RETRYABLE, RetryLog
from connectors_core.errors import RetryableError


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


def test_failures_that_continue_are_logged_now_and_then(caplog: pytest.LogCaptureFixture) -> None:
    clock = Clock()
    log = RetryLog("a commit", every=30.0, clock=clock)
    for _ in range(65):
        log.failed("busy")
        clock.now += 1.0
    assert lines(caplog)[1:] == [
        "a commit still fails after 30 s and 31 attempts; retrying: busy",
        "a commit still fails after 60 s and 61 attempts; retrying: busy",
    ]


def test_a_short_refusal_may_be_left_out(caplog: pytest.LogCaptureFixture) -> None:
    clock = Clock()
    log = RetryLog("sending", after=1.0, clock=clock)
    for _ in range(3):
        log.failed("busy")
    assert lines(caplog) == []
    clock.now += 1.0
    log.failed("busy")
    assert len(lines(caplog)) == 1


def test_a_later_failure_is_another_one(caplog: pytest.LogCaptureFixture) -> None:
    clock = Clock()
    log = RetryLog("a commit", clock=clock)
    log.failed("busy")
    clock.now += 31.0
    log.failed("away")
    assert lines(caplog)[1] == "a commit failed; retrying: away"


def test_the_end_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
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


def test_failures_and_successes_in_turns_fill_no_log(caplog: pytest.LogCaptureFixture) -> None:
    clock = Clock()
    log = RetryLog("reading", every=30.0, clock=clock)
    for _ in range(31):
        log.failed("cut")
        log.succeeded()
        clock.now += 1.0
    begins, ends = lines(caplog)[::2], lines(caplog)[1::2]
    assert begins == ["reading failed; retrying: cut"] * 2
    assert ends == ["reading works again after 0 s and 1 failed attempts"] * 2


def test_tenacity_tells_of_each_failure(caplog: pytest.LogCaptureFixture) -> None:
    answers = iter([RetryableError("busy"), RetryableError("busy"), None])

    def ask() -> None:
        error = next(answers)
        if error is not None:
            raise error

    retrying = tenacity.Retrying(
        retry=IF_RETRYABLE, before_sleep=RetryLog("asking"), wait=tenacity.wait_none(), reraise=True
    )
    retrying(ask)
    assert lines(caplog) == ["asking failed; retrying: busy"]
