# SPDX-License-Identifier: Apache-2.0
"""The suite that every source passes: subclass it and supply an external context."""

from __future__ import annotations

import contextlib
import itertools
import time
from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pytest

from connectors_core.engine.coordinator.plan_log import decisions_since, read_plan
from connectors_core.engine.state import StateStore
from connectors_core.records import RecordPolicy
from connectors_core.source import (
    Boundedness,
    PlanLimits,
    RateLimiterStrategy,
    WatermarkStrategy,
)
from connectors_core.source.source import AnySource
from connectors_core.source.watermarks import END_OF_TIME, micros
from connectors_core.spark.status import PipelineState
from connectors_core.testing.capabilities import Capability
from connectors_core.testing.cases import case
from connectors_core.testing.context import SourceExternalContext, SplitDataWriter
from connectors_core.testing.data import (
    assert_at_least,
    assert_exactly,
    assert_in_order,
    assert_same_values,
    make_rows,
)
from connectors_core.testing.data_types import (
    DATA_TYPES,
    HARD_VALUES,
    example_of,
    hard_values_of,
)
from connectors_core.testing.directory_sink import DirectorySink
from connectors_core.testing.driver import DriverJob
from connectors_core.testing.environment import TestEnvironment
from connectors_core.testing.faults import (
    READING_FREEZES,
    READING_POINTS,
    SUCCESSORS,
    Fault,
    FaultAction,
    FaultPoint,
    injected,
)
from connectors_core.testing.outages import Outage
from connectors_core.testing.traces import nothing_left
from connectors_core.testing.trial import (
    WRONG_CLOCKS,
    PipelineSuite,
    Trial,
    in_full_on_spark,
    meetings,
    outages,
)

# Cases of what fails by itself come before those of kills, freezes and storage.
_FAILURES: Final = (
    "test_a_driver_that_fails_is_restarted_exactly",
    "test_a_task_that_fails_is_repeated_exactly",
)
ROWS_PER_SPLIT: Final = 60
# So many that some are assigned and not begun, and some wait, wherever a pipeline stops.
MANY_SPLITS: Final = 12
# Which meetings of two drivers every run has.
READING_MEETINGS: Final = frozenset(
    {(FaultPoint.BEFORE_PLAN, "has ended"), (FaultPoint.BEFORE_REPORT, "writes")}
)
LARGE_ROWS: Final = 200_000
LARGE_TEXT: Final = 1_000
_PLACE: Final = ("split_id", "position")
BY_TIME: Final = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner("at")


class SourceTestSuite(PipelineSuite):
    """Cases for a source. Derive, name what the connector can do, and supply a context."""

    judged_by = frozenset({Capability.REPLAYABLE})

    @abstractmethod
    def external_context(self, folder: Path) -> SourceExternalContext:
        """A new external system for one case; ``folder`` is its own."""

    @pytest.fixture
    def trial(self, environment: TestEnvironment, tmp_path: Path) -> Iterator[SourceTrial]:
        """One case's external system, pipelines and rows."""
        folder = tmp_path / "external"
        folder.mkdir()
        replayable = Capability.REPLAYABLE in self.capabilities.can
        with contextlib.closing(self.external_context(folder)) as context:
            trial = SourceTrial(environment, context, tmp_path, self.seed, replayable)
            trial.system = None if self.system is None else type(self.system)
            yield trial

    # --- Reading --------------------------------------------------------------------------------

    @case(Capability.BOUNDED)
    @pytest.mark.cell
    def test_a_single_split_is_read_to_its_end(self, trial: SourceTrial) -> None:
        """Flink's ``testSourceSingleSplit``."""
        trial.write_split()
        trial.read_all(parallelism=1)
        trial.assert_complete()

    @case(Capability.BOUNDED, after="test_a_single_split_is_read_to_its_end")
    def test_splits_are_read_side_by_side_and_each_in_its_order(self, trial: SourceTrial) -> None:
        """Flink's ``testMultipleSplits``."""
        trial.write_split(4)
        trial.read_all(parallelism=4)
        trial.assert_complete()

    @case(Capability.BOUNDED, after="test_splits_are_read_side_by_side_and_each_in_its_order")
    @pytest.mark.slow_on_spark
    def test_a_reader_without_a_split_does_not_keep_the_pipeline_running(
        self, trial: SourceTrial
    ) -> None:
        """Flink's ``testIdleReader``."""
        trial.write_split(4)
        trial.read_all(parallelism=5)
        trial.assert_complete()

    @case(
        Capability.BOUNDED,
        after="test_a_reader_without_a_split_does_not_keep_the_pipeline_running",
    )
    def test_nothing_to_read_is_the_end(self, trial: SourceTrial) -> None:
        trial.context.create_split().close()
        trial.read_all()
        assert trial.sink.read().num_rows == 0

    @case(
        Capability.BOUNDED,
        after="test_a_reader_without_a_split_does_not_keep_the_pipeline_running",
    )
    @pytest.mark.slow_on_spark
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

    @case(
        Capability.DATA_TYPES,
        after="test_a_reader_without_a_split_does_not_keep_the_pipeline_running",
    )
    @pytest.mark.parametrize("data_type", DATA_TYPES)
    @pytest.mark.slow_on_spark
    def test_values_of_every_type_are_read_as_they_are(
        self, trial: SourceTrial, data_type: str
    ) -> None:
        self._assert_read_as_it_is(trial, example_of(data_type))

    @case(
        Capability.DATA_TYPES,
        since="1.3",
        after="test_values_of_every_type_are_read_as_they_are",
    )
    @pytest.mark.parametrize(("data_type", "values"), HARD_VALUES)
    @pytest.mark.slow_on_spark
    def test_values_that_are_hard_to_keep_are_read_as_they_are(
        self, trial: SourceTrial, data_type: str, values: str
    ) -> None:
        self._assert_read_as_it_is(trial, hard_values_of(data_type, values))

    def _assert_read_as_it_is(self, trial: SourceTrial, rows: pa.Table) -> None:
        source = trial.context.create_typed_source(rows)
        with trial.job_of(source).build(trial.environment) as pipeline:
            trial.run_to_end(pipeline)
        assert_same_values(trial.sink.read(), rows)

    @case(
        Capability.BOUNDED,
        Capability.SCHEMA_CHANGE,
        after="test_splits_are_read_side_by_side_and_each_in_its_order",
    )
    @pytest.mark.slow_on_spark
    def test_a_further_column_in_the_system_changes_no_row(self, trial: SourceTrial) -> None:
        trial.write_split()
        trial.write_split(further_column=True)
        trial.write_split()
        trial.read_all()
        trial.assert_complete()

    @case(Capability.BOUNDED)
    def test_what_is_said_of_replays_is_what_the_source_says(self, trial: SourceTrial) -> None:
        traits = trial.context.create_source(Boundedness.BOUNDED).split_traits()
        can = Capability.REPLAYABLE in self.capabilities.can
        assert traits.replayable == can, "split_traits().replayable and the capability differ"

    # --- Limits ---------------------------------------------------------------------------------

    @case(
        Capability.BOUNDED,
        after="test_a_reader_without_a_split_does_not_keep_the_pipeline_running",
    )
    def test_a_limit_of_rows_holds_in_every_plan(self, trial: SourceTrial) -> None:
        trial.write_split(2)
        with trial.pipeline(Boundedness.BOUNDED, limits=PlanLimits(rows=17)) as pipeline:
            trial.run_to_end(pipeline)
            assert (pipeline.status().queries[0].plan or 0) + 1 >= 2 * ROWS_PER_SPLIT // 17
        trial.assert_complete()

    @case(Capability.BOUNDED, after="test_a_limit_of_rows_holds_in_every_plan")
    @pytest.mark.slow_on_spark
    def test_a_rate_holds_for_the_whole_source(self, trial: SourceTrial) -> None:
        trial.write_split(2)
        rate = RateLimiterStrategy.per_second(ROWS_PER_SPLIT)
        began = time.monotonic()
        trial.read_all(rate_limiter=rate)
        assert time.monotonic() - began > 0.8
        trial.assert_complete()

    @case(
        Capability.BOUNDED,
        Capability.ONE_PROCESS,
        after="test_a_limit_of_rows_holds_in_every_plan",
    )
    @pytest.mark.slow
    def test_memory_follows_from_a_plan_and_not_from_the_input(self, trial: SourceTrial) -> None:
        """Two drivers read little and much, in plans of equal size."""
        limits = PlanLimits(rows=LARGE_ROWS // 10)
        peaks = [
            trial.peak_memory(name, rows, limits)
            for name, rows in (("little", LARGE_ROWS // 10), ("much", LARGE_ROWS))
        ]
        grown = peaks[1] - peaks[0]
        assert grown < LARGE_ROWS * LARGE_TEXT // 3, f"{grown >> 20} MiB more for more input"

    # --- While it runs --------------------------------------------------------------------------

    @case(Capability.UNBOUNDED, after="test_a_single_split_is_read_to_its_end")
    def test_an_unbounded_source_goes_on_until_it_is_stopped(self, trial: SourceTrial) -> None:
        trial.write_split()
        with trial.pipeline(Boundedness.CONTINUOUS_UNBOUNDED) as pipeline:
            pipeline.start()
            trial.wait_for_all(pipeline)
            assert not pipeline.await_termination(0.5)
            pipeline.stop()
            assert pipeline.status().state is PipelineState.STOPPED

    @case(Capability.UNBOUNDED, after="test_an_unbounded_source_goes_on_until_it_is_stopped")
    def test_a_run_to_what_is_available_now_ends(self, trial: SourceTrial) -> None:
        trial.write_split(2)
        with trial.pipeline(Boundedness.CONTINUOUS_UNBOUNDED) as pipeline:
            trial.run_to_end(pipeline, available_now=True)
        trial.assert_complete()

    @case(
        Capability.UNBOUNDED,
        Capability.DISCOVERY,
        after="test_an_unbounded_source_goes_on_until_it_is_stopped",
    )
    def test_splits_that_appear_are_found(self, trial: SourceTrial) -> None:
        trial.write_split()
        with trial.pipeline(Boundedness.CONTINUOUS_UNBOUNDED) as pipeline:
            pipeline.start()
            trial.wait_for_all(pipeline)
            trial.write_split(2)
            trial.wait_for_all(pipeline)
        trial.assert_complete()

    @case(
        Capability.UNBOUNDED,
        Capability.GROWING_SPLITS,
        after="test_an_unbounded_source_goes_on_until_it_is_stopped",
    )
    def test_rows_that_are_added_to_a_split_are_read(self, trial: SourceTrial) -> None:
        trial.write_split(2)
        with trial.pipeline(Boundedness.CONTINUOUS_UNBOUNDED) as pipeline:
            pipeline.start()
            trial.wait_for_all(pipeline)
            trial.grow_splits()
            trial.wait_for_all(pipeline)
        trial.assert_complete()

    # --- Restarts -------------------------------------------------------------------------------

    @case(Capability.BOUNDED, after="test_a_limit_of_rows_holds_in_every_plan")
    @pytest.mark.parametrize(
        ("before", "after"), [in_full_on_spark(2, 2), (1, 3), in_full_on_spark(3, 1)]
    )
    def test_a_restart_in_the_middle_of_splits(
        self, trial: SourceTrial, before: int, after: int
    ) -> None:
        trial.write_split(MANY_SPLITS)
        few = PlanLimits(rows=ROWS_PER_SPLIT * 2 // 3, splits=3)
        with trial.pipeline(Boundedness.BOUNDED, parallelism=before, limits=few) as pipeline:
            pipeline.start()
            trial.wait(lambda: trial.sink.read().num_rows > 0, "the first rows", pipeline)
        trial.read_all(parallelism=after)
        trial.assert_complete()

    @case(
        Capability.UNBOUNDED,
        Capability.DISCOVERY,
        after=("test_splits_that_appear_are_found", "test_a_restart_in_the_middle_of_splits"),
    )
    @pytest.mark.parametrize(
        ("before", "after"), [in_full_on_spark(4, 4), (2, 4), in_full_on_spark(4, 2)]
    )
    def test_a_restart_goes_on_with_as_many_more_or_fewer_readers(
        self, trial: SourceTrial, before: int, after: int
    ) -> None:
        """Flink's ``testSavepoint``, ``testScaleUp`` and ``testScaleDown``."""
        trial.write_split(4)
        trial.follow(parallelism=before)
        trial.write_split(2)
        trial.follow(parallelism=after)
        trial.assert_complete()

    @case(
        Capability.UNBOUNDED,
        Capability.GROWING_SPLITS,
        after=(
            "test_rows_that_are_added_to_a_split_are_read",
            "test_a_restart_goes_on_with_as_many_more_or_fewer_readers",
        ),
    )
    def test_rows_that_are_added_to_a_split_while_nobody_reads_are_read_later(
        self, trial: SourceTrial
    ) -> None:
        trial.write_split(2)
        trial.follow()
        trial.grow_splits()
        trial.follow()
        trial.assert_complete()

    @case(
        Capability.UNBOUNDED,
        Capability.GROWING_SPLITS,
        after=(
            "test_a_run_to_what_is_available_now_ends",
            "test_rows_that_are_added_to_a_split_while_nobody_reads_are_read_later",
        ),
    )
    def test_a_run_to_what_is_available_now_ends_splits_that_an_earlier_run_began(
        self, trial: SourceTrial
    ) -> None:
        trial.write_split(2)
        trial.follow()
        trial.grow_splits()
        with trial.pipeline(Boundedness.CONTINUOUS_UNBOUNDED) as pipeline:
            trial.run_to_end(pipeline, available_now=True)
        trial.assert_complete()

    @case(Capability.BOUNDED, since="1.3", after="test_a_restart_in_the_middle_of_splits")
    @pytest.mark.slow_on_spark
    def test_rows_behind_the_end_of_a_bounded_source_are_never_read(
        self, trial: SourceTrial
    ) -> None:
        """Its end is where it was when it began; neither of two restarts moves it."""
        trial.write_split(MANY_SPLITS)
        few = PlanLimits(rows=ROWS_PER_SPLIT // 2, splits=3)
        with trial.pipeline(Boundedness.BOUNDED, limits=few) as pipeline:
            pipeline.start()
            trial.wait(lambda: trial.sink.read().num_rows > 0, "the first rows", pipeline)
        before_the_end = list(trial.written)
        trial.grow_splits()  # a split that cannot grow is a new one
        trial.write_split()
        trial.written = before_the_end
        for _ in range(2):
            trial.read_all()
            trial.assert_complete()

    # --- Failures -------------------------------------------------------------------------------

    @case(
        Capability.BOUNDED,
        after="test_a_reader_without_a_split_does_not_keep_the_pipeline_running",
    )
    @pytest.mark.parametrize(
        "point",
        [
            in_full_on_spark(FaultPoint.READER_FETCHED),
            in_full_on_spark(FaultPoint.BEFORE_REPORT),
            FaultPoint.AFTER_REPORT,
        ],
    )
    def test_a_task_that_fails_is_repeated_exactly(
        self, trial: SourceTrial, point: FaultPoint
    ) -> None:
        trial.write_split(2)
        fault = Fault(point, action=FaultAction.RAISE, once=trial.root / "failed")
        with injected(fault):
            trial.read_all()
        assert fault.fired
        trial.assert_complete()

    @case(
        Capability.BOUNDED,
        Capability.WORKERS_CAN_DIE,
        after="test_a_task_that_fails_is_repeated_exactly",
    )
    def test_a_worker_that_is_killed_is_replaced(self, trial: SourceTrial) -> None:
        """Flink's ``testTaskManagerFailure``."""
        trial.write_split(2)
        fault = trial.death_of_a_worker(FaultPoint.READER_FETCHED)
        with injected(fault):
            trial.read_all()
        assert fault.fired
        trial.assert_complete()

    @case(Capability.BOUNDED, after="test_a_restart_in_the_middle_of_splits")
    @pytest.mark.parametrize(
        "point",
        [
            in_full_on_spark(FaultPoint.AFTER_PLAN),
            in_full_on_spark(FaultPoint.BEFORE_DECISION),
            FaultPoint.AFTER_DECISION,
            in_full_on_spark(FaultPoint.BEFORE_SPARK_COMMIT),
        ],
    )
    @pytest.mark.cell
    def test_a_driver_that_fails_is_restarted_exactly(
        self, trial: SourceTrial, point: FaultPoint
    ) -> None:
        trial.write_split(2)
        few = PlanLimits(rows=ROWS_PER_SPLIT // 2)
        fault = Fault(point, action=FaultAction.RAISE, nth=2, once=trial.root / "failed")
        with injected(fault), trial.pipeline(Boundedness.BOUNDED, limits=few) as pipeline:
            trial.run_to_failure(pipeline)
        assert fault.fired
        trial.read_all(limits=few)
        trial.assert_complete()

    @case(
        Capability.BOUNDED,
        Capability.REPLAYABLE,
        after=_FAILURES,
    )
    @pytest.mark.slow
    def test_drivers_killed_at_point_after_point_lose_and_double_nothing(
        self, trial: SourceTrial
    ) -> None:
        """Real processes, SIGKILL: the crash matrix as a chain."""
        trial.write_split(6)
        job = trial.job(Boundedness.BOUNDED, limits=PlanLimits(rows=ROWS_PER_SPLIT // 3))
        trial.kill_at_each(job, READING_POINTS, trial.assert_complete)

    @case(
        Capability.BOUNDED,
        since="1.3",
        after=_FAILURES,
    )
    @pytest.mark.parametrize(("point", "successor"), meetings(READING_FREEZES, READING_MEETINGS))
    @pytest.mark.slow_on_spark
    def test_a_driver_that_was_frozen_resumes_beside_its_successor(
        self, trial: SourceTrial, point: FaultPoint, successor: str
    ) -> None:
        """SIGSTOP, a takeover, SIGCONT: what the two plan and read is the same, or is read once."""
        trial.write_split(6)
        job = trial.job(Boundedness.BOUNDED, limits=PlanLimits(rows=ROWS_PER_SPLIT // 3))
        trial.take_over_from_frozen(job, point, SUCCESSORS[successor], trial.assert_complete)

    @case(
        Capability.BOUNDED,
        since="1.3",
        after=_FAILURES,
    )
    @pytest.mark.parametrize("point", [FaultPoint.BEFORE_PLAN, FaultPoint.READER_FETCHED])
    @pytest.mark.slow_on_spark
    def test_full_storage_loses_and_doubles_nothing(
        self, trial: SourceTrial, point: FaultPoint
    ) -> None:
        """No plan or report can be written from a point on, until there is space again.

        Of a source it judges what cases of failing tasks and drivers do, too.
        """
        job = trial.job_of_few_rows()
        trial.run_out_of_space(job, point)
        trial.run_again(job)
        trial.assert_complete()

    @case(Capability.BOUNDED, since="1.3", after="test_full_storage_loses_and_doubles_nothing")
    @pytest.mark.slow_on_spark
    def test_state_of_which_a_file_is_lost_is_refused(self, trial: SourceTrial) -> None:
        """No connector can break it: none of its parts is asked before the state is judged."""
        job = trial.job_of_few_rows()
        trial.fail_at(job, FaultPoint.BEFORE_SPARK_COMMIT)
        read = trial.sink.read().num_rows
        trial.lose_state(job, ("decisions", -1), ("plans", 1))
        assert trial.sink.read().num_rows == read
        trial.run_again(job)
        trial.assert_complete()

    @case(
        Capability.BOUNDED,
        since="1.3",
        after=_FAILURES,
    )
    @pytest.mark.parametrize("hours", WRONG_CLOCKS)
    @pytest.mark.slow_on_spark
    def test_a_driver_with_another_clock_takes_over(self, trial: SourceTrial, hours: int) -> None:
        """What a killed one has found and read is known, an hour old or to come, and in time."""
        job = trial.job_of_few_rows()
        trial.kill_with_wrong_clock(job, hours)
        trial.run_again(job)
        trial.assert_complete()

    @case(
        Capability.BOUNDED,
        after="test_a_reader_without_a_split_does_not_keep_the_pipeline_running",
    )
    def test_a_batch_that_is_run_again_is_not_written_again(self, trial: SourceTrial) -> None:
        trial.write_split(2)
        trial.read_all()
        trial.environment.forget_last_batch(trial.location)
        trial.read_all()
        trial.assert_complete()

    @case(
        Capability.BOUNDED,
        Capability.POISON_READS,
        after="test_a_single_split_is_read_to_its_end",
    )
    def test_poison_fails_the_pipeline_and_names_the_record(self, trial: SourceTrial) -> None:
        trial.write_split(poison=True)
        with trial.pipeline(Boundedness.BOUNDED) as pipeline:
            failure = trial.run_to_failure(pipeline)
        assert "BAD_RECORD" in str(failure), "the error does not say that a record is at fault"

    @case(
        Capability.BOUNDED,
        Capability.POISON_READS,
        after="test_poison_fails_the_pipeline_and_names_the_record",
    )
    @pytest.mark.slow_on_spark
    def test_poison_is_skipped_and_counted(self, trial: SourceTrial) -> None:
        trial.write_split(2, poison=True)
        policy = RecordPolicy.skip()
        with trial.pipeline(Boundedness.BOUNDED, record_policy=policy) as pipeline:
            trial.run_to_end(pipeline)
            (source,) = pipeline.status().sources
        assert source.skipped == 2
        trial.assert_complete()

    @case(
        Capability.BOUNDED,
        Capability.POISON_READS,
        after=("test_poison_is_skipped_and_counted", "test_a_task_that_fails_is_repeated_exactly"),
    )
    def test_poison_goes_to_the_dead_letters_once(self, trial: SourceTrial) -> None:
        trial.write_split(2, poison=True)
        letters = DirectorySink(trial.root / "letters")
        policy = RecordPolicy.dead_letter(letters)
        fault = Fault(FaultPoint.AFTER_REPORT, action=FaultAction.RAISE, once=trial.root / "failed")
        with injected(fault):
            trial.read_all(record_policy=policy)
        assert letters.read().num_rows == 2
        trial.assert_complete()

    @case(
        Capability.BOUNDED,
        Capability.POISON_READS,
        since="1.3",
        after=(
            "test_poison_goes_to_the_dead_letters_once",
            "test_a_limit_of_rows_holds_in_every_plan",
            "test_a_driver_that_fails_is_restarted_exactly",
        ),
    )
    @pytest.mark.slow_on_spark
    def test_poison_between_rows_is_met_once_whatever_cuts_the_split(
        self, trial: SourceTrial
    ) -> None:
        """By limits that cut batches, and by a driver that fails."""
        trial.write_split_with_poison(7, 6, ROWS_PER_SPLIT - 13)
        trial.write_split_with_poison(1, ROWS_PER_SPLIT - 1)
        letters = DirectorySink(trial.root / "letters")
        settings: dict[str, Any] = {
            "limits": PlanLimits(rows=17),
            "record_policy": RecordPolicy.dead_letter(letters),
        }
        fault = Fault(
            FaultPoint.AFTER_DECISION, action=FaultAction.RAISE, nth=3, once=trial.root / "failed"
        )
        with injected(fault), trial.pipeline(Boundedness.BOUNDED, **settings) as pipeline:
            trial.run_to_failure(pipeline)
        assert fault.fired
        trial.read_all(**settings)
        found = letters.read()
        places = set(zip(*(found[name].to_pylist() for name in _PLACE), strict=True))
        assert found.num_rows == 3, f"{found.num_rows} of 3 bad records are dead letters"
        assert len(places) == 3, f"bad records share a place: {places}"
        trial.assert_complete()

    # --- Outages --------------------------------------------------------------------------------

    @case(Capability.OUTAGES, since="1.3")
    @pytest.mark.slow_on_spark
    def test_a_system_that_is_not_there_is_named_in_time(self, trial: SourceTrial) -> None:
        """Before the pipeline starts."""
        self.assert_named_in_time(trial.context.create_source(Boundedness.BOUNDED))

    @case(
        Capability.BOUNDED,
        Capability.OUTAGES,
        since="1.3",
        after=(
            "test_a_restart_in_the_middle_of_splits",
            "test_a_task_that_fails_is_repeated_exactly",
        ),
    )
    @pytest.mark.parametrize("outage", outages(on_spark=Outage.STOPPED))
    def test_an_outage_in_the_middle_loses_and_doubles_nothing(
        self, trial: SourceTrial, outage: Outage
    ) -> None:
        """The pipeline goes on, or fails and is started again when the system is back."""
        trial.write_split(3)
        few = PlanLimits(rows=ROWS_PER_SPLIT // 2 if self.on_spark else ROWS_PER_SPLIT // 10)
        with trial.pipeline(Boundedness.BOUNDED, limits=few) as pipeline:
            pipeline.start()
            trial.wait(lambda: trial.sink.read().num_rows > 0, "the first rows", pipeline)
            failed = trial.go_through(pipeline, self.outage(outage))
        if failed:
            trial.read_all(limits=few)
        trial.assert_complete()

    @case(
        Capability.BOUNDED,
        Capability.OUTAGES,
        since="1.3",
        after="test_an_outage_in_the_middle_loses_and_doubles_nothing",
    )
    @pytest.mark.parametrize("outage", outages())
    def test_a_start_in_an_outage_loses_nothing(self, trial: SourceTrial, outage: Outage) -> None:
        """Nothing that could be found is not nothing to read."""
        trial.write_split(3)
        with trial.pipeline(Boundedness.BOUNDED) as pipeline:
            failed = trial.go_through(pipeline, self.outage(outage))
        if failed:
            trial.read_all()
        trial.assert_complete()

    # --- Time -----------------------------------------------------------------------------------

    @case(Capability.BOUNDED, after="test_a_limit_of_rows_holds_in_every_plan")
    def test_the_watermark_never_passes_a_row_that_is_still_to_come(
        self, trial: SourceTrial
    ) -> None:
        trial.write_split(3)
        few = PlanLimits(rows=ROWS_PER_SPLIT // 2)
        with trial.pipeline(
            Boundedness.BOUNDED, limits=few, watermark_strategy=BY_TIME
        ) as pipeline:
            trial.run_to_end(pipeline)
            (source,) = pipeline.status().sources
        assert source.watermark == END_OF_TIME
        found = list(trial.watermarks_and_times())
        assert any(watermark is not None for watermark, _ in found), "there is no watermark"
        trial.assert_nothing_late()
        trial.assert_complete()

    @case(Capability.BOUNDED, after="test_the_watermark_never_passes_a_row_that_is_still_to_come")
    def test_aligned_splits_stay_together(self, trial: SourceTrial) -> None:
        """Flink's FLIP-217: no split runs ahead of the slowest one by more than the drift."""
        drift = timedelta(seconds=10)
        strategy = BY_TIME.with_watermark_alignment("suite", drift)
        trial.write_split(3)
        few = PlanLimits(rows=ROWS_PER_SPLIT // 2)
        trial.read_all(limits=few, watermark_strategy=strategy)
        trial.assert_aligned(drift)
        trial.assert_nothing_late()
        trial.assert_complete()

    @case(
        Capability.UNBOUNDED,
        Capability.GROWING_SPLITS,
        after=(
            "test_rows_that_are_added_to_a_split_are_read",
            "test_the_watermark_never_passes_a_row_that_is_still_to_come",
        ),
    )
    def test_a_split_without_rows_is_idle_until_it_has_some(self, trial: SourceTrial) -> None:
        """A split that never had a row does not hold the watermark; its first row is not late."""
        strategy = BY_TIME.with_idleness(timedelta(milliseconds=200))
        trial.write_split()
        trial.open_split(first=3 * ROWS_PER_SPLIT)
        with trial.pipeline(
            Boundedness.CONTINUOUS_UNBOUNDED, watermark_strategy=strategy
        ) as pipeline:
            pipeline.start()
            trial.wait_for_all(pipeline)
            trial.wait_for_watermark(pipeline, 0, ROWS_PER_SPLIT)
            trial.grow_split(1)
            trial.wait_for_all(pipeline)
            trial.wait_for_watermark(pipeline, 1, 4 * ROWS_PER_SPLIT)
        trial.assert_nothing_late()
        trial.assert_complete()

    # --- What is left, what is seen -------------------------------------------------------------

    @case(
        Capability.BOUNDED,
        Capability.ONE_PROCESS,
        after="test_a_reader_without_a_split_does_not_keep_the_pipeline_running",
    )
    def test_no_thread_handle_or_temporary_file_is_left(self, trial: SourceTrial) -> None:
        trial.write_split(2)
        with nothing_left(trial.root / "temporary"):
            trial.read_all()
        trial.assert_complete()

    @case(
        Capability.BOUNDED,
        Capability.SECRETS,
        after="test_a_driver_that_fails_is_restarted_exactly",
    )
    def test_a_secret_is_seen_nowhere(
        self,
        trial: SourceTrial,
        caplog: pytest.LogCaptureFixture,
        capfd: pytest.CaptureFixture[str],
    ) -> None:
        """Not in a log, plan, report, decision, status, exception or repr."""
        trial.write_split(2)
        source = trial.context.create_source(Boundedness.BOUNDED)
        trial.look_for(trial.context.secrets(), caplog, capfd, source, lambda: trial.job_of(source))
        trial.assert_complete()


class SourceTrial(Trial):
    """One case at work: its external system, its pipelines, and what was written and read."""

    def __init__(
        self,
        environment: TestEnvironment,
        context: SourceExternalContext,
        root: Path,
        seed: int,
        replayable: bool,
    ) -> None:
        super().__init__(environment, root, seed)
        self.context = context
        self.sink = DirectorySink(root / "out")
        self._replayable = replayable
        self._writers: list[SplitDataWriter] = []
        self._next: list[int] = []
        self.written: list[pa.Table] = []

    def write_split(
        self, count: int = 1, *, poison: bool = False, further_column: bool = False
    ) -> None:
        """Write new splits."""
        for _ in range(count):
            split = self.open_split()
            self.grow_split(split, further_column=further_column)
            if poison:
                self._writers[split].write_poison()

    def write_split_with_poison(self, *counts: int) -> None:
        """Write a new split of so many rows, a bad record, so many more, and so on."""
        split = self.open_split()
        rows = make_rows(split, 0, sum(counts), self._seed)
        starts = itertools.accumulate(counts, initial=0)
        parts = [rows.slice(start, count) for start, count in zip(starts, counts, strict=False)]
        self._writers[split].write_around_poison(*parts)
        self._next[split] = rows.num_rows
        self.written.append(rows)

    def open_split(self, *, first: int = 0) -> int:
        """A new split without rows, its number; its first row will be that of this number."""
        self._writers.append(self.context.create_split())
        self._next.append(first)
        return len(self._writers) - 1

    def grow_splits(self) -> None:
        """Write more rows to every split."""
        for split in range(len(self._writers)):
            self.grow_split(split)

    def grow_split(self, split: int, *, further_column: bool = False) -> None:
        """Write more rows to a split."""
        rows = make_rows(split, self._next[split], ROWS_PER_SPLIT, self._seed)
        self._next[split] += ROWS_PER_SPLIT
        self.written.append(rows)
        if further_column:
            rows = rows.append_column("extra", rows["text"])
        self._writers[split].write(rows)

    def pipeline(self, boundedness: Boundedness, *, parallelism: int = 2, **settings: Any) -> Any:
        """A pipeline from the source to a folder; each one goes on from the one before."""
        return self.job(boundedness, parallelism=parallelism, **settings).build(self.environment)

    def read_all(self, **settings: Any) -> None:
        """Run a bounded pipeline to its end."""
        with self.pipeline(Boundedness.BOUNDED, **settings) as pipeline:
            self.run_to_end(pipeline)

    def follow(self, **settings: Any) -> None:
        """Run an unbounded pipeline until all that was written came out, and stop it."""
        with self.pipeline(Boundedness.CONTINUOUS_UNBOUNDED, **settings) as pipeline:
            pipeline.start()
            self.wait_for_all(pipeline)

    def job(self, boundedness: Boundedness, *, parallelism: int = 2, **settings: Any) -> DriverJob:
        """The same pipeline for a process of its own."""
        source = self.context.create_source(boundedness)
        return self.job_of(source, parallelism=parallelism, **settings)

    def job_of(self, source: AnySource, *, parallelism: int = 2, **settings: Any) -> DriverJob:
        """A pipeline from this source to the folder."""
        return DriverJob(
            location=str(self.location),
            source=source,
            sinks={"out": self.sink},
            settings=settings,
            parallelism=parallelism,
            spark=self.environment.session,
        )

    def job_of_few_rows(self) -> DriverJob:
        """A bounded pipeline of new splits: some are begun, and some wait, wherever it ends."""
        self.write_split(MANY_SPLITS // 2)
        few = PlanLimits(rows=ROWS_PER_SPLIT * 2 // 3, splits=3)
        return self.job(Boundedness.BOUNDED, limits=few)

    def run_again(self, job: DriverJob) -> None:
        """Run a pipeline to its end, in as few plans as it takes."""
        with replace(job, settings={}).build(self.environment) as pipeline:
            self.run_to_end(pipeline)

    def peak_memory(self, name: str, rows: int, limits: PlanLimits) -> int:
        """Bytes that a driver needs at most to read so many rows with long texts."""
        texts = pa.repeat(pa.scalar("x" * LARGE_TEXT), rows)
        written = make_rows(0, 0, 1, self._seed).take(pa.repeat(pa.scalar(0), rows))
        self.context.create_split().write(written.set_column(3, "text", texts))
        job = replace(
            self.job(Boundedness.BOUNDED, parallelism=1, limits=limits),
            location=str(self.root / name),
            sinks={"out": DirectorySink(self.root / f"{name}-out")},
            peak=str(self.root / f"{name}-peak"),
        )
        self.run_driver(job)
        return int((self.root / f"{name}-peak").read_text())

    def watermarks_and_times(self) -> Iterator[tuple[int | None, list[int]]]:
        """For every plan with rows: the watermark it was made with, and the rows' event times."""
        store = StateStore(str(self.location / "query-0"))
        for epoch, decision in sorted(decisions_since(store, 0).items()):
            (source,) = read_plan(store, decision.plan).sources.values()
            rows = self.sink.read(epoch)
            if rows.num_rows:
                yield source.watermark, rows["at"].cast(pa.int64()).to_pylist()

    def assert_nothing_late(self) -> None:
        """No row came behind the watermark."""
        for watermark, times in self.watermarks_and_times():
            assert watermark is None or min(times) >= watermark, "rows came behind the watermark"

    def assert_aligned(self, drift: timedelta) -> None:
        """In no plan was a row further ahead than this of the next row of any split."""
        waiting = {
            table["split"][0].as_py(): table["at"].cast(pa.int64()).to_pylist()
            for table in self.written
        }
        for epoch in sorted(decisions_since(StateStore(str(self.location / "query-0")), 0)):
            read = self.sink.read(epoch)
            if not read.num_rows:
                continue
            rows = self.context.to_rows(read)
            lowest = min(times[0] for times in waiting.values() if times)
            ahead = max(rows["at"].cast(pa.int64()).to_pylist()) - lowest
            assert ahead <= micros(drift), f"a split is {ahead / 1e6} s ahead of another"
            for split in rows["split"].to_pylist():
                waiting[split].pop(0)

    def wait_for_watermark(self, pipeline: Any, split: int, rows: int) -> None:
        """Wait until the watermark is that of this many rows of a split."""
        last = make_rows(split, rows - 1, 1, self._seed)["at"].cast(pa.int64())[0].as_py()

        def there() -> bool:
            (source,) = pipeline.status().sources
            return source.watermark is not None and source.watermark >= last - 1

        self.wait(there, f"the watermark of row {rows} of split {split}", pipeline)

    def wait_for_all(self, pipeline: Any) -> None:
        """Wait until as many rows came out as were written."""
        expected = sum(table.num_rows for table in self.written)
        self.wait(lambda: self.sink.read().num_rows >= expected, f"{expected} rows", pipeline)

    def assert_complete(self) -> None:
        """All that was written came out, the rows of a split in their order.

        Each row once, unless the source cannot be read again.
        """
        read = self.sink.read()
        found = self.context.to_rows(read) if read.num_columns else read
        if self._replayable:
            assert_exactly(found, self.written)
            assert_in_order(found)
        else:
            assert_at_least(found, self.written)
        assert self.sink.staged() == []
