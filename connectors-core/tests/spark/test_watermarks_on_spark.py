# SPDX-License-Identifier: Apache-2.0
"""Tests that Spark's watermark equals the connector's in every epoch, without late rows."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
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

from connectors_core.engine.coordinator.plan_log import newest_plan
from connectors_core.engine.protocol import plan_path, report_path
from connectors_core.source import DataGeneratorSource, ReadLimits, WatermarkStrategy
from connectors_core.source.watermarks import END_OF_TIME, MIN_WATERMARK, micros
from connectors_core.spark.carriers import SparkLog
from connectors_core.spark.watermark_use import only_windows_compare
from connectors_core.testing.directory_sink import DirectorySink

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from connectors_core import Pipeline

travel_with_closures(__name__)

BACKLOG = 200
MINUTE = 60 * SECOND


def backlog_rows(numbers: pa.Array) -> pa.RecordBatch:
    """Create two splits with one row per minute. The first is ten hours ahead of the second."""
    ahead = pc.less(numbers, BACKLOG)
    minutes = pc.subtract(numbers, pc.if_else(ahead, 0, BACKLOG))
    start = pc.if_else(ahead, BASE + 10 * HOUR, BASE)
    times = pc.add(start, pc.multiply(minutes, MINUTE)).cast(EVENTS.field("ts").type)
    return pa.RecordBatch.from_arrays([numbers, times], schema=EVENTS)


def minute_rows(numbers: pa.Array) -> pa.RecordBatch:
    """Create row n at n minutes after the base."""
    times = pc.add(pc.multiply(numbers, MINUTE), BASE).cast(EVENTS.field("ts").type)
    return pa.RecordBatch.from_arrays([numbers, times], schema=EVENTS)


def bounded_by(delay: timedelta) -> WatermarkStrategy:
    return WatermarkStrategy.for_bounded_out_of_orderness(delay).with_timestamp_assigner("ts")


def hourly(df: DataFrame) -> DataFrame:
    windows = df.groupBy(F.window("ts", "1 hour")).count()
    return windows.select(F.col("window.start").alias("start"), "count")


def progress_of(pipeline: Pipeline, query: int = 0) -> list[dict[str, Any]]:
    """Return Spark's progress of every executed micro-batch as plain JSON."""
    running = pipeline._run.streams[query]._query
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
    """Return Spark's watermark in a micro-batch, in milliseconds."""
    moment = datetime.fromisoformat(event["eventTime"]["watermark"].replace("Z", "+00:00"))
    return (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)


def test_spark_has_our_watermark_in_every_epoch_and_drops_no_row_of_a_skewed_backlog(
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
            limits=ReadLimits(rows=150),
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

    plans = [plan for plan, _ in plans_and_reports(checkpoint)]
    marks = {plan.number: plan.sources["backlog"].watermark or 0 for plan in plans}
    assert marks[max(marks)] == END_OF_TIME
    query = identity(checkpoint).queries[0]
    log = SparkLog(spark, str(checkpoint / query.spark_folder))
    seen = set()
    for event in progress:
        batch = event["batchId"]
        before = log.plans_of(batch, query.sources)["backlog"].start
        ours = max((mark for number, mark in marks.items() if number < before), default=0)
        # Only windows use the watermark. Spark's watermark is the first event time still to come.
        assert milliseconds(event) == (ours + 1 if ours else 0) // 1000, (
            f"batch {batch}, plans before {before}"
        )
        seen.add(ours)
    assert len(seen) > 3  # the watermark advanced


def test_a_common_watermark_drops_rows_of_the_same_backlog(
    spark: SparkSession, tmp_path: Path
) -> None:
    sink = DirectorySink(tmp_path / "out")
    with new_pipeline(spark, tmp_path) as pipeline:
        source = DataGeneratorSource(
            backlog_rows, 2 * BACKLOG, EVENTS, split_rows=BACKLOG, batch_rows=20
        )
        df = pipeline.from_source(source, uid="backlog", limits=ReadLimits(rows=150))
        pipeline.sink_to(hourly(df.withWatermark("ts", "1 hour")), sink, uid="out")
        assert pipeline.run()
    assert dropped(progress_of(pipeline)) > 0


def plain(spark: SparkSession, root: Path, build: Any, batches: Sequence[Any]) -> Counter[Any]:
    """Return the result of Spark's own `withWatermark`, with one micro-batch per batch of rows."""
    folder = root / "plain"
    folder.mkdir()
    df = spark.readStream.schema("n long, ts timestamp").option("maxFilesPerTrigger", 1)
    query = (
        build(df.json(str(folder)).withWatermark("ts", "5 minutes"))
        .writeStream.format("memory")
        .queryName("plain")
        .start()
    )
    for number, batch in enumerate(batches):
        rows = [
            {"n": n, "ts": datetime.fromtimestamp(BASE / SECOND + at, UTC).isoformat()}
            for n, at in batch
        ]
        (root / "rows").write_text("\n".join(map(json.dumps, rows)))
        (root / "rows").rename(folder / f"{number}.json")
        query.processAllAvailable()
    query.stop()
    return Counter(tuple(row) for row in spark.table("plain").collect())


WINDOWS = [
    [(1, 10)],
    [(2, 3900)],  # closes the first window, because no earlier row is expected
    [(3, 3600), (4, 3599)],  # one on time, one late
    [(5, 7500)],
]


def test_a_window_closes_at_the_same_row_as_in_plain_spark(
    spark: SparkSession, tmp_path: Path
) -> None:
    def build(df: DataFrame) -> DataFrame:
        windows = df.groupBy(F.window("ts", "1 hour")).count()
        return windows.select(F.unix_timestamp("window.end").alias("n"), "count")

    hour = BASE // SECOND + 3600
    expected = plain(spark, tmp_path, build, WINDOWS)
    assert expected == once([(hour, 1), (hour + 3600, 2)])

    def write(batches: Sequence[Any]) -> None:
        source.write("a", [f"{n} {at}" for batch in batches for n, at in batch])

    source = LogSource(tmp_path / "log", live=True)
    sink = DirectorySink(tmp_path / "out")
    strategy = bounded_by(timedelta(minutes=5)).with_idleness(timedelta(seconds=0.5))
    with new_pipeline(spark, tmp_path) as pipeline:
        busy = pipeline.from_source(source, uid="busy", watermark_strategy=strategy)
        quiet = LogSource(tmp_path / "none", live=True)  # without splits, so it holds nothing back
        empty = pipeline.from_source(quiet, uid="quiet", watermark_strategy=strategy)
        pipeline.sink_to(build(busy.unionByName(empty)), sink, uid="out")
        write(WINDOWS[:2])
        pipeline.start()
        wait_until(lambda: sink.read().num_rows == 1, "the first window", pipeline)
        write(WINDOWS[2:])
        wait_until(lambda: sink.read().num_rows == 2, "the second window", pipeline)
    rows = sink.read()
    found = zip(rows["n"].to_pylist(), rows["count"].to_pylist(), strict=True)
    assert Counter(found) == expected
    assert dropped(progress_of(pipeline)) == 1


def test_operators_without_windows_drop_no_row_that_is_on_time_unlike_plain_spark(
    spark: SparkSession, tmp_path: Path
) -> None:
    def build(df: DataFrame) -> DataFrame:
        return df.dropDuplicates(["n", "ts"]).select("n")

    batches = [[(1, 3900)], [(2, 3600), (3, 3601)]]
    # The row at 3600 is exactly five minutes late. Plain Spark drops it.
    assert plain(spark, tmp_path, build, batches) == once([(1,), (3,)])

    source = LogSource(tmp_path / "log", live=True)
    sink = DirectorySink(tmp_path / "out")
    with new_pipeline(spark, tmp_path) as pipeline:
        df = pipeline.from_source(
            source, uid="log", watermark_strategy=bounded_by(timedelta(minutes=5))
        )
        pipeline.sink_to(build(df), sink, uid="out")
        source.write("a", ["1 3900"])
        pipeline.start()
        reached = (BASE + 3600 * SECOND) // 1000 - 1
        wait_until(
            lambda: any(milliseconds(event) >= reached for event in progress_of(pipeline)),
            "the watermark",
            pipeline,
        )
        source.write("a", ["2 3600", "3 3601"])
        wait_until(lambda: counts(sink) == once([1, 2, 3]), "all rows", pipeline)
    assert dropped(progress_of(pipeline)) == 0


def test_every_operator_has_a_known_comparison_with_the_watermark(
    spark: SparkSession, tmp_path: Path
) -> None:
    df = spark.readStream.schema("n long, ts timestamp").json(str(tmp_path))
    df = df.withWatermark("ts", "5 minutes")
    window = F.window("ts", "1 hour")
    count = df.groupBy(window).count()
    windows = [
        df,
        count,
        df.where("n > 1").groupBy(window.alias("w"), "n").count(),
        df.groupBy(F.session_window("ts", "5 minutes")).count(),
        df.groupBy(F.window("ts", "1 hour", "10 minutes")).count(),
        count.groupBy(F.window(F.window_time("window"), "2 hours")).count(),
        df.join(spark.range(3).select(F.col("id").alias("n")), "n").groupBy(window).count(),
        df.union(df).groupBy(window).count(),
        df.mapInArrow(lambda batches: batches, df.schema).repartition(2),
    ]
    others = [
        df.groupBy("ts").count(),
        df.groupBy(window.start).count(),
        df.dropDuplicates(["n", "ts"]),
        df.distinct(),
        df.dropDuplicatesWithinWatermark(["n"]),
        df.alias("a").join(df.alias("b"), F.expr("a.n = b.n AND a.ts = b.ts")),
        df.groupBy("n").applyInPandasWithState(
            lambda *_: iter(()), "n long", "n long", "append", "NoTimeout"
        ),
        df.join(count.select(F.col("window.end").alias("end")), F.expr("ts = end")),
    ]
    assert [only_windows_compare(each) for each in windows] == [True] * len(windows)
    assert [only_windows_compare(each) for each in others] == [False] * len(others)


def test_a_finished_source_and_an_idle_split_do_not_hold_back_an_outer_join(
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
        # The newest row is at minute 59, so all rows before minute 54 are written.
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
                limits=ReadLimits(rows=rows),
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

    # The reports of the slow source that are older than a plan of the fast source limit this plan.
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
