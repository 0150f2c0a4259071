# SPDX-License-Identifier: Apache-2.0
"""The options that `SET` changes."""

from __future__ import annotations

from datetime import timedelta
from enum import StrEnum
from typing import Literal

from connectors_core.options import Configured, Setting, option, optional, positive
from connectors_core.options.types import DURATION

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
    trigger_interval: Setting[timedelta, timedelta | str] = option(
        "execution.trigger-interval",
        DURATION,
        default=timedelta(0),
        doc="Minimum time between two micro-batches.",
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
