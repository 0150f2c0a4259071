# SPDX-License-Identifier: Apache-2.0
"""A further attempt of a task waits until the driver has seen the one before. Executor."""

from __future__ import annotations

import time
from typing import Final

from pyspark import TaskContext

from connectors_core.engine.state import StateStore
from connectors_core.spark.failures import TaskFailedError

JOB_PROPERTY: Final = "connectors.job"
"""Spark's local property with the name of the job that a task belongs to."""

HOLD_SECONDS: Final = 1.0
"""How long a further attempt waits: several looks of the driver, and a pause for what is away."""

CANCELLED_FOLDER: Final = "cancelled"


def cancelled_path(job: str) -> str:
    """The file that says that a job was cancelled."""
    return f"{CANCELLED_FOLDER}/{job}"


def hold_retry(store: StateStore) -> None:
    """Let a further attempt of a task wait until the driver has seen the one before. Executor.

    Costs nothing in the first attempt.

    Args:
        store: The state location of the pipeline.

    Raises:
        TaskFailedError: The driver has cancelled the job.
    """
    context = TaskContext.get()
    if context is None or context.attemptNumber() == 0:
        return
    job = context.getLocalProperty(JOB_PROPERTY)
    if job is None:
        return
    time.sleep(HOLD_SECONDS)
    # Spark lets a killed Python task live for seconds.
    if store.exists(cancelled_path(job)):
        raise TaskFailedError("the driver has cancelled this job")
