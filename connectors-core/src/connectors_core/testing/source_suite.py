# SPDX-License-Identifier: Apache-2.0
"""The suite that every source passes: subclass it and supply an external context."""

from __future__ import annotations

import contextlib
import time
from abc import abstractmethod
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pytest

from connectors_core.coordinator.plan_log import decisions_since, read_plan
from connectors_core.records import RecordPolicy
from connectors_core.runtime.status import PipelineState
from connectors_core.source import (
    Boundedness,
    PlanLimits,
    RateLimiterStrategy,
    WatermarkStrategy,
)
from connectors_core.source.watermarks import END_OF_TIME
from connectors_core.state import StateStore
from connectors_core.testing.capabilities import Capability
from connectors_core.testing.cases import case
from connectors_core.testing.context import SourceExternalContext
from connectors_core.testing.data import (
    assert_exactly,
    assert_in_order,
    make_rows,
)
from connectors_core.testing.directory_sink import DirectorySink
from connectors_core.testing.driver import DriverJob
from connectors_core.testing.environment import LocalSpark, TestEnvironment
from connectors_core.testing.faults import (
    READING_POINTS,
    Fault,
    FaultAction,
    FaultPoint,
    injected,
)
from connectors_core.testing.trial import PipelineSuite, Trial

ROWS_PER_SPLIT: Final = 60
# So many that some are assigned and not begun, and some wait, wherever a pipeline stops.
MANY_SPLITS: Final = 12


class SourceTestSuite(PipelineSuite):
    """Cases for a source. Derive, name what the connector can do, and supply a context."""

    @abstractmethod
    def external_context(self, folder: Path) -> SourceExternalContext:
        """A new external system for one case; ``folder`` is its own."""

    @pytest.fixture
    def trial(self, environment: TestEnvironment, tmp_path: Path) -> Iterator[SourceTrial]:
        """One case's external system, pipelines and rows."""
        folder = tmp_path / "external"
        folder.mkdir()
        with contextlib.closing(self.external_context(folder)) as context:
            yield SourceTrial(environment, context, tmp_path, self.seed)

    # --- Reading --------------------------------------------------------------------------------

    @case(Capability.BOUNDED)
    def test_a_single_split_is_read_to_its_end(self, trial: SourceTrial) -> None:
        """Flink's ``testSourceSingleSplit``."""
        trial.write_split()
        with trial.pipeline(Boundedness.BOUNDED, parallelism=1) as pipeline:
            trial.run_to_end(pipeline)
        trial.assert_complete()

    @case(Capability.BOUNDED)
    def test_splits_are_read_side_by_side_and_each_in_its_order(self, trial: SourceTrial) -> None:
        """Flink's ``testMultipleSplits``."""
        trial.write_split(4)
        with trial.pipeline(Boundedness.BOUNDED, parallelism=4) as pipeline:
            trial.run_to_end(pipeline)
        trial.assert_complete()

    @case(Capability.BOUNDED)
    def test_a_reader_without_a_split_does_not_keep_the_pipeline_running(
        self, trial: SourceTrial
    ) -> None:
        """Flink's ``testIdleReader``."""
        trial.write_split(4)
        with trial.pipeline(Boundedness.BOUNDED, parallelism=5) as pipeline:
            trial.run_to_end(pipeline)
        trial.assert_complete()

    @case(Capability.BOUNDED)
    def test_nothing_to_read_is_the_end(self, trial: SourceTrial) -> None:
        trial.context.create_split().close()
        with trial.pipeline(Boundedness.BOUNDED) as pipeline:
            trial.run_to_end(pipeline)
        assert trial.sink.read().num_rows == 0

    @case(Capability.BOUNDED)
    def test_counts_are_those_of_the_rows(self, trial: SourceTrial) -> None:
        """Flink's ``testSourceMetrics``."""
        trial.write_split(3)
        with trial.pipeline(Boundedness.BOUNDED) as pipeline:
            trial.run_to_end(pipeline)
            (source,) = pipeline.status().sources
        assert source.rows == 3 * ROWS_PER_SPLIT
        assert source.bytes > 0
        assert source.finished
        assert source.splits_assigned == 0
        assert source.skipped == source.dead_letters == 0

    # --- Restarts -------------------------------------------------------------------------------

    @case(Capability.UNBOUNDED, Capability.DISCOVERY)
    @pytest.mark.parametrize(("before", "after"), [(4, 4), (2, 4), (4, 2)])
    def test_a_restart_goes_on_with_as_many_more_or_fewer_readers(
        self, trial: SourceTrial, before: int, after: int
    ) -> None:
        """Flink's ``testSavepoint``, ``testScaleUp`` and ``testScaleDown``."""
        trial.write_split(4)
        with trial.pipeline(Boundedness.CONTINUOUS_UNBOUNDED, parallelism=before) as pipeline:
            pipeline.start()
            trial.wait_for_all(pipeline)
        trial.write_split(2)
        with trial.pipeline(Boundedness.CONTINUOUS_UNBOUNDED, parallelism=after) as pipeline:
            pipeline.start()
            trial.wait_for_all(pipeline)
        trial.assert_complete()

    @case(Capability.BOUNDED)
    @pytest.mark.parametrize(("before", "after"), [(2, 2), (1, 3), (3, 1)])
    def test_a_restart_in_the_middle_of_splits(
        self, trial: SourceTrial, before: int, after: int
    ) -> None:
        trial.write_split(MANY_SPLITS)
        few = PlanLimits(rows=ROWS_PER_SPLIT // 3, splits=3)
        with trial.pipeline(Boundedness.BOUNDED, parallelism=before, limits=few) as pipeline:
            pipeline.start()
            trial.wait(lambda: trial.sink.read().num_rows > 0, "the first rows", pipeline)
        with trial.pipeline(Boundedness.BOUNDED, parallelism=after, limits=few) as pipeline:
            trial.run_to_end(pipeline)
        trial.assert_complete()

    @case(Capability.UNBOUNDED, Capability.GROWING_SPLITS)
    def test_rows_that_are_added_to_a_split_while_nobody_reads_are_read_later(
        self, trial: SourceTrial
    ) -> None:
        trial.write_split(2)
        with trial.pipeline(Boundedness.CONTINUOUS_UNBOUNDED) as pipeline:
            pipeline.start()
            trial.wait_for_all(pipeline)
        trial.grow_splits()
        with trial.pipeline(Boundedness.CONTINUOUS_UNBOUNDED) as pipeline:
            pipeline.start()
            trial.wait_for_all(pipeline)
        trial.assert_complete()

    # --- While it runs --------------------------------------------------------------------------

    @case(Capability.UNBOUNDED, Capability.DISCOVERY)
    def test_splits_that_appear_are_found(self, trial: SourceTrial) -> None:
        trial.write_split()
        with trial.pipeline(Boundedness.CONTINUOUS_UNBOUNDED) as pipeline:
            pipeline.start()
            trial.wait_for_all(pipeline)
            trial.write_split(2)
            trial.wait_for_all(pipeline)
        trial.assert_complete()

    @case(Capability.UNBOUNDED)
    def test_an_unbounded_source_goes_on_until_it_is_stopped(self, trial: SourceTrial) -> None:
        trial.write_split()
        with trial.pipeline(Boundedness.CONTINUOUS_UNBOUNDED) as pipeline:
            pipeline.start()
            trial.wait_for_all(pipeline)
            assert not pipeline.await_termination(0.5)
            pipeline.stop()
            assert pipeline.status().state is PipelineState.STOPPED

    @case(Capability.UNBOUNDED)
    def test_a_run_to_what_is_available_now_ends(self, trial: SourceTrial) -> None:
        trial.write_split(2)
        with trial.pipeline(Boundedness.CONTINUOUS_UNBOUNDED) as pipeline:
            trial.run_to_end(pipeline, available_now=True)
        trial.assert_complete()

    # --- Failures -------------------------------------------------------------------------------

    @case(Capability.BOUNDED)
    @pytest.mark.parametrize(
        "point", [FaultPoint.READER_FETCHED, FaultPoint.BEFORE_REPORT, FaultPoint.AFTER_REPORT]
    )
    def test_a_task_that_fails_is_repeated_exactly(
        self, trial: SourceTrial, point: FaultPoint
    ) -> None:
        """Flink's ``testTaskManagerFailure``; kills of real processes are in the crash cases."""
        trial.write_split(2)
        fault = Fault(point, action=FaultAction.RAISE, once=trial.root / "failed")
        with injected(fault), trial.pipeline(Boundedness.BOUNDED) as pipeline:
            trial.run_to_end(pipeline)
        assert fault.fired
        trial.assert_complete()

    @case(Capability.BOUNDED)
    @pytest.mark.parametrize(
        "point",
        [
            FaultPoint.AFTER_PLAN,
            FaultPoint.BEFORE_DECISION,
            FaultPoint.AFTER_DECISION,
            FaultPoint.BEFORE_SPARK_COMMIT,
        ],
    )
    def test_a_driver_that_fails_is_restarted_exactly(
        self, trial: SourceTrial, point: FaultPoint
    ) -> None:
        trial.write_split(2)
        few = PlanLimits(rows=ROWS_PER_SPLIT // 2)
        fault = Fault(point, action=FaultAction.RAISE, nth=2, once=trial.root / "failed")
        with injected(fault), trial.pipeline(Boundedness.BOUNDED, limits=few) as pipeline:
            trial.run_to_failure(pipeline)
        assert fault.fired
        with trial.pipeline(Boundedness.BOUNDED, limits=few) as pipeline:
            trial.run_to_end(pipeline)
        trial.assert_complete()

    @case(Capability.BOUNDED)
    @pytest.mark.slow
    def test_drivers_killed_at_point_after_point_lose_and_double_nothing(
        self, trial: SourceTrial
    ) -> None:
        """Real processes, SIGKILL: the crash matrix as a chain."""
        trial.write_split(6)
        job = trial.job(Boundedness.BOUNDED, limits=PlanLimits(rows=ROWS_PER_SPLIT // 3))
        trial.kill_at_each(job, READING_POINTS, trial.assert_complete)

    @case(Capability.BOUNDED)
    def test_a_batch_that_is_run_again_is_not_written_again(self, trial: SourceTrial) -> None:
        trial.write_split(2)
        with trial.pipeline(Boundedness.BOUNDED) as pipeline:
            trial.run_to_end(pipeline)
        trial.environment.forget_last_batch(trial.location)
        with trial.pipeline(Boundedness.BOUNDED) as pipeline:
            trial.run_to_end(pipeline)
        trial.assert_complete()

    @case(Capability.BOUNDED, Capability.POISON_READS)
    def test_poison_fails_the_pipeline_and_names_the_record(self, trial: SourceTrial) -> None:
        trial.write_split(poison=True)
        with trial.pipeline(Boundedness.BOUNDED) as pipeline:
            failure = trial.run_to_failure(pipeline)
        assert "BAD_RECORD" in str(failure), "the error does not say that a record is at fault"

    @case(Capability.BOUNDED, Capability.POISON_READS)
    def test_poison_is_skipped_and_counted(self, trial: SourceTrial) -> None:
        trial.write_split(2, poison=True)
        policy = RecordPolicy.skip()
        with trial.pipeline(Boundedness.BOUNDED, record_policy=policy) as pipeline:
            trial.run_to_end(pipeline)
            (source,) = pipeline.status().sources
        assert source.skipped == 2
        trial.assert_complete()

    @case(Capability.BOUNDED, Capability.POISON_READS)
    def test_poison_goes_to_the_dead_letters_once(self, trial: SourceTrial) -> None:
        trial.write_split(2, poison=True)
        letters = DirectorySink(trial.root / "letters")
        policy = RecordPolicy.dead_letter(letters)
        fault = Fault(FaultPoint.AFTER_REPORT, action=FaultAction.RAISE, once=trial.root / "failed")
        with injected(fault), trial.pipeline(Boundedness.BOUNDED, record_policy=policy) as pipeline:
            trial.run_to_end(pipeline)
        assert letters.read().num_rows == 2
        trial.assert_complete()

    # --- Time -----------------------------------------------------------------------------------

    @case(Capability.BOUNDED)
    def test_the_watermark_never_passes_a_row_that_is_still_to_come(
        self, trial: SourceTrial
    ) -> None:
        trial.write_split(3)
        strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner("at")
        few = PlanLimits(rows=ROWS_PER_SPLIT // 2)
        with trial.pipeline(
            Boundedness.BOUNDED, limits=few, watermark_strategy=strategy
        ) as pipeline:
            trial.run_to_end(pipeline)
            (source,) = pipeline.status().sources
        assert source.watermark == END_OF_TIME
        found = list(trial.watermarks_and_times())
        assert any(watermark is not None for watermark, _ in found), "there is no watermark"
        for watermark, times in found:
            assert watermark is None or min(times) >= watermark, "rows came behind the watermark"
        trial.assert_complete()

    # --- Limits ---------------------------------------------------------------------------------

    @case(Capability.BOUNDED)
    def test_a_rate_holds_for_the_whole_source(self, trial: SourceTrial) -> None:
        trial.write_split(2)
        rate = RateLimiterStrategy.per_second(ROWS_PER_SPLIT)
        began = time.monotonic()
        with trial.pipeline(Boundedness.BOUNDED, rate_limiter=rate) as pipeline:
            trial.run_to_end(pipeline)
        assert time.monotonic() - began > 0.8
        trial.assert_complete()

    @case(Capability.BOUNDED)
    def test_a_limit_of_rows_holds_in_every_plan(self, trial: SourceTrial) -> None:
        trial.write_split(2)
        with trial.pipeline(Boundedness.BOUNDED, limits=PlanLimits(rows=7)) as pipeline:
            trial.run_to_end(pipeline)
            assert (pipeline.status().queries[0].plan or 0) + 1 >= 2 * ROWS_PER_SPLIT // 7
        trial.assert_complete()


class SourceTrial(Trial):
    """One case at work: its external system, its pipelines, and what was written and read."""

    def __init__(
        self, environment: TestEnvironment, context: SourceExternalContext, root: Path, seed: int
    ) -> None:
        super().__init__(environment, root, seed)
        self.context = context
        self.sink = DirectorySink(root / "out")
        self._writers: list[Any] = []
        self._next: list[int] = []
        self.written: list[pa.Table] = []

    def write_split(self, count: int = 1, *, poison: bool = False) -> None:
        """Write new splits."""
        for _ in range(count):
            self._writers.append(self.context.create_split())
            self._next.append(0)
            self._write(len(self._writers) - 1)
            if poison:
                self._writers[-1].write_poison()

    def grow_splits(self) -> None:
        """Write more rows to every split."""
        for split in range(len(self._writers)):
            self._write(split)

    def _write(self, split: int) -> None:
        rows = make_rows(split, self._next[split], ROWS_PER_SPLIT, self._seed)
        self._next[split] += ROWS_PER_SPLIT
        self._writers[split].write(rows)
        self.written.append(rows)

    def pipeline(self, boundedness: Boundedness, *, parallelism: int = 2, **settings: Any) -> Any:
        """A pipeline from the source to a folder; each one goes on from the one before."""
        return self.job(boundedness, parallelism=parallelism, **settings).build(self.environment)

    def job(self, boundedness: Boundedness, *, parallelism: int = 2, **settings: Any) -> DriverJob:
        """The same pipeline for a process of its own."""
        return DriverJob(
            location=str(self.location),
            source=self.context.create_source(boundedness),
            sinks={"out": self.sink},
            settings=settings,
            parallelism=parallelism,
            spark=isinstance(self.environment, LocalSpark),
        )

    def watermarks_and_times(self) -> Iterator[tuple[int | None, list[int]]]:
        """For every plan with rows: the watermark it was made with, and the rows' event times."""
        store = StateStore(str(self.location / "query-0"))
        for epoch, decision in sorted(decisions_since(store, 0).items()):
            (source,) = read_plan(store, decision.plan).sources.values()
            rows = self.sink.read(epoch)
            if rows.num_rows:
                yield source.watermark, rows["at"].cast(pa.int64()).to_pylist()

    def wait_for_all(self, pipeline: Any) -> None:
        """Wait until as many rows came out as were written."""
        expected = sum(table.num_rows for table in self.written)
        self.wait(lambda: self.sink.read().num_rows >= expected, f"{expected} rows", pipeline)

    def assert_complete(self) -> None:
        """All that was written came out, each row once, the rows of a split in their order."""
        read = self.sink.read()
        found = self.context.to_rows(read) if read.num_columns else read
        assert_exactly(found, self.written)
        assert_in_order(found)
        assert self.sink.staged() == []
