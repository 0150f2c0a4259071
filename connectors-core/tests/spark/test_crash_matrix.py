# SPDX-License-Identifier: Apache-2.0
"""Tests exact output when SIGKILL ends drivers and workers at every point of the protocol."""

from __future__ import annotations

import functools
import signal
from collections import Counter
from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING

import crash_scenarios
import pyarrow.parquet as pq
import pytest
from pipeline_support import NATIVE, wait_until
from pyspark import cloudpickle

from connectors_core.testing.directory_sink import DirectorySink
from connectors_core.testing.driver import run_driver, wait_for_survivors
from connectors_core.testing.faults import REWRITING_POINTS, Fault, FaultAction, FaultPoint
from connectors_core.testing.leased_sink import LeasedDirectorySink

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PLAN_ROWS = 150
REPLAY_ROWS = 600

DRIVER_POINTS = [
    FaultPoint.BEFORE_PLAN,
    FaultPoint.AFTER_PLAN,
    FaultPoint.AFTER_FEED,
    FaultPoint.BEFORE_DECISION,
    FaultPoint.AFTER_DECISION,
    FaultPoint.AFTER_COMMIT,
    FaultPoint.AFTER_DONE,
    FaultPoint.BEFORE_SPARK_COMMIT,
]
TASK_POINTS = [
    FaultPoint.READER_FETCHED,
    FaultPoint.BEFORE_REPORT,
    FaultPoint.AFTER_REPORT,
    FaultPoint.WRITER_WROTE,
    FaultPoint.AFTER_PREPARE,
]
WORKER_POINTS = [FaultPoint.READER_FETCHED, FaultPoint.AFTER_REPORT, FaultPoint.WRITER_WROTE]
COMMITTED_ONE_FILE = "directory_sink.committed"
ALL = range(14)
ON_NEWEST = (1, 7, 13)
ON_OLDEST = (0, 3, 5, 8, 10, 12)
OF_SINKS = tuple(each for each in ALL if each != 8)  # all but the point of the directory sink
WITHOUT_PLANS = (3, 4, 5, 6, 7, 8, 12, 13)  # the points that a stream of Spark reaches


def chain(root: Path, part: Collection[int]) -> list[Fault]:
    """Return one fault per run of the driver. Each fault occurs once."""
    points: list[tuple[str, FaultAction]] = [
        *((point, FaultAction.KILL) for point in DRIVER_POINTS),
        (COMMITTED_ONE_FILE, FaultAction.KILL),
        *((point, FaultAction.KILL_DRIVER) for point in TASK_POINTS),
    ]
    return [
        Fault(point, action=action, once=root / f"fault-{number:02d}-{point}")
        for number, (point, action) in enumerate(points)
        if number in part
    ]


def run(root: Path, scenario: str, *faults: Fault, rows: int) -> int:
    """Run a pipeline in a separate driver until it ends, and return the exit code."""
    job = functools.partial(crash_scenarios.run, root, scenario, rows)
    return run_driver(job, root / "driver.log", *faults)


def assert_exact(root: Path, scenario: str, rows: int) -> None:
    """Check that each sink has every row once, and that no staged data remains."""
    shape, sinks = scenario.split("-")
    first, second = DirectorySink(root / "first"), DirectorySink(root / "second")
    if sinks == "database":
        assert Counter(crash_scenarios.stored_ids(root)) == Counter(range(rows))
        return
    found = pq.read_table(root / "first") if sinks == "function" else first.read()
    if shape != "join":
        assert Counter(found["id"].to_pylist()) == Counter(range(rows))
        if sinks == "2":
            every_third = Counter(range(0, rows, 3))
            assert Counter(second.read()["id"].to_pylist()) == every_third
    else:
        pairs = zip(found["id"].to_pylist(), found["rid"].to_pylist(), strict=True)
        assert Counter(pairs) == Counter(crash_scenarios.expected_pairs(rows))
        if sinks == "2":
            counts = second.read()
            starts = [
                int(start.timestamp()) - crash_scenarios.BASE // 1_000_000
                for start in counts["start"].to_pylist()
            ]
            windows = Counter(zip(starts, counts["count"].to_pylist(), strict=True))
            assert windows == Counter(crash_scenarios.expected_counts(rows))
    assert first.staged() == []
    assert second.staged() == []


def log_of(root: Path) -> str:
    """Return the end of the drivers' logs for a failing assertion."""
    return (root / "driver.log").read_text(errors="replace")[-6000:]


def kill_at_each(
    root: Path,
    scenario: str,
    part: Collection[int] = ALL,
    *,
    workers: Collection[FaultPoint] = tuple(WORKER_POINTS),
) -> int:
    """Kill a driver at each point, then workers of the last one, and return the number of rows."""
    rows = PLAN_ROWS * (len(part) + 4)  # each run makes at most one plan
    for fault in chain(root, part):
        code = run(root, scenario, fault, rows=rows)
        assert fault.fired, f"{fault.point} was not reached, exit code {code}\n{log_of(root)}"
        assert code == -signal.SIGKILL, f"{fault.point}: {code}\n{log_of(root)}"
    of_workers = [Fault(point, once=root / f"worker-{point}") for point in workers]
    assert run(root, scenario, *of_workers, rows=rows) == 0, log_of(root)
    assert all(fault.fired for fault in of_workers)
    assert_exact(root, scenario, rows)
    wait_for_survivors(root / "driver.log")
    assert_exact(root, scenario, rows)  # no late duplicates
    return rows


@pytest.mark.timeout(1500)
def test_killing_drivers_and_workers_at_consecutive_points_loses_and_duplicates_no_row(
    tmp_path: Path,
) -> None:
    """Each Spark line tests some points. `make test-full` tests all points on both."""
    kill_at_each(tmp_path, "join-2", ON_NEWEST if NATIVE else ON_OLDEST)


@pytest.mark.slow
@pytest.mark.timeout(1500)
@pytest.mark.parametrize(
    "scenario",
    [
        pytest.param("stateless-1", marks=pytest.mark.line("4.3", only=True)),
        pytest.param("stateless-2", marks=pytest.mark.line("3.5", only=True)),
        pytest.param("join-1", marks=pytest.mark.line("3.5", only=True)),
        "join-2",
    ],
)
def test_a_driver_killed_at_every_point_in_turn_loses_and_duplicates_no_row(
    tmp_path: Path, scenario: str
) -> None:
    rows = kill_at_each(tmp_path, scenario)
    # A finished pipeline stays finished.
    assert run(tmp_path, scenario, rows=rows) == 0, log_of(tmp_path)
    assert_exact(tmp_path, scenario, rows)


@pytest.mark.line("4.3")
@pytest.mark.timeout(1500)
def test_killing_drivers_of_a_stream_of_spark_loses_and_duplicates_no_row(tmp_path: Path) -> None:
    part = WITHOUT_PLANS[1::4] if NATIVE else WITHOUT_PLANS[3::4]
    kill_at_each(tmp_path, "files-2", part, workers=[FaultPoint.WRITER_WROTE])


@pytest.mark.slow
@pytest.mark.timeout(1500)
@pytest.mark.parametrize(
    ("scenario", "part", "workers"),
    [
        pytest.param(
            *("files-2", WITHOUT_PLANS, [FaultPoint.WRITER_WROTE]),
            marks=pytest.mark.line("4.3", only=True),
        ),
        pytest.param("table-2", ALL, WORKER_POINTS, marks=pytest.mark.line("3.5", only=True)),
        pytest.param(
            *("stateless-function", OF_SINKS, WORKER_POINTS),
            marks=pytest.mark.line("3.5", only=True),
        ),
        pytest.param(
            *("stateless-database", OF_SINKS, WORKER_POINTS),
            marks=pytest.mark.line("4.3", only=True),
        ),
    ],
    ids=["files", "table", "function", "database"],
)
def test_inputs_of_spark_and_functions_are_exact_with_a_driver_killed_at_every_point(
    tmp_path: Path, scenario: str, part: Collection[int], workers: Collection[FaultPoint]
) -> None:
    kill_at_each(tmp_path, scenario, part, workers=workers)


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("scenario", ["stateless-leased", "join-leased"])
def test_a_driver_killed_during_a_rewrite_of_lost_rows_is_recovered(
    tmp_path: Path, scenario: str
) -> None:
    """Every driver loses its committed rows and dies. The next driver rewrites these rows."""
    points: list[str] = [*REWRITING_POINTS, FaultPoint.AFTER_DECISION, COMMITTED_ONE_FILE]
    rows = PLAN_ROWS * (len(points) + 3)
    sink = LeasedDirectorySink(tmp_path / "first")
    for number, point in enumerate(points):
        sink.lose(2)
        fault = Fault(point, once=tmp_path / f"fault-{number}-{point}")
        code = run(tmp_path, scenario, fault, rows=rows)
        assert fault.fired, f"{point} was not reached, exit code {code}\n{log_of(tmp_path)}"
        assert code == -signal.SIGKILL, f"{point}: {code}\n{log_of(tmp_path)}"
    sink.lose(2)
    assert run(tmp_path, scenario, rows=rows) == 0, log_of(tmp_path)
    assert sink.losses() == 0
    assert_exact(tmp_path, scenario, rows)
    wait_for_survivors(tmp_path / "driver.log")
    assert_exact(tmp_path, scenario, rows)


@pytest.mark.line("4.3")
def test_batches_that_spark_runs_again_are_not_written_again(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Remove the last entries of Spark's commit log, as a crash of its storage does."""
    cloudpickle.register_pickle_by_value(crash_scenarios)
    with crash_scenarios.build(spark, tmp_path, "join-2", REPLAY_ROWS) as pipeline:
        pipeline.start()
        first = DirectorySink(tmp_path / "first")
        wait_until(lambda: first.read().num_rows > 75, "pairs of two batches", pipeline)
    folder = tmp_path / "checkpoint" / "query-0" / "spark-0"
    numbers = sorted(int(path.name) for path in (folder / "commits").glob("[0-9]*"))
    logged = max(int(path.name) for path in (folder / "offsets").glob("[0-9]*"))
    for number in numbers[-2:]:
        (folder / "commits" / str(number)).unlink()
        (folder / "commits" / f".{number}.crc").unlink(missing_ok=True)
    with crash_scenarios.build(spark, tmp_path, "join-2", REPLAY_ROWS) as pipeline:
        assert pipeline.run()
        assert (pipeline.status().queries[0].batch or 0) > logged
    assert_exact(tmp_path, "join-2", REPLAY_ROWS)
