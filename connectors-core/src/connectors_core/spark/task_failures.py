# SPDX-License-Identifier: Apache-2.0
"""Cancels a job if a task fails in a way that a retry would repeat, or if the job is futile.

Spark retries a task up to ``spark.task.maxFailures`` times whatever its failure, and informs the
driver's Python code only after the last attempt. Its status store lists every failed attempt, so
the driver polls the store during a job and cancels the job. Meanwhile the next attempt waits
(`spark/held_retries.py`). A job is futile if another driver has taken over and writes its rows.
"""

from __future__ import annotations

import contextlib
import logging
import re
import secrets
import threading
from collections.abc import Iterator, Sequence
from typing import Final

from pyspark.sql import SparkSession

from connectors_core.engine.execution.attempts import fails_again, is_of_the_program, is_unspecific
from connectors_core.engine.state import Lease, StateStore
from connectors_core.spark.failures import PythonFailure, TaskFailedError
from connectors_core.spark.held_retries import CANCELLED_FOLDER, JOB_PROPERTY, cancelled_path
from connectors_core.spark.internals.task_status import FailedTask, failed_tasks
from connectors_core.spark.ownership import local_property

LOOK_EVERY_SECONDS: Final = 0.2
_LOGGER: Final = logging.getLogger(__name__)
# An expression that fails on a row fails again on the same row. Spark puts the error class in
# brackets.
_EXPRESSION: Final = re.compile(
    r"org\.apache\.spark\.Spark(?:Arithmetic|ArrayIndexOutOfBounds|DateTime|NoSuchElement"
    r"|NumberFormat)Exception: \[|org\.apache\.spark\.\S+Exception: \[USER_RAISED_EXCEPTION\]"
)


class TaskFailures:
    """Monitors the jobs of one query. Driver.

    Args:
        spark: The session.
        store: The state location of the pipeline.
        lease: The lease of this driver.
    """

    def __init__(self, spark: SparkSession, store: StateStore, lease: Lease) -> None:
        self._spark = spark
        self._store = store
        self._lease = lease
        self._changed = threading.Condition()
        self._job: str | None = None
        self._found: str | None = None
        self._thread: threading.Thread | None = None
        self._closed = False
        self._cancelled = False

    @contextlib.contextmanager
    def watched(self) -> Iterator[None]:
        """Cancel jobs of this thread at the first failure that a retry would repeat.

        Raises:
            TaskFailedError: A job was canceled for this reason.
            LeaseError: A job failed, and another driver has taken over.
        """
        job = secrets.token_hex(8)
        self._begin(job)
        context = self._spark.sparkContext
        context.addJobTag(job)
        try:
            with local_property(self._spark, JOB_PROPERTY, job):
                if self._cancelled:
                    raise TaskFailedError("the run was canceled")
                yield
        except Exception:
            found = self._end()
            self._lease.check()
            if found is None:
                raise
            raise TaskFailedError(found)  # noqa: B904  # Spark's own error stays its context
        finally:
            self._end()
            context.removeJobTag(job)

    def cancel(self) -> None:
        """Cancel the current job and prevent further jobs. From any thread."""
        with self._changed:
            self._cancelled = True
            job = self._job
        if job is not None:
            self._store.create(cancelled_path(job), b"")
            self._spark.sparkContext.cancelJobsWithTag(job)

    def close(self) -> None:
        """Stop monitoring."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def _begin(self, job: str) -> None:
        with self._changed:
            self._job, self._found = job, None
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._watch, name="task-failures", daemon=True
                )
                self._thread.start()
            self._changed.notify_all()

    def _end(self) -> str | None:
        with self._changed:
            self._job = None
            return self._found

    def _watch(self) -> None:
        with contextlib.suppress(Exception):  # earlier jobs no longer need their files
            self._store.delete_tree(CANCELLED_FOLDER)
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._closed or self._job is not None)
                job = self._job
                # Most jobs end before the first check.
                self._changed.wait_for(
                    lambda job=job: self._closed or self._job != job,  # type: ignore[misc]
                    LOOK_EVERY_SECONDS,
                )
                if self._closed:
                    return
                if job is None or self._job != job or self._found is not None:
                    continue
            try:
                self._look(job)
            except Exception:
                # Spark's internals are unavailable, so Spark retries the task.
                _LOGGER.debug("the status of job %s cannot be read", job, exc_info=True)

    def _look(self, job: str) -> None:
        failed = failed_tasks(self._spark, job)
        text = next((task.text for task in failed if recurs(task, failed)), None)
        if text is None and self._lease.held:
            return
        with self._changed:
            if self._job != job:
                return
            self._found = text or "another driver has taken over"
        self._store.create(cancelled_path(job), b"")
        self._spark.sparkContext.cancelJobsWithTag(job)


def recurs(task: FailedTask, failed: Sequence[FailedTask]) -> bool:
    """Return whether the next attempt of a task would fail in the same way.

    Args:
        task: The failed attempt.
        failed: All failed attempts of the job.
    """
    failure = PythonFailure.of(task.text)
    if failure is None:
        return _EXPRESSION.match(task.text) is not None
    error = failure.error
    if error is not None:
        if failure.cause is not None:
            error.__cause__ = failure.cause.error
        return fails_again(error)
    if any("/connectors_core/" in frame for frame in failure.frames):
        return False  # in a connector, with an unknown cause
    if is_unspecific(failure.type_name):
        same = [(each.stage, each.index, PythonFailure.of(each.text)) for each in failed]
        return same.count((task.stage, task.index, failure)) > 1
    return is_of_the_program(failure.type_name)
