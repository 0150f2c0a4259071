# SPDX-License-Identifier: Apache-2.0
"""Tests that sinks can change between two starts while the positions of sources are kept."""

from __future__ import annotations

import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from pipeline_support import new_pipeline

from connectors_core.errors import IdentityError
from connectors_core.source import NumberSequenceSource, ReadLimits
from connectors_core.testing.directory_sink import DirectorySink

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from connectors_core import Pipeline

ROWS = 3000


def pipeline(
    spark: SparkSession, root: Path, *sinks: str, on_changed_query: str = "new-generation"
) -> Pipeline:
    pipeline = new_pipeline(spark, root, "generations", on_changed_query=on_changed_query)
    numbers = pipeline.from_source(
        NumberSequenceSource(0, ROWS - 1, split_rows=100),
        uid="numbers",
        limits=ReadLimits(rows=500),
    )
    for uid in sinks:
        pipeline.sink_to(numbers, DirectorySink(root / uid), uid=uid)
    return pipeline


def written(root: Path, uid: str) -> pa.Table:
    return DirectorySink(root / uid).read()


def stop_after_some_epochs(first: Pipeline, root: Path) -> None:
    first.start()
    deadline = time.monotonic() + 120
    while not written(root, "first").num_rows:
        assert time.monotonic() < deadline
        time.sleep(0.02)
    first.stop()


def test_after_adding_a_sink_the_source_resumes_from_its_position(
    spark: SparkSession, tmp_path: Path
) -> None:
    stop_after_some_epochs(pipeline(spark, tmp_path, "first"), tmp_path)
    before = written(tmp_path, "first").num_rows
    assert 0 < before < ROWS
    assert pipeline(spark, tmp_path, "first", "second").run()
    assert Counter(written(tmp_path, "first")["value"].to_pylist()) == Counter(range(ROWS))
    second = written(tmp_path, "second")["value"].to_pylist()
    assert len(second) == len(set(second)) == ROWS - before


def test_a_changed_query_is_refused_unless_it_is_allowed(
    spark: SparkSession, tmp_path: Path
) -> None:
    stop_after_some_epochs(pipeline(spark, tmp_path, "first"), tmp_path)
    changed = pipeline(spark, tmp_path, "first", "second", on_changed_query="refuse")
    with pytest.raises(IdentityError, match="new-generation"):
        changed.start()
    assert pipeline(spark, tmp_path, "first").run()
    assert Counter(written(tmp_path, "first")["value"].to_pylist()) == Counter(range(ROWS))
