# SPDX-License-Identifier: Apache-2.0
"""Options that sinks share."""

from __future__ import annotations

from typing import Final

from connectors_core.options import Option, positive
from connectors_core.sink.commit_tasks import DEFAULT_COMMIT_TASKS_THRESHOLD

__all__ = ["SINK_COMMIT_TASKS_THRESHOLD", "SINK_PARALLELISM"]

SINK_PARALLELISM: Final = Option(
    "sink.parallelism",
    int,
    unit="writers",
    validator=positive,
    since="1.0.0",
    doc="Number of writers. The default is the number of partitions of the input.",
)
"""The setting of a sink that `Sink.writer_parallelism` returns."""

SINK_COMMIT_TASKS_THRESHOLD: Final = Option(
    "sink.commit-tasks.threshold",
    int,
    unit="committables",
    default=DEFAULT_COMMIT_TASKS_THRESHOLD,
    validator=positive,
    since="1.1.0",
    doc="Number of committables of an epoch from which Spark tasks commit them instead of the "
    "driver. A write without a pipeline commits on the driver.",
)
"""The setting of a sink with the ability `SupportsCommitTasks`."""
