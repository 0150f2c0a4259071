# SPDX-License-Identifier: Apache-2.0
"""Tests which task failures the next attempt would repeat."""

from __future__ import annotations

import pytest

from connectors_core.engine.execution.attempts import fails_again
from connectors_core.errors import (
    BadRecordError,
    BadRecordLimitError,
    ConfigurationError,
    DataLossError,
    FatalError,
    ForeignError,
    MissingDependencyError,
    RetryableError,
    SplitChangedError,
    StateLocationError,
    UnexpectedError,
    UnsupportedError,
)
from connectors_core.source.base.element_queue import FetchError
from connectors_core.spark.internals.task_status import FailedTask
from connectors_core.spark.task_failures import recurs


def unexpected(cause: Exception) -> UnexpectedError:
    error = UnexpectedError("a request failed")
    error.__cause__ = cause
    return error


def fetched(cause: Exception) -> FetchError:
    error = FetchError("a fetcher failed")
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    "error",
    [
        BadRecordError("no number"),
        BadRecordLimitError("11 bad records"),
        ConfigurationError("no such topic"),
        UnsupportedError("no such type"),
        SplitChangedError("another file"),
        FatalError("refused for good"),
        fetched(BadRecordError("no number")),
    ],
    ids=lambda error: type(error).__name__,
)
def test_an_error_caused_by_data_or_options_fails_again(error: Exception) -> None:
    assert fails_again(error)


@pytest.mark.parametrize(
    "error",
    [
        RetryableError("busy"),
        OSError("reset"),
        TimeoutError("away"),
        ValueError("an answer that was cut off"),
        DataLossError("a replica lags behind"),
        StateLocationError("not reachable"),
        MissingDependencyError("avro", install="pip install avro"),
        ForeignError("from elsewhere"),
        fetched(ConnectionError("reset")),
        fetched(RetryableError("busy")),
        unexpected(OSError("reset")),
    ],
    ids=lambda error: type(error).__name__,
)
def test_a_temporary_error_is_retried(error: Exception) -> None:
    assert not fails_again(error)


def task(text: str, *, index: int = 0, attempt: int = 0) -> FailedTask:
    return FailedTask(stage=1, index=index, attempt=attempt, text=text)


def python(shown: str, *, file: str = "/app/job.py") -> str:
    return (
        "org.apache.spark.api.python.PythonException: Traceback (most recent call last):\n"
        f'  File "{file}", line 3, in parse\n    parse()\n{shown}\n\n'
        "\tat org.apache.spark.api.python.Runner.handle(Runner.scala:572)\n"
    )


@pytest.mark.parametrize(
    ("text", "again"),
    [
        (python("ValueError: no number"), True),
        (
            python(
                "ValueError: cut off", file="/lib/connectors_core/engine/execution/reader_task.py"
            ),
            False,
        ),
        (python("ConnectionRefusedError: [Errno 111] Connection refused"), False),
        (python("requests.exceptions.HTTPError: 503"), False),
        (python(f"connectors_core.errors.BadRecordError: {BadRecordError('no number')}"), True),
        (python(f"connectors_core.errors.RetryableError: {RetryableError('busy')}"), False),
        ("org.apache.spark.SparkArithmeticException: [DIVIDE_BY_ZERO] Division by zero.", True),
        ("java.lang.OutOfMemoryError: Java heap space", False),
        ("ExecutorLostFailure (executor 1 exited caused by one of the running tasks)", False),
    ],
)
def test_the_text_of_a_failed_task_shows_whether_it_would_fail_again(
    text: str, again: bool
) -> None:
    assert recurs(task(text), [task(text)]) is again


def test_an_unspecific_exception_recurs_if_the_same_task_raises_it_twice() -> None:
    text, other = python("RuntimeError: no plane"), python("RuntimeError: no gate")
    first = task(text)
    assert not recurs(first, [first])
    assert not recurs(first, [first, task(text, index=1)])
    assert not recurs(first, [first, task(other, attempt=1)])
    assert recurs(first, [first, task(text, attempt=1)])
