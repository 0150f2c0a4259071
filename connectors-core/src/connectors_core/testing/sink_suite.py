# SPDX-License-Identifier: Apache-2.0
"""The suite that every sink passes: subclass it and supply an external context."""

from __future__ import annotations

import contextlib
import functools
import pickle
import threading
from abc import abstractmethod
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pytest

from connectors_core.sink import Sink
from connectors_core.source import DataGeneratorSource, PlanLimits
from connectors_core.testing.capabilities import Capability
from connectors_core.testing.cases import case
from connectors_core.testing.context import ROWS, SinkExternalContext
from connectors_core.testing.data import assert_at_least, assert_exactly, make_rows
from connectors_core.testing.directory_sink import DirectorySink
from connectors_core.testing.driver import DriverJob
from connectors_core.testing.environment import LocalSpark, TestEnvironment
from connectors_core.testing.faults import (
    WRITING_POINTS,
    Fault,
    FaultAction,
    FaultPoint,
    injected,
)
from connectors_core.testing.trial import PipelineSuite, Trial

TOTAL: Final = 300
PER_PLAN: Final = 30


class SinkTestSuite(PipelineSuite):
    """Cases for a sink. Derive, name what the connector can do, and supply a context."""

    @abstractmethod
    def external_context(self, folder: Path) -> SinkExternalContext:
        """A new external system for one case; ``folder`` is its own."""

    @pytest.fixture
    def trial(self, environment: TestEnvironment, tmp_path: Path) -> Iterator[SinkTrial]:
        """One case's external system, pipelines and rows."""
        folder = tmp_path / "external"
        folder.mkdir()
        exactly_once = Capability.EXACTLY_ONCE in self.capabilities.can
        with contextlib.closing(self.external_context(folder)) as context:
            yield SinkTrial(environment, context, tmp_path, self.seed, exactly_once)

    # --- Writing --------------------------------------------------------------------------------

    @case()
    @pytest.mark.parametrize("parallelism", [1, 3])
    def test_all_rows_arrive_as_they_were(self, trial: SinkTrial, parallelism: int) -> None:
        """Flink's ``testBasicSink``."""
        with trial.pipeline(parallelism=parallelism) as pipeline:
            trial.run_to_end(pipeline)
        trial.assert_complete()

    @case()
    def test_counts_are_those_of_the_rows(self, trial: SinkTrial) -> None:
        """Flink's ``testMetrics``."""
        with trial.pipeline() as pipeline:
            trial.run_to_end(pipeline)
            (sink,) = pipeline.status().sinks
        assert sink.rows == TOTAL
        assert sink.bytes > 0
        assert sink.pending == sink.failed == sink.skipped == sink.dead_letters == 0

    @case()
    def test_two_sinks_of_one_kind_do_not_touch_each_other(self, trial: SinkTrial) -> None:
        other = DirectorySink(trial.root / "other")
        with trial.pipeline(other=other) as pipeline:
            trial.run_to_end(pipeline)
        trial.assert_complete()
        assert_exactly(other.read(), trial.expected())

    @case()
    def test_nulls_arrive_as_nulls(self, trial: SinkTrial) -> None:
        with trial.pipeline(nulls=True) as pipeline:
            trial.run_to_end(pipeline)
        texts = trial.context.read_back()["text"]
        assert texts.null_count == TOTAL // 2

    @case()
    def test_a_sink_survives_pickling(self, trial: SinkTrial) -> None:
        sink = trial.context.create_sink()
        assert type(pickle.loads(pickle.dumps(sink))) is type(sink)

    @case()
    def test_no_thread_is_left(self, trial: SinkTrial) -> None:
        before = {thread.ident for thread in threading.enumerate()}
        with trial.pipeline() as pipeline:
            trial.run_to_end(pipeline)
        left = [t.name for t in threading.enumerate() if t.ident not in before and t.is_alive()]
        assert not left, f"threads that still run: {', '.join(left)}"

    # --- Visibility -----------------------------------------------------------------------------

    @case(Capability.EXACTLY_ONCE)
    def test_nothing_is_visible_before_its_epoch_is_decided(self, trial: SinkTrial) -> None:
        fault = Fault(
            FaultPoint.BEFORE_DECISION, action=FaultAction.RAISE, once=trial.root / "failed"
        )
        with injected(fault), trial.pipeline() as pipeline:
            trial.run_to_failure(pipeline)
        assert fault.fired
        assert trial.context.read_back().num_rows == 0
        with trial.pipeline() as pipeline:
            trial.run_to_end(pipeline)
        trial.assert_complete()

    # --- Restarts -------------------------------------------------------------------------------

    @case()
    @pytest.mark.parametrize(("before", "after"), [(2, 2), (2, 4), (4, 2)])
    def test_a_restart_goes_on_with_as_many_more_or_fewer_writers(
        self, trial: SinkTrial, before: int, after: int
    ) -> None:
        """Flink's ``testStartFromSavepoint``, ``testScaleUp`` and ``testScaleDown``."""
        with trial.pipeline(parallelism=before) as pipeline:
            pipeline.start()
            trial.wait(
                lambda: (pipeline.status().queries[0].epoch or 0) >= 1, "two epochs", pipeline
            )
        with trial.pipeline(parallelism=after) as pipeline:
            trial.run_to_end(pipeline)
        trial.assert_complete()

    # --- Failures -------------------------------------------------------------------------------

    @case()
    @pytest.mark.parametrize(
        "point", [FaultPoint.WRITER_WROTE, FaultPoint.BEFORE_PREPARE, FaultPoint.AFTER_PREPARE]
    )
    def test_a_writer_that_fails_is_repeated(self, trial: SinkTrial, point: FaultPoint) -> None:
        fault = Fault(point, action=FaultAction.RAISE, once=trial.root / "failed")
        with injected(fault), trial.pipeline() as pipeline:
            trial.run_to_end(pipeline)
        assert fault.fired
        trial.assert_complete()

    @case()
    @pytest.mark.parametrize(
        "point",
        [
            FaultPoint.BEFORE_DECISION,
            FaultPoint.AFTER_DECISION,
            FaultPoint.BEFORE_COMMIT,
            FaultPoint.AFTER_COMMIT,
            FaultPoint.AFTER_DONE,
            FaultPoint.BEFORE_SPARK_COMMIT,
        ],
    )
    def test_a_driver_that_fails_is_restarted(self, trial: SinkTrial, point: FaultPoint) -> None:
        fault = Fault(point, action=FaultAction.RAISE, nth=2, once=trial.root / "failed")
        with injected(fault), trial.pipeline() as pipeline:
            trial.run_to_failure(pipeline)
        assert fault.fired
        with trial.pipeline() as pipeline:
            trial.run_to_end(pipeline)
        trial.assert_complete()

    @case()
    @pytest.mark.slow
    def test_drivers_killed_at_point_after_point_lose_and_double_nothing(
        self, trial: SinkTrial
    ) -> None:
        """Real processes, SIGKILL: the crash matrix as a chain."""
        job = trial.job()
        trial.kill_at_each(job, WRITING_POINTS, trial.assert_complete)

    @case()
    def test_a_batch_that_is_run_again_is_not_written_again(self, trial: SinkTrial) -> None:
        with trial.pipeline() as pipeline:
            trial.run_to_end(pipeline)
        trial.environment.forget_last_batch(trial.location)
        with trial.pipeline() as pipeline:
            trial.run_to_end(pipeline)
        trial.assert_complete()

    @case()
    def test_a_finished_pipeline_writes_nothing_more(self, trial: SinkTrial) -> None:
        for _ in range(2):
            with trial.pipeline() as pipeline:
                trial.run_to_end(pipeline)
        trial.assert_complete()


class SinkTrial(Trial):
    """One case at work: its external system, its pipelines, and what was written."""

    def __init__(
        self,
        environment: TestEnvironment,
        context: SinkExternalContext,
        root: Path,
        seed: int,
        exactly_once: bool,
    ) -> None:
        super().__init__(environment, root, seed)
        self.context = context
        self._exactly_once = exactly_once

    def expected(self) -> list[pa.Table]:
        """All rows that a pipeline writes."""
        return [make_rows(0, 0, TOTAL, self._seed)]

    def pipeline(
        self, *, parallelism: int = 2, other: DirectorySink | None = None, nulls: bool = False
    ) -> Any:
        """A pipeline of known rows into the sink; each one goes on from the one before."""
        job = self.job(nulls=nulls, parallelism=parallelism, other=other)
        return job.build(self.environment)

    def job(
        self, *, parallelism: int = 2, other: DirectorySink | None = None, nulls: bool = False
    ) -> DriverJob:
        """The same pipeline for a process of its own."""
        source = DataGeneratorSource(
            functools.partial(_generate, self._seed, nulls),
            TOTAL,
            ROWS,
            split_rows=PER_PLAN // 2,
            batch_rows=7,
        )
        sinks: dict[str, Sink] = {"out": self.context.create_sink()}
        if other is not None:
            sinks["other"] = other
        return DriverJob(
            location=str(self.location),
            source=source,
            sinks=sinks,
            settings={"limits": PlanLimits(rows=PER_PLAN)},
            parallelism=parallelism,
            spark=isinstance(self.environment, LocalSpark),
        )

    def assert_complete(self) -> None:
        """All rows are visible, once if that is promised, and nothing is left over."""
        found = self.context.read_back()
        if self._exactly_once:
            assert_exactly(found, self.expected())
        else:
            assert_at_least(found, self.expected())
        left = list(self.context.leftovers())
        assert not left, f"left behind: {', '.join(left[:5])}"


def _generate(seed: int, nulls: bool, indices: pa.Array) -> pa.RecordBatch:
    """Rows by number; every other one without a text when asked for."""
    numbers = indices.to_pylist()
    rows = pa.concat_tables([make_rows(0, number, 1, seed) for number in numbers])
    if nulls:
        texts = [
            t if n % 2 else None for n, t in zip(numbers, rows["text"].to_pylist(), strict=True)
        ]
        rows = rows.set_column(3, ROWS.field("text"), pa.array(texts, pa.string()))
    (batch,) = rows.combine_chunks().to_batches()
    return batch
