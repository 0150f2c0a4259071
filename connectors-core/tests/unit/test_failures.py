# SPDX-License-Identifier: Apache-2.0
"""Tests that a failure in Spark becomes a short connector error."""

from __future__ import annotations

import subprocess
import traceback
from pathlib import Path
from types import SimpleNamespace

import pytest
from pyspark import SparkContext

from connectors_core.engine.state import Lease, StateStore
from connectors_core.errors import (
    BadRecordError,
    ConfigurationError,
    ConnectorError,
    FatalError,
    ForeignError,
    LeaseError,
    RetryableError,
    SplitChangedError,
    UnexpectedError,
)
from connectors_core.options import Configured, Setting, option
from connectors_core.spark.failures import (
    PythonFailure,
    spark_log_taken,
    telling_line,
    translated,
)

STACK = "".join(f"\tat org.apache.spark.Some$Thing.call(Thing.scala:{n})\n" for n in range(300))


class Spark(Exception):
    """Stands for an exception of Spark, which is recognized by its module."""

    __module__ = "pyspark.errors.exceptions.captured"


def in_task(error: Exception, *, frames: int = 3) -> str:
    """Return the text that Spark's driver reports for an exception in a Python task."""
    lines = "".join(f'  File "reader.py", line {n}, in poll\n    read()\n' for n in range(frames))
    shown = "".join(traceback.format_exception_only(error))
    return (
        "An error occurred while calling o123.collect.\n"
        ": org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 in stage 7.0 "
        "failed 4 times, most recent failure: Lost task 0.3 in stage 7.0 (TID 9) (host executor "
        "driver): org.apache.spark.api.python.PythonException: "
        f"Traceback (most recent call last):\n{lines}{shown}\n SQLSTATE: 38000\n{STACK}\n"
        f"Driver stacktrace:\n{STACK}"
        f"Caused by: org.apache.spark.api.python.PythonException: Traceback (most recent call "
        f"last):\n{lines}{shown}\n{STACK}\t\tThread State: RUNNABLE"
    )


def test_a_connector_error_is_restored_from_the_text_of_a_task() -> None:
    sent = BadRecordError("no number\nin line 2", split_id="a", position="3", option="format")
    found = PythonFailure.of(in_task(sent))
    assert found is not None
    assert isinstance(found.error, BadRecordError)
    assert str(found.error) == str(sent)
    assert found.error.option == "format"
    assert found.error.raw is None


def test_the_last_exception_of_a_chain_is_the_raised_one() -> None:
    text = (
        "Traceback (most recent call last):\n  File 'a.py'\nKeyError: 'n'\n\nThe above exception "
        "was the direct cause of the following exception:\n\nTraceback (most recent call last):\n"
        "  File 'b.py'\npackage.Broken: two\nlines\n\n\tat org.apache.Some(Thing.scala:1)\n"
    )
    found = PythonFailure.of(text)
    assert found is not None
    assert (found.type_name, found.message) == ("package.Broken", "two\nlines")


def test_the_exception_that_the_pipeline_raises_fits_on_one_screen() -> None:
    error = Spark(in_task(ValueError("bad " * 2000 + "\nx" * 500), frames=60))
    shown = "".join(traceback.format_exception(translated(error, "query-0 (log -> out)")))
    assert len(shown.splitlines()) < 40
    assert max(map(len, shown.splitlines())) < 1000
    assert "ValueError: bad bad" in shown
    assert "RUNNABLE" not in shown


@pytest.mark.parametrize(
    ("raised", "expected"),
    [
        (RetryableError("the broker does not answer"), RetryableError),
        (ConfigurationError("no such topic", option="topic"), ConfigurationError),
        (BadRecordError("no number", split_id="a"), BadRecordError),
        (SplitChangedError("the file changed"), SplitChangedError),
        (UnexpectedError("KeyError in the connector"), UnexpectedError),
        (FatalError("the search failed", code="SEARCH"), FatalError),
        (ValueError("first\nsecond"), FatalError),
    ],
)
def test_the_class_of_the_error_follows_from_the_class_of_its_cause(
    raised: Exception, expected: type[ConnectorError]
) -> None:
    error = translated(Spark(in_task(raised)), "query-0")
    assert type(error) is expected
    if isinstance(raised, ConnectorError):
        assert error.code == raised.code
    assert error.found is not None
    assert error.found.startswith(f"{type(raised).__name__}: ")
    assert "second" not in error.found
    cause = error.__cause__
    assert isinstance(cause, type(raised) if isinstance(raised, ConnectorError) else ForeignError)
    if isinstance(raised, ConnectorError):
        assert (error.option, error.hint) == (raised.option, raised.hint)
    assert isinstance(error.__context__, Spark), "Spark's own is kept"


@pytest.mark.parametrize(
    "line",
    [
        "org.apache.spark.SparkException: \nPython worker failed to connect back.",
        "org.apache.spark.SparkException: Python worker exited unexpectedly (crashed)",
        "ExecutorLostFailure (executor 1 exited caused by one of the running tasks) Reason: lost",
        "org.apache.spark.SparkException: Exception thrown in awaitResult\n"
        f"{STACK}Caused by: java.net.ConnectException: Connection refused",
    ],
)
def test_a_temporary_failure_of_spark_itself_is_retryable(line: str) -> None:
    text = (
        "An error occurred while calling o1.collect.\n: org.apache.spark.SparkException: Job "
        "aborted due to stage failure: Task 0 in stage 7.0 failed 4 times, most recent failure: "
        f"Lost task 0.3 in stage 7.0 (TID 9) (host executor driver): {line}\n{STACK}"
    )
    assert type(translated(Spark(text), "query-0")) is RetryableError


@pytest.mark.parametrize(
    "text",
    [
        f"S: java.lang.OutOfMemoryError\n\tat java.net.ConnectException.of(A.java:1)\n{STACK}",
        in_task(ValueError("ExecutorLostFailure")),
    ],
)
def test_another_failure_that_only_mentions_one_is_fatal(text: str) -> None:
    assert type(translated(Spark(text), "query-0")) is FatalError


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (
            "[STREAM_FAILED] Query [id = 1, runId = 2] terminated with exception: Job aborted due "
            "to stage failure: Task 0 in stage 1.0 failed 1 times, most recent failure: Lost task "
            "0.0 in stage 1.0 (TID 1) (host executor driver): java.lang.OutOfMemoryError: Java "
            f"heap space\n{STACK}\n\tThread State: RUNNABLE",
            "java.lang.OutOfMemoryError: Java heap space",
        ),
        (
            f"An error occurred while calling o1.collect.\n: java.io.IOException: no room\n{STACK}",
            "java.io.IOException: no room",
        ),
        (
            f"An error occurred while calling o1.collect.\n: S: no commit\n{STACK}"
            f"Caused by: F: java.io.IOException: no room\n{STACK}"
            f"Caused by: java.io.IOException: no room\n{STACK}Caused by: java.io.EOFException\n",
            "S: no commit; caused by java.io.IOException: no room",
        ),
        (
            f"S: Cannot run x: error=2, none\n{STACK}Caused by: I: error=2, none\n",
            "S: Cannot run x: error=2, none",
        ),
        (
            "[DIVIDE_BY_ZERO] Division by zero. SQLSTATE: 22012\n== DataFrame ==\n\n",
            "[DIVIDE_BY_ZERO] Division by zero. SQLSTATE: 22012",
        ),
        ("", "Spark"),
    ],
)
def test_a_failure_in_the_jvm_is_summarized_by_its_first_line(text: str, line: str) -> None:
    assert telling_line(Spark(text)) == line


def test_an_exception_of_the_driver_itself_stays_the_cause() -> None:
    error = OSError(28, "No space left on device")
    wrapped = translated(error, "query-0", hint="make room")
    assert wrapped.__cause__ is error
    assert wrapped.hint == "make room"
    assert wrapped.found == "OSError: [Errno 28] No space left on device"


@pytest.mark.parametrize(
    "error",
    [
        OSError(28, "No space left on device"),
        Spark(f"S: no commit\n{STACK}Caused by: java.io.IOException: No space left on device\n"),
    ],
)
def test_a_full_disk_names_the_folder(error: Exception) -> None:
    hint = translated(error, "query-0", hint="restart", location="s3://me:pass@place/ck").hint
    assert hint is not None
    assert "free space under s3://******@place/ck" in hint


def test_a_dead_jvm_is_reported_instead_of_the_errors_that_follow_from_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as process:
        monkeypatch.setattr(SparkContext, "_gateway", SimpleNamespace(proc=process))
        refused = ConnectionRefusedError(111, "Connection refused")
        assert "refused" in str(translated(refused, "query-0").found)
        process.kill()
        process.wait()
        wrapped = translated(refused, "query-0")
    assert wrapped.found == "the JVM of Spark has ended with status -9"
    assert wrapped.__cause__ is refused
    assert "start a new driver" in str(wrapped)


class Made(Configured):
    """A part that is created with keywords."""

    split_size: Setting[int] = option("source.split-size", int, default=1, doc="Bytes of a split.")
    page_size: Setting[int] = option("source.page-size", int, default=1, doc="Rows of a page.")


@pytest.mark.parametrize(
    ("part", "split_size", "page_size"),
    [
        (Made(), "split_size", "page_size"),
        (Made.from_options({}), "source.split-size", "source.page-size"),
    ],
)
def test_an_error_in_a_task_spells_all_options_as_the_caller_did(
    part: Made, split_size: str, page_size: str
) -> None:
    raised = BadRecordError(
        "a record is larger than 'source.split-size'",
        option="source.split-size",
        hint="set source.page-size to 1",
    )
    error = translated(Spark(in_task(raised)), "query-0", parts=[part])
    for each in (error, error.__cause__):
        assert f"option: {split_size}" in str(each)
        assert f"larger than '{split_size}'" in str(each)
        assert f"set {page_size} to 1" in str(each)


def test_an_error_in_a_task_without_an_option_spells_those_of_its_hint() -> None:
    raised = FatalError("the file is damaged", hint="set source.page-size to 1")
    error = translated(Spark(in_task(raised)), "query-0", parts=[Made()])
    assert "set page_size to 1" in str(error)


def test_the_error_shows_what_an_error_in_a_task_found() -> None:
    raised = ConfigurationError("the server rejects every document", found="no index 'late'")
    error = translated(Spark(in_task(raised)), "query-0")
    assert str(error.found).endswith("the server rejects every document: no index 'late'")


def test_a_connector_error_is_raised_unchanged() -> None:
    error = FatalError("state is damaged")
    assert translated(error, "query-0") is error


CONFLICT = (
    "[STREAM_FAILED] Query [id = 1, runId = 2] terminated with exception: "
    "[CONCURRENT_STREAM_LOG_UPDATE] Concurrent update to the log. Multiple streaming jobs detected "
    "for 0.\nPlease make sure only one streaming job runs on a specific checkpoint location at a "
    "time. SQLSTATE: 40000"
)


def test_each_of_two_drivers_in_conflict_over_sparks_log_learns_its_own_role(
    tmp_path: Path,
) -> None:
    store, error = StateStore(str(tmp_path)), Spark(CONFLICT)
    with Lease.acquire(store) as former:
        assert spark_log_taken(Spark("[DIVIDE_BY_ZERO]"), "query-0", former) is None
        assert isinstance(spark_log_taken(error, "query-0", former), RetryableError)
    with Lease.acquire(store) as successor:
        assert isinstance(spark_log_taken(error, "query-0", former), LeaseError)
        told = spark_log_taken(error, "query-0", successor)
    assert isinstance(told, RetryableError)
    assert told.found == telling_line(error)
    assert isinstance(told.__cause__, ForeignError)
