# SPDX-License-Identifier: Apache-2.0
"""Cases of a source: reading, limits, and restarts."""

from __future__ import annotations

import time
from typing import Final

import pyarrow as pa
import pytest

from connectors_core.engine.query.status import PipelineState
from connectors_core.source import (
    Boundedness,
    RateLimiterStrategy,
    ReadLimits,
)
from connectors_core.testing.capabilities import Capability
from connectors_core.testing.cases import case
from connectors_core.testing.data import (
    assert_same_values,
)
from connectors_core.testing.data_types import (
    COLUMN_NAMES,
    DATA_TYPES,
    HARD_VALUES,
    example_of,
    hard_values_of,
    named_column,
)
from connectors_core.testing.source_trial import (
    LARGE_TEXT,
    MANY_SPLITS,
    ROWS_PER_SPLIT,
    SourceTrial,
)
from connectors_core.testing.trial import (
    PipelineSuite,
    in_full_on_spark,
)

LARGE_ROWS: Final = 200_000


class SourceReadingCases(PipelineSuite, part=True):
    """Cases that read a source without failures."""

    # --- Reading ----------------------------------------------------------------------------------

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

    @case(
        Capability.DATA_TYPES,
        since="1.5",
        after="test_values_of_every_type_are_read_as_they_are",
    )
    @pytest.mark.parametrize("column_name", COLUMN_NAMES)
    @pytest.mark.slow_on_spark
    def test_a_column_of_any_name_is_read(self, trial: SourceTrial, column_name: str) -> None:
        """A name is data: it is neither part of a statement nor changed."""
        self._assert_read_as_it_is(trial, named_column(column_name))

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

    # --- Limits -----------------------------------------------------------------------------------

    @case(
        Capability.BOUNDED,
        after="test_a_reader_without_a_split_does_not_keep_the_pipeline_running",
    )
    def test_a_limit_of_rows_holds_in_every_plan(self, trial: SourceTrial) -> None:
        trial.write_split(2)
        with trial.pipeline(Boundedness.BOUNDED, limits=ReadLimits(rows=17)) as pipeline:
            trial.run_to_end(pipeline)
        trial.assert_limited(17)
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
        """Two drivers read different amounts, in plans of equal size."""
        limits = ReadLimits(rows=LARGE_ROWS // 10)
        peaks = [
            trial.peak_memory(name, rows, limits)
            for name, rows in (("little", LARGE_ROWS // 10), ("much", LARGE_ROWS))
        ]
        grown = peaks[1] - peaks[0]
        assert grown < LARGE_ROWS * LARGE_TEXT // 3, (
            f"larger input needs {grown >> 20} MiB more memory"
        )

    # --- During a run -----------------------------------------------------------------------------

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

    # --- Restarts ---------------------------------------------------------------------------------

    @case(Capability.BOUNDED, after="test_a_limit_of_rows_holds_in_every_plan")
    @pytest.mark.parametrize(
        ("before", "after"), [in_full_on_spark(2, 2), (1, 3), in_full_on_spark(3, 1)]
    )
    def test_a_restart_in_the_middle_of_splits(
        self, trial: SourceTrial, before: int, after: int
    ) -> None:
        trial.write_split(MANY_SPLITS)
        few = ReadLimits(rows=ROWS_PER_SPLIT * 2 // 3, splits=3)
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

    @case(
        Capability.UNBOUNDED,
        Capability.BOUNDED,
        Capability.DISCOVERY,
        Capability.REPLAYABLE,
        since="1.5",
        after="test_a_restart_goes_on_with_as_many_more_or_fewer_readers",
    )
    @pytest.mark.parametrize("first", list(Boundedness))
    @pytest.mark.slow_on_spark
    def test_a_restart_with_one_changed_option_is_exact_or_refused(
        self, trial: SourceTrial, first: Boundedness
    ) -> None:
        """One option at a time, among them whether the source ends."""
        (other,) = set(Boundedness) - {first}
        trial.write_split(2)
        trial.restart_with("boundedness", trial.context.create_source(other), first)
        for name, source in trial.context.changed_sources(first).items():
            trial.restart_with(name, source, first)

    @case(Capability.BOUNDED, since="1.3", after="test_a_restart_in_the_middle_of_splits")
    @pytest.mark.slow_on_spark
    def test_rows_behind_the_end_of_a_bounded_source_are_never_read(
        self, trial: SourceTrial
    ) -> None:
        """The end is fixed at the start, and neither of two restarts moves it."""
        trial.write_split(MANY_SPLITS)
        few = ReadLimits(rows=ROWS_PER_SPLIT // 2, splits=3)
        with trial.pipeline(Boundedness.BOUNDED, limits=few) as pipeline:
            pipeline.start()
            trial.wait(lambda: trial.sink.read().num_rows > 0, "the first rows", pipeline)
        before_the_end = list(trial.written)
        trial.grow_splits()  # a split that cannot grow becomes a new one
        trial.write_split()
        trial.written = before_the_end
        for _ in range(2):
            trial.read_all()
            trial.assert_complete()
