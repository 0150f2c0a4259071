# SPDX-License-Identifier: Apache-2.0
"""Cases of a sink that merges committables of several epochs before their commit."""

from __future__ import annotations

import pytest

from connectors_core.testing.capabilities import Capability
from connectors_core.testing.cases import case
from connectors_core.testing.faults import (
    COMPACTING_POINTS,
    Fault,
    FaultAction,
    FaultPoint,
    injected,
)
from connectors_core.testing.sink_trial import MANY_PLANS, SinkTrial
from connectors_core.testing.trial import PipelineSuite, in_full_on_spark, time_for


class SinkCompactionCases(PipelineSuite, part=True):
    """Cases of a `SupportsCompaction`. The sink of the context merges after a few epochs."""

    @case(Capability.EXACTLY_ONCE, since="1.4", after="test_all_rows_arrive_as_they_were")
    def test_committables_are_merged_before_their_commit(self, trial: SinkTrial) -> None:
        trial.require_compaction()
        trial.write_all(plans=MANY_PLANS)
        assert trial.merged() > 1, f"the sink merges nothing in {MANY_PLANS} epochs"
        trial.assert_complete()

    @case(
        Capability.EXACTLY_ONCE,
        since="1.4",
        after=(
            "test_committables_are_merged_before_their_commit",
            "test_a_writer_that_fails_is_repeated",
            "test_a_driver_that_fails_is_restarted",
        ),
    )
    @pytest.mark.parametrize(
        "point",
        [
            in_full_on_spark(FaultPoint.BEFORE_COMPACTION),
            in_full_on_spark(FaultPoint.COMPACTOR_STAGED),
            FaultPoint.AFTER_COMPACTION,
        ],
    )
    def test_a_merge_that_fails_is_repeated(self, trial: SinkTrial, point: FaultPoint) -> None:
        """The task or the driver fails, and the next one merges the same committables."""
        trial.require_compaction()
        fault = Fault(point, action=FaultAction.RAISE, once=trial.root / "failed")
        with injected(fault), trial.pipeline(plans=MANY_PLANS) as pipeline:
            trial.go_through(pipeline, None)
        assert fault.fired
        trial.write_all(plans=MANY_PLANS)
        trial.assert_complete()

    @case(
        Capability.EXACTLY_ONCE,
        since="1.4",
        after="test_a_merge_that_fails_is_repeated",
    )
    @pytest.mark.slow
    @pytest.mark.separate_drivers
    @time_for(len(COMPACTING_POINTS) + 1)
    def test_drivers_killed_while_they_merge_lose_and_double_nothing(
        self, trial: SinkTrial
    ) -> None:
        trial.require_compaction()
        job = trial.job(plans=2 * MANY_PLANS)
        trial.kill_at_each(job, COMPACTING_POINTS, trial.assert_complete)
