# SPDX-License-Identifier: Apache-2.0
"""The suites of the core, on Kafka, on a cluster with two workers."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_no_case_fails_on_a_cluster(pytestconfig: pytest.Config, tmp_path: Path) -> None:
    """In a process of its own: a process has one Spark."""
    tests = Path(__file__).parent
    suites = {
        "TestKafkaSourceOnSpark": tests / "test_source_suites.py",
        "TestExactlyOnceOnSpark": tests / "test_sink_suites.py",
    }
    run = [sys.executable, "-m", "pytest", "-c", str(pytestconfig.inipath), "-m", "not slow"]
    options = ["--connector-environment", "cluster", "--connector-report", str(tmp_path / "report")]
    options += ["--rootdir", str(pytestconfig.rootpath), "--basetemp", str(tmp_path / "run")]
    ended = subprocess.run(
        [*run, *options, *(f"{path}::{name}" for name, path in suites.items())],
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout[-6000:]
    report = json.loads((tmp_path / "report.json").read_text())
    assert report["passed"]
    assert {
        result["suite"]
        for result in report["results"]
        if result["case"] == "test_a_worker_that_is_killed_is_replaced"
        and result["outcome"] == "passed"
    } == suites.keys()
