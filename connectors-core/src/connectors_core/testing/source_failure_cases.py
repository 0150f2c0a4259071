# SPDX-License-Identifier: Apache-2.0
"""Cases of a source: failures of tasks and drivers, bad records, and outages."""

from __future__ import annotations

import logging
from typing import Any, Final

import pytest

from connectors_core.metrics import SourceMetric
from connectors_core.records import RecordPolicy
from connectors_core.source import (
    Boundedness,
    ReadLimits,
)
from connectors_core.testing.capabilities import Capability
from connectors_core.testing.cases import case
from connectors_core.testing.data_types import MISFITS, misfit_of
from connectors_core.testing.directory_sink import DirectorySink
from connectors_core.testing.faults import (
    PLAN_FREEZES,
    READER_FREEZES,
    READING_POINTS,
    SUCCESSORS,
    Fault,
    FaultAction,
    FaultPoint,
    injected,
)
from connectors_core.testing.meetings import meetings
from connectors_core.testing.outages import Outage
from connectors_core.testing.source_trial import ROWS_PER_SPLIT, SourceTrial
from connectors_core.testing.trial import (
    WRONG_CLOCKS,
    PipelineSuite,
    in_full_on_spark,
    outages,
    time_for,
)

# Cases with ordinary failures come before those with kills, freezes, and full storage.
_FAILURES: Final = (
    "test_a_driver_that_fails_is_restarted_exactly",
    "test_a_task_that_fails_is_repeated_exactly",
)
# The pairs of driver states that every run tests.
READING_MEETINGS: Final = frozenset(
    {(FaultPoint.BEFORE_PLAN, "has ended"), (FaultPoint.BEFORE_REPORT, "writes")}
)
_PLACE: Final = ("split_id", "position")


class SourceFailureCases(PipelineSuite, part=True):
    """Cases that read a source during failures."""

    # --- Failures ---------------------------------------------------------------------------------

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
        few = ReadLimits(rows=ROWS_PER_SPLIT // 2)
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
    @pytest.mark.separate_drivers
    @time_for(len(READING_POINTS) + 1)
    def test_drivers_killed_at_point_after_point_lose_and_double_nothing(
        self, trial: SourceTrial
    ) -> None:
        """Real processes, SIGKILL: the crash matrix as a chain."""
        trial.write_split(6)
        job = trial.job(Boundedness.BOUNDED, limits=ReadLimits(rows=ROWS_PER_SPLIT // 3))
        trial.kill_at_each(job, READING_POINTS, trial.assert_complete)

    @case(
        Capability.BOUNDED,
        since="1.3",
        after=_FAILURES,
    )
    @pytest.mark.parametrize(
        ("point", "successor"), meetings(PLAN_FREEZES, READER_FREEZES, always=READING_MEETINGS)
    )
    @pytest.mark.slow_on_spark
    @pytest.mark.separate_drivers
    def test_a_driver_that_was_frozen_resumes_beside_its_successor(
        self, trial: SourceTrial, point: FaultPoint, successor: str
    ) -> None:
        """SIGSTOP, a takeover, SIGCONT: both drivers plan the same reads, or only one reads."""
        trial.write_split(6)
        job = trial.job(Boundedness.BOUNDED, limits=ReadLimits(rows=ROWS_PER_SPLIT // 3))
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

        For a source, this also covers the cases of failing tasks and drivers.
        """
        job = trial.job_of_few_rows()
        trial.run_out_of_space(job, point)
        trial.run_again(job)
        trial.assert_complete()

    @case(Capability.BOUNDED, since="1.3", after="test_full_storage_loses_and_doubles_nothing")
    @pytest.mark.slow_on_spark
    def test_state_of_which_a_file_is_lost_is_refused(self, trial: SourceTrial) -> None:
        """No connector can break this, because the check precedes all calls of the connector."""
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
    @pytest.mark.separate_drivers
    def test_a_driver_with_another_clock_takes_over(self, trial: SourceTrial, hours: int) -> None:
        """Splits and reads of a killed driver are known in time, even if its clock was wrong."""
        job = trial.job_of_few_rows()
        trial.kill_with_wrong_clock(job, hours)
        trial.run_again(job)
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
        assert "BAD_RECORD" in str(failure), "the error does not name a bad record as its cause"

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
        """Limits cut the batches, and a driver fails."""
        trial.write_split_with_poison(7, 6, ROWS_PER_SPLIT - 13)
        trial.write_split_with_poison(1, ROWS_PER_SPLIT - 1)
        letters = DirectorySink(trial.root / "letters")
        settings: dict[str, Any] = {
            "limits": ReadLimits(rows=17),
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
        assert len(places) == 3, f"bad records share a position: {places}"
        trial.assert_complete()

    @case(
        Capability.MISFITS,
        since="1.5",
        after=(
            "test_poison_is_skipped_and_counted",
            "test_poison_goes_to_the_dead_letters_once",
            "test_values_of_every_type_are_read_as_they_are",
        ),
    )
    @pytest.mark.parametrize(("data_type", "values"), MISFITS)
    @pytest.mark.slow_on_spark
    def test_a_value_that_does_not_fit_its_type_is_a_bad_record(
        self, trial: SourceTrial, data_type: str, values: str
    ) -> None:
        """At every depth: neither null nor another value takes its place."""
        schema, parts = misfit_of(data_type, values)
        source = trial.context.create_misfit_source(schema, parts)
        trial.assert_second_is_bad(source, parts)

    # --- Losses -----------------------------------------------------------------------------------

    @case(
        Capability.UNBOUNDED,
        Capability.GROWING_SPLITS,
        Capability.CUT_SPLITS,
        since="1.5",
        after="test_a_run_to_what_is_available_now_ends_splits_that_an_earlier_run_began",
    )
    @pytest.mark.slow_on_spark
    def test_a_position_behind_the_end_that_is_available_now_is_a_loss(
        self, trial: SourceTrial
    ) -> None:
        """Rows that were read are gone, so the next rows would take their positions."""
        trial.write_split(2)
        trial.follow()
        trial.cut_split(1, ROWS_PER_SPLIT // 2)
        trial.run_to_loss(Boundedness.CONTINUOUS_UNBOUNDED)
        trial.assert_complete()

    @case(
        Capability.BOUNDED,
        Capability.CUT_SPLITS,
        since="1.5",
        after="test_a_driver_that_fails_is_restarted_exactly",
    )
    @pytest.mark.slow_on_spark
    def test_a_bounded_split_that_is_cut_behind_its_position_is_a_loss(
        self, trial: SourceTrial
    ) -> None:
        trial.write_split()
        half = ROWS_PER_SPLIT // 2
        few = ReadLimits(rows=half)
        fault = Fault(
            FaultPoint.AFTER_PLAN, action=FaultAction.RAISE, nth=2, once=trial.root / "failed"
        )
        with injected(fault), trial.pipeline(Boundedness.BOUNDED, limits=few) as pipeline:
            trial.run_to_failure(pipeline)
        assert fault.fired
        trial.cut_split(0, half // 2)
        trial.run_to_loss(Boundedness.BOUNDED)
        assert trial.sink.read().num_rows == half

    # --- Splits that cannot be read ---------------------------------------------------------------

    @case(
        Capability.BOUNDED,
        Capability.SKIPPED_SPLITS,
        since="1.5",
        after="test_a_task_that_fails_is_repeated_exactly",
    )
    @pytest.mark.slow_on_spark
    def test_a_split_that_cannot_be_read_is_skipped_and_reported(
        self, trial: SourceTrial, caplog: pytest.LogCaptureFixture
    ) -> None:
        """It is a dead letter, counts in a metric, and is named in the log."""
        trial.write_split(2)
        trial.spoil_split(1)
        letters = DirectorySink(trial.root / "letters")
        policy = RecordPolicy.dead_letter(letters)
        caplog.set_level(logging.WARNING)
        with trial.skipping(record_policy=policy) as pipeline:
            trial.run_to_end(pipeline)
            (status,) = pipeline.status().sources
        assert status.counters.get(SourceMetric.UNREADABLE_SPLITS) == 1, "no metric counts it"
        (letter,) = letters.read().to_pylist() or [None]
        assert letter is not None, "it is no dead letter"
        if not self.on_spark:
            named = (each.getMessage() for each in caplog.records)
            assert any(letter["split_id"] in each for each in named), "no line in the log names it"
        trial.assert_others_complete(1)

    @case(
        Capability.BOUNDED,
        Capability.SKIPPED_SPLITS,
        since="1.5",
        after=(
            "test_a_split_that_cannot_be_read_is_skipped_and_reported",
            "test_a_driver_that_fails_is_restarted_exactly",
        ),
    )
    @pytest.mark.slow_on_spark
    def test_a_split_that_can_no_longer_be_read_when_it_is_repeated_stops_nothing(
        self, trial: SourceTrial
    ) -> None:
        """Its rows were read, but a driver failed before they were written."""
        trial.write_split(2)
        fault = Fault(
            FaultPoint.BEFORE_DECISION, action=FaultAction.RAISE, once=trial.root / "failed"
        )
        with injected(fault), trial.skipping() as pipeline:
            trial.run_to_failure(pipeline)
        assert fault.fired
        trial.spoil_split(1)
        with trial.skipping() as pipeline:
            trial.run_to_end(pipeline)
        trial.assert_others_complete(1)

    # --- Outages ----------------------------------------------------------------------------------

    @case(Capability.OUTAGES, since="1.3")
    @pytest.mark.slow_on_spark
    def test_a_system_that_is_not_there_is_named_in_time(self, trial: SourceTrial) -> None:
        """The outage is before the start of the pipeline."""
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
        """The pipeline continues, or fails and restarts after the outage."""
        trial.write_split(3)
        few = ReadLimits(rows=ROWS_PER_SPLIT // 2 if self.on_spark else ROWS_PER_SPLIT // 10)
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
        """An outage during discovery does not mean that there is nothing to read."""
        trial.write_split(3)
        with trial.pipeline(Boundedness.BOUNDED) as pipeline:
            failed = trial.go_through(pipeline, self.outage(outage))
        if failed:
            trial.read_all()
        trial.assert_complete()

    @case(
        Capability.UNBOUNDED,
        Capability.OUTAGES,
        since="1.5",
        after="test_a_restart_goes_on_with_as_many_more_or_fewer_readers",
    )
    @pytest.mark.slow_on_spark
    def test_first_responses_that_are_late_in_every_life_lose_nothing(
        self, trial: SourceTrial
    ) -> None:
        """A connection, a login, and the first query take longer than a plan waits for rows."""
        trial.write_split(2)
        with self.late_first_responses():
            trial.follow()
            trial.write_split()
            trial.follow()
        trial.assert_complete()
