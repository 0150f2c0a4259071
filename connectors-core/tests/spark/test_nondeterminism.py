# SPDX-License-Identifier: Apache-2.0
"""Tests the warning about queries that return other rows when they run again."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pipeline_support import new_pipeline
from pyspark.sql import functions as F

from connectors_core import NumberSequenceSource
from connectors_core.source import WatermarkStrategy
from connectors_core.testing.directory_sink import DirectorySink

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

WARNING = "may receive other rows under the same epoch"
OTHER = {
    "rand": lambda df: df.where(F.rand() < 2),
    "uuid": lambda df: df.withColumn("id", F.expr("uuid()")),
    "below an aggregate": lambda df: df.where(F.rand() < 2).groupBy("value").count(),
    "current time": lambda df: df.withColumn("at", F.current_timestamp()),
    "an unmarked function": lambda df: df.withColumn(
        "x", F.udf(lambda n: n, "long").asNondeterministic()("value")
    ),
}


@pytest.mark.parametrize("query", OTHER)
def test_a_query_with_other_values_in_every_run_warns_before_a_function(
    spark: SparkSession, tmp_path: Path, query: str, caplog: pytest.LogCaptureFixture
) -> None:
    with new_pipeline(spark, tmp_path, streaming=None) as pipeline:
        rows = OTHER[query](pipeline.from_source(NumberSequenceSource(0, 3), uid="numbers"))
        pipeline.for_each_batch(rows, lambda rows, epoch: None, uid="function")
        assert pipeline.run()
    assert WARNING in caplog.text


def test_a_query_without_such_values_warns_of_nothing(
    spark: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(
        "value", epoch_unit="s"
    )
    with new_pipeline(spark, tmp_path) as pipeline:
        rows = pipeline.from_source(
            NumberSequenceSource(1, 3), uid="numbers", watermark_strategy=strategy
        )
        rows = rows.withColumn("at", F.current_timestamp())  # a stream pins it
        pipeline.for_each_batch(rows, lambda rows, epoch: None, uid="function")
        assert pipeline.run()
    assert WARNING not in caplog.text


def test_a_sink_that_receives_the_rows_of_an_epoch_once_warns_of_nothing(
    spark: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with new_pipeline(spark, tmp_path, streaming=None) as pipeline:
        rows = pipeline.from_source(NumberSequenceSource(0, 3), uid="numbers")
        rows = rows.where(F.rand() < 2)
        pipeline.sink_to(rows, DirectorySink(tmp_path / "out"), uid="out")
        assert pipeline.run()
    assert WARNING not in caplog.text
