# SPDX-License-Identifier: Apache-2.0
"""Runs the cases of the sink suite that every run tests on Spark. A full run tests all cases."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from test_topologies_on_spark import Sorted, SortingSuite

from connectors_core.testing import FaultPoint, LocalSpark
from connectors_core.testing.directory_sink import DirectorySink
from connectors_core.testing.merging_sink import SortingDirectorySink
from connectors_core.testing.sink_trial import SinkTrial

SUITE = SortingSuite()
NewTrial = Callable[[type[DirectorySink]], SinkTrial]


@pytest.fixture
def trial_of(spark_environment: LocalSpark, tmp_path: Path) -> NewTrial:
    """Return a function that creates a trial of one case with a kind of sink."""

    def trial(kind: type[DirectorySink]) -> SinkTrial:
        def context(name: str) -> Sorted:
            (tmp_path / name).mkdir()
            return Sorted(kind(tmp_path / name))

        return SinkTrial(spark_environment, context, tmp_path, SUITE.seed, exactly_once=True)

    return trial


@pytest.mark.line("4.3")
def test_rows_pass_a_pre_write_topology_once(trial_of: NewTrial) -> None:
    SUITE.test_rows_pass_the_pre_write_topology_once(trial_of(SortingDirectorySink))


@pytest.mark.parametrize(
    "point",
    [FaultPoint.AFTER_DECISION, pytest.param(FaultPoint.WRITER_WROTE, marks=pytest.mark.slow)],
)
def test_full_storage_loses_and_doubles_nothing(trial_of: NewTrial, point: FaultPoint) -> None:
    SUITE.test_full_storage_loses_and_doubles_nothing(trial_of(DirectorySink), point)


def test_state_of_which_a_file_is_lost_is_refused(trial_of: NewTrial) -> None:
    SUITE.test_state_of_which_a_file_is_lost_is_refused(trial_of(DirectorySink))


@pytest.mark.slow
@pytest.mark.parametrize("hours", [-1, 1])
def test_a_driver_with_another_clock_takes_over(trial_of: NewTrial, hours: int) -> None:
    SUITE.test_a_driver_with_another_clock_takes_over(trial_of(DirectorySink), hours)
