# SPDX-License-Identifier: Apache-2.0
"""Time per micro-batch with trivial data."""

from __future__ import annotations

import json
import statistics
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession

from connectors_core import Pipeline
from connectors_core.sink import DiscardingSink
from connectors_core.source import NumberSequenceSource, ReadLimits

ROWS_PER_PLAN = 2
WARM_UP_SHARE = 3


def trigger_times(progress: list[Any]) -> dict[int, float]:
    """Return the milliseconds of the batches with rows, by batch number."""
    documents = (each if isinstance(each, dict) else json.loads(each.json) for each in progress)
    return {
        document["batchId"]: document["durationMs"]["triggerExecution"]
        for document in documents
        if document["numInputRows"] > 0
    }


def median_trigger(progress: list[Any]) -> float:
    """Return the median milliseconds of the batches with rows, without the first third."""
    times = list(trigger_times(progress).values())
    return statistics.median(times[len(times) // WARM_UP_SHARE :])


@contextmanager
def trivial(spark: SparkSession, plans: int) -> Iterator[tuple[Pipeline, Path]]:
    """A pipeline that discards a number sequence, with two rows per plan, and its checkpoint."""
    with tempfile.TemporaryDirectory() as folder:
        checkpoint = Path(folder) / "checkpoint"
        pipeline = Pipeline(
            spark,
            "latency",
            checkpoint_location=str(checkpoint),
            streaming=True,
            parallelism=2,
        )
        numbers = pipeline.from_source(
            NumberSequenceSource(0, plans * ROWS_PER_PLAN - 1, split_rows=1),
            uid="numbers",
            limits=ReadLimits(rows=ROWS_PER_PLAN),
        )
        pipeline.sink_to(numbers, DiscardingSink(), uid="noop")
        with pipeline:
            yield pipeline, checkpoint


def ours(spark: SparkSession, plans: int) -> float:
    """The trivial pipeline."""
    with trivial(spark, plans) as (pipeline, _):
        pipeline.start()
        query = spark.streams.active[0]
        pipeline.await_termination()
        return median_trigger(list(query.recentProgress))


def identity(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Send rows through Python and back."""
    yield from batches


@contextmanager
def own_workers(spark: SparkSession) -> Iterator[None]:
    """Use new Python workers, because our tasks leave a worker in a different state."""
    environment = spark.sparkContext.environment
    environment["WORKERS_OF"] = "the peer"
    try:
        yield
    finally:
        del environment["WORKERS_OF"]


def peer(spark: SparkSession, plans: int) -> float:
    """Run Spark's own test source through an identity `mapInArrow` into a discarding sink."""
    rate = (
        spark.readStream.format("rate-micro-batch")
        .option("rowsPerBatch", ROWS_PER_PLAN)
        .option("numPartitions", 2)
        .load()
    )
    with tempfile.TemporaryDirectory() as folder, own_workers(spark):
        query = (
            rate.mapInArrow(identity, rate.schema)
            .writeStream.format("noop")
            .option("checkpointLocation", folder)
            .start()
        )
        while query.isActive and len(query.recentProgress) < plans:
            query.awaitTermination(1)
        query.stop()
        return median_trigger(list(query.recentProgress))
