# SPDX-License-Identifier: Apache-2.0
"""Delays the retry of a task until the driver has seen the failure. Executor."""

from __future__ import annotations

import time
from typing import Final

from pyspark import TaskContext

from connectors_core.engine.state import StateStore
from connectors_core.spark.failures import TaskFailedError

JOB_PROPERTY: Final = "connectors.job"
"""Spark's local property with the name of a task's job."""

HOLD_SECONDS: Final = 1.0
"""Delay of a retry: several checks of the driver, and a pause for an unavailable system."""

CANCELLED_FOLDER: Final = "cancelled"


def cancelled_path(job: str) -> str:
    """Return the path of the file that marks a job as canceled."""
    return f"{CANCELLED_FOLDER}/{job}"


def hold_retry(store: StateStore) -> None:
    """Delay the retry of a task until the driver has seen the failure. Executor.

    Costs nothing in the first attempt.

    Args:
        store: The state location of the pipeline.

    Raises:
        TaskFailedError: The driver has canceled the job.
    """
    context = TaskContext.get()
    if context is None or context.attemptNumber() == 0:
        return
    job = context.getLocalProperty(JOB_PROPERTY)
    if job is None:
        return
    time.sleep(HOLD_SECONDS)
    # Spark lets a killed Python task run for a few more seconds.
    if store.exists(cancelled_path(job)):
        raise TaskFailedError("the driver has canceled this job")
