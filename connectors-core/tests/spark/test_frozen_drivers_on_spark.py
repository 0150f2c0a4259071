# SPDX-License-Identifier: Apache-2.0
"""A driver and its JVM freeze, another driver takes over, and the first one resumes.

`tests/unit/test_frozen_drivers.py` tests all pairs of states without Spark.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import crash_scenarios
import pytest
from other_driver import SECONDS, assert_ends_when_taken_over_while_it_waits, take_lease
from pipeline_support import (
    NATIVE,
    LogSource,
    counts,
    new_pipeline,
    travel_with_closures,
    wait_until,
)
from test_crash_matrix import assert_exact

from connectors_core.engine.state import StateStore
from connectors_core.errors import LeaseError
from connectors_core.source import NumberSequenceSource
from connectors_core.testing.directory_sink import DirectorySink
from connectors_core.testing.environment import LocalSpark
from connectors_core.testing.faults import (
    READING_FREEZES,
    SUCCESSORS,
    WRITING_FREEZES,
    FaultPoint,
)
from connectors_core.testing.meetings import meetings_on_spark, turn_of_spark
from connectors_core.testing.trial import Trial

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

travel_with_closures(crash_scenarios.__name__)

SCENARIO = "join-2"
ROWS = 600
ALWAYS = (
    (FaultPoint.BEFORE_DECISION, "decides") if NATIVE else (FaultPoint.AFTER_DECISION, "commits")
)
MEETINGS = meetings_on_spark(
    READING_FREEZES, WRITING_FREEZES, always={ALWAYS}, turn=turn_of_spark()
)
# A stream of Spark passes no point of plans and readers.
NOT_READS = [what for what in SUCCESSORS if what != "reads"]
# The scenarios take turns. The other Spark line runs each pair with the other scenario.
OPEN_TO_SPARK = [
    (("files-2", "stateless-database")[(number + NATIVE) % 2], point, successor)
    for number, (point, successor) in enumerate(zip(WRITING_FREEZES, NOT_READS * 3, strict=False))
]


@dataclass(frozen=True)
class Job:
    """The pipeline of a scenario, for a separate driver and for one in this process."""

    root: Path
    scenario: str = SCENARIO

    def __call__(self) -> None:
        crash_scenarios.run(self.root, self.scenario, ROWS)

    def build(self, environment: Any, **settings: Any) -> Any:
        return crash_scenarios.build(environment.spark, self.root, self.scenario, ROWS, **settings)


class AvailableNow(Trial):
    """A trial whose pipelines end at the end of the rows that exist at their start."""

    def run_to_end(self, pipeline: Any, *, available_now: bool = True) -> None:
        super().run_to_end(pipeline, available_now=available_now)


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("point", "successor"),
    [pytest.param(*each, marks=() if each == ALWAYS else pytest.mark.slow) for each in MEETINGS],
)
def test_a_frozen_driver_resumes_next_to_its_successor(
    spark: SparkSession, tmp_path: Path, point: FaultPoint, successor: str
) -> None:
    trial, job, check = _trial(spark, tmp_path)
    trial.take_over_from_frozen(job, point, SUCCESSORS[successor], check)


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("scenario", "point", "successor"),
    [
        pytest.param(
            *("files-2", FaultPoint.AFTER_DECISION, "commits"), marks=pytest.mark.line("3.5")
        ),
        pytest.param(
            *("stateless-database", crash_scenarios.COLLECTED_ROWS, "has ended"),
            marks=pytest.mark.line("4.3"),
        ),
        *(pytest.param(*each, marks=pytest.mark.slow) for each in OPEN_TO_SPARK),
    ],
)
def test_a_frozen_driver_with_a_stream_of_spark_or_a_function_resumes_next_to_its_successor(
    spark: SparkSession, tmp_path: Path, scenario: str, point: str, successor: str
) -> None:
    trial: Trial = AvailableNow(LocalSpark(spark), tmp_path, 0)
    check = functools.partial(assert_exact, tmp_path, scenario, ROWS)
    job: Any = Job(tmp_path, scenario)
    trial.take_over_from_frozen(job, point, SUCCESSORS[successor], check)


@pytest.mark.timeout(1200)
@pytest.mark.slow
def test_a_successor_whose_batch_the_former_driver_commits_names_that_driver(
    spark: SparkSession, tmp_path: Path
) -> None:
    point = FaultPoint.BEFORE_SPARK_COMMIT
    for attempt in range(5):  # the former driver may notice its successor before it commits
        folder = tmp_path / str(attempt)
        folder.mkdir()
        trial, job, check = _trial(spark, folder)
        failure = trial.meet_frozen(job, point, point)
        if failure is not None:
            break
        check()
    assert failure is not None
    assert "earlier driver" in failure.message
    assert "CONCURRENT_STREAM_LOG_UPDATE" in str(failure.found)
    with job.build(trial.environment) as third:
        trial.run_to_end(third)
    check()


def test_a_waiting_driver_ends_when_another_driver_takes_over(
    spark: SparkSession, tmp_path: Path
) -> None:
    assert_ends_when_taken_over_while_it_waits(LocalSpark(spark), tmp_path)


@dataclass(frozen=True)
class BatchJob:
    """A batch run, for a separate driver and for one in this process."""

    root: Path

    def __call__(self) -> None:
        with self.build(LocalSpark(crash_scenarios.session())) as pipeline:
            assert pipeline.run()

    def build(self, environment: Any, **settings: Any) -> Any:
        pipeline = new_pipeline(environment.spark, self.root, streaming=None, **settings)
        rows = pipeline.from_source(NumberSequenceSource(0, ROWS - 1, split_rows=100), uid="n")
        pipeline.sink_to(rows, self.sink, uid="out")
        return pipeline

    @property
    def sink(self) -> DirectorySink:
        return DirectorySink(self.root / "out")

    def assert_written(self, times: int) -> None:
        assert counts(self.sink, "value") == Counter(dict.fromkeys(range(ROWS), times))


FREEZES_OF_A_BATCH = (
    FaultPoint.WRITER_WROTE,
    FaultPoint.BEFORE_DECISION,
    FaultPoint.AFTER_DECISION,
    FaultPoint.BEFORE_COMMIT,
    FaultPoint.BEFORE_SWEEP,
)


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("point", "successor"),
    [
        pytest.param(FaultPoint.BEFORE_DECISION, "decides", marks=pytest.mark.line("4.3")),
        *(pytest.param(each, "has ended", marks=pytest.mark.slow) for each in FREEZES_OF_A_BATCH),
    ],
)
def test_a_frozen_batch_run_resumes_next_to_its_successor(
    spark: SparkSession, tmp_path: Path, point: FaultPoint, successor: str
) -> None:
    trial, job = Trial(LocalSpark(spark), tmp_path, 0), BatchJob(tmp_path)
    of_trial: Any = job
    trial.meet_frozen(of_trial, point, SUCCESSORS[successor])
    job.assert_written(times=1)
    with job.build(trial.environment) as next_run:
        assert next_run.run()
    job.assert_written(times=2)
    # A task of the former driver may stage rows while its job ends. The next start sweeps them.
    assert job.sink.staged() == []


def test_a_batch_run_ends_when_another_driver_takes_over(
    spark: SparkSession, tmp_path: Path
) -> None:
    log = LogSource(tmp_path / "log")
    log.write("a", range(30))
    (log.folder / "gate").touch()  # makes its readers wait
    pipeline = new_pipeline(spark, tmp_path, streaming=None, lease_expiry=timedelta(seconds=3))
    pipeline.sink_to(pipeline.from_source(log, uid="log"), BatchJob(tmp_path).sink, uid="out")
    with ThreadPoolExecutor(1) as pool, pipeline:
        ended = pool.submit(pipeline.run)
        wait_until(lambda: log.reads > 0, "a reader waits")
        take_lease(StateStore(str(tmp_path / "checkpoint")), 2)
        with pytest.raises(LeaseError, match="another driver has taken over"):
            ended.result(SECONDS)


def _trial(spark: SparkSession, root: Path) -> tuple[Trial, Any, Callable[[], None]]:
    check = functools.partial(assert_exact, root, SCENARIO, ROWS)
    return Trial(LocalSpark(spark), root, 0), Job(root), check
