# SPDX-License-Identifier: Apache-2.0
"""A soak in small: every flight comes out once, whatever is killed or frozen meanwhile."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_short_soak_is_exact(tmp_path: Path) -> None:
    command = ["-m", "benchmarks.soak", "--only=flights", "--minutes=2", f"--output={tmp_path}"]
    done = subprocess.run(
        [sys.executable, *command],
        cwd=ROOT,
        env={**os.environ, "PYSPARK_PYTHON": sys.executable},
        capture_output=True,
        text=True,
        timeout=880,
        check=False,
    )
    (path,) = tmp_path.glob("flights-spark-*.json")
    report = json.loads(path.read_text())
    # Whether something grows is not seen in two minutes.
    assert not report["problems"], done.stdout + done.stderr
    assert {name: found["found"] for name, found in report["rows"].items()} == {
        "archive": 16_528,
        "enriched": 16_528,
        "index": 16_528,
        "delays": 1_008,
    }
    assert {fault["target"] for fault in report["faults"]} >= {"driver", "worker"}
