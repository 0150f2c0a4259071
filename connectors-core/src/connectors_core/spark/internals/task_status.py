# SPDX-License-Identifier: Apache-2.0
"""Spark's status store, which lists the failed task attempts of a running job."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, cast

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_MOST_FAILED_TASKS: Final = 20


@dataclass(frozen=True)
class FailedTask:
    """A failed attempt of a task in Spark's status store."""

    stage: int
    index: int
    attempt: int
    text: str


def failed_tasks(spark: SparkSession, tag: str) -> list[FailedTask]:
    """Return the failed attempts in the active stages of the jobs with a tag."""
    context: Any = spark.sparkContext
    store = context._jsc.sc().statusStore()
    tracker = context._jsc.statusTracker()
    api = context._jvm.org.apache.spark.status.api.v1
    only_failed = context._jvm.java.util.List.of(api.TaskStatus.FAILED)
    found = []
    for job in tracker.getActiveJobIds():
        if not store.job(job).jobTags().contains(tag):
            continue
        for stage in tracker.getJobInfo(job).stageIds():
            attempt = store.lastStageAttempt(stage)
            if attempt.status().toString() != "ACTIVE":
                continue
            tasks = store.taskList(
                stage, attempt.attemptId(), 0, _MOST_FAILED_TASKS, api.TaskSorting.ID, only_failed
            )
            for number in range(tasks.size()):
                task = tasks.apply(number)
                text = task.errorMessage()
                if text.isDefined():
                    found.append(
                        FailedTask(stage, task.index(), task.attempt(), cast(str, text.get()))
                    )
    return found
