# SPDX-License-Identifier: Apache-2.0
"""Runs the core's suites in this process."""

from __future__ import annotations

from typing import Any

import pytest

import connector_nats_suites as suites
from connectors_core.source import Boundedness, ReadLimits
from connectors_core.testing import Capability, case


class TestNatsSource(suites.SourceSuite):
    """The core's cases, and two more."""

    @case(Capability.UNBOUNDED, Capability.GROWING_SPLITS)
    @pytest.mark.parametrize("limits", [ReadLimits(), ReadLimits(splits=2)])
    def test_it_resumes_after_the_available_rows(self, trial: Any, limits: ReadLimits) -> None:
        def pipeline() -> Any:
            return trial.pipeline(Boundedness.CONTINUOUS_UNBOUNDED, limits=limits)

        trial.write_split(4)
        for _ in range(2):
            with pipeline() as endless:
                endless.start()
                trial.wait_for_all(endless)
            trial.grow_splits()
            with pipeline() as ending:
                assert ending.run(available_now=True, drain=False, timeout=120)
            trial.assert_complete()
            trial.grow_splits()

    @case(Capability.UNBOUNDED, Capability.GROWING_SPLITS)
    def test_messages_are_acknowledged_when_their_epoch_is_committed(self, trial: Any) -> None:
        trial.write_split(2)
        for _ in range(2):
            with trial.pipeline(Boundedness.CONTINUOUS_UNBOUNDED) as pipeline:
                assert pipeline.run(available_now=True, drain=False, timeout=120)
            trial.assert_complete()
            assert trial.context.unacknowledged() == 0
            trial.grow_splits()
        assert trial.context.unacknowledged() > 0


class TestNatsSink(suites.SinkSuite):
    pass
