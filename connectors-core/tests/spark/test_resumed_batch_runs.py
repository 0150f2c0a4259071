# SPDX-License-Identifier: Apache-2.0
"""Tests that a batch run resumes after SIGKILL: it reads no finished split again."""

from __future__ import annotations

import functools
import signal
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import crash_scenarios
import pyarrow as pa
import pytest

from connectors_core import Pipeline
from connectors_core.errors import FatalError
from connectors_core.source import BatchTasks, DataGeneratorSource
from connectors_core.testing.directory_sink import DirectorySink
from connectors_core.testing.driver import run_driver, wait_for_survivors
from connectors_core.testing.faults import Fault, FaultAction, FaultPoint, injected

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROWS = 200
REPORTS = 6


def test_a_batch_run_whose_driver_is_killed_twice_reads_each_finished_split_once(
    tmp_path: Path,
) -> None:
    notes, state = tmp_path / "read", tmp_path / "checkpoint"

    def run(*faults: Fault) -> list[int]:
        """Run a driver; return the first numbers of the splits that it read, in order."""
        notes.unlink(missing_ok=True)
        job = functools.partial(crash_scenarios.run_batch, tmp_path, ROWS)
        code = run_driver(job, tmp_path / "driver.log", *faults)
        wait_for_survivors(tmp_path / "driver.log")
        log = (tmp_path / "driver.log").read_text(errors="replace")[-4000:]
        assert code == (-signal.SIGKILL if faults else 0), log
        assert all(fault.fired for fault in faults), log
        return sorted(map(int, notes.read_text().split())) if notes.exists() else []

    splits = list(range(0, ROWS, 10))
    killed_while_reading = Fault(
        FaultPoint.AFTER_REPORT,
        action=FaultAction.KILL_DRIVER,
        nth=REPORTS,
        once=tmp_path / "while-reading",
    )
    killed_before_the_decision = Fault(FaultPoint.BEFORE_DECISION, once=tmp_path / "undecided")
    first = run(killed_while_reading)
    finished = len(list(state.glob("runs/*/reports/*/ids/*.json")))
    assert REPORTS <= finished < len(splits)
    second = run(killed_before_the_decision)
    assert len(second) == len(splits) - finished
    assert sorted({*first, *second}) == splits
    assert run() == []
    (found,) = {
        frozenset(zip(rows["digit"], rows["count"], strict=True))
        for rows in [DirectorySink(tmp_path / "counts").read().to_pydict()]
    }
    assert found == {(digit, ROWS // 10) for digit in range(3)}
    assert not list(state.glob("runs/*/*"))


def test_a_failed_run_resumes_in_the_same_tasks_unless_the_next_run_gives_it_up(
    spark: SparkSession, tmp_path: Path
) -> None:
    notes, sink = tmp_path / "read", DirectorySink(tmp_path / "out")
    schema = pa.schema([("id", pa.int64())])

    def noted(numbers: pa.Array) -> pa.RecordBatch:
        with notes.open("a") as file:
            file.write(f"{numbers[0]}\n")
        return pa.record_batch([numbers], schema=schema)

    def run(*, resume: bool = True) -> int:
        """Run; return the number of splits that were read."""
        notes.write_text("")
        with Pipeline(
            spark,
            "direct",
            checkpoint_location=tmp_path / "checkpoint",
            parallelism=2,
            batch_tasks=BatchTasks(max_tasks=3),
            resume_batch_runs=resume,
        ) as pipeline:
            source = DataGeneratorSource(noted, 60, schema, split_rows=10, batch_rows=10)
            pipeline.sink_to(pipeline.from_source(source, uid="ids"), sink, uid="out")
            assert "tasks of ids: 3 for 6 splits" in pipeline.explain()
            assert pipeline.run()
            (status,) = pipeline.status().sources
            assert (status.tasks, status.rows, status.splits_finished) == (3, 60, 6)
        return len(notes.read_text().split())

    def fail() -> None:
        fault = Fault(FaultPoint.BEFORE_DECISION, action=FaultAction.RAISE)
        with injected(fault), pytest.raises(FatalError, match="FaultInjected"):
            run()

    fail()
    assert run() == 0
    fail()
    assert run(resume=False) == 6
    assert Counter(sink.read()["id"].to_pylist()) == Counter(dict.fromkeys(range(60), 2))
    assert sink.staged() == []
    assert not list((tmp_path / "checkpoint").glob("runs/*/*"))
