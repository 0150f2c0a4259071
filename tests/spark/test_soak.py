# SPDX-License-Identifier: Apache-2.0
"""Tests a short soak: each flight arrives once, whatever is killed or frozen."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from child_python import run_module


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_every_flight_arrives_once_in_a_short_soak(tmp_path: Path) -> None:
    options = ["--only=flights", "--minutes=2", f"--output={tmp_path}"]
    done = run_module("benchmarks.soak", *options, timeout=880)
    (path,) = tmp_path.glob("flights-spark-*.json")
    report = json.loads(path.read_text())
    # Two minutes are too short to detect growth.
    assert not report["problems"], done.stdout
    assert {name: found["found"] for name, found in report["rows"].items()} == {
        "archive": 16_528,
        "enriched": 16_528,
        "index": 16_528,
        "delays": 1_008,
        "totals": 280,
    }
    assert {fault["target"] for fault in report["faults"]} >= {"driver", "worker"}
