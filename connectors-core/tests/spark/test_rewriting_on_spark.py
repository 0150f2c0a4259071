# SPDX-License-Identifier: Apache-2.0
"""Tests that Spark rewrites rows that a sink lost after the decision, in streaming and batch."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pipeline_support import (
    BASE,
    EVENTS,
    event_rows,
    new_pipeline,
    query_store,
    travel_with_closures,
)
from pyspark.sql import functions as F

from connectors_core.engine.coordinator.plan_log import decisions_since, rewrites_of
from connectors_core.errors import FatalError
from connectors_core.source import DataGeneratorSource, ReadLimits, WatermarkStrategy
from connectors_core.spark.internals.partitions import with_fixed_partitions
from connectors_core.testing.directory_sink import DirectorySink
from connectors_core.testing.faults import Fault, FaultAction, FaultInjected, FaultPoint, injected
from connectors_core.testing.leased_sink import LeasedDirectorySink

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from connectors_core import Pipeline

travel_with_closures(__name__)

ROWS = 180
WINDOW = 20


def lower_bound(number: int) -> datetime:
    return datetime.fromtimestamp(BASE // 1_000_000 + number, UTC)


class Shape:
    """A pipeline with one of the ways in which rows reach a sink."""

    def __init__(self, spark: SparkSession, root: Path, shape: str) -> None:
        self.spark, self.root, self.shape = spark, root, shape
        self.sink = LeasedDirectorySink(root / "out")

    def build(self) -> Pipeline:
        streaming = None if self.shape.startswith("batch") else True
        pipeline = new_pipeline(self.spark, self.root, streaming=streaming)
        source = DataGeneratorSource(
            event_rows, ROWS, EVENTS, split_rows=30, batch_rows=10, lower_bound=lower_bound
        )
        strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner("ts")
        df = pipeline.from_source(
            source,
            uid="events",
            watermark_strategy=strategy if self.shape == "stateful" else None,
            limits=ReadLimits(rows=ROWS // 3),
        )
        if self.shape == "union":
            pipeline.sink_to(df.where("n >= 0"), DirectorySink(self.root / "other"), uid="other")
        parallelism = 3 if self.shape == "own parallelism" else None
        pipeline.sink_to(self.rows(df), self.sink, uid="out", parallelism=parallelism)
        return pipeline

    def rows(self, df: DataFrame) -> DataFrame:
        if self.shape == "stateful":
            windows = df.groupBy(F.window("ts", f"{WINDOW} seconds"))
            return windows.count().select(F.col("window.start").alias("ts"), "count")
        if self.shape == "batch with a shuffle":
            return df.groupBy((F.col("n") % 90).alias("n")).count().repartition(2, "n")
        return df

    def run(self, *faults: Fault) -> None:
        with injected(*faults), self.build() as pipeline:
            pipeline.run()

    def fail(self, *faults: Fault) -> None:
        with pytest.raises((FatalError, FaultInjected)):
            self.run(*faults)
        assert all(fault.fired for fault in faults)

    def found(self) -> Counter[Any]:
        rows = self.sink.read()
        if self.shape == "stateful":
            starts = [int(ts.timestamp()) - BASE // 1_000_000 for ts in rows["ts"].to_pylist()]
            return Counter(zip(starts, rows["count"].to_pylist(), strict=True))
        return Counter(rows["n"].to_pylist())

    def assert_complete(self) -> None:
        if self.shape == "stateful":
            assert self.found() == Counter((n, WINDOW) for n in range(0, ROWS, WINDOW))
        else:
            rows = 90 if self.shape == "batch with a shuffle" else ROWS
            assert self.found() == Counter(range(rows))
        assert self.sink.staged() == []
        assert self.sink.losses() == 0

    def rewritten(self) -> dict[int, list[tuple[int, ...]]]:
        store = query_store(self.root / "checkpoint")
        return {
            epoch: [each.sinks["out"].subtasks for each in found]
            for epoch in decisions_since(store, 0)
            if (found := rewrites_of(store, epoch))
        }


def raises(point: FaultPoint, once: Path, **when: Any) -> Fault:
    return Fault(point, action=FaultAction.RAISE, once=once, **when)


@pytest.mark.parametrize(
    "shape",
    [
        "direct",
        pytest.param("union", marks=pytest.mark.line("4.3")),
        pytest.param("own parallelism", marks=pytest.mark.line("3.5")),
        "stateful",
    ],
)
def test_lost_rows_of_a_stream_are_rewritten(
    spark: SparkSession, tmp_path: Path, shape: str
) -> None:
    """The running driver rewrites rows. Later, a replay rewrites an epoch without staged rows."""
    pipeline = Shape(spark, tmp_path, shape)
    pipeline.sink.lose()
    # The first epoch with rows loses some, so it is committed twice. A window closes later.
    where = {"sink": "out"}
    pipeline.fail(raises(FaultPoint.BEFORE_COMMIT, tmp_path / "failed", nth=3, where=where))
    assert pipeline.sink.losses() == 0
    staged = pipeline.sink.staged()
    assert staged
    for path in staged:
        path.unlink()
    pipeline.fail(raises(FaultPoint.BEFORE_REWRITE_RECORD, tmp_path / "again"))
    pipeline.run()
    pipeline.assert_complete()
    first, replayed = pipeline.rewritten().values()
    assert [len(each) for each in first] == [1]
    assert [len(each) for each in replayed] == [len(staged)]


@pytest.mark.parametrize("shape", ["batch", "batch with a shuffle"])
def test_lost_rows_of_a_batch_run_are_rewritten(
    spark: SparkSession, tmp_path: Path, shape: str
) -> None:
    pipeline = Shape(spark, tmp_path, shape)
    pipeline.sink.lose()
    pipeline.fail(raises(FaultPoint.AFTER_REWRITE_RECORD, tmp_path / "failed"))
    for path in pipeline.sink.staged():
        path.unlink()
    with pipeline.build() as finishing:
        assert finishing.run() is False  # finishes the earlier run only
    pipeline.assert_complete()
    assert [len(each) for each in pipeline.rewritten().values()] == [2]
    assert list((tmp_path / "checkpoint" / "runs").iterdir()) == []
    pipeline.run()
    assert all(count == 2 for count in pipeline.found().values())


def test_attempts_of_a_task_take_separate_slots(spark: SparkSession, tmp_path: Path) -> None:
    pipeline = Shape(spark, tmp_path, "direct")
    faults = [raises(FaultPoint.AFTER_PREPARE, tmp_path / str(number)) for number in range(3)]
    pipeline.run(*faults)
    assert all(fault.fired for fault in faults)
    pipeline.assert_complete()


def test_the_partitions_of_a_dataframe_with_fixed_partitions_do_not_change(
    spark: SparkSession,
) -> None:
    """Adaptive execution would coalesce ten partitions into one."""
    df = spark.range(100).withColumn("k", F.col("id") % 7).groupBy("k").count()
    planned, partitions = with_fixed_partitions(df)
    assert planned.rdd.getNumPartitions() == partitions
    assert sorted(planned.collect()) == sorted(df.collect())
    again, same = with_fixed_partitions(df)
    assert same == partitions
    assert with_fixed_partitions(planned) == (planned, partitions)
    assert again.collect() == planned.collect()
