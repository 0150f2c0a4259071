# SPDX-License-Identifier: Apache-2.0
"""Tests a small version of the flights example in SQL, with the same kills and verification."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from child_python import run_module

# Two drivers, a broker, and Elasticsearch take a minute and a half. The job in Python runs on 4.3.
pytestmark = pytest.mark.line("3.5")


@pytest.mark.timeout(1200)  # a busy machine needs several times as long
def test_every_flight_of_eight_days_arrives_once(tmp_path: Path) -> None:
    output = tmp_path / "demo"
    options = ["--job=flights_sql", "--days=8", "--feed-seconds=15", f"--output={output}"]
    done = run_module("examples.flights", *options, timeout=1170)
    assert done.returncode == 0, done.stdout

    report = json.loads((output / "report.json").read_text())
    assert report["rows_in"] == report["rows_out"] == 6_998
    assert (report["matched"], report["unmatched"]) == (6_946, 52)
    assert (report["missing"], report["duplicates"], report["unexpected"]) == (0, 0, 0)
    assert {name: found["found"] for name, found in report["outputs"].items()} == {
        "archive": 6_998,
        "enriched": 6_998,
        "index": 6_998,
        "delays": 426,
        "totals": 117,
    }
    assert report["with_airline"] == 6_998
    assert report["crashes_survived"] == 3
    sources, sinks = report["sources"], report["sinks"]
    assert sources["default.flight_files"] + sources["default.flight_messages"] == 6_998
    for table in ("archive", "enriched_topic", "flights_index"):
        assert sinks[f"into.default.{table}"] == 6_998
    assert sinks["into.default.delays"] == 426
    assert sinks["into.default.totals"] == 117
    assert report["lookups"]["default.planes.p"]["missCount"] > 0

    page = (output / "report.html").read_text()
    lineage = page[page.index("<svg") : page.index("</svg>")]
    for dataset in ("arrived/flights", "arrived/airlines", ": planes", "archive", ": totals"):
        assert dataset in lineage
