# SPDX-License-Identifier: Apache-2.0
"""Tests lookup joins on Spark: batch and streaming, by key and with a full cache."""

from __future__ import annotations

import signal
from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import lookup_scenarios
import pytest
from lookup_scenarios import (
    KEYS,
    ROWS,
    AsyncFunction,
    BrokenFunction,
    ByHand,
    Function,
    JsonTable,
    KilledDriver,
    OneRowTable,
    SlowTable,
    Table,
    expected,
    given,
    order_source,
    versioned,
    versioned_where_read,
)
from pipeline_support import (
    LogSource,
    counts,
    plans_and_reports,
    travel_with_closures,
    wait_until,
)
from pyspark.sql import functions as F

from connectors_core import Pipeline
from connectors_core.engine.execution.lookup_snapshots import local_folder
from connectors_core.errors import ConfigurationError, UnsupportedError
from connectors_core.lookup import (
    AsyncLookupFunctionProvider,
    DefaultLookupCache,
    LookupFunctionProvider,
    PartialCachingLookupProvider,
)
from connectors_core.metrics import LookupMetric
from connectors_core.source import ReadLimits, WatermarkStrategy
from connectors_core.table import LookupTableSource
from connectors_core.testing.directory_sink import DirectorySink
from connectors_core.testing.driver import run_driver
from connectors_core.testing.faults import Fault, FaultAction, FaultPoint

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from connectors_core.engine.query.status import PipelineStatus

travel_with_closures(lookup_scenarios.__name__)

PROVIDERS = {
    "blocking": LookupFunctionProvider(Function()),
    "asynchronous": AsyncLookupFunctionProvider(AsyncFunction()),
    "partial": PartialCachingLookupProvider(Function(), DefaultLookupCache()),
    "partial, asynchronous": PartialCachingLookupProvider(AsyncFunction(), DefaultLookupCache()),
    "full": None,
}


def table_of(kind: str, tmp_path: Path) -> LookupTableSource:
    if kind != "full":
        return Table(PROVIDERS[kind])
    table = JsonTable(tmp_path / "table.json")
    table.write()
    return table


def pipeline_of(spark: Any, tmp_path: Path, **arguments: Any) -> Pipeline:
    return Pipeline(spark, "p", checkpoint_location=str(tmp_path / "c"), parallelism=2, **arguments)


def test_rows_can_have_columns_with_dots_in_their_names(spark: Any, tmp_path: Path) -> None:
    sink = DirectorySink(tmp_path / "out")
    with pipeline_of(spark, tmp_path) as pipeline:
        rows = pipeline.from_source(order_source(), uid="orders")
        renamed = rows.withColumnRenamed("key", "order.key")
        joined = pipeline.lookup_join(
            renamed, table_of("blocking", tmp_path), on={"order.key": "key"}, columns=["value"]
        )
        pipeline.sink_to(joined.withColumnRenamed("order.key", "key"), sink, uid="out")
        assert pipeline.run()
    assert given(sink) == expected("left")


@pytest.mark.parametrize("streaming", [False, True], ids=["batch", "stream"])
@pytest.mark.parametrize("kind", PROVIDERS)
def test_rows_are_joined_with_every_kind_of_table(
    spark: Any, tmp_path: Path, kind: str, streaming: bool
) -> None:
    left, inner = DirectorySink(tmp_path / "left"), DirectorySink(tmp_path / "inner")
    with pipeline_of(spark, tmp_path, streaming=streaming) as pipeline:
        rows = pipeline.from_source(order_source(), uid="orders", limits=ReadLimits(rows=150))
        table = table_of(kind, tmp_path)
        for how, sink in (("left", left), ("inner", inner)):
            joined = pipeline.lookup_join(
                rows, table, on=["key"], how=cast(Any, how), columns=["value"], uid=how
            )
            pipeline.sink_to(joined, sink, uid=f"to-{how}")
        assert pipeline.run()
        lookups = {each.uid: each for each in pipeline.status().lookups}
    assert given(left) == expected("left")
    assert given(inner) == expected("inner")
    counters = lookups["left"].counters
    assert counters[LookupMetric.NUM_LOOKUP_KEYS] >= KEYS
    if kind.startswith("partial"):
        hits, misses = counters[LookupMetric.HIT_COUNT], counters[LookupMetric.MISS_COUNT]
        assert hits + misses == counters[LookupMetric.NUM_LOOKUP_KEYS]
    if kind == "full":
        assert lookups["left"].version == 1
        assert lookups["left"].gauges[LookupMetric.NUM_CACHED_RECORD] == sum(
            key % 3 for key in range(KEYS)
        )
        pins = list((tmp_path / "c").glob("*/lookup-pins/*"))
        assert bool(pins) == streaming, "a batch run that is over is not run again"
        assert not list(local_folder().glob(f"*{pipeline._identity.pipeline_id}*"))


@pytest.mark.parametrize("streaming", [False, True], ids=["batch", "stream"])
@pytest.mark.parametrize("kind", PROVIDERS)
def test_rows_without_another_reader_are_joined_where_they_are_read(
    spark: Any, tmp_path: Path, kind: str, streaming: bool
) -> None:
    sink = DirectorySink(tmp_path / "rows")
    with pipeline_of(spark, tmp_path, streaming=streaming) as pipeline:
        rows = pipeline.from_source(order_source(), uid="orders", limits=ReadLimits(rows=150))
        joined = pipeline.lookup_join(
            rows, table_of(kind, tmp_path), on=["key"], columns=["value"], uid="first"
        )
        once = OneRowTable(tmp_path / "once.json")
        once.write("once")
        joined = pipeline.lookup_join(
            joined, once, on=["key"], columns={"value": "once"}, uid="second"
        )
        pipeline.sink_to(joined, sink, uid="sink")
        entries = pipeline._frames.writing_job(pipeline._frames.sinks).df
        assert entries.columns != joined.columns, "rows go through Spark"
        assert pipeline.run()
        counters = {each.uid: each.counters for each in pipeline.status().lookups}
    assert given(sink) == expected("left")
    written = sink.read()
    once_of = zip(written["key"].to_pylist(), written["once"].to_pylist(), strict=True)
    assert set(once_of) == {(None, None), (0, "once"), *((key, None) for key in range(1, KEYS))}
    assert counters["first"][LookupMetric.NUM_LOOKUP_KEYS] >= KEYS
    assert counters["second"][LookupMetric.NUM_LOOKUP_KEYS] >= KEYS


def sums_behind(df: DataFrame) -> DataFrame:
    return df.groupBy(F.window("ts", "100 seconds")).count().select("window.start", "count")


def test_a_join_does_not_change_the_watermark(spark: SparkSession, tmp_path: Path) -> None:
    """Windows after the join are written when they close, and no row is late."""
    sink = DirectorySink(tmp_path / "sums")
    by_time = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner("ts")
    with pipeline_of(spark, tmp_path, streaming=True) as pipeline:
        rows = pipeline.from_source(
            order_source(), uid="orders", watermark_strategy=by_time, limits=ReadLimits(rows=150)
        )
        joined = pipeline.lookup_join(
            rows, table_of("full", tmp_path), on=["key"], columns=["value"], how="inner"
        )
        pipeline.sink_to(sums_behind(joined), sink, uid="sums")
        assert pipeline.run()
    wanted: Counter[int] = Counter()
    for (n, _), times in expected("inner").items():
        wanted[n // 100] += times
    assert sorted(sink.read()["count"].to_pylist()) == sorted(wanted.values())


@pytest.mark.parametrize(
    "move",
    [
        sums_behind,
        lambda df: df.dropDuplicates(["n"]),
        lambda df: df.repartition(3),
        lambda df: df.orderBy("n"),
        lambda df: df.limit(3),
        lambda df: df.join(df.sparkSession.range(3), F.col("n") == F.col("id")),
    ],
    ids=["aggregate", "deduplicate", "repartition", "sort", "limit", "join"],
)
def test_shuffling_after_a_lookup_by_key_is_refused(
    spark: SparkSession, tmp_path: Path, move: Callable[[DataFrame], DataFrame]
) -> None:
    pipeline = pipeline_of(spark, tmp_path)
    rows = pipeline.from_source(order_source(), uid="orders")
    joined = pipeline.lookup_join(
        rows, table_of("partial", tmp_path), on=["key"], columns=["value"]
    )
    pipeline.sink_to(move(joined), DirectorySink(tmp_path / "rows"), uid="rows")
    with pytest.raises(UnsupportedError, match="'lookup-key'") as refused:
        pipeline.run()
    assert refused.value.option == "allow_unstable"


def test_a_sink_with_its_own_parallelism_shuffles_rows(spark: SparkSession, tmp_path: Path) -> None:
    pipeline = pipeline_of(spark, tmp_path)
    rows = pipeline.from_source(order_source(), uid="orders")
    joined = pipeline.lookup_join(
        rows, table_of("blocking", tmp_path), on=["key"], columns=["value"]
    )
    pipeline.sink_to(joined, DirectorySink(tmp_path / "rows"), uid="rows", parallelism=1)
    with pytest.raises(UnsupportedError, match="'rows'"):
        pipeline.run()


@pytest.mark.parametrize("kind", ["full", "allowed"])
def test_shuffling_after_a_stable_or_explicitly_allowed_lookup_is_accepted(
    spark: SparkSession, tmp_path: Path, kind: str
) -> None:
    sink = DirectorySink(tmp_path / "rows")
    with pipeline_of(spark, tmp_path) as pipeline:
        rows = pipeline.from_source(order_source(), uid="orders")
        table = table_of("full" if kind == "full" else "partial", tmp_path)
        joined = pipeline.lookup_join(
            rows, table, on=["key"], columns=["value"], allow_unstable=kind != "full"
        )
        pipeline.sink_to(joined.select("n", "value").repartition(3), sink, uid="rows")
        assert pipeline.run()
    assert given(sink) == expected("left")


def test_rows_may_be_shuffled_before_a_lookup_and_transformed_after_it(
    spark: SparkSession, tmp_path: Path
) -> None:
    sink = DirectorySink(tmp_path / "rows")
    with pipeline_of(spark, tmp_path) as pipeline:
        rows = pipeline.from_source(order_source(), uid="orders").repartition(3)
        joined = pipeline.lookup_join(
            rows, table_of("partial", tmp_path), on=["key"], columns=["value"]
        )
        joined = joined.where("n >= 0").withColumn("m", F.col("n") + 1).select("n", "value", "m")
        pipeline.sink_to(joined, sink, uid="rows")
        assert pipeline.run()
    assert given(sink) == expected("left")


@pytest.mark.line("4.3")
def test_a_table_is_reloaded_on_its_trigger(spark: SparkSession, tmp_path: Path) -> None:
    trigger = ByHand()
    table = OneRowTable(tmp_path / "table.json", trigger)
    log = LogSource(tmp_path / "log", live=True)
    sink = DirectorySink(tmp_path / "rows")

    def value_of(number: int) -> str:
        log.write("log", [number])
        wait_until(lambda: number in counts(sink), f"row {number}", pipeline)
        rows = sink.read()
        return dict(zip(rows["n"].to_pylist(), rows["value"].to_pylist(), strict=True))[number]

    table.write("one")
    log.write("log", [0])
    with pipeline_of(spark, tmp_path) as pipeline:
        rows = pipeline.from_source(log, uid="log")
        pipeline.sink_to(versioned(pipeline, rows, table), sink, uid="rows")
        pipeline.start()
        assert value_of(1) == "one"
        table.write("two")
        assert value_of(2) == "one"
        trigger.context.trigger_reload().result(60)
        value_of(3)  # this batch may be older than the reload
        assert value_of(4) == "two"
        table.file.write_text("not JSON")
        with pytest.raises(Exception, match="Expecting value"):
            trigger.context.trigger_reload().result(60)
        (status,) = pipeline.status().lookups
        assert status.error is not None
        assert status.version == 2
        assert status.counters[LookupMetric.NUM_LOAD_FAILURE] == 1
        assert value_of(5) == "two"
        for number, version in ((6, "three"), (7, "four")):
            table.write(version)
            trigger.context.trigger_reload().result(60)
            value_of(number)
        assert value_of(8) == "four"
        (status,) = pipeline.status().lookups
        assert status.error is None
        assert status.version == 4
        folder = tmp_path / "c" / "lookup" / "table"
        assert len(list(folder.glob("*.arrow"))) <= 3, "older versions are kept"
        assert not list((folder / "runs").rglob("*.json"))


def test_stopping_does_not_wait_for_a_reload(spark: SparkSession, tmp_path: Path) -> None:
    trigger = ByHand()
    table = SlowTable(tmp_path / "table.json", trigger)
    table.write("one")
    log = LogSource(tmp_path / "log", live=True)
    log.write("log", [0])
    sink = DirectorySink(tmp_path / "rows")
    with pipeline_of(spark, tmp_path) as pipeline:
        rows = pipeline.from_source(log, uid="log")
        pipeline.sink_to(versioned(pipeline, rows, table), sink, uid="rows")
        pipeline.start()
        wait_until(lambda: 0 in counts(sink), "row 0", pipeline)
        table.hangs.touch()
        reload = trigger.context.trigger_reload()
        wait_until(table.hanging.exists, "a table that is being read", pipeline)
        pipeline.stop()
        assert reload.done(), "it was not given up"
        table.hangs.unlink()
    folder = tmp_path / "c" / "lookup" / "table"
    assert len(list((folder / "versions").iterdir())) == 1
    assert not list((folder / "runs").rglob("*.json"))


@pytest.mark.slow
@pytest.mark.parametrize("shape", [versioned, versioned_where_read])
def test_a_batch_that_runs_again_sees_the_same_version(
    tmp_path: Path, shape: Callable[..., DataFrame]
) -> None:
    table = OneRowTable(tmp_path / "table.json")
    table.write("old")
    job, log = KilledDriver(tmp_path, shape), tmp_path / "driver.log"
    kills = [
        (FaultPoint.BEFORE_DECISION, FaultAction.KILL),
        (FaultPoint.WRITER_WROTE, FaultAction.KILL_DRIVER),
    ]
    for number, (point, action) in enumerate(kills):
        # The second driver fences the epoch of the first off, and runs its batch in the next one.
        epoch, once = 1 + number, tmp_path / f"killed-{number}"
        fault = Fault(point, action=action, where={"epoch": epoch}, once=once)
        assert run_driver(job, log, fault) == -signal.SIGKILL, log.read_text()[-4000:]
        table.write(f"new {number}")
    seen = sum(
        report.rows
        for _, reports in plans_and_reports(tmp_path / "checkpoint")[:2]
        for report in reports["orders"]
        if report is not None
    )
    assert run_driver(job, log) == 0, log.read_text()[-4000:]
    values = Counter(DirectorySink(tmp_path / "rows").read()["value"].to_pylist())
    if shape is versioned_where_read:  # other keys have no match
        assert values.keys() == {"old", "new 1", None}
        assert values["old"] + values["new 1"] == sum(
            n % KEYS == 0 and n % 7 != 0 for n in range(ROWS)
        )
        assert values.total() == ROWS
    else:
        assert values == {"old": seen, "new 1": ROWS - seen}
    assert 0 < seen < ROWS


@pytest.mark.line("3.5")
def test_an_unreadable_table_fails_the_first_start_but_no_later_one(
    spark: SparkSession, tmp_path: Path
) -> None:
    table = OneRowTable(tmp_path / "table.json")
    sink = DirectorySink(tmp_path / "rows")

    def run(number: int) -> PipelineStatus:
        log = LogSource(tmp_path / "log", live=True)
        log.write("log", [number])
        with pipeline_of(spark, tmp_path) as pipeline:
            rows = pipeline.from_source(log, uid="log")
            pipeline.sink_to(versioned(pipeline, rows, table), sink, uid="rows")
            pipeline.start()
            wait_until(lambda: number in counts(sink), f"row {number}", pipeline)
            return pipeline.status()

    with pytest.raises(Exception, match="table"):
        run(1)
    table.write("one")
    assert run(2).lookups[0].error is None
    table.file.unlink()
    status = run(3)
    assert status.lookups[0].error is not None
    assert set(sink.read()["value"].to_pylist()) == {"one"}


def test_a_query_outside_the_pipeline_sees_no_version(spark: SparkSession, tmp_path: Path) -> None:
    pipeline = pipeline_of(spark, tmp_path)
    rows = pipeline.from_source(order_source(), uid="orders")
    joined = pipeline.lookup_join(rows, table_of("full", tmp_path), on=["key"], columns=["value"])
    with pytest.raises(Exception, match="another query reads lookup 'lookup-key'"):
        joined.collect()


@pytest.mark.parametrize(("kind", "warned"), [("partial", True), ("full", False)])
def test_a_partial_cache_that_keeps_no_rows_is_warned_about(
    spark: SparkSession, tmp_path: Path, caplog: Any, kind: str, warned: bool
) -> None:
    interval = timedelta(minutes=2)
    with pipeline_of(spark, tmp_path, trigger_interval=interval, streaming=True) as pipeline:
        rows = pipeline.from_source(order_source(), uid="orders")
        table = table_of(kind, tmp_path)
        joined = pipeline.lookup_join(rows, table, on=["key"], columns=["value"])
        pipeline.sink_to(joined, DirectorySink(tmp_path / "rows"), uid="rows")
        pipeline.start()
    assert ("the cache of lookup lookup-key" in caplog.text) == warned


def test_a_lookup_name_can_be_used_only_once(spark: SparkSession, tmp_path: Path) -> None:
    pipeline = pipeline_of(spark, tmp_path)
    rows = pipeline.from_source(order_source(), uid="orders")
    table = table_of("blocking", tmp_path)
    pipeline.lookup_join(rows, table, on=["key"], columns=["value"])
    with pytest.raises(ConfigurationError, match="'lookup-key' is used twice"):
        pipeline.lookup_join(rows, table, on=["key"], columns=["value"])
    with pytest.raises(ConfigurationError, match="'orders' is used twice"):
        pipeline.lookup_join(rows, table, on=["key"], columns=["value"], uid="orders")


def test_an_error_of_a_lookup_function_includes_its_cause(
    spark: SparkSession, tmp_path: Path
) -> None:
    with pipeline_of(spark, tmp_path) as pipeline:
        rows = pipeline.from_source(order_source(), uid="orders")
        table = Table(LookupFunctionProvider(BrokenFunction()))
        joined = pipeline.lookup_join(rows, table, on=["key"], columns=["value"])
        pipeline.sink_to(joined, DirectorySink(tmp_path / "rows"), uid="rows")
        with pytest.raises(Exception, match=r"(?s)in lookup 'lookup-key'.*no such column"):
            pipeline.run()
