# SPDX-License-Identifier: Apache-2.0
"""Cases of a source: batch runs that are run again, after success and after a crash."""

from __future__ import annotations

import pytest

from connectors_core.testing.capabilities import Capability
from connectors_core.testing.cases import case
from connectors_core.testing.faults import FaultPoint
from connectors_core.testing.source_trial import SourceTrial
from connectors_core.testing.trial import PipelineSuite


class SourceBatchCases(PipelineSuite, part=True):
    """Cases in which a batch run follows another one of the same pipeline."""

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
        Capability.REPLAYABLE,
        Capability.INPUT_VERSION,
        since="1.5",
        after="test_a_driver_that_fails_is_restarted_exactly",
    )
    @pytest.mark.parametrize(
        "point", [FaultPoint.BEFORE_DECISION, FaultPoint.AFTER_DECISION, FaultPoint.AFTER_DONE]
    )
    @pytest.mark.slow_on_spark
    def test_a_batch_run_that_is_tried_again_after_a_crash_is_written_once(
        self, trial: SourceTrial, point: FaultPoint
    ) -> None:
        """Its input is the same, so nothing is left to do after its decision."""
        trial.write_split(2)
        rows = trial.crash_in_batch_run(point)
        assert trial.run_batch() == (point is FaultPoint.BEFORE_DECISION)
        trial.assert_read_by_batch_runs(rows)

    @case(
        Capability.BOUNDED,
        Capability.REPLAYABLE,
        since="1.5",
        after="test_a_driver_that_fails_is_restarted_exactly",
    )
    @pytest.mark.slow_on_spark
    def test_a_batch_run_after_a_crash_before_the_decision_reads_its_own_input(
        self, trial: SourceTrial
    ) -> None:
        trial.write_split(2)
        trial.crash_in_batch_run(FaultPoint.BEFORE_DECISION)
        trial.write_split()
        assert trial.run_batch()
        trial.assert_read_by_batch_runs(trial.written)

    @case(
        Capability.BOUNDED,
        Capability.REPLAYABLE,
        since="1.5",
        after="test_a_batch_run_after_a_crash_before_the_decision_reads_its_own_input",
    )
    @pytest.mark.slow_on_spark
    def test_a_batch_run_after_a_crash_reads_new_input_too_or_names_the_source(
        self, trial: SourceTrial, caplog: pytest.LogCaptureFixture
    ) -> None:
        """The decided run is committed. If it is not compared, a third run reads the rest."""
        trial.write_split(2)
        rows = trial.crash_in_batch_run(FaultPoint.AFTER_DECISION)
        trial.write_split()
        if Capability.INPUT_VERSION in self.capabilities.can:
            assert trial.run_batch(), "the new split is not noticed"
            assert "this run reads its own input" in caplog.text
        else:
            assert not trial.run_batch(), "it has a version, but lacks INPUT_VERSION"
            assert "Whether the input of source is still the same is unknown" in caplog.text
            assert trial.run_batch()
        trial.assert_read_by_batch_runs(rows, trial.written)

    @case(
        Capability.BOUNDED,
        Capability.REPLAYABLE,
        Capability.INPUT_VERSION,
        Capability.GROWING_SPLITS,
        since="1.5",
        after="test_a_batch_run_after_a_crash_reads_new_input_too_or_names_the_source",
    )
    @pytest.mark.slow_on_spark
    def test_a_batch_run_after_a_crash_notices_rows_that_were_added(
        self, trial: SourceTrial
    ) -> None:
        trial.write_split(2)
        rows = trial.crash_in_batch_run(FaultPoint.AFTER_DECISION)
        trial.grow_split(1)
        assert trial.run_batch(), "the rows that were added are not noticed"
        trial.assert_read_by_batch_runs(rows, trial.written)

    @case(
        Capability.BOUNDED,
        Capability.REPLAYABLE,
        Capability.INPUT_VERSION,
        Capability.REPLACED_SPLITS,
        since="1.5",
        after="test_a_batch_run_after_a_crash_reads_new_input_too_or_names_the_source",
    )
    @pytest.mark.slow_on_spark
    def test_a_batch_run_after_a_crash_notices_rows_that_were_replaced(
        self, trial: SourceTrial
    ) -> None:
        """The split has its former name, and as many rows as before."""
        trial.write_split(2)
        rows = trial.crash_in_batch_run(FaultPoint.AFTER_DECISION)
        trial.replace_split(1)
        assert trial.run_batch(), "the rows that were replaced are not noticed"
        trial.assert_read_by_batch_runs(rows, trial.written)
