# SPDX-License-Identifier: Apache-2.0
"""The suite that every sink passes: subclass it and supply an external context."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import itertools
import logging
import pickle
import threading
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pytest

from connectors_core.engine.coordinator.plan_log import decisions_since, newest_decision
from connectors_core.engine.state import StateStore
from connectors_core.sink import Sink
from connectors_core.source import DataGeneratorSource, PlanLimits
from connectors_core.source.source import AnySource
from connectors_core.spark.status import PipelineState
from connectors_core.testing.capabilities import Capability
from connectors_core.testing.cases import case
from connectors_core.testing.context import ROWS, SinkExternalContext
from connectors_core.testing.data import (
    assert_at_least,
    assert_exactly,
    assert_same_values,
    make_rows,
)
from connectors_core.testing.data_types import (
    DATA_TYPES,
    HARD_VALUES,
    example_of,
    hard_values_of,
)
from connectors_core.testing.driver import DriverJob
from connectors_core.testing.environment import TestEnvironment
from connectors_core.testing.failing_commit import (
    with_failing_commit,
    with_interrupted_commit,
    with_lost_commit,
)
from connectors_core.testing.faults import (
    REWRITING_POINTS,
    SUCCESSORS,
    WRITING_FREEZES,
    WRITING_POINTS,
    Fault,
    FaultAction,
    FaultPoint,
    injected,
)
from connectors_core.testing.outages import FAILING, LEAVING, Outage
from connectors_core.testing.topologies import Topology, Watch
from connectors_core.testing.traces import assert_unseen, error_texts, nothing_left
from connectors_core.testing.trial import (
    WRONG_CLOCKS,
    PipelineSuite,
    Trial,
    in_full_on_spark,
    meetings,
    outages,
)

# Most of what a case costs on Spark are its micro-batches: a few where that is enough.
TOTAL: Final = 120
PLANS: Final = 4
MANY_PLANS: Final = 10
FURTHER: Final = pa.field("extra", pa.string())
# Which meetings of two drivers every run has.
WRITING_MEETINGS: Final = frozenset(
    {
        (FaultPoint.BEFORE_DECISION, "decides"),
        (FaultPoint.AFTER_DECISION, "commits"),
        (FaultPoint.BEFORE_SWEEP, "decides"),
    }
)


class SinkTestSuite(PipelineSuite):
    """Cases for a sink. Derive, name what the connector can do, and supply a context."""

    judged_by = frozenset({Capability.EXACTLY_ONCE})

    @abstractmethod
    def external_context(self, folder: Path) -> SinkExternalContext:
        """A new external system for one case; ``folder`` is its own."""

    @pytest.fixture
    def trial(self, environment: TestEnvironment, tmp_path: Path) -> Iterator[SinkTrial]:
        """One case's external system, pipelines and rows."""
        exactly_once = Capability.EXACTLY_ONCE in self.capabilities.can
        with contextlib.ExitStack() as stack:

            def context(name: str) -> SinkExternalContext:
                folder = tmp_path / name
                folder.mkdir()
                return stack.enter_context(contextlib.closing(self.external_context(folder)))

            trial = SinkTrial(environment, context, tmp_path, self.seed, exactly_once)
            trial.system = None if self.system is None else type(self.system)
            yield trial

    # --- Topologies -----------------------------------------------------------------------------

    @case(Capability.TOPOLOGIES, since="1.3")
    def test_rows_pass_the_pre_write_topology_once(self, trial: SinkTrial) -> None:
        """Each epoch's own job takes all of its rows, and gives the same ones to the writers."""
        watch = trial.watch(Topology.PRE_WRITE)
        trial.write_all(sink=watch.over(trial.context.create_sink()))
        passes = watch.passes[Topology.PRE_WRITE]
        for each in passes:
            assert each.result == each.given, "the topology changes which rows are written"
        expected = [(row["split"], row["seq"]) for t in trial.expected() for row in t.to_pylist()]
        assert sorted(row for each in passes for row in each.given) == sorted(expected)

    # --- Writing --------------------------------------------------------------------------------

    @case(after="test_rows_pass_the_pre_write_topology_once")
    @pytest.mark.parametrize("parallelism", [in_full_on_spark(1), 3])
    @pytest.mark.cell
    def test_all_rows_arrive_as_they_were(self, trial: SinkTrial, parallelism: int) -> None:
        """Flink's ``testBasicSink``."""
        trial.write_all(parallelism=parallelism)
        trial.assert_complete()

    @case(after="test_all_rows_arrive_as_they_were")
    @pytest.mark.slow_on_spark
    def test_counts_are_those_of_the_rows(self, trial: SinkTrial) -> None:
        """Flink's ``testMetrics``."""
        with trial.pipeline() as pipeline:
            trial.run_to_end(pipeline)
            (sink,) = pipeline.status().sinks
        assert sink.rows == TOTAL
        assert sink.bytes > 0
        assert sink.pending == sink.failed == sink.skipped == sink.dead_letters == 0

    @case(after="test_all_rows_arrive_as_they_were")
    def test_two_sinks_of_one_kind_do_not_touch_each_other(self, trial: SinkTrial) -> None:
        other = trial.new_context("other")
        trial.write_all(other=other.create_sink())
        trial.assert_complete()
        trial.assert_complete(other)

    @case(after="test_all_rows_arrive_as_they_were")
    @pytest.mark.slow_on_spark
    def test_nulls_arrive_as_nulls(self, trial: SinkTrial) -> None:
        trial.write_all(nulls=True)
        texts = trial.context.read_back()["text"]
        assert texts.null_count == TOTAL // 2

    @case(Capability.DATA_TYPES, after="test_nulls_arrive_as_nulls")
    @pytest.mark.parametrize("data_type", DATA_TYPES)
    @pytest.mark.slow_on_spark
    def test_values_of_every_type_arrive_as_they_were(
        self, trial: SinkTrial, data_type: str
    ) -> None:
        self._assert_written_as_it_was(trial, example_of(data_type))

    @case(
        Capability.DATA_TYPES,
        since="1.3",
        after="test_values_of_every_type_arrive_as_they_were",
    )
    @pytest.mark.parametrize(("data_type", "values"), HARD_VALUES)
    @pytest.mark.slow_on_spark
    def test_values_that_are_hard_to_keep_arrive_as_they_were(
        self, trial: SinkTrial, data_type: str, values: str
    ) -> None:
        self._assert_written_as_it_was(trial, hard_values_of(data_type, values))

    def _assert_written_as_it_was(self, trial: SinkTrial, rows: pa.Table) -> None:
        with trial.job_of(rows).build(trial.environment) as pipeline:
            trial.run_to_end(pipeline)
        assert_same_values(trial.context.read_back(rows.schema), rows)

    @case()
    def test_a_sink_survives_pickling(self, trial: SinkTrial) -> None:
        sink = trial.context.create_sink()
        assert type(pickle.loads(pickle.dumps(sink))) is type(sink)

    # --- Topologies of commits ------------------------------------------------------------------

    @case(Capability.TOPOLOGIES, since="1.3", after="test_all_rows_arrive_as_they_were")
    @pytest.mark.slow_on_spark
    def test_what_the_pre_commit_topology_gives_is_decided_on(self, trial: SinkTrial) -> None:
        """Once for each epoch, as it is after its way through the decision."""
        watch = trial.watch(Topology.PRE_COMMIT)
        trial.write_all(sink=watch.over(trial.context.create_sink()))
        passes = watch.passes[Topology.PRE_COMMIT]
        assert [each.epoch for each in passes] == trial.epochs()
        for each in passes:
            assert trial.decided(each.epoch) == each.result

    @case(Capability.TOPOLOGIES, since="1.3", after="test_all_rows_arrive_as_they_were")
    @pytest.mark.slow_on_spark
    def test_what_is_committed_passes_the_post_commit_topology(self, trial: SinkTrial) -> None:
        """Once for each epoch, when its rows are visible."""
        watch = trial.watch(Topology.POST_COMMIT)
        trial.write_all(sink=watch.over(trial.context.create_sink()))
        passes = watch.passes[Topology.POST_COMMIT]
        assert [each.epoch for each in passes] == trial.epochs()
        for each in passes:
            assert each.given == trial.decided(each.epoch)
            assert each.before == trial.rows_decided(each.epoch), (
                f"rows visible when the post-commit topology of epoch {each.epoch} begins"
            )
        trial.assert_post_committed()

    @case(
        Capability.TOPOLOGIES,
        since="1.3",
        after=(
            "test_what_the_pre_commit_topology_gives_is_decided_on",
            "test_what_is_committed_passes_the_post_commit_topology",
        ),
    )
    @pytest.mark.parametrize("place", ["before", "after"])
    @pytest.mark.parametrize("topology", Topology)
    @pytest.mark.slow_on_spark
    def test_a_driver_that_fails_at_a_topology_is_restarted(
        self, trial: SinkTrial, topology: Topology, place: str
    ) -> None:
        """What is decided is not reworked; what is committed passes what follows it again."""
        sink = trial.context.create_sink()
        watch = trial.watch(topology, fails_before=place == "before")
        with trial.pipeline(sink=watch.over(sink)) as pipeline:
            trial.run_to_failure(pipeline)
        assert watch.marker.exists()
        decided = trial.epochs()
        before = len(watch.passes[Topology.PRE_COMMIT])
        trial.write_all(sink=watch.over(sink))
        reworked = [each.epoch for each in watch.passes[Topology.PRE_COMMIT][before:]]
        assert not set(reworked) & set(decided), f"{reworked} are reworked, decided was {decided}"
        if topology is Topology.POST_COMMIT:
            passed = [each.epoch for each in watch.passes[topology]]
            assert passed.count(decided[-1]) == (1 if place == "before" else 2)
        trial.assert_complete()
        if Topology.POST_COMMIT.is_of(sink):
            trial.assert_post_committed()

    # --- Visibility -----------------------------------------------------------------------------

    @case(
        Capability.EXACTLY_ONCE,
        after=(
            "test_all_rows_arrive_as_they_were",
            "test_a_driver_that_fails_at_a_topology_is_restarted",
        ),
    )
    def test_nothing_is_visible_before_its_epoch_is_decided(self, trial: SinkTrial) -> None:
        fault = Fault(
            FaultPoint.BEFORE_DECISION, action=FaultAction.RAISE, once=trial.root / "failed"
        )
        with injected(fault), trial.pipeline() as pipeline:
            trial.run_to_failure(pipeline)
        assert fault.fired
        assert trial.context.read_back().num_rows == 0
        trial.write_all()
        trial.assert_complete()

    # --- Restarts -------------------------------------------------------------------------------

    @case(after="test_all_rows_arrive_as_they_were")
    @pytest.mark.parametrize(
        ("before", "after"), [in_full_on_spark(2, 2), (2, 4), in_full_on_spark(4, 2)]
    )
    def test_a_restart_goes_on_with_as_many_more_or_fewer_writers(
        self, trial: SinkTrial, before: int, after: int
    ) -> None:
        """Flink's ``testStartFromSavepoint``, ``testScaleUp`` and ``testScaleDown``."""
        trial.write_some(parallelism=before)
        trial.write_all(parallelism=after)
        trial.assert_complete()

    @case(
        Capability.SCHEMA_CHANGE,
        after="test_a_restart_goes_on_with_as_many_more_or_fewer_writers",
    )
    @pytest.mark.slow_on_spark
    def test_rows_with_a_further_column_from_a_restart_on(self, trial: SinkTrial) -> None:
        with trial.pipeline() as pipeline:
            pipeline.start()
            trial.wait(lambda: pipeline.status().queries[0].epoch is not None, "rows", pipeline)
        with trial.job(further_column=True).build(trial.environment) as pipeline:
            trial.run_to_end(pipeline)
        found = trial.context.read_back(ROWS.append(FURTHER))
        assert_exactly(found.select(ROWS.names), trial.expected())
        texts, extra = found["text"].to_pylist(), found["extra"].to_pylist()
        assert None in extra, "rows of before have the further column"
        assert any(extra), "no row has the further column"
        assert all(value in (None, text) for value, text in zip(extra, texts, strict=True))

    # --- Failures -------------------------------------------------------------------------------

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
        """Some of an epoch is committed when the driver fails; the next one commits the rest."""
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
        """Before its commit, as by an expiry; at a point the driver fails while it mends that."""
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
        """By the replay of its batch."""
        trial.lose_an_epoch()
        trial.write_all()
        trial.assert_complete()

    @case(after=("test_a_writer_that_fails_is_repeated", "test_a_driver_that_fails_is_restarted"))
    @pytest.mark.slow
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
    @pytest.mark.parametrize(("point", "successor"), meetings(WRITING_FREEZES, WRITING_MEETINGS))
    @pytest.mark.slow_on_spark
    def test_a_driver_that_was_frozen_resumes_beside_its_successor(
        self, trial: SinkTrial, point: FaultPoint, successor: str
    ) -> None:
        """SIGSTOP, a takeover, SIGCONT: neither loses, doubles or breaks what the other writes."""
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
    def test_a_driver_that_was_frozen_while_it_writes_again_resumes_beside_its_successor(
        self, trial: SinkTrial, point: FaultPoint, during: FaultPoint | None
    ) -> None:
        """Whichever of the two amends the decision first, its rows are there once."""
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
        """No report, decision or done mark can be written from a point on, until there is space."""
        trial.run_out_of_space(trial.job(), point)
        trial.write_all()
        trial.assert_complete()

    @case(Capability.EXACTLY_ONCE, since="1.3", after="test_full_storage_loses_and_doubles_nothing")
    @pytest.mark.slow_on_spark
    def test_state_of_which_a_file_is_lost_is_refused(self, trial: SinkTrial) -> None:
        """No connector can break it: none of its parts is asked before the state is judged."""
        job = trial.job()
        trial.fail_at(job, FaultPoint.AFTER_DONE)
        written = trial.context.read_back()
        # The newest decision, of which only a done mark tells; one in the middle.
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
    def test_a_driver_with_another_clock_takes_over(self, trial: SinkTrial, hours: int) -> None:
        """What a killed one has prepared is committed, an hour old or to come, and in time."""
        trial.kill_with_wrong_clock(trial.job(), hours)
        trial.write_all()
        trial.assert_complete()

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

    # --- Outages --------------------------------------------------------------------------------

    @case(Capability.OUTAGES, since="1.3")
    @pytest.mark.slow_on_spark
    def test_a_system_that_is_not_there_is_named_in_time(self, trial: SinkTrial) -> None:
        """Before the pipeline starts."""
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
        """The pipeline goes on, or fails and is started again when the system is back."""
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
        """What was decided is committed when the system is back, by this driver or the next."""
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

    # --- State of writers -----------------------------------------------------------------------

    @case(Capability.WRITER_STATE, since="1.2", after="test_all_rows_arrive_as_they_were")
    def test_writers_go_on_from_their_states(self, trial: SinkTrial) -> None:
        trial.write_all()
        trial.assert_states()

    @case(
        Capability.WRITER_STATE,
        since="1.2",
        after=(
            "test_writers_go_on_from_their_states",
            "test_a_writer_that_fails_is_repeated",
            "test_a_driver_that_fails_is_restarted",
        ),
    )
    @pytest.mark.parametrize(
        "point",
        [
            in_full_on_spark(FaultPoint.AFTER_PREPARE),
            FaultPoint.BEFORE_DECISION,
            in_full_on_spark(FaultPoint.AFTER_DECISION),
            in_full_on_spark(FaultPoint.BEFORE_SPARK_COMMIT),
        ],
    )
    def test_the_state_of_what_is_written_again_is_never_seen(
        self, trial: SinkTrial, point: FaultPoint
    ) -> None:
        """An attempt or a driver fails; who comes next begins with what was decided."""
        fault = Fault(point, action=FaultAction.RAISE, nth=2, once=trial.root / "failed")
        repeated = point is FaultPoint.AFTER_PREPARE  # by Spark, and the driver goes on
        with injected(fault), trial.pipeline() as pipeline:
            (trial.run_to_end if repeated else trial.run_to_failure)(pipeline)
        assert fault.fired
        trial.write_all()
        trial.assert_states()

    @case(
        Capability.WRITER_STATE,
        since="1.2",
        after=(
            "test_the_state_of_what_is_written_again_is_never_seen",
            "test_a_restart_goes_on_with_as_many_more_or_fewer_writers",
        ),
    )
    @pytest.mark.parametrize(("before", "after"), [(1, 3), in_full_on_spark(4, 2)])
    def test_states_are_dealt_out_to_more_or_fewer_writers(
        self, trial: SinkTrial, before: int, after: int
    ) -> None:
        trial.write_some(writers=before)
        trial.write_all(writers=after)
        trial.assert_complete()
        trial.assert_states()

    @case(
        Capability.WRITER_STATE,
        since="1.2",
        after="test_the_state_of_what_is_written_again_is_never_seen",
    )
    @pytest.mark.slow
    def test_states_outlive_drivers_killed_at_point_after_point(self, trial: SinkTrial) -> None:
        job = trial.job(plans=len(WRITING_POINTS) + 2)
        trial.kill_at_each(job, WRITING_POINTS, trial.assert_states)

    # --- What is left, what is seen -------------------------------------------------------------

    @case(Capability.ONE_PROCESS, after="test_all_rows_arrive_as_they_were")
    def test_no_thread_handle_or_temporary_file_is_left(self, trial: SinkTrial) -> None:
        with nothing_left(trial.root / "temporary"):
            trial.write_all()
        trial.assert_complete()

    @case(Capability.SECRETS, after="test_a_driver_that_fails_is_restarted")
    def test_a_secret_is_seen_nowhere(
        self,
        trial: SinkTrial,
        caplog: pytest.LogCaptureFixture,
        capfd: pytest.CaptureFixture[str],
    ) -> None:
        """Not in a log, report, decision, status, exception or repr."""
        sink = trial.context.create_sink()
        trial.look_for(trial.context.secrets(), caplog, capfd, sink, lambda: trial.job(sink=sink))
        trial.assert_complete()

    @case(
        Capability.ONE_PROCESS,
        Capability.OUTAGES,
        since="1.3",
        after=(
            "test_an_outage_while_rows_are_written_loses_nothing",
            "test_no_thread_handle_or_temporary_file_is_left",
        ),
    )
    def test_a_write_that_fails_leaves_nothing(self, trial: SinkTrial) -> None:
        """Handles are closed on the way of a failure, too."""
        with nothing_left(trial.root / "temporary"):
            for outage in LEAVING:
                trial.write_through(self.outage(outage))

    @case(
        Capability.OUTAGES,
        Capability.SECRETS,
        since="1.3",
        after=(
            "test_an_outage_while_rows_are_written_loses_nothing",
            "test_a_secret_is_seen_nowhere",
        ),
    )
    @pytest.mark.slow_on_spark
    def test_no_secret_is_shown_by_a_failure(
        self,
        trial: SinkTrial,
        caplog: pytest.LogCaptureFixture,
        capfd: pytest.CaptureFixture[str],
    ) -> None:
        """Nor by its causes and their notes."""
        caplog.set_level(logging.INFO, logger="py4j")
        caplog.set_level(logging.DEBUG)
        seen = []
        for outage in FAILING:
            failure = trial.write_through(self.outage(outage))
            if failure is not None:
                seen += error_texts(failure)
        seen += [caplog.text, *capfd.readouterr()]
        assert_unseen(trial.context.secrets(), seen, trial.location)


class SinkTrial(Trial):
    """One case at work: its external system, its pipelines, and what was written."""

    def __init__(
        self,
        environment: TestEnvironment,
        new_context: Callable[[str], SinkExternalContext],
        root: Path,
        seed: int,
        exactly_once: bool,
    ) -> None:
        super().__init__(environment, root, seed)
        self.new_context = new_context
        self.context = new_context("external")
        self._exactly_once = exactly_once
        self._outages = itertools.count()

    def expected(self) -> list[pa.Table]:
        """All rows that a pipeline writes."""
        return [make_rows(0, 0, TOTAL, self._seed)]

    def pipeline(self, **settings: Any) -> Any:
        """A pipeline of known rows into the sink; each one goes on from the one before."""
        return self.job(**settings).build(self.environment)

    def write_all(self, **settings: Any) -> None:
        """Run a pipeline to its end."""
        with self.pipeline(**settings) as pipeline:
            self.run_to_end(pipeline)

    def write_some(self, **settings: Any) -> None:
        """Run a pipeline for two epochs or more, and stop it."""
        with self.pipeline(plans=MANY_PLANS, **settings) as pipeline:
            pipeline.start()
            self.wait(
                lambda: (pipeline.status().queries[0].epoch or 0) >= 1, "two epochs", pipeline
            )

    def lose_an_epoch(self) -> None:
        """Run a pipeline until it fails, and lose what it has decided and not committed."""
        fault = Fault(
            FaultPoint.AFTER_DECISION, action=FaultAction.RAISE, nth=2, once=self.root / "failed"
        )
        with injected(fault), self.pipeline() as pipeline:
            self.run_to_failure(pipeline)
        assert fault.fired
        self.context.lose(self.decided(epoch=1))

    def write_through(self, outage: AbstractContextManager[threading.Event]) -> Exception | None:
        """Run a pipeline that meets an outage when it has written some rows and has more in hand.

        Returns:
            What it failed with; None if it came to its end.
        """
        number = next(self._outages)
        begun = self.root / f"outage-{number}"
        held = Fault(
            FaultPoint.READER_FETCHED,
            action=FaultAction.HANG,
            where={"subtask": 0},
            once=self.root / f"held-{number}",
            until=begun,
        )
        with injected(held), self.pipeline() as pipeline, contextlib.ExitStack() as ends:
            ends.callback(begun.touch)
            pipeline.start()

            def has_rows() -> bool:
                (query,) = pipeline.status().queries
                return held.fired or query.state is not PipelineState.RUNNING

            self.wait(has_rows, "rows", pipeline)
            ends.enter_context(outage)
            begun.touch()
            return self.go_through(pipeline, None)

    def job(
        self,
        *,
        parallelism: int = 2,
        plans: int = PLANS,
        sink: Sink | None = None,
        other: Sink | None = None,
        nulls: bool = False,
        further_column: bool = False,
        writers: int | None = None,
    ) -> DriverJob:
        """The same pipeline for a process of its own."""
        source = DataGeneratorSource(
            functools.partial(_generate, self._seed, nulls, further_column),
            TOTAL,
            ROWS.append(FURTHER) if further_column else ROWS,
            split_rows=TOTAL // 8,
            batch_rows=7,
        )
        sinks: dict[str, Sink] = {"out": sink or self.context.create_sink()}
        if other is not None:
            sinks["other"] = other
        return dataclasses.replace(self._job(source, sinks, parallelism, plans), writers=writers)

    def job_of(self, rows: pa.Table) -> DriverJob:
        """A pipeline of these rows into the sink."""
        source = DataGeneratorSource(
            functools.partial(_take, rows), rows.num_rows, rows.schema, batch_rows=2
        )
        return self._job(source, {"out": self.context.create_sink()}, parallelism=1, plans=1)

    def _job(
        self, source: AnySource, sinks: Mapping[str, Sink], parallelism: int, plans: int
    ) -> DriverJob:
        return DriverJob(
            location=str(self.location),
            source=source,
            sinks=sinks,
            settings={"limits": PlanLimits(rows=TOTAL // plans)},
            parallelism=parallelism,
            spark=self.environment.session,
        )

    def watch(self, topology: Topology, *, fails_before: bool | None = None) -> Watch:
        """A watch over the topologies of sinks, for a case of one of them.

        Args:
            topology: Of which the case is; it does not apply to a sink without it.
            fails_before: Whether the driver fails before the topology, or after it; None: not.
        """
        if not topology.is_of(self.context.create_sink()):
            pytest.skip(f"the sink has no {topology} topology")
        return Watch(
            look=lambda: self.context.read_back().num_rows,
            fails_at=None if fails_before is None else topology,
            before=bool(fails_before),
            marker=self.root / "failed",
        )

    def epochs(self) -> list[int]:
        """The epochs that were decided."""
        return sorted(decisions_since(self._store, 0))

    def rows_decided(self, epoch: int) -> int:
        """How many rows were decided on up to an epoch."""
        decisions = decisions_since(self._store, 0)
        return sum(d.sinks["out"].rows for number, d in decisions.items() if number <= epoch)

    def assert_post_committed(self) -> None:
        """The post-commit topology has acted on all that was decided on."""
        committed = [each for epoch in self.epochs() for each in self.decided(epoch)]
        self.context.assert_post_committed(committed)

    def decided(self, epoch: int) -> list[Any]:
        """The committables that an epoch was decided on."""
        sink: Any = self.context.create_sink()
        decided = decisions_since(self._store, epoch)[epoch].sinks["out"]
        stored = [each.committable for each in decided.committables]
        serializer = sink.committable_serializer()
        return [serializer.deserialize(each.version, each.data) for each in stored]

    def assert_states(self) -> None:
        """The states in the newest decision are those of writers that saw each row once."""
        sink: Any = self.context.create_sink()
        newest = newest_decision(self._store)
        decided = decisions_since(self._store, newest)[newest].sinks["out"]
        stored = [each for own in decided.writer_states for each in own]
        serializer = sink.writer_state_serializer()
        states = [serializer.deserialize(each.version, each.data) for each in stored]
        self.context.assert_states(states, TOTAL)

    @property
    def _store(self) -> StateStore:
        return StateStore(str(self.location)).child("query-0")

    def assert_complete(self, context: SinkExternalContext | None = None) -> None:
        """All rows are visible, once if that is promised, and nothing is left over."""
        context = context or self.context
        self.assert_rows(context)
        left = list(context.leftovers())
        assert not left, f"left behind: {', '.join(left[:5])}"

    def assert_rows(self, context: SinkExternalContext | None = None) -> None:
        """All rows are visible, once if that is promised."""
        context = context or self.context
        found = context.read_back()
        if self._exactly_once:
            assert_exactly(found, self.expected())
        else:
            assert_at_least(found, self.expected())


def _generate(seed: int, nulls: bool, further_column: bool, indices: pa.Array) -> pa.RecordBatch:
    """Rows by number; every other one without a text, or all with a further column."""
    numbers = indices.to_pylist()
    rows = pa.concat_tables([make_rows(0, number, 1, seed) for number in numbers])
    if nulls:
        texts = [
            t if n % 2 else None for n, t in zip(numbers, rows["text"].to_pylist(), strict=True)
        ]
        rows = rows.set_column(3, ROWS.field("text"), pa.array(texts, pa.string()))
    if further_column:
        rows = rows.append_column(FURTHER, rows["text"])
    return _only_batch(rows)


def _take(rows: pa.Table, indices: pa.Array) -> pa.RecordBatch:
    return _only_batch(rows.take(indices))


def _only_batch(rows: pa.Table) -> pa.RecordBatch:
    (batch,) = rows.combine_chunks().to_batches()
    return batch
