# SPDX-License-Identifier: Apache-2.0
"""Cases of a source whose system keeps, refuses, or delays rows."""

from __future__ import annotations

import pytest

from connectors_core.errors import RetryableError
from connectors_core.source import Boundedness, ReadLimits
from connectors_core.testing.capabilities import Capability
from connectors_core.testing.cases import case
from connectors_core.testing.faults import Fault, FaultAction, FaultPoint, injected
from connectors_core.testing.source_trial import ROWS_PER_SPLIT, SourceTrial
from connectors_core.testing.trial import PipelineSuite


class SourceSystemCases(PipelineSuite, part=True):
    """Cases in which the system does more than to return rows."""

    @case(
        Capability.UNBOUNDED,
        Capability.ACKNOWLEDGED_READS,
        since="1.5",
        after=(
            "test_rows_that_are_added_to_a_split_are_read",
            "test_a_restart_goes_on_with_as_many_more_or_fewer_readers",
        ),
    )
    @pytest.mark.slow_on_spark
    def test_rows_are_acknowledged_once_they_are_committed(self, trial: SourceTrial) -> None:
        """Not earlier, because a restart needs them, and not never, because they fill a disk."""
        trial.write_split(2)
        fault = Fault(
            FaultPoint.BEFORE_DECISION, action=FaultAction.RAISE, once=trial.root / "failed"
        )
        with injected(fault), trial.pipeline(Boundedness.CONTINUOUS_UNBOUNDED) as pipeline:
            trial.run_to_failure(pipeline, available_now=True)
        assert fault.fired
        kept = trial.context.unacknowledged()
        assert kept == 2 * ROWS_PER_SPLIT, "rows are acknowledged before their epoch is decided"
        for _ in range(2):
            with trial.pipeline(Boundedness.CONTINUOUS_UNBOUNDED) as pipeline:
                pipeline.start()
                trial.wait_for_all(pipeline)
                trial.wait(
                    lambda: not trial.context.unacknowledged(),
                    "the acknowledgement of all rows",
                    pipeline,
                )
            trial.write_split()

    @case(
        Capability.BOUNDED,
        Capability.REFUSALS,
        since="1.5",
        after="test_a_driver_that_fails_is_restarted_exactly",
    )
    @pytest.mark.slow_on_spark
    def test_a_permanent_refusal_in_the_middle_ends_the_pipeline(self, trial: SourceTrial) -> None:
        """It is neither the end of the rows nor a wait for more."""
        trial.write_split(3)
        few = ReadLimits(rows=ROWS_PER_SPLIT // 2)
        fault = Fault(
            FaultPoint.AFTER_DECISION, action=FaultAction.RAISE, nth=2, once=trial.root / "failed"
        )
        with injected(fault), trial.pipeline(Boundedness.BOUNDED, limits=few) as pipeline:
            trial.run_to_failure(pipeline)
        assert fault.fired
        pipeline = trial.pipeline(Boundedness.BOUNDED, limits=few)
        with pipeline, trial.context.refusal():
            failure = trial.run_to_failure(pipeline)
        assert not isinstance(failure, RetryableError), f"a retry cannot help: {failure}"
        trial.read_all()
        trial.assert_complete()

    @case(
        Capability.UNBOUNDED,
        Capability.GROWING_SPLITS,
        Capability.LATE_COMMITS,
        since="1.5",
        after="test_rows_that_are_added_to_a_split_are_read",
    )
    @pytest.mark.slow_on_spark
    def test_rows_that_commit_out_of_order_are_read(self, trial: SourceTrial) -> None:
        """A position is no greatest key: rows with smaller keys can become visible later."""
        trial.write_split()
        with trial.pipeline(Boundedness.CONTINUOUS_UNBOUNDED) as pipeline:
            pipeline.start()
            trial.wait_for_all(pipeline)
            with trial.late_rows(0):
                trial.grow_split(0)
                trial.read_what_is_visible(pipeline)
            trial.wait_for_all(pipeline)
        trial.assert_arrived()
