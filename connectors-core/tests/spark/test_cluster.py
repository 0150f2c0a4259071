# SPDX-License-Identifier: Apache-2.0
"""Tests on a real cluster that speculative tasks and killed executors change no row."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest
from pipeline_support import (
    LogSource,
    counts,
    once,
    query_store,
)

from connectors_core.engine.coordinator.plan_log import newest_plan
from connectors_core.engine.protocol import decision_path, report_path
from connectors_core.testing.cluster import (
    SPECULATION,
    Cluster,
    running,
    running_cluster,
    wait_for,
)
from connectors_core.testing.directory_sink import DirectorySink
from connectors_core.testing.faults import Fault, FaultAction, FaultPoint, faults_env

PROGRAM = Path(__file__).with_name("cluster_program.py")
SECONDS = 240

pytestmark = [pytest.mark.timeout(900), pytest.mark.line("3.5")]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    # A copy fails if Spark gives it a Python worker that it is about to end for a killed task. Then
    # only a third host can run another copy.
    with running_cluster(tmp_path_factory.mktemp("cluster"), workers=3) as started:
        yield started


@contextmanager
def driver(
    cluster: Cluster, root: Path, settings: Mapping[str, str], *faults: Fault
) -> Iterator[subprocess.Popen[bytes]]:
    """Run the program on the cluster. It must end normally on request."""
    (root / "spark.json").write_text(json.dumps(cluster.settings() | settings))
    command = [sys.executable, "-W", "ignore", str(PROGRAM), str(root)]
    with running(command, root / "driver.log", faults_env(*faults)) as process:
        yield process
        (root / "stop").touch()
        assert process.wait(SECONDS) == 0, (root / "driver.log").read_text()[-6000:]


def sources(root: Path) -> tuple[LogSource, LogSource]:
    files, live = LogSource(root / "files"), LogSource(root / "live", live=True)
    for number in range(2):
        files.write(f"f{number}", range(number * 1000, number * 1000 + 100))
        live.write(f"l{number}", range(5000 + number * 1000, 5000 + number * 1000 + 50))
    return files, live


def expected_rows() -> set[int]:
    return {base + n for base in (0, 1000) for n in range(100)} | {
        base + n for base in (5000, 6000) for n in range(50)
    }


def test_copies_of_slow_tasks_win_without_changing_rows(cluster: Cluster, tmp_path: Path) -> None:
    _, live = sources(tmp_path)
    sink, query = DirectorySink(tmp_path / "out"), tmp_path / "checkpoint" / "query-0"

    def hang(point: FaultPoint, until: str, **where: object) -> Fault:
        once = tmp_path / f"slow-{point.name}"
        return Fault(point, action=FaultAction.HANG, where=where, once=once, until=query / until)

    # Each attempt hangs until another attempt of its task has won.
    slow = [
        # It has passed rows to the writer when the copy starts.
        hang(
            FaultPoint.READER_FETCHED, report_path(1, "files", 0), plan=1, source="files", subtask=0
        ),
        # It has read less than the copy will read, and claims its end after the copy.
        hang(FaultPoint.BEFORE_REPORT, report_path(2, "live", 1), plan=2, source="live", subtask=1),
        # It continues to write when the epoch is decided without it.
        hang(FaultPoint.WRITER_WROTE, decision_path(3), epoch=3, subtask=1),
    ]
    expected = expected_rows()
    with driver(cluster, tmp_path, SPECULATION, *slow) as process:
        log = tmp_path / "driver.log"

        def until(condition: Callable[[], bool], what: str) -> None:
            wait_for(lambda: condition() or process.poll() is not None, what, log)
            assert process.poll() is None, log.read_text()[-6000:]

        for number, fault in enumerate(slow):
            until(lambda fault=fault: fault.fired, f"{fault.point} is reached")
            more = range(7000 + number * 100, 7000 + number * 100 + 15)
            live.write("l1", more)
            expected |= set(more)
        until(lambda: len(counts(sink)) >= len(expected), "all rows")
        until(lambda: newest_plan(query_store(tmp_path / "checkpoint")) > 5, "further plans")
    assert counts(sink) == once(expected)


@pytest.mark.slow
@pytest.mark.parametrize("while_it", ["reads", "writes"])
def test_a_killed_executor_changes_no_row(cluster: Cluster, tmp_path: Path, while_it: str) -> None:
    _, live = sources(tmp_path)
    sink = DirectorySink(tmp_path / "out")
    point, labels = (
        (FaultPoint.READER_FETCHED, {"plan": 1, "source": "files"})
        if while_it == "reads"
        else (FaultPoint.WRITER_WROTE, {"epoch": 1})
    )
    hangs = [
        Fault(
            point,
            action=FaultAction.HANG,
            where={**labels, "subtask": subtask},
            once=tmp_path / f"hangs-{subtask}",
            until=tmp_path / "go-on",
        )
        for subtask in range(2)
    ]
    with driver(cluster, tmp_path, {"spark.cores.max": "2"}, *hangs) as process:
        log = tmp_path / "driver.log"
        wait_for(
            lambda: all(hang.fired for hang in hangs) or process.poll() is not None, "both", log
        )
        executors = cluster.executors()
        assert len(executors) == 2, log.read_text()[-6000:]
        os.kill(executors[0], signal.SIGKILL)
        (tmp_path / "go-on").touch()
        live.write("l0", range(7000, 7020))
        expected = expected_rows() | set(range(7000, 7020))
        wait_for(
            lambda: len(counts(sink)) >= len(expected) or process.poll() is not None, "all", log
        )
        wait_for(
            lambda: len(cluster.executors()) == 2 or process.poll() is not None, "a new one", log
        )
    assert counts(sink) == once(expected)
