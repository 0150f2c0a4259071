# SPDX-License-Identifier: Apache-2.0
"""Tests that a batch run resumes after SIGKILL: it reads no finished split again."""

from __future__ import annotations

import functools
import signal
from pathlib import Path

import crash_scenarios

from connectors_core.testing.directory_sink import DirectorySink
from connectors_core.testing.driver import run_driver, wait_for_survivors
from connectors_core.testing.faults import Fault, FaultAction, FaultPoint

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
