# SPDX-License-Identifier: Apache-2.0
"""Cases of a sink: writing, topologies, visibility, and restarts."""

from __future__ import annotations

import pickle
from typing import Any

import pyarrow as pa
import pytest

from connectors_core.testing.capabilities import Capability
from connectors_core.testing.cases import case
from connectors_core.testing.context import ROWS
from connectors_core.testing.data import (
    assert_exactly,
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
from connectors_core.testing.faults import (
    Fault,
    FaultAction,
    FaultPoint,
    injected,
)
from connectors_core.testing.sink_trial import FURTHER, TOTAL, SinkTrial
from connectors_core.testing.topologies import Topology
from connectors_core.testing.trial import (
    PipelineSuite,
    in_full_on_spark,
)


class SinkWritingCases(PipelineSuite, part=True):
    """Cases that write to a sink without failures."""

    # --- Topologies -------------------------------------------------------------------------------

    @case(Capability.TOPOLOGIES, since="1.3")
    def test_rows_pass_the_pre_write_topology_once(self, trial: SinkTrial) -> None:
        """The job of each epoch takes all of its rows, and gives the same rows to the writers."""
        watch = trial.watch(Topology.PRE_WRITE)
        trial.write_all(sink=watch.over(trial.context.create_sink()))
        passes = watch.passes[Topology.PRE_WRITE]
        for each in passes:
            assert each.result == each.given, "the topology changes which rows are written"
        expected = [(row["split"], row["seq"]) for t in trial.expected() for row in t.to_pylist()]
        assert sorted(row for each in passes for row in each.given) == sorted(expected)

    # --- Writing ----------------------------------------------------------------------------------

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

    @case(
        Capability.DATA_TYPES,
        since="1.5",
        after="test_values_of_every_type_arrive_as_they_were",
    )
    @pytest.mark.parametrize("column_name", COLUMN_NAMES)
    @pytest.mark.slow_on_spark
    def test_a_column_of_any_name_arrives(self, trial: SinkTrial, column_name: str) -> None:
        """A name is data: it is neither part of a statement nor changed."""
        self._assert_written_as_it_was(trial, named_column(column_name))

    def _assert_written_as_it_was(self, trial: SinkTrial, rows: pa.Table) -> None:
        with trial.job_of(rows).build(trial.environment) as pipeline:
            trial.run_to_end(pipeline)
        assert_same_values(trial.context.read_back(rows.schema), rows)

    @case()
    def test_a_sink_survives_pickling(self, trial: SinkTrial) -> None:
        sink = trial.context.create_sink()
        assert type(pickle.loads(pickle.dumps(sink))) is type(sink)

    # --- Commit topologies ------------------------------------------------------------------------

    @case(Capability.TOPOLOGIES, since="1.3", after="test_all_rows_arrive_as_they_were")
    @pytest.mark.slow_on_spark
    def test_what_the_pre_commit_topology_gives_is_decided_on(self, trial: SinkTrial) -> None:
        """It runs once per epoch, with committables that have been stored in the decision."""
        watch = trial.watch(Topology.PRE_COMMIT)
        trial.write_all(sink=watch.over(trial.context.create_sink()))
        passes = watch.passes[Topology.PRE_COMMIT]
        assert [each.epoch for each in passes] == trial.written_epochs()
        for each in passes:
            assert trial.written(each.epoch) == each.result

    @case(Capability.TOPOLOGIES, since="1.4", after="test_all_rows_arrive_as_they_were")
    @pytest.mark.slow_on_spark
    def test_what_a_topology_holds_over_epochs_is_decided_on_once(self, trial: SinkTrial) -> None:
        """Each later epoch receives the held committables, and none is held at the end."""
        watch = trial.watch(Topology.OVER_EPOCHS)
        trial.write_all(sink=watch.over(trial.context.create_sink()))
        passes = watch.passes[Topology.OVER_EPOCHS]
        waiting: list[Any] = []
        for each in passes:
            assert each.given[: len(waiting)] == waiting
            combined = [held for result in each.result for held in result.held]
            waiting = [held for held in each.given if held not in combined]
            results = [made for result in each.result for made in result.committables]
            assert trial.decided(each.epoch) == results
        assert not waiting
        assert any(each.given and not each.result for each in passes), "nothing is ever held"

    @case(Capability.TOPOLOGIES, since="1.3", after="test_all_rows_arrive_as_they_were")
    @pytest.mark.slow_on_spark
    def test_what_is_committed_passes_the_post_commit_topology(self, trial: SinkTrial) -> None:
        """It runs once per epoch, when the epoch's rows are visible."""
        watch = trial.watch(Topology.POST_COMMIT)
        trial.write_all(sink=watch.over(trial.context.create_sink()))
        passes = watch.passes[Topology.POST_COMMIT]
        assert [each.epoch for each in passes] == trial.epochs()
        for each in passes:
            assert each.given == trial.decided(each.epoch)
            assert trial.rows_decided(each.epoch) in {each.before, None}, (
                f"rows visible when the post-commit topology of epoch {each.epoch} begins"
            )
        trial.assert_post_committed()

    @case(
        Capability.TOPOLOGIES,
        since="1.3",
        after=(
            "test_what_the_pre_commit_topology_gives_is_decided_on",
            "test_what_a_topology_holds_over_epochs_is_decided_on_once",
            "test_what_is_committed_passes_the_post_commit_topology",
        ),
    )
    @pytest.mark.parametrize("place", ["before", "after"])
    @pytest.mark.parametrize("topology", Topology)
    @pytest.mark.slow_on_spark
    def test_a_driver_that_fails_at_a_topology_is_restarted(
        self, trial: SinkTrial, topology: Topology, place: str
    ) -> None:
        """Decided data is not processed again.

        The post-commit topology runs again after a restart.
        """
        sink = trial.context.create_sink()
        watch = trial.watch(topology, fails_before=place == "before")
        with trial.pipeline(sink=watch.over(sink)) as pipeline:
            trial.run_to_failure(pipeline)
        assert watch.marker.exists()
        decided = trial.epochs()
        before = len(watch.passes[Topology.PRE_COMMIT])
        trial.write_all(sink=watch.over(sink))
        reworked = [each.epoch for each in watch.passes[Topology.PRE_COMMIT][before:]]
        assert not set(reworked) & set(decided), (
            f"{reworked} were processed again, but {decided} were decided"
        )
        if topology is Topology.POST_COMMIT:
            passed = [each.epoch for each in watch.passes[topology]]
            assert passed.count(decided[-1]) == (1 if place == "before" else 2)
        trial.assert_complete()
        if Topology.POST_COMMIT.is_of(sink):
            trial.assert_post_committed()

    # --- Visibility -------------------------------------------------------------------------------

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

    # --- Restarts ---------------------------------------------------------------------------------

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

    @case(since="1.5", after="test_a_restart_goes_on_with_as_many_more_or_fewer_writers")
    @pytest.mark.parametrize("point", [FaultPoint.BEFORE_DECISION, FaultPoint.AFTER_DECISION])
    @pytest.mark.slow_on_spark
    def test_a_restart_with_one_changed_option_is_exact_or_refused(
        self, trial: SinkTrial, point: FaultPoint
    ) -> None:
        """One option at a time: nothing is lost or left, and no other output is mixed in."""
        for name in trial.context.changed_sinks():
            trial.restart_with(name, point)

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
        assert None in extra, "earlier rows have the additional column"
        assert any(extra), "no row has the additional column"
        assert all(value in (None, text) for value, text in zip(extra, texts, strict=True))
