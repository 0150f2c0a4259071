# SPDX-License-Identifier: Apache-2.0
"""Tests how long a partial cache lives in Spark's worker processes, and what tasks share."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING

import lookup_scenarios
import pytest
from lookup_scenarios import NotingFunction, Table
from pipeline_support import LogSource, counts, new_pipeline, travel_with_closures, wait_until

from connectors_core.lookup import DefaultLookupCache, PartialCachingLookupProvider
from connectors_core.metrics import LookupMetric
from connectors_core.testing.directory_sink import DirectorySink

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

travel_with_closures(lookup_scenarios.__name__)

SLOTS = 2
PYTHON_STAGES = 3  # reader, lookup, writer
KEYS = 2
BATCHES = 2 * SLOTS * PYTHON_STAGES * KEYS  # more than all processes need to request


def is_there(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.slow
def test_a_cache_belongs_to_a_process_serves_its_later_tasks_and_ends_with_it(
    spark: SparkSession, tmp_path: Path
) -> None:
    notes = tmp_path / "notes"
    notes.mkdir()
    table = Table(PartialCachingLookupProvider(NotingFunction(notes), DefaultLookupCache()))
    log = LogSource(tmp_path / "log", live=True)
    log.write("log", [])
    sink = DirectorySink(tmp_path / "rows")

    def arrives(number: int) -> None:
        log.write("log", [number])
        wait_until(lambda: number in counts(sink), f"row {number}", pipeline)

    def processes() -> set[int]:
        return {int(path.name.split("-")[0]) for path in notes.iterdir()}

    with new_pipeline(spark, tmp_path) as pipeline:
        rows = pipeline.from_source(log, uid="log").selectExpr("n", f"n % {KEYS} AS key")
        joined = pipeline.lookup_join(rows, table, on=["key"], columns=["value"])
        pipeline.sink_to(joined, sink, uid="rows")
        pipeline.start()
        for number in range(BATCHES):
            arrives(number)
        (status,) = pipeline.status().lookups
        asked = [key for path in notes.iterdir() for key in path.read_text().split()]
        # Each process requested each key once, however many batches it served.
        assert len(asked) <= KEYS * len(processes())
        assert 1 <= len(processes()) <= SLOTS * PYTHON_STAGES
        hits = status.counters[LookupMetric.HIT_COUNT]
        assert hits + len(asked) == status.counters[LookupMetric.NUM_LOOKUP_KEYS]
        assert hits > 0
    began = time.monotonic()  # the workers are idle
    workers = processes()
    while any(map(is_there, workers)):
        assert time.monotonic() - began < 180, "idle workers stay"
        time.sleep(0.5)
    assert time.monotonic() - began > 30, "idle workers end sooner than the page says"
