# SPDX-License-Identifier: Apache-2.0
"""Tests a small version of the flights example: inputs, kills, restarts, and verification."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from child_python import run_module
from examples.flights.totals import AddToTotals, create_database, export_totals
from pyspark.sql import SparkSession

# Two drivers, a broker, and Elasticsearch take a minute and a half.
pytestmark = pytest.mark.line("4.3")


@pytest.mark.timeout(1200)  # a busy machine needs several times as long
def test_every_flight_of_eight_days_arrives_once(tmp_path: Path) -> None:
    output = tmp_path / "demo"
    options = ["--days=8", "--feed-seconds=15", f"--output={output}"]
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
    assert report["sources"]["flights"] == 6_998
    for sink in ("archive", "enriched", "index", "totals"):
        assert report["sinks"][sink] == 6_998
    assert report["lookups"]["planes"]["missCount"] > 0
    assert report["lookups"]["airports"]["loadCount"] > 0

    page = (output / "report.html").read_text()
    assert page.count("<svg") == 10
    lineage = page[page.index("<svg") : page.index("</svg>")]
    for dataset in ("arrived/flights", "arrived/airlines", ": planes", "archive", "totals"):
        assert dataset in lineage
    assert "src=" not in page
    assert "<script" not in page


def test_the_flights_of_an_epoch_are_added_once(spark: SparkSession, tmp_path: Path) -> None:
    database, exported = tmp_path / "totals.db", tmp_path / "totals.jsonl"
    create_database(database)
    flights = spark.createDataFrame(
        [("JetBlue", 1, 31, 517, 4), ("JetBlue", 1, 31, 900, -1), ("JetBlue", 1, 31, None, None)],
        "airline STRING, month INT, day INT, dep_time INT, dep_delay INT",
    )
    for epoch in (3, 3, 5):
        AddToTotals(database)(flights, epoch)
    export_totals(database, exported)
    assert json.loads(exported.read_text()) == {
        **{"airline": "JetBlue", "month": 1, "day": 31},
        **{"flights": 6, "cancelled": 2, "delay_minutes": 6},
    }
