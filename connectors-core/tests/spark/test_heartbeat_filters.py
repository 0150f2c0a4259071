# SPDX-License-Identifier: Apache-2.0
"""Tests that no filter keeps heartbeats from the watermark node."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from connectors_core.source import DataGeneratorSource, WatermarkStrategy
from connectors_core.testing.directory_sink import DirectorySink

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

HOURS = 48
START = int(datetime(2024, 1, 1, tzinfo=UTC).timestamp())


def source(airport: str, hour: str) -> DataGeneratorSource:
    """Create one row per hour. Every column is nullable, as in a file."""
    schema = pa.schema([(airport, pa.string()), (hour, pa.timestamp("us", tz="UTC"))])

    def rows(numbers: pa.Array) -> pa.RecordBatch:
        seconds = pc.add(pc.multiply(numbers, 3600), START)
        hours = pc.multiply(seconds, 1_000_000).cast(schema.field(1).type)
        return pa.record_batch([pa.array(["JFK"] * len(numbers)), hours], schema=schema)

    return DataGeneratorSource(rows, HOURS, schema)


def strategy(hour: str) -> WatermarkStrategy:
    ordered = WatermarkStrategy.for_bounded_out_of_orderness(timedelta(days=3))
    return ordered.with_timestamp_assigner(hour)


def by_hour(df: DataFrame) -> DataFrame:
    from pyspark.sql import functions as F

    return df.groupBy(F.window("at", "1 hour")).count().select("count")


@pytest.mark.parametrize(
    "shape",
    [
        "where",
        pytest.param("dropna", marks=pytest.mark.slow),
        pytest.param("inner join", marks=pytest.mark.slow),
        "outer join",
    ],
)
def test_all_rows_are_written(spark: SparkSession, tmp_path: Path, shape: str) -> None:
    from connectors_core import Pipeline

    with Pipeline(
        spark, "filters", checkpoint_location=str(tmp_path / "checkpoint"), streaming=True
    ) as pipeline:
        left = pipeline.from_source(
            source("airport", "at"), uid="left", watermark_strategy=strategy("at")
        )
        if shape == "where":
            df = by_hour(left.where("airport = 'JFK'"))
        elif shape == "dropna":
            df = by_hour(left.dropna())
        else:
            right = pipeline.from_source(
                source("place", "hour"), uid="right", watermark_strategy=strategy("hour")
            )
            if shape == "inner join":
                df = left.join(right, [left.airport == right.place, left.at == right.hour])
            else:
                right = right.where("minute(hour) = 30")
                df = left.join(right, [left.airport == right.place, left.at == right.hour], "left")
        sink = DirectorySink(tmp_path / "out")
        pipeline.sink_to(df, sink, uid="out")
        pipeline.run()

    assert sink.read().num_rows == HOURS


def test_the_name_of_an_event_time_can_have_a_dot(spark: SparkSession, tmp_path: Path) -> None:
    from pyspark.sql import functions as F

    from connectors_core import Pipeline

    checkpoint = str(tmp_path / "checkpoint")
    with Pipeline(spark, "dots", checkpoint_location=checkpoint, streaming=True) as pipeline:
        df = pipeline.from_source(
            source("airport.code", "flight.at"),
            uid="flights",
            watermark_strategy=strategy("flight.at"),
        )
        windows = df.where("`airport.code` = 'JFK'").groupBy(F.window("`flight.at`", "1 hour"))
        sink = DirectorySink(tmp_path / "out")
        pipeline.sink_to(windows.count().select("count"), sink, uid="out")
        pipeline.run()

    assert sink.read()["count"].to_pylist() == [1] * HOURS
