# SPDX-License-Identifier: Apache-2.0
"""A driver and its JVM freeze, another driver takes over, the first one resumes; with Spark state.

`tests/unit/test_frozen_drivers.py` has all meetings of the two without Spark.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import crash_scenarios
import pytest
from pipeline_support import NATIVE
from pyspark import cloudpickle
from test_crash_matrix import assert_exact

from connectors_core.testing.environment import LocalSpark
from connectors_core.testing.faults import (
    READING_FREEZES,
    SUCCESSORS,
    WRITING_FREEZES,
    FaultPoint,
)
from connectors_core.testing.trial import Trial

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SCENARIO = "join-2"
ROWS = 600
# Every point meets one thing that its successor does, and each of these several points.
MEETINGS = list(zip((*READING_FREEZES, *WRITING_FREEZES), list(SUCCESSORS) * 4, strict=False))
ALWAYS = (
    (FaultPoint.BEFORE_DECISION, "decides") if NATIVE else (FaultPoint.AFTER_DECISION, "commits")
)


@dataclass(frozen=True)
class Job:
    """The pipeline of a scenario, for a driver of its own and for one in this process."""

    root: Path

    def __call__(self) -> None:
        crash_scenarios.run(self.root, SCENARIO, ROWS)

    def build(self, environment: Any, **settings: Any) -> Any:
        return crash_scenarios.build(environment.spark, self.root, SCENARIO, ROWS, **settings)


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("point", "successor"),
    [ALWAYS, *(pytest.param(*each, marks=pytest.mark.slow) for each in MEETINGS if each != ALWAYS)],
)
def test_a_driver_that_was_frozen_resumes_while_its_successor(
    spark: SparkSession, tmp_path: Path, point: FaultPoint, successor: str
) -> None:
    cloudpickle.register_pickle_by_value(crash_scenarios)
    trial = Trial(LocalSpark(spark), tmp_path, 0)
    check = functools.partial(assert_exact, tmp_path, SCENARIO, ROWS)
    job: Any = Job(tmp_path)
    trial.take_over_from_frozen(job, point, SUCCESSORS[successor], check)
