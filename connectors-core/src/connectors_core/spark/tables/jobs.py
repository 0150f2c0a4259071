# SPDX-License-Identifier: Apache-2.0
"""The jobs of a table environment: the pipelines of its INSERTs, by name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from connectors_core.engine.query.status import PipelineState, PipelineStatus
from connectors_core.errors import ConfigurationError
from connectors_core.options.suggestions import suggested
from connectors_core.spark.pipeline import Pipeline
from connectors_core.spark.progress import progress_lines

__all__ = ["Job", "Jobs"]


@dataclass(frozen=True, kw_only=True)
class Job:
    """An INSERT that runs or has ended.

    Attributes:
        statement: Its text, without the options of tables.
        pipeline: Its pipeline.
        started_at: The moment of its last start by this environment.
    """

    statement: str
    pipeline: Pipeline = field(repr=False)
    started_at: datetime

    @property
    def is_running(self) -> bool:
        """Whether it has started and not ended."""
        return self.pipeline.status().state is PipelineState.RUNNING


class Jobs:
    """The jobs by name, also those that have ended (Flink's `SHOW JOBS`). Driver."""

    def __init__(self) -> None:
        self._jobs: dict[str, Job] = {}

    @property
    def all(self) -> Mapping[str, Job]:
        """A copy of all jobs."""
        return dict(self._jobs)

    @contextmanager
    def starting(self, name: str, statement: str, pipeline: Pipeline) -> Iterator[None]:
        """Add a job, which the caller starts. One that cannot start leaves the former job.

        Args:
            name: Its name. A former job of this name has ended.
            statement: Its text.
            pipeline: Its pipeline.
        """
        former = self._jobs.get(name)
        if former is not None:
            former.pipeline.stop()  # it may hold its lease until someone asks how it ended
        self._jobs[name] = Job(
            statement=statement, pipeline=pipeline, started_at=datetime.now(tz=UTC)
        )
        try:
            yield
        except BaseException:
            if pipeline.status().state is PipelineState.NOT_STARTED:
                if former is None:
                    del self._jobs[name]
                else:
                    self._jobs[name] = former
            raise

    def refuse_running(self, name: str, *, option: str | None = None) -> None:
        """Check that no job of a name runs.

        Args:
            name: The name.
            option: The option that determines the name.

        Raises:
            ConfigurationError: One runs.
        """
        job = self._jobs.get(name)
        if job is not None and job.is_running:
            raise ConfigurationError(
                f"the job {name!r} is running",
                option=option,
                found=f"since {job.started_at:%Y-%m-%d %H:%M:%S}Z",
                hint=f"STOP JOB '{name}' first"
                + ("" if option is None else f", or SET '{option}' to another name"),
            )

    def rows(self) -> list[tuple[Any, ...]]:
        """Return name, id, state, start time, epoch, rows read and written, and statement."""
        found = []
        for name, job in self._jobs.items():
            status = job.pipeline.status()
            found.append(
                (
                    name,
                    status.pipeline_id,
                    status.state.value,
                    job.started_at,
                    _epoch(status),
                    sum(source.rows for source in status.sources),
                    sum(sink.rows for sink in status.sinks),
                    " ".join(job.statement.split()),
                )
            )
        return found

    def described(self, name_or_id: str) -> list[tuple[str, Any]]:
        """Return the facts about a job, as names and values.

        Raises:
            ConfigurationError: There is no such job.
        """
        name, job = self._find(name_or_id)
        status = job.pipeline.status()
        _, *parts = progress_lines(status)
        if status.error is not None:
            parts.pop()  # its first line
        return [
            ("job name", name),
            ("job id", status.pipeline_id),
            ("status", status.state.value),
            ("start time", job.started_at),
            ("epoch", _epoch(status)),
            ("error", status.error),
            *((part, shown) for part, _, shown in (line.partition(": ") for line in parts)),
            ("statement", job.statement),
        ]

    def stop(self, name_or_id: str) -> None:
        """Stop a job after its micro-batch. The same statement resumes it.

        Raises:
            ConfigurationError: There is no such job, or it does not run.
        """
        name, job = self._find(name_or_id)
        if not job.is_running:
            raise ConfigurationError(
                f"the job {name!r} does not run", found=job.pipeline.status().state.value
            )
        job.pipeline.stop()

    def stop_all(self) -> None:
        """Stop all jobs, and release what those that have ended still hold."""
        for job in self._jobs.values():
            job.pipeline.stop()

    def _find(self, name_or_id: str) -> tuple[str, Job]:
        for name, job in self._jobs.items():
            if name_or_id in {name, job.pipeline.status().pipeline_id}:
                return name, job
        similar = suggested(name_or_id, {name: name for name in self._jobs})
        raise ConfigurationError(
            f"there is no job {name_or_id!r}",
            expected=", ".join(self._jobs) or "a job that this environment started",
            hint=f"did you mean {similar[0]!r}?" if similar else "SHOW JOBS lists them",
        )


def _epoch(status: PipelineStatus) -> int | None:
    return max((each.epoch for each in status.queries if each.epoch is not None), default=None)
