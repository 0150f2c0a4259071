# SPDX-License-Identifier: Apache-2.0
"""Tests how the progress of jobs is told."""

from __future__ import annotations

import io
import time

import pytest
from rich.console import Console
from simulated_sql_engine import SimulatedEngine

from connectors_core.cli.sql.job_progress import JobProgress, outcome, summary
from connectors_core.engine.query.status import PipelineState


@pytest.fixture
def engine() -> SimulatedEngine:
    return SimulatedEngine()


def test_the_summary_has_rows_epoch_and_lag_of_the_running_job(engine: SimulatedEngine) -> None:
    assert summary(engine.jobs()) == ""
    engine.states = {"one": PipelineState.RUNNING, "two": PipelineState.STOPPED}
    told = "one: 30 rows read, 20 rows written, epoch 7, 5 rows behind"
    assert summary(engine.jobs()) == told


def test_the_summary_of_several_jobs_adds_their_rows(engine: SimulatedEngine) -> None:
    engine.states = dict.fromkeys(("one", "two"), PipelineState.RUNNING)
    assert summary(engine.jobs()) == "2 jobs: 60 rows read, 40 rows written"


@pytest.mark.parametrize(
    ("state", "told"),
    [
        (PipelineState.FINISHED, "finished: 30 rows read, 20 rows written"),
        (PipelineState.STOPPED, "been stopped: 30 rows read, 20 rows written"),
        (PipelineState.FAILED, "failed: disk full"),
    ],
)
def test_the_outcome_of_a_job_is_told(
    engine: SimulatedEngine, state: PipelineState, told: str
) -> None:
    engine.states = {"one": state}
    assert outcome(engine.jobs()["one"]) == told


def test_progress_appears_after_a_second_and_without_hidden_jobs(
    engine: SimulatedEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    text = io.StringIO()
    engine.states = dict.fromkeys(("one", "two"), PipelineState.RUNNING)
    progress = JobProgress(engine.jobs, Console(file=text), frozenset({"two"}))
    with progress:
        progress.look()
        assert not progress.shown
        now[0] += 2
        progress.look()
        assert progress.shown
        engine.states["one"] = PipelineState.FINISHED
    assert text.getvalue().splitlines()[0] == "pipeline one: finished, 0 epoch 7"
    assert "two" not in text.getvalue()
