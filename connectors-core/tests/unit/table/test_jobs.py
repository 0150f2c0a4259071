# SPDX-License-Identifier: Apache-2.0
"""Tests the jobs of an environment with pipelines that need no Spark."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from connectors_core.engine.query.status import (
    PipelineState,
    PipelineStatus,
    QueryStatus,
    SinkStatus,
    SourceStatus,
)
from connectors_core.errors import ConfigurationError
from connectors_core.spark.tables.jobs import Jobs


@dataclass
class FixedPipeline:
    """A pipeline whose state is known."""

    name: str
    state: PipelineState = PipelineState.RUNNING
    stopped: bool = False
    error: str | None = None

    def status(self) -> PipelineStatus:
        query = QueryStatus(
            name="0",
            state=self.state,
            epoch=3,
            sources=(SourceStatus(uid="in", rows=5),),
            sinks=(SinkStatus(uid="out", rows=4),),
        )
        return PipelineStatus(
            name=self.name,
            pipeline_id=f"id of {self.name}",
            state=self.state,
            queries=(query,),
            error=self.error,
        )

    def stop(self) -> None:
        self.stopped = True


def started(jobs: Jobs, pipeline: Any) -> None:
    with jobs.starting(pipeline.name, "INSERT INTO t\n  SELECT 1", pipeline):
        pass


def test_jobs_are_shown_with_their_rows_and_statements() -> None:
    jobs = Jobs()
    started(jobs, FixedPipeline("a"))
    [(name, job_id, state, since, *counts, statement)] = jobs.rows()
    assert (name, job_id, state, counts) == ("a", "id of a", "running", [3, 5, 4])
    assert since == jobs.all["a"].started_at
    assert statement == "INSERT INTO t SELECT 1"


def test_a_described_job_has_its_parts_and_its_error() -> None:
    jobs = Jobs()
    started(jobs, FixedPipeline("a", PipelineState.FAILED, error="[FATAL] no\n  hint: do"))
    found = dict(jobs.described("id of a"))
    assert found["error"] == "[FATAL] no\n  hint: do"
    assert found["source in"].startswith("5 rows")
    assert found["sink out"].startswith("4 rows")
    assert found["statement"] == "INSERT INTO t\n  SELECT 1"


def test_a_running_job_refuses_another_one_of_its_name() -> None:
    jobs = Jobs()
    started(jobs, FixedPipeline("a"))
    jobs.refuse_running("b")
    with pytest.raises(ConfigurationError, match="STOP JOB 'a' first, or SET 'pipeline"):
        jobs.refuse_running("a", option="pipeline.name")


def test_a_job_that_has_ended_is_released_before_it_starts_again() -> None:
    jobs, former, later = Jobs(), FixedPipeline("a", PipelineState.FAILED), FixedPipeline("a")
    started(jobs, former)
    jobs.refuse_running("a")
    started(jobs, later)
    assert former.stopped
    assert jobs.all["a"].pipeline is later


def refused(jobs: Jobs, pipeline: Any) -> None:
    with pytest.raises(ConfigurationError), jobs.starting(pipeline.name, "", pipeline):
        raise ConfigurationError("no connection")


def test_a_job_that_cannot_start_is_forgotten() -> None:
    jobs = Jobs()
    refused(jobs, FixedPipeline("a", PipelineState.NOT_STARTED))
    assert not jobs.all


def test_a_job_that_cannot_start_again_stays_as_it_has_ended() -> None:
    jobs, former = Jobs(), FixedPipeline("a", PipelineState.FAILED)
    started(jobs, former)
    refused(jobs, FixedPipeline("a", PipelineState.NOT_STARTED))
    assert jobs.all["a"].pipeline is former


def test_a_job_is_stopped_by_its_name_or_its_id() -> None:
    jobs, pipelines = Jobs(), [FixedPipeline("a"), FixedPipeline("b")]
    for each in pipelines:
        started(jobs, each)
    jobs.stop("id of b")
    assert [each.stopped for each in pipelines] == [False, True]
    jobs.stop_all()
    assert pipelines[0].stopped


def test_only_a_running_job_can_be_stopped() -> None:
    jobs = Jobs()
    started(jobs, FixedPipeline("insert-a", PipelineState.FINISHED))
    with pytest.raises(ConfigurationError, match="does not run"):
        jobs.stop("insert-a")
    with pytest.raises(ConfigurationError, match="did you mean 'insert-a'"):
        jobs.stop("insert-b")
