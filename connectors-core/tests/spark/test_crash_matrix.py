# SPDX-License-Identifier: Apache-2.0
"""Drivers and workers die by SIGKILL at every point of the protocol; the output stays exact."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from pipeline_support import NATIVE

from connectors_core.testing.directory_sink import DirectorySink
from connectors_core.testing.faults import Fault, FaultAction, FaultPoint, faults_env

PROGRAM = Path(__file__).with_name("crash_program.py")
RUN_SECONDS = 240
ROWS = 2400  # 150 for each plan: enough for a chain, where every run makes a plan at most
FEW_ROWS = 900

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
COMMITTED_ONE_FILE = "directory_sink.committed"
ALL = slice(None)


def chain(root: Path, part: slice) -> list[Fault]:
    """One fault per run of the driver, each once."""
    points: list[tuple[str, FaultAction]] = [
        *((point, FaultAction.KILL) for point in DRIVER_POINTS),
        (COMMITTED_ONE_FILE, FaultAction.KILL),
        *((point, FaultAction.KILL_DRIVER) for point in TASK_POINTS),
    ]
    return [
        Fault(point, action=action, once=root / f"fault-{number:02d}-{point}")
        for number, (point, action) in list(enumerate(points))[part]
    ]


def run_driver(root: Path, scenario: str, *faults: Fault, rows: int = ROWS) -> int:
    """Run the program to its end, however it ends; returns its exit code."""
    log = (root / "driver.log").open("ab")
    with log:
        process = subprocess.Popen(
            [sys.executable, "-W", "ignore", str(PROGRAM), str(root), scenario, str(rows)],
            env={**os.environ, "PYSPARK_PYTHON": sys.executable, **faults_env(*faults)},
            stdout=log,
            stderr=log,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            return process.wait(RUN_SECONDS)
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()


def survivors(root: Path) -> list[int]:
    """Processes of killed drivers that still run: their command names the test's folder or they
    have its log open."""
    log = str(root / "driver.log")
    found = []
    for process in Path("/proc").iterdir():
        if process.name.isdigit() and int(process.name) != os.getpid():
            try:
                if any(os.readlink(fd) == log for fd in (process / "fd").iterdir()):
                    found.append(int(process.name))
            except OSError:
                continue
    return found


def wait_for_survivors(root: Path, seconds: float = 60) -> None:
    """Wait until no task of a killed driver can write any more."""
    deadline = time.monotonic() + seconds
    while survivors(root):
        assert time.monotonic() < deadline, f"processes {survivors(root)} outlive their driver"
        time.sleep(0.05)


def assert_exact(root: Path, scenario: str, rows: int = ROWS) -> None:
    """Every row once, in every sink, and nothing staged is left."""
    import importlib.util

    spec = importlib.util.spec_from_file_location("crash_program", PROGRAM)
    assert spec is not None
    assert spec.loader is not None
    program = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(program)

    shape, sinks = scenario.split("-")
    first, second = DirectorySink(root / "first"), DirectorySink(root / "second")
    found = first.read()
    if shape == "stateless":
        assert Counter(found["id"].to_pylist()) == Counter(range(rows))
        if sinks == "2":
            every_third = Counter(range(0, rows, 3))
            assert Counter(second.read()["id"].to_pylist()) == every_third
    else:
        pairs = zip(found["id"].to_pylist(), found["rid"].to_pylist(), strict=True)
        assert Counter(pairs) == Counter(program.expected_pairs(rows))
        if sinks == "2":
            counts = second.read()
            starts = [
                int(start.timestamp()) - program.BASE // 1_000_000
                for start in counts["start"].to_pylist()
            ]
            windows = Counter(zip(starts, counts["count"].to_pylist(), strict=True))
            assert windows == Counter(program.expected_counts(rows))
    assert first.staged() == []
    assert second.staged() == []


def log_of(root: Path) -> str:
    """The end of the drivers' output, for a failing assertion."""
    return (root / "driver.log").read_text(errors="replace")[-6000:]


def kill_at_each(root: Path, scenario: str, part: slice = ALL) -> None:
    for fault in chain(root, part):
        code = run_driver(root, scenario, fault)
        assert fault.fired, f"{fault.point} was not reached, exit code {code}\n{log_of(root)}"
        assert code == -signal.SIGKILL, f"{fault.point}: {code}\n{log_of(root)}"
    assert run_driver(root, scenario) == 0, log_of(root)
    assert_exact(root, scenario)
    wait_for_survivors(root)
    assert_exact(root, scenario)  # no late duplicates


@pytest.mark.timeout(1500)
def test_a_driver_killed_at_point_after_point_loses_and_doubles_nothing(tmp_path: Path) -> None:
    """On each Spark line every other point; `make test-full` takes all of them on both."""
    kill_at_each(tmp_path, "join-2", slice(int(NATIVE), None, 2))


@pytest.mark.slow
@pytest.mark.timeout(1500)
@pytest.mark.parametrize("scenario", ["stateless-1", "stateless-2", "join-1", "join-2"])
def test_a_driver_killed_at_every_point_in_turn(tmp_path: Path, scenario: str) -> None:
    kill_at_each(tmp_path, scenario)
    assert run_driver(tmp_path, scenario) == 0, log_of(tmp_path)  # a finished one stays finished
    assert_exact(tmp_path, scenario)


def test_workers_killed_while_they_read_and_write_are_retried_by_spark(tmp_path: Path) -> None:
    faults = [
        Fault(point, once=tmp_path / f"fault-{point}")
        for point in (FaultPoint.READER_FETCHED, FaultPoint.AFTER_REPORT, FaultPoint.WRITER_WROTE)
    ]
    assert run_driver(tmp_path, "stateless-2", *faults, rows=FEW_ROWS) == 0, log_of(tmp_path)
    assert all(fault.fired for fault in faults)
    assert_exact(tmp_path, "stateless-2", FEW_ROWS)


def test_batches_that_spark_runs_again_are_not_written_again(tmp_path: Path) -> None:
    """The last entry of Spark's commit log is removed, as by a crash of its storage."""
    kill = Fault(FaultPoint.AFTER_PLAN, nth=4, once=tmp_path / "killed")
    assert run_driver(tmp_path, "join-2", kill, rows=FEW_ROWS) == -signal.SIGKILL, log_of(tmp_path)
    wait_for_survivors(tmp_path)
    commits = tmp_path / "checkpoint" / "query-0" / "spark-0" / "commits"
    newest = max(int(path.name) for path in commits.iterdir() if path.name.isdigit())
    (commits / str(newest)).unlink()
    (commits / f".{newest}.crc").unlink(missing_ok=True)
    assert run_driver(tmp_path, "join-2", rows=FEW_ROWS) == 0, log_of(tmp_path)
    assert_exact(tmp_path, "join-2", FEW_ROWS)
