# SPDX-License-Identifier: Apache-2.0
"""Tests how the engine of the shell cancels statements, without Spark."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from connectors_core.engine.query.status import PipelineState, PipelineStatus
from connectors_core.spark.tables.catalog_statements import DONE
from connectors_core.spark.tables.jobs import Jobs
from connectors_core.spark.tables.results import TableResult
from connectors_core.spark.tables.shell_engine import ShellEngine


class EndlessPipeline:
    """A pipeline that runs until it is stopped."""

    state = PipelineState.NOT_STARTED

    def status(self) -> PipelineStatus:
        return PipelineStatus(name="job", state=self.state, queries=())

    def stop(self) -> None:
        self.state = PipelineState.STOPPED


class Tables:
    """An environment whose INSERT calls a function while it is planned."""

    def __init__(self, planned: Callable[[], None] = lambda: None) -> None:
        self._jobs = Jobs()
        self._planned = planned

    @property
    def jobs(self) -> Any:
        return self._jobs.all

    def execute_sql(self, text: str) -> TableResult:
        if text != "INSERT":
            return DONE
        self._planned()
        pipeline: Any = EndlessPipeline()
        with self._jobs.starting("job", text, pipeline):
            pipeline.state = PipelineState.RUNNING
        return TableResult(columns=("t",), pipeline=pipeline)


class Context:
    """Collects the groups that are set and canceled."""

    def __init__(self) -> None:
        self.groups: list[str] = []
        self.canceled: list[str] = []

    def setJobGroup(self, group: str, *_: object, **__: object) -> None:  # noqa: N802
        self.groups.append(group)

    def cancelJobGroup(self, group: str) -> None:  # noqa: N802
        self.canceled.append(group)


def engine_of(tables: Tables) -> tuple[ShellEngine, Context]:
    context = Context()
    spark: Any = SimpleNamespace(sparkContext=context)
    found: Any = tables
    return ShellEngine(spark, found, owns_session=False), context


def test_an_insert_that_is_canceled_while_it_is_planned_does_not_go_on() -> None:
    engine, _ = engine_of(Tables(planned=lambda: engine.cancel()))
    engine.execute("INSERT")
    assert engine.jobs()["job"].state is PipelineState.STOPPED


def test_a_cancel_after_the_start_of_the_job_stops_it() -> None:
    engine, _ = engine_of(Tables())
    engine.execute("INSERT")
    engine.cancel()
    assert engine.jobs()["job"].state is PipelineState.STOPPED


def test_a_cancel_reaches_only_the_statement_that_runs() -> None:
    engine, context = engine_of(Tables())
    engine.cancel()
    engine.execute("INSERT")
    engine.execute("SELECT")
    engine.cancel()
    first, second = context.groups
    assert first != second
    assert context.canceled == [second]
    assert engine.jobs()["job"].state is PipelineState.RUNNING
