# SPDX-License-Identifier: Apache-2.0
"""Spark's watermark is the connector's own, epoch by epoch, and no row is ever late by it."""

from __future__ import annotations

import json
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pipeline_support import (
    BASE,
    EVENTS,
    HOUR,
    SECOND,
    LogSource,
    counts,
    identity,
    new_pipeline,
    once,
    plans_and_reports,
    query_store,
    travel_with_closures,
    wait_until,
)
from pyspark.sql import functions as F

from connectors_core.coordinator.plan_log import newest_plan
from connectors_core.protocol import plan_path, report_path
from connectors_core.runtime.carriers import SparkLog
from connectors_core.source import DataGeneratorSource, PlanLimits, WatermarkStrategy
from connectors_core.source.watermarks import END_OF_TIME, MIN_WATERMARK, micros
from connectors_core.testing.directory_sink import DirectorySink

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from connectors_core import Pipeline

travel_with_closures(__name__)

BACKLOG = 200
MINUTE = 60 * SECOND


def backlog_rows(numbers: pa.Array) -> pa.RecordBatch:
    """Two splits of a row a minute; the first is ten hours ahead of the second."""
    ahead = pc.less(numbers, BACKLOG)
    minutes = pc.subtract(numbers, pc.if_else(ahead, 0, BACKLOG))
    start = pc.if_else(ahead, BASE + 10 * HOUR, BASE)
    times = pc.add(start, pc.multiply(minutes, MINUTE)).cast(EVENTS.field("ts").type)
    return pa.RecordBatch.from_arrays([numbers, times], schema=EVENTS)


def minute_rows(numbers: pa.Array) -> pa.RecordBatch:
    """Row n is n minutes after the base."""
    times = pc.add(pc.multiply(numbers, MINUTE), BASE).cast(EVENTS.field("ts").type)
    return pa.RecordBatch.from_arrays([numbers, times], schema=EVENTS)


def bounded_by(delay: timedelta) -> WatermarkStrategy:
    return WatermarkStrategy.for_bounded_out_of_orderness(delay).with_timestamp_assigner("ts")


def hourly(df: DataFrame) -> DataFrame:
    windows = df.groupBy(F.window("ts", "1 hour")).count()
    return windows.select(F.col("window.start").alias("start"), "count")


def progress_of(pipeline: Pipeline, query: int = 0) -> list[dict[str, Any]]:
    """Spark's progress of every micro-batch that ran, as plain JSON."""
    running = pipeline._runs[query]._query
    assert running is not None
    events = [p if type(p) is dict else json.loads(p.json) for p in running.recentProgress]
    return [event for event in events if "addBatch" in event["durationMs"]]


def dropped(progress: list[dict[str, Any]]) -> int:
    return sum(
        operator["numRowsDroppedByWatermark"]
        for event in progress
        for operator in event["stateOperators"]
    )


def milliseconds(event: dict[str, Any]) -> int:
    """Spark's watermark in a micro-batch."""
    moment = datetime.fromisoformat(event["eventTime"]["watermark"].replace("Z", "+00:00"))
    return (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)


def test_spark_has_our_watermark_in_every_epoch_and_loses_no_row_of_a_skewed_backlog(
    spark: SparkSession, tmp_path: Path
) -> None:
    checkpoint = tmp_path / "checkpoint"
    sink = DirectorySink(tmp_path / "out")
    progress: list[dict[str, Any]] = []

    def build() -> Pipeline:
        pipeline = new_pipeline(spark, tmp_path)
        source = DataGeneratorSource(
            backlog_rows, 2 * BACKLOG, EVENTS, split_rows=BACKLOG, batch_rows=20
        )
        df = pipeline.from_source(
            source,
            uid="backlog",
            watermark_strategy=bounded_by(timedelta(minutes=5)),
            limits=PlanLimits(rows=150),
        )
        pipeline.sink_to(hourly(df), sink, uid="out")
        return pipeline

    with build() as pipeline:
        pipeline.start()
        wait_until(lambda: newest_plan(query_store(checkpoint)) >= 2, "three plans", pipeline)
    progress += progress_of(pipeline)
    with build() as pipeline:
        assert pipeline.run()
    progress += progress_of(pipeline)

    rows = sink.read()
    starts = [int(start.timestamp() * SECOND - BASE) // HOUR for start in rows["start"].to_pylist()]
    whole = BACKLOG // 60
    expected = {hour: 60 for first in (0, 10) for hour in range(first, first + whole)}
    expected |= {whole: BACKLOG % 60, 10 + whole: BACKLOG % 60}
    assert Counter(starts) == once(expected)
    assert dict(zip(starts, rows["count"].to_pylist(), strict=True)) == expected
    assert dropped(progress) == 0

    plans = [plan.sources["backlog"] for plan, _ in plans_and_reports(checkpoint)]
    assert plans[-1].watermark == END_OF_TIME
    query = identity(checkpoint).queries[0]
    log = SparkLog(spark, str(checkpoint / query.spark_folder))
    seen = set()
    for event in progress:
        batch = event["batchId"]
        before = log.plans_of(batch, query.lines)["backlog"].start
        ours = max((plan.watermark or 0 for plan in plans[:before]), default=0)
        assert milliseconds(event) == ours // 1000, f"batch {batch}, plans before {before}"
        seen.add(ours)
    assert len(seen) > 3  # and it moved


def test_the_usual_watermark_loses_rows_of_the_same_backlog(
    spark: SparkSession, tmp_path: Path
) -> None:
    sink = DirectorySink(tmp_path / "out")
    with new_pipeline(spark, tmp_path) as pipeline:
        source = DataGeneratorSource(
            backlog_rows, 2 * BACKLOG, EVENTS, split_rows=BACKLOG, batch_rows=20
        )
        df = pipeline.from_source(source, uid="backlog", limits=PlanLimits(rows=150))
        pipeline.sink_to(hourly(df.withWatermark("ts", "1 hour")), sink, uid="out")
        assert pipeline.run()
    assert dropped(progress_of(pipeline)) > 0


def test_a_finished_source_and_an_idle_split_hold_no_outer_join(
    spark: SparkSession, tmp_path: Path
) -> None:
    left = LogSource(tmp_path / "log", live=True, batch_rows=50)
    left.write("busy", [f"{n} {60 * n}" for n in range(60)])
    left.write("quiet", ["1000 0"])
    sink = DirectorySink(tmp_path / "out")
    with new_pipeline(spark, tmp_path) as pipeline:
        strategy = bounded_by(timedelta(minutes=5))
        lefts = pipeline.from_source(
            left, uid="left", watermark_strategy=strategy.with_idleness(timedelta(seconds=0.5))
        )
        rights = pipeline.from_source(
            DataGeneratorSource(minute_rows, 10, EVENTS), uid="right", watermark_strategy=strategy
        ).select(F.col("n").alias("rid"), F.col("ts").alias("rts"))
        joined = lefts.join(rights, F.expr("n = rid AND ts = rts"), "left").select("n", "rid")
        pipeline.sink_to(joined, sink, uid="out")
        pipeline.start()
        # The newest row is at minute 59, so all before minute 54 are out.
        wait_until(lambda: 53 in counts(sink), "rows of no match come out", pipeline)
    found = sink.read()
    pairs = Counter(zip(found["n"].to_pylist(), found["rid"].to_pylist(), strict=True))
    expected = [(n, n if n < 10 else None) for n in range(54)] + [(1000, None)]
    assert pairs == once(expected)
    assert dropped(progress_of(pipeline)) == 0


@pytest.mark.parametrize("queries", [pytest.param(1, marks=pytest.mark.slow), 2])
def test_alignment_bounds_the_drift_of_a_fast_source(
    spark: SparkSession, tmp_path: Path, queries: int
) -> None:
    checkpoint = tmp_path / "checkpoint"
    drift = timedelta(minutes=15)
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner("ts")
    strategy = strategy.with_watermark_alignment("group", drift)
    sinks = [DirectorySink(tmp_path / f"out-{number}") for number in range(2)]
    with new_pipeline(spark, tmp_path) as pipeline:
        fast, slow = (
            pipeline.from_source(
                DataGeneratorSource(minute_rows, 80, EVENTS, split_rows=40, batch_rows=20),
                uid=uid,
                watermark_strategy=strategy,
                limits=PlanLimits(rows=rows),
            )
            for uid, rows in (("fast", None), ("slow", 40))
        )
        if queries == 1:
            pipeline.sink_to(fast.unionByName(slow), sinks[0], uid="out")
        else:
            pipeline.sink_to(fast, sinks[0], uid="out-fast")
            pipeline.sink_to(slow, sinks[1], uid="out-slow")
        assert pipeline.run()
    assert counts(sinks[0]) + counts(sinks[1]) == Counter(dict.fromkeys(range(80), 2))

    # When a plan of the fast source was made, the slow one had reported what is older than it.
    slow_query = queries - 1
    slow_root = checkpoint / f"query-{slow_query}"
    reached: list[tuple[int, int]] = []
    ended = []
    for plan, reports in plans_and_reports(checkpoint, slow_query):
        if plan.sources["slow"].finished:
            ended.append((slow_root / plan_path(plan.number)).stat().st_mtime_ns)
        for report in reports["slow"]:
            assert report is not None
            path = slow_root / report_path(plan.number, "slow", report.subtask)
            for split in report.splits:
                mark = split.watermark if split.head is None else split.head
                if mark is not None:
                    reached.append((path.stat().st_mtime_ns, mark))
    held = 0
    for plan, reports in plans_and_reports(checkpoint):
        made = (checkpoint / "query-0" / plan_path(plan.number)).stat().st_mtime_ns
        slowest = max((mark for moment, mark in reached if moment <= made), default=None)
        for entry, report in zip(plan.sources["fast"].entries, reports["fast"], strict=True):
            assert report is not None
            assert entry.max_watermark is not None
            for split in report.splits:
                assert split.rows == 0 or split.watermark is not None
                assert split.rows == 0 or split.watermark <= entry.max_watermark
                held += split.head is not None
            if not any(moment <= made for moment in ended):
                limit = MIN_WATERMARK if slowest is None else slowest + micros(drift)
                assert entry.max_watermark <= limit
    assert held > 0
