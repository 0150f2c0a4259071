# SPDX-License-Identifier: Apache-2.0
"""The options that `SET` changes."""

from __future__ import annotations

from datetime import timedelta
from enum import StrEnum
from typing import Literal

from connectors_core.options import Configured, Setting, option, optional, positive
from connectors_core.options.types import DURATION, MEMORY_SIZE
from connectors_core.source.source import BatchTasks

__all__ = ["RuntimeMode", "SessionOptions"]


class RuntimeMode(StrEnum):
    """How the pipelines of statements run."""

    AUTOMATIC = "automatic"
    """In batch if all tables are bounded."""
    BATCH = "batch"
    """In batch. Tables without an end are refused."""
    STREAMING = "streaming"
    """In micro-batches."""


class SessionOptions(Configured, scope="SQL session", since="1.1.0"):
    """The options of the statements that follow."""

    runtime_mode: Setting[RuntimeMode, RuntimeMode | Literal["automatic", "batch", "streaming"]] = (
        option(
            "execution.runtime-mode",
            RuntimeMode,
            default=RuntimeMode.AUTOMATIC,
            doc="How `INSERT` runs.",
        )
    )
    pipeline_name: Setting[str | None] = option(
        "pipeline.name",
        str,
        default=None,
        doc="Name of the pipeline of the following `INSERT`s, stable across restarts. By default, "
        "it is made from the tables and the text, without its format.",
    )
    parallelism: Setting[int | None] = option(
        "parallelism.default",
        int,
        unit="readers",
        default=None,
        validator=positive,
        doc="Number of readers per table.",
    )
    max_tasks: Setting[int | None] = option(
        "execution.batch.adaptive.auto-parallelism.max-parallelism",
        int,
        unit="tasks",
        default=None,
        validator=positive,
        doc="Largest number of tasks that read a table in batch. The default is four for each "
        "reader.",
    )
    bytes_per_task: Setting[int] = option(
        "execution.batch.adaptive.auto-parallelism.avg-data-volume-per-task",
        MEMORY_SIZE,
        default=BatchTasks().bytes_per_task,
        validator=positive,
        doc="Volume of data above which a table that is read in batch gets another task, if its "
        "source infers the number of tasks.",
    )
    trigger_interval: Setting[timedelta, timedelta | str] = option(
        "execution.trigger-interval",
        DURATION,
        default=timedelta(0),
        doc="Minimum time between two micro-batches.",
    )
    resume_batch_runs: Setting[bool] = option(
        "execution.batch.job-recovery.enabled",
        bool,
        default=False,
        doc="Whether the next run of an `INSERT` resumes an interrupted one in batch. It then "
        "reads only the splits that were not read to their end. The state location keeps all rows "
        "until the end.",
    )
    available_now: Setting[bool] = option(
        "execution.available-now",
        bool,
        default=False,
        doc="Whether an `INSERT` reads only what is available at its start, and then ends. Open "
        "windows stay for the next run, unless `execution.drain` closes them.",
    )
    drain: Setting[bool] = option(
        "execution.drain",
        bool,
        default=False,
        doc="Whether the end of an `INSERT` also closes all windows and ends all joins. The job "
        "cannot continue after that.",
    )
    connection_timeout: Setting[timedelta | None, timedelta | str | None] = option(
        "execution.connection-timeout",
        optional(DURATION, off="0 s"),
        default=timedelta(seconds=10),
        doc="Time in which the systems of an `INSERT` must respond at its start. `0 s` skips the "
        "check, such as for systems that still start.",
    )

    @property
    def batch_tasks(self) -> BatchTasks:
        """The limits of the number of tasks that read a table in batch."""
        return BatchTasks(max_tasks=self.max_tasks, bytes_per_task=self.bytes_per_task)
