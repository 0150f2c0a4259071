# SPDX-License-Identifier: Apache-2.0
"""Tests that obsolete state is removed, and that a restart finds all state that it needs."""

from __future__ import annotations

import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pipeline_support import new_pipeline

from connectors_core.source import NumberSequenceSource, ReadLimits
from connectors_core.spark import streaming_run
from connectors_core.testing.directory_sink import DirectorySink

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from connectors_core import Pipeline

ROWS = 1600
RETAINED = "spark.sql.streaming.minBatchesToRetain"


def pipeline(spark: SparkSession, root: Path) -> Pipeline:
    pipeline = new_pipeline(spark, root, "retention")
    numbers = pipeline.from_source(
        NumberSequenceSource(0, ROWS - 1, split_rows=40), uid="numbers", limits=ReadLimits(rows=100)
    )
    pipeline.sink_to(numbers, DirectorySink(root / "out"), uid="out")
    return pipeline


def test_old_plans_reports_and_decisions_are_removed_and_a_restart_resumes(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streaming_run, "PURGE_EVERY_BATCHES", 2)
    before = spark.conf.get(RETAINED)
    spark.conf.set(RETAINED, "3")
    try:
        first = pipeline(spark, tmp_path)
        first.start()
        deadline = time.monotonic() + 200
        while DirectorySink(tmp_path / "out").read().num_rows < ROWS // 2:
            assert time.monotonic() < deadline
            assert first.status().error is None
            time.sleep(0.05)
        first.stop()
        assert pipeline(spark, tmp_path).run()
    finally:
        spark.conf.set(RETAINED, before)
    values = DirectorySink(tmp_path / "out").read()["value"].to_pylist()
    assert Counter(values) == Counter(range(ROWS))
    state = tmp_path / "checkpoint" / "query-0"
    for folder in ("plans", "reports", "decisions", "done"):
        kept = len(list((state / folder).iterdir()))
        assert kept <= 3 + 2 + 2, f"{folder}: {kept}"
