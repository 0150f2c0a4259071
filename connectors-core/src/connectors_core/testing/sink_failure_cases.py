# SPDX-License-Identifier: Apache-2.0
"""Cases of a sink: failures of tasks and drivers, bad records, and outages."""

from __future__ import annotations

import contextlib
from typing import Final

import pytest

from connectors_core.testing.capabilities import Capability
from connectors_core.testing.cases import case
from connectors_core.testing.data import assert_at_least, assert_exactly
from connectors_core.testing.failing_commit import (
    with_failing_commit,
    with_interrupted_commit,
    with_lost_commit,
)
from connectors_core.testing.faults import (
    DECIDED_FREEZES,
    REWRITING_POINTS,
    SUCCESSORS,
    UNDECIDED_FREEZES,
    WRITING_POINTS,
    Fault,
    FaultAction,
    FaultPoint,
    injected,
)
from connectors_core.testing.meetings import meetings
from connectors_core.testing.outages import Outage
from connectors_core.testing.sink_trial import MANY_PLANS, SinkTrial
from connectors_core.testing.trial import (
    WRONG_CLOCKS,
    PipelineSuite,
    in_full_on_spark,
    outages,
    time_for,
)

# The pairs of driver states that every run tests.
WRITING_MEETINGS: Final = frozenset(
    {
        (FaultPoint.BEFORE_DECISION, "decides"),
        (FaultPoint.AFTER_DECISION, "commits"),
        (FaultPoint.BEFORE_SWEEP, "decides"),
    }
)


class SinkFailureCases(PipelineSuite, part=True):
    """Cases that write to a sink during failures."""

    # --- Failures ---------------------------------------------------------------------------------

    @case(
        after=(
            "test_all_rows_arrive_as_they_were",
            "test_nothing_is_visible_before_its_epoch_is_decided",
        )
    )
    @pytest.mark.parametrize(
        "point",
        [
            in_full_on_spark(FaultPoint.WRITER_WROTE),
            in_full_on_spark(FaultPoint.BEFORE_PREPARE),
            FaultPoint.AFTER_PREPARE,
        ],
    )
    def test_a_writer_that_fails_is_repeated(self, trial: SinkTrial, point: FaultPoint) -> None:
        fault = Fault(point, action=FaultAction.RAISE, once=trial.root / "failed")
        with injected(fault):
            trial.write_all()
        assert fault.fired
        trial.assert_complete()

    @case(Capability.WORKERS_CAN_DIE, after="test_a_writer_that_fails_is_repeated")
    def test_a_worker_that_is_killed_is_replaced(self, trial: SinkTrial) -> None:
        fault = trial.death_of_a_worker(FaultPoint.WRITER_WROTE)
        with injected(fault):
            trial.write_all()
        assert fault.fired
        trial.assert_complete()

    @case(
        after=(
            "test_nothing_is_visible_before_its_epoch_is_decided",
            "test_a_restart_goes_on_with_as_many_more_or_fewer_writers",
        )
    )
    @pytest.mark.parametrize(
        "point",
        [
            in_full_on_spark(FaultPoint.BEFORE_DECISION),
            FaultPoint.AFTER_DECISION,
            in_full_on_spark(FaultPoint.BEFORE_COMMIT),
            in_full_on_spark(FaultPoint.AFTER_COMMIT),
            in_full_on_spark(FaultPoint.AFTER_DONE),
            in_full_on_spark(FaultPoint.BEFORE_SPARK_COMMIT),
        ],
    )
    @pytest.mark.cell
    def test_a_driver_that_fails_is_restarted(self, trial: SinkTrial, point: FaultPoint) -> None:
        fault = Fault(point, action=FaultAction.RAISE, nth=2, once=trial.root / "failed")
        with injected(fault), trial.pipeline() as pipeline:
            trial.run_to_failure(pipeline)
        assert fault.fired
        trial.write_all()
        trial.assert_complete()

    @case(Capability.EXACTLY_ONCE, after="test_a_driver_that_fails_is_restarted")
    def test_a_commit_that_fails_in_its_middle_is_finished(self, trial: SinkTrial) -> None:
        """The driver fails after some commits of an epoch, and the next driver commits the rest."""
        marker = trial.root / "failed"
        job = trial.job(sink=with_failing_commit(trial.context.create_sink(), marker))
        with job.build(trial.environment) as pipeline:
            failure = trial.go_through(pipeline, None)
        if failure is None and all(len(trial.decided(epoch)) < 2 for epoch in trial.epochs()):
            pytest.skip("no epoch has several committables")
        assert marker.exists()
        with job.build(trial.environment) as pipeline:
            trial.run_to_end(pipeline)
        trial.assert_complete()

    @case(
        Capability.REWRITING,
        since="1.1",
        after=("test_all_rows_arrive_as_they_were", "test_a_driver_that_fails_is_restarted"),
    )
    @pytest.mark.parametrize(
        "point", [None, *(in_full_on_spark(point) for point in REWRITING_POINTS)]
    )
    def test_what_is_lost_in_an_epoch_is_written_again(
        self, trial: SinkTrial, point: FaultPoint | None
    ) -> None:
        """The loss happens before the commit, as by an expiry.

        The driver fails during the rewrite.
        """
        marker = trial.root / "lost"
        sink = with_lost_commit(trial.context.create_sink(), marker, trial.context.lose)
        job = trial.job(sink=sink)
        if point is not None:
            fault = Fault(point, action=FaultAction.RAISE, once=trial.root / "failed")
            with injected(fault), job.build(trial.environment) as pipeline:
                trial.run_to_failure(pipeline)
            assert fault.fired
        with job.build(trial.environment) as pipeline:
            trial.run_to_end(pipeline)
        assert marker.exists()
        trial.assert_complete()

    @case(Capability.REWRITING, since="1.1", after="test_what_is_lost_in_an_epoch_is_written_again")
    def test_what_is_lost_while_no_driver_runs_is_written_again(self, trial: SinkTrial) -> None:
        """The replay of its batch rewrites it."""
        trial.lose_an_epoch()
        trial.write_all()
        trial.assert_complete()

    @case(after=("test_a_writer_that_fails_is_repeated", "test_a_driver_that_fails_is_restarted"))
    @pytest.mark.slow
    @pytest.mark.separate_drivers
    @time_for(len(WRITING_POINTS) + 1)
    def test_drivers_killed_at_point_after_point_lose_and_double_nothing(
        self, trial: SinkTrial
    ) -> None:
        """Real processes, SIGKILL: the crash matrix as a chain."""
        job = trial.job(plans=MANY_PLANS)
        trial.kill_at_each(job, WRITING_POINTS, trial.assert_complete)

    @case(
        since="1.3",
        after=("test_a_writer_that_fails_is_repeated", "test_a_driver_that_fails_is_restarted"),
    )
    @pytest.mark.parametrize(
        ("point", "successor"),
        meetings(UNDECIDED_FREEZES, DECIDED_FREEZES, always=WRITING_MEETINGS),
    )
    @pytest.mark.slow_on_spark
    @pytest.mark.separate_drivers
    def test_a_driver_that_was_frozen_resumes_beside_its_successor(
        self, trial: SinkTrial, point: FaultPoint, successor: str
    ) -> None:
        """SIGSTOP, a takeover, SIGCONT: neither driver damages the other's output."""
        job = trial.job(plans=MANY_PLANS)
        trial.take_over_from_frozen(job, point, SUCCESSORS[successor], trial.assert_rows)
        trial.assert_complete()

    @case(
        Capability.REWRITING,
        since="1.3",
        after=(
            "test_what_is_lost_while_no_driver_runs_is_written_again",
            "test_a_driver_that_was_frozen_resumes_beside_its_successor",
        ),
    )
    @pytest.mark.parametrize(
        ("point", "during"),
        [
            (FaultPoint.BEFORE_REWRITE_RECORD, FaultPoint.BEFORE_REWRITE_RECORD),
            pytest.param(FaultPoint.BEFORE_REWRITE_RECORD, None, marks=pytest.mark.slow),
            pytest.param(FaultPoint.AFTER_REWRITE_RECORD, None, marks=pytest.mark.slow),
        ],
    )
    @pytest.mark.slow_on_spark
    @pytest.mark.separate_drivers
    def test_a_driver_that_was_frozen_while_it_writes_again_resumes_beside_its_successor(
        self, trial: SinkTrial, point: FaultPoint, during: FaultPoint | None
    ) -> None:
        """Whichever driver rewrites the decision first, the rows are visible once."""
        trial.lose_an_epoch()
        trial.take_over_from_frozen(trial.job(), point, during, trial.assert_rows)
        trial.assert_complete()

    @case(
        since="1.3",
        after=("test_a_writer_that_fails_is_repeated", "test_a_driver_that_fails_is_restarted"),
    )
    @pytest.mark.parametrize("point", [FaultPoint.WRITER_WROTE, FaultPoint.AFTER_DECISION])
    @pytest.mark.slow_on_spark
    def test_full_storage_loses_and_doubles_nothing(
        self, trial: SinkTrial, point: FaultPoint
    ) -> None:
        """Storage is full from a point on: no report, decision, or done mark is written."""
        trial.run_out_of_space(trial.job(), point)
        trial.write_all()
        trial.assert_complete()

    @case(Capability.EXACTLY_ONCE, since="1.3", after="test_full_storage_loses_and_doubles_nothing")
    @pytest.mark.slow_on_spark
    def test_state_of_which_a_file_is_lost_is_refused(self, trial: SinkTrial) -> None:
        """No connector can break this, because the check precedes all calls of the connector."""
        job = trial.job()
        trial.fail_at(job, FaultPoint.AFTER_DONE)
        written = trial.context.read_back()
        # The newest decision, which only a done mark reveals, and one in the middle.
        trial.lose_state(job, ("decisions", -1), ("decisions", 1))
        assert_exactly(trial.context.read_back(), [written])
        trial.write_all()
        trial.assert_complete()

    @case(
        since="1.3",
        after=("test_a_writer_that_fails_is_repeated", "test_a_driver_that_fails_is_restarted"),
    )
    @pytest.mark.parametrize("hours", WRONG_CLOCKS)
    @pytest.mark.slow_on_spark
    @pytest.mark.separate_drivers
    def test_a_driver_with_another_clock_takes_over(self, trial: SinkTrial, hours: int) -> None:
        """Prepared data of a killed driver is committed in time, even if its clock was wrong."""
        trial.kill_with_wrong_clock(trial.job(), hours)
        trial.write_all()
        trial.assert_complete()

    @case(
        Capability.EXACTLY_ONCE,
        Capability.COMMITTED_EPOCHS,
        since="1.5",
        after="test_a_driver_that_fails_is_restarted",
    )
    @pytest.mark.slow_on_spark
    def test_state_that_is_older_than_the_output_is_named_before_rows_are_written_again(
        self, trial: SinkTrial, caplog: pytest.LogCaptureFixture
    ) -> None:
        """A backup is restored, although the pipeline has continued after it."""
        warning = "sink 'out' has output of epoch"
        job = trial.job()
        trial.fail_at(job, FaultPoint.AFTER_DONE)
        restored = trial.restored_backup(job)
        trial.write_all()
        assert warning not in caplog.text, "its own state is called older"
        fault = Fault(
            FaultPoint.BEFORE_DECISION, action=FaultAction.RAISE, once=trial.root / "decides"
        )
        with injected(fault), restored.build(trial.environment) as pipeline:
            trial.run_to_failure(pipeline)
        assert fault.fired, "older state is refused"
        assert warning in caplog.text, "no warning precedes the first decision"
        assert_exactly(trial.context.read_back(), trial.expected())
        with restored.build(trial.environment) as pipeline:
            trial.run_to_end(pipeline)
        assert_at_least(trial.context.read_back(), trial.expected())

    @case(after="test_all_rows_arrive_as_they_were")
    def test_a_batch_that_is_run_again_is_not_written_again(self, trial: SinkTrial) -> None:
        trial.write_all()
        trial.environment.forget_last_batch(trial.location)
        trial.write_all()
        trial.assert_complete()

    @case(after="test_all_rows_arrive_as_they_were")
    def test_a_finished_pipeline_writes_nothing_more(self, trial: SinkTrial) -> None:
        for _ in range(2):
            with trial.pipeline() as pipeline:
                trial.run_to_end(pipeline)
        trial.assert_complete()

    # --- Outages ----------------------------------------------------------------------------------

    @case(Capability.OUTAGES, since="1.3")
    @pytest.mark.slow_on_spark
    def test_a_system_that_is_not_there_is_named_in_time(self, trial: SinkTrial) -> None:
        """The outage is before the start of the pipeline."""
        self.assert_named_in_time(trial.context.create_sink())

    @case(
        Capability.OUTAGES,
        since="1.3",
        after=("test_a_writer_that_fails_is_repeated", "test_a_driver_that_fails_is_restarted"),
    )
    @pytest.mark.parametrize("outage", outages(on_spark=Outage.STOPPED))
    def test_an_outage_while_rows_are_written_loses_nothing(
        self, trial: SinkTrial, outage: Outage
    ) -> None:
        """The pipeline continues, or fails and restarts after the outage."""
        if trial.write_through(self.outage(outage)):
            trial.write_all()
        trial.assert_complete()

    @case(
        Capability.EXACTLY_ONCE,
        Capability.OUTAGES,
        since="1.3",
        after=(
            "test_a_commit_that_fails_in_its_middle_is_finished",
            "test_an_outage_while_rows_are_written_loses_nothing",
        ),
    )
    @pytest.mark.parametrize(
        "outage", [in_full_on_spark(Outage.STOPPED), in_full_on_spark(Outage.DISCONNECTED)]
    )
    def test_an_outage_in_a_commit_loses_and_doubles_nothing(
        self, trial: SinkTrial, outage: Outage
    ) -> None:
        """This driver or the next one commits decided data after the outage."""
        with contextlib.ExitStack() as begun:

            def begin() -> None:
                begun.enter_context(self.outage(outage))

            sink = trial.context.create_sink()
            job = trial.job(sink=with_interrupted_commit(sink, trial.root / "begun", begin))
            with job.build(trial.environment) as pipeline:
                failed = trial.go_through(pipeline, None)
        assert (trial.root / "begun").exists()
        if failed:
            trial.write_all()
        trial.assert_complete()

    @case(
        Capability.OUTAGES,
        since="1.5",
        after=(
            "test_a_driver_that_fails_is_restarted",
            "test_an_outage_while_rows_are_written_loses_nothing",
        ),
    )
    @pytest.mark.slow_on_spark
    def test_first_responses_that_are_late_in_every_life_lose_nothing(
        self, trial: SinkTrial
    ) -> None:
        """The second driver commits rows of the first one, and both of them write."""
        job = trial.job(plans=2)
        fault = Fault(
            FaultPoint.AFTER_DECISION, action=FaultAction.RAISE, once=trial.root / "failed"
        )
        with self.late_first_responses():
            with injected(fault), job.build(trial.environment) as pipeline:
                trial.run_to_failure(pipeline)
            assert fault.fired
            with job.build(trial.environment) as pipeline:
                trial.run_to_end(pipeline)
        trial.assert_complete()
