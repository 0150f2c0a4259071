# SPDX-License-Identifier: Apache-2.0
"""Tests a small version of the README's example: files, Kafka, kill, restart, and verification."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from child_python import run_module

# Two drivers, a broker, and Elasticsearch take a minute and a half.
pytestmark = pytest.mark.line("4.3")


def test_every_flight_of_eight_days_arrives_once(tmp_path: Path) -> None:
    output = tmp_path / "demo"
    options = ["--days=8", "--feed-seconds=15", f"--output={output}"]
    done = run_module("examples.flights", *options, timeout=280)
    assert done.returncode == 0, done.stdout + done.stderr

    report = json.loads((output / "report.json").read_text())
    assert report["rows_in"] == report["rows_out"] == 6_998
    assert (report["matched"], report["unmatched"]) == (6_946, 52)
    assert (report["missing"], report["duplicates"], report["unexpected"]) == (0, 0, 0)
    assert {name: found["found"] for name, found in report["outputs"].items()} == {
        "archive": 6_998,
        "enriched": 6_998,
        "index": 6_998,
        "delays": 426,
    }
    assert report["crashes_survived"] == 3
    assert report["sources"]["flights"] == 6_998
    for sink in ("archive", "enriched", "index"):
        assert report["sinks"][sink] == 6_998
    assert report["lookups"]["planes"]["missCount"] > 0
    assert report["lookups"]["airports"]["loadCount"] > 0

    page = (output / "report.html").read_text()
    assert page.count("<svg") == 8
    assert "src=" not in page
    assert "<script" not in page
