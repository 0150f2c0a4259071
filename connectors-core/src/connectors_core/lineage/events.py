# SPDX-License-Identifier: Apache-2.0
"""The events of a pipeline run, and their listeners (Flink's FLIP-314)."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Protocol, TypeAlias, runtime_checkable

from connectors_core.lineage.graph import LineageGraph

__all__ = [
    "JobCreatedEvent",
    "JobExecutionStatusEvent",
    "JobStatus",
    "JobStatusChangedEvent",
    "JobStatusChangedListener",
    "RuntimeExecutionMode",
]


class JobStatus(enum.Enum):
    """The state of a run (Flink's JobStatus)."""

    CREATED = "created"
    RUNNING = "running"
    FINISHED = "finished"
    FAILED = "failed"
    CANCELED = "canceled"

    @property
    def is_terminal(self) -> bool:
        """Whether the run has ended."""
        return self not in (JobStatus.CREATED, JobStatus.RUNNING)


class RuntimeExecutionMode(enum.Enum):
    """Whether a run is one batch or a stream."""

    BATCH = "batch"
    STREAMING = "streaming"


def _now() -> datetime:
    return datetime.now(UTC)


@dataclass(frozen=True, kw_only=True)
class JobCreatedEvent:
    """A run is about to start.

    Attributes:
        job_id: The id of this run: a UUID.
        job_name: The name of the pipeline.
        execution_mode: Whether it is one batch or a stream.
        lineage_graph: The datasets that it reads and writes.
        at: The time of the event.
    """

    job_id: str
    job_name: str
    execution_mode: RuntimeExecutionMode
    lineage_graph: LineageGraph
    at: datetime = field(default_factory=_now)


@dataclass(frozen=True, kw_only=True)
class JobExecutionStatusEvent:
    """The state of a run has changed.

    Attributes:
        job_id: The id of the run.
        job_name: The name of the pipeline.
        old_status: The state before.
        new_status: The state now.
        cause: Why it failed: class and code of the error and of its causes. Their texts may have
            values of rows. None unless it failed.
        written: The number of rows that each sink has committed, by uid.
        at: The time of the event.
    """

    job_id: str
    job_name: str
    old_status: JobStatus
    new_status: JobStatus
    cause: str | None = None
    written: dict[str, int] = field(default_factory=dict)
    at: datetime = field(default_factory=_now)


JobStatusChangedEvent: TypeAlias = JobCreatedEvent | JobExecutionStatusEvent
"""An event of a run."""


@runtime_checkable
class JobStatusChangedListener(Protocol):
    """Receives the events of the runs of a pipeline, in order. Driver, in a thread of its own.

    An error of a listener is logged, and neither delays nor fails the pipeline. Events wait in a
    queue. If a listener is slower than its events, the oldest ones are dropped, with a warning.
    """

    def on_event(self, event: JobStatusChangedEvent) -> None:
        """Handle an event."""
