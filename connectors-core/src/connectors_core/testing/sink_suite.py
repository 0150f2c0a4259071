# SPDX-License-Identifier: Apache-2.0
"""The suite for sinks. Subclass it and supply an external context."""

from __future__ import annotations

import logging
from abc import abstractmethod
from collections.abc import Iterator
from pathlib import Path

import pytest

from connectors_core.testing.capabilities import Capability
from connectors_core.testing.cases import case
from connectors_core.testing.context import SinkExternalContext
from connectors_core.testing.environment import TestEnvironment
from connectors_core.testing.faults import (
    WRITING_POINTS,
    Fault,
    FaultAction,
    FaultPoint,
    injected,
)
from connectors_core.testing.lineage_names import assert_named_for_lineage
from connectors_core.testing.outages import FAILING, LEAVING
from connectors_core.testing.sink_compaction_cases import SinkCompactionCases
from connectors_core.testing.sink_failure_cases import SinkFailureCases
from connectors_core.testing.sink_trial import SinkTrial
from connectors_core.testing.sink_writing_cases import SinkWritingCases
from connectors_core.testing.traces import assert_unseen, error_texts, nothing_left
from connectors_core.testing.trial import in_full_on_spark, open_contexts, time_for


class SinkTestSuite(SinkCompactionCases, SinkFailureCases, SinkWritingCases):
    """Cases for a sink. Derive from this class, declare the capabilities, and supply a context."""

    judged_by = frozenset({Capability.EXACTLY_ONCE})

    @abstractmethod
    def external_context(self, folder: Path) -> SinkExternalContext:
        """Return a new external system for one case. ``folder`` belongs to the case."""

    @pytest.fixture
    def trial(self, environment: TestEnvironment, tmp_path: Path) -> Iterator[SinkTrial]:
        """Return the external system, the pipelines, and the rows of a case."""
        exactly_once = Capability.EXACTLY_ONCE in self.capabilities.can
        with open_contexts(self.external_context, tmp_path) as new_context:
            trial = SinkTrial(environment, new_context, tmp_path, self.seed, exactly_once)
            trial.system = self.system_class()
            yield trial

    # --- State of writers -------------------------------------------------------------------------

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
        """An attempt or a driver fails, and its successor starts with the decided state."""
        fault = Fault(point, action=FaultAction.RAISE, nth=2, once=trial.root / "failed")
        repeated = point is FaultPoint.AFTER_PREPARE  # by Spark, while the driver continues
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
    @pytest.mark.separate_drivers
    @time_for(len(WRITING_POINTS) + 1)
    def test_states_outlive_drivers_killed_at_point_after_point(self, trial: SinkTrial) -> None:
        job = trial.job(plans=len(WRITING_POINTS) + 2)
        trial.kill_at_each(job, WRITING_POINTS, trial.assert_states)

    # --- Lineage ----------------------------------------------------------------------------------

    @case(since="1.4")
    def test_datasets_are_named_for_lineage(self, trial: SinkTrial) -> None:
        """The names follow OpenLineage's naming spec, and all instances give the same names."""
        assert_named_for_lineage(trial.context.create_sink, trial.context.secrets())

    # --- Leaks and secrets ------------------------------------------------------------------------

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
        """No log, report, decision, status, exception, or repr shows it."""
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
        """A failure also closes all handles."""
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
        """The causes and notes of an error do not show it either."""
        caplog.set_level(logging.INFO, logger="py4j")
        caplog.set_level(logging.DEBUG)
        seen = []
        for outage in FAILING:
            failure = trial.write_through(self.outage(outage))
            if failure is not None:
                seen += error_texts(failure)
        seen += [caplog.text, *capfd.readouterr()]
        assert_unseen(trial.context.secrets(), seen, trial.location)
