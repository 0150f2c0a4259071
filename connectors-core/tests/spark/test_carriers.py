# SPDX-License-Identifier: Apache-2.0
"""Tests the assumptions of the runtime about each carrier and Spark, on every Spark line."""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa
import pytest
from pyspark import cloudpickle

from connectors_core.engine.coordinator.identity import uids_of
from connectors_core.errors import (
    InvalidOptionError,
    StateCorruptedError,
    UnsupportedError,
)
from connectors_core.spark.carriers import (
    CARRIER_CONF,
    CARRIER_ENV,
    Carrier,
    MemoryCarrier,
    Resume,
    SparkLog,
    choose_carrier,
    native_available,
    spark_schema,
    streams_of,
)
from connectors_core.spark.internals import memory_stream
from connectors_core.spark.internals.memory_stream import verify_contract

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

# Executors cannot import this module.
cast(Any, cloudpickle).register_pickle_by_value(sys.modules[__name__])

DEADLINE = 60.0
SCHEMA = pa.schema([("source", pa.string()), ("x", pa.int64()), ("task", pa.int64())])
EVENT_SCHEMA = pa.schema(
    [("key", pa.string()), ("ts", pa.timestamp("us", tz="UTC")), ("_heartbeat", pa.bool_())]
)
BASE = datetime(2024, 1, 1, tzinfo=UTC)
DELAY = timedelta(days=36500)
HOUR = timedelta(hours=1)


# --- Plans, entries and readers -------------------------------------------------------------------


class FilePlans:
    """The plans of one source, as files that are created once."""

    def __init__(self, folder: Path, initial: int = -1) -> None:
        self.folder = str(folder)
        self.first = initial
        folder.mkdir(parents=True, exist_ok=True)

    def initial(self) -> int:
        return self.first

    def newest_after(self, plan: int) -> int:
        return plan + 1 if os.path.exists(f"{self.folder}/{plan + 1}") else plan

    def entries(self, plan: int) -> Sequence[str]:
        with open(f"{self.folder}/{plan}") as file:
            return cast(list[str], json.load(file))

    def write(self, plan: int, entries: Sequence[str]) -> None:
        temporary = f"{self.folder}/.{plan}"
        with open(temporary, "w") as file:
            json.dump(list(entries), file)
        os.link(temporary, f"{self.folder}/{plan}")


def numbers(source: str, start: int, stop: int) -> str:
    return json.dumps({"source": source, "start": start, "stop": stop})


def number_reader(trace: str) -> Callable[[str], Iterator[pa.RecordBatch]]:
    """Return a reader of an entry's numbers, in batches of two, that records each call."""

    def read(entry: str) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        task = context.partitionId()
        with open(trace, "a") as file:
            file.write(entry + "\n")
        plan = json.loads(entry)
        for start in range(plan["start"], plan["stop"], 2):
            xs = range(start, min(start + 2, plan["stop"]))
            columns = [[plan["source"]] * len(xs), list(xs), [task] * len(xs)]
            yield pa.RecordBatch.from_arrays(
                [pa.array(c, f.type) for c, f in zip(columns, SCHEMA, strict=True)], schema=SCHEMA
            )

    return read


class NotedReader:
    """Records the command line of each process that unpickles it."""

    def __init__(self, trace: str) -> None:
        self.trace = trace

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        with open(self.trace, "a") as file:
            file.write(" ".join(sys.orig_argv) + "\n")

    def __call__(self, entry: str) -> Iterator[pa.RecordBatch]:
        return number_reader("/dev/null")(entry)


def event(key: str, ts: datetime) -> str:
    return json.dumps({"key": key, "ts": ts.isoformat(), "heartbeat": False})


def heartbeat(watermark: datetime) -> str:
    return json.dumps({"key": None, "ts": (watermark + DELAY).isoformat(), "heartbeat": True})


def read_events(entry: str) -> Iterator[pa.RecordBatch]:
    row = json.loads(entry)
    columns = [[row["key"]], [datetime.fromisoformat(row["ts"])], [row["heartbeat"]]]
    yield pa.RecordBatch.from_arrays(
        [pa.array(c, f.type) for c, f in zip(columns, EVENT_SCHEMA, strict=True)],
        schema=EVENT_SCHEMA,
    )


def watermarked(df: DataFrame) -> DataFrame:
    # The filter names the event time. Otherwise, the optimizer moves it below the watermark.
    return df.withWatermark("ts", f"{DELAY.days} days").where(
        "NOT (_heartbeat AND ts >= TIMESTAMP '1900-01-01')"
    )


# --- Running a query ------------------------------------------------------------------------------


@dataclass
class Bench:
    """Creates carriers for one checkpoint, and runs queries on them."""

    spark: SparkSession
    kind: type[Carrier]
    folder: Path
    carriers: list[Carrier] = field(default_factory=list)
    queries: list[StreamingQuery] = field(default_factory=list)
    epochs: dict[int, list[tuple[Any, ...]]] = field(default_factory=dict)

    @property
    def checkpoint(self) -> Path:
        return self.folder / "checkpoint"

    @property
    def log(self) -> SparkLog:
        return SparkLog(self.spark, str(self.checkpoint))

    @property
    def trace(self) -> Path:
        return self.folder / "trace"

    def plans(self, uid: str = "a", initial: int = -1) -> FilePlans:
        return FilePlans(self.folder / "plans" / uid, initial)

    def carrier(
        self,
        uid: str = "a",
        *,
        schema: pa.Schema = SCHEMA,
        read: Callable[[str], Iterator[pa.RecordBatch]] | None = None,
        max_entries: int = 2,
        initial: int = -1,
    ) -> Carrier:
        carrier = self.kind(
            self.spark,
            pipeline_id="pipeline",
            uid=uid,
            schema=schema,
            read_entry=read or number_reader(str(self.trace)),
            plans=self.plans(uid, initial),
            max_entries=max_entries,
        )
        self.carriers.append(carrier)
        return carrier

    def start(self, df: DataFrame, mode: str = "append") -> StreamingQuery:
        def collect(batch: DataFrame, epoch: int) -> None:
            self.epochs[epoch] = sorted(tuple(row) for row in batch.collect())

        writer = df.writeStream.foreachBatch(collect).outputMode(mode)
        query = writer.option("checkpointLocation", str(self.checkpoint)).start()
        self.queries.append(query)
        return query

    def give(self, carrier: Carrier, plan: int, *entries: str) -> None:
        self.plans(carrier.uid).write(plan, entries)
        carrier.feed(plan, entries)

    def resume(self) -> Resume:
        """Return the position from which the only source resumes."""
        return self.log.resume(["a"])["a"]

    def forget_commit(self, batch: int) -> None:
        for name in (f"{batch}", f".{batch}.crc"):
            (self.checkpoint / "commits" / name).unlink(missing_ok=True)

    def entries_read(self) -> Counter[str]:
        return Counter(self.trace.read_text().splitlines() if self.trace.exists() else [])


def until(condition: Callable[[], bool], query: StreamingQuery | None = None) -> None:
    """Wait for a condition, and raise if the query fails first."""
    end = time.monotonic() + DEADLINE
    while not condition():
        if query is not None and not query.isActive:
            error = query.exception()
            raise error if error is not None else AssertionError("the query has ended")
        assert time.monotonic() < end, "the condition did not come true"
        time.sleep(0.005)


def failure(query: StreamingQuery) -> str:
    """Wait for a query to fail, and return its whole error."""
    until(lambda: not query.isActive)
    error = query.exception()
    assert error is not None
    return str(error)


def progress(query: StreamingQuery) -> list[dict[str, Any]]:
    return [
        json.loads(entry.json) if hasattr(entry, "json") else cast(dict[str, Any], entry)
        for entry in cast(list[Any], query.recentProgress)
    ]


def reported_watermark(query: StreamingQuery) -> datetime | None:
    marks = [p["eventTime"]["watermark"] for p in progress(query) if p.get("eventTime")]
    return datetime.fromisoformat(marks[-1].replace("Z", "+00:00")) if marks else None


def xs(rows: Sequence[tuple[Any, ...]]) -> list[int]:
    return [row[1] for row in rows]


@pytest.fixture(params=[pytest.param("memory", marks=pytest.mark.line("3.5")), "native"])
def bench(request: pytest.FixtureRequest, spark: SparkSession, tmp_path: Path) -> Iterator[Bench]:
    kind: type[Carrier] = MemoryCarrier
    if request.param == "native":
        if not native_available(spark):
            pytest.skip("this Spark has no Python Data Source API")
        kind = choose_carrier(spark)
    bench = Bench(spark, kind, tmp_path)
    yield bench
    for query in bench.queries:
        query.stop()
    for carrier in bench.carriers:
        carrier.stop()


# --- Plans become rows ----------------------------------------------------------------------------


def test_entries_become_rows_plan_by_plan(bench: Bench) -> None:
    carrier = bench.carrier(max_entries=3)
    assert bench.log.resume(["a"]) == {"a": Resume(-1, -1)}
    assert bench.log.query_id() is None
    carrier.restore(Resume(), -1)
    query = bench.start(carrier.dataframe())

    bench.give(carrier, 0, numbers("a", 0, 3), numbers("a", 3, 6), numbers("a", 6, 9))
    query.processAllAvailable()
    bench.give(carrier, 1)  # even a plan without entries advances the offset
    query.processAllAvailable()
    # More entries than tasks, one of them without rows.
    bench.give(carrier, 2, numbers("a", 9, 9), *(numbers("a", i, i + 1) for i in range(9, 13)))
    query.processAllAvailable()

    assert {epoch: xs(rows) for epoch, rows in bench.epochs.items()} == {
        0: list(range(9)),
        1: [],
        2: list(range(9, 13)),
    }
    assert {row[1] // 3: row[2] for row in bench.epochs[0]} == {0: 0, 1: 1, 2: 2}
    assert set(bench.entries_read().values()) == {1}
    log = bench.log
    assert [log.plans_of(batch, ["a"])["a"] for batch in range(3)] == [
        range(0, 1),
        range(1, 2),
        range(2, 3),
    ]
    assert log.is_committed(2)
    assert not log.is_committed(3)
    assert bench.log.query_id() == query.id
    assert (bench.log.last_logged_batch(), bench.log.last_committed_batch()) == (2, 2)
    assert bench.resume() == Resume(2, 2)


def test_columns_of_all_types_arrive_unchanged(bench: Bench) -> None:
    nested = pa.struct([pa.field("n", pa.int32()), pa.field("s", pa.string(), nullable=False)])
    schema = pa.schema(
        [
            pa.field("required", pa.int64(), nullable=False, metadata={"doc": "kept out"}),
            ("text", pa.string()),
            ("raw", pa.binary()),
            ("price", pa.decimal128(12, 2)),
            ("day", pa.date32()),
            ("at", pa.timestamp("us", tz="UTC")),
            ("wall", pa.timestamp("us")),
            ("tags", pa.list_(pa.field("element", pa.string(), nullable=False))),
            ("counts", pa.map_(pa.string(), pa.int64())),
            ("nested", nested),
        ]
    )

    def read(entry: str) -> Iterator[pa.RecordBatch]:
        import datetime as dt
        from decimal import Decimal

        at = dt.datetime(2024, 3, 1, 12, 30, 0, 123456)
        row: dict[str, Any] = {
            "required": 1,
            "text": entry,
            "raw": b"\x00\xff",
            "price": Decimal("12.34"),
            "day": at.date(),
            "at": at.replace(tzinfo=dt.UTC),
            "wall": at,
            "tags": ["x", "y"],
            "counts": [("k", 1)],
            "nested": {"n": 2, "s": "t"},
        }
        yield pa.RecordBatch.from_pylist([row], schema=schema)
        yield pa.RecordBatch.from_pylist(
            [dict.fromkeys(schema.names) | {"required": 2}], schema=schema
        )

    carrier = bench.carrier(schema=schema, read=read)
    carrier.restore(Resume(), -1)
    text = ["to_json(struct(*))"]
    query = bench.start(carrier.dataframe().selectExpr(*text))
    bench.give(carrier, 0, "hello")
    query.processAllAvailable()
    full, empty = (json.loads(row[0]) for row in bench.epochs[0])
    assert full == {
        "required": 1,
        "text": "hello",
        "raw": "AP8=",
        "price": 12.34,
        "day": "2024-03-01",
        "at": "2024-03-01T12:30:00.123Z",
        "wall": "2024-03-01T12:30:00.123",
        "tags": ["x", "y"],
        "counts": {"k": 1},
        "nested": {"n": 2, "s": "t"},
    }
    assert empty == {"required": 2}
    assert not carrier.dataframe().schema["required"].nullable


@pytest.mark.parametrize(
    "kind",
    [
        pa.large_string(),
        pa.dictionary(pa.int8(), pa.string()),
        pa.timestamp("ns", tz="UTC"),
        pa.timestamp("us", tz="Europe/Berlin"),
        pa.list_(pa.timestamp("ms")),
        pa.uint64(),
    ],
    ids=str,
)
def test_a_type_that_spark_would_change_is_refused(kind: pa.DataType) -> None:
    with pytest.raises(UnsupportedError, match="column 'c'"):
        spark_schema(pa.schema([("c", kind)]))


def test_a_later_batch_with_another_schema_is_an_error(spark: SparkSession, tmp_path: Path) -> None:
    bench = Bench(spark, MemoryCarrier, tmp_path)
    schema = pa.schema([("x", pa.int64())])

    def read(entry: str) -> Iterator[pa.RecordBatch]:
        yield pa.RecordBatch.from_pydict({"x": [1]}, schema=schema)
        yield pa.RecordBatch.from_pydict({"x": pa.array([1.5], pa.float64())})

    carrier = bench.carrier(schema=schema, read=read)
    carrier.restore(Resume(), -1)
    query = bench.start(carrier.dataframe())
    bench.give(carrier, 0, "entry")
    assert "does not match the declared schema" in failure(query)
    assert bench.log.last_committed_batch() == -1


# --- Restart --------------------------------------------------------------------------------------


def test_a_restart_runs_the_uncommitted_plan_again(bench: Bench) -> None:
    carrier = bench.carrier()
    carrier.restore(Resume(), -1)
    query = bench.start(carrier.dataframe())
    for plan in range(3):
        bench.give(carrier, plan, numbers("a", plan * 10, plan * 10 + 4), numbers("a", 99, 100))
        query.processAllAvailable()
    query.stop()
    carrier.stop()
    bench.forget_commit(2)
    first = dict(bench.epochs)
    bench.epochs.clear()
    bench.plans().write(3, [numbers("a", 30, 34)])

    carrier = bench.carrier()
    assert bench.resume() == Resume(1, 2)
    carrier.restore(bench.resume(), newest=3)
    query = bench.start(carrier.dataframe())
    query.processAllAvailable()
    assert bench.epochs[2] == first[2]
    assert xs(bench.epochs[3]) == [30, 31, 32, 33]
    assert sorted(bench.epochs) == [2, 3]

    query.stop()  # again on the same carrier, with everything committed
    bench.epochs.clear()
    assert bench.resume() == Resume(3, 3)
    carrier.restore(bench.resume(), newest=3)
    query = bench.start(carrier.dataframe())
    bench.give(carrier, 4, numbers("a", 40, 41))
    query.processAllAvailable()
    assert {epoch: xs(rows) for epoch, rows in bench.epochs.items()} == {4: [40]}


def test_a_restart_without_the_plan_is_refused(bench: Bench) -> None:
    carrier = bench.carrier()
    carrier.restore(Resume(), -1)
    query = bench.start(carrier.dataframe())
    for plan in range(2):
        bench.give(carrier, plan, numbers("a", plan * 10, plan * 10 + 4))
        query.processAllAvailable()
    query.stop()
    carrier.stop()
    bench.forget_commit(1)

    carrier = bench.carrier()
    with pytest.raises(StateCorruptedError, match="plan 1 of source 'a' again"):
        carrier.restore(bench.resume(), newest=0)
    with pytest.raises(StateCorruptedError, match="backward"):
        carrier.restore(Resume(2, 1), newest=2)
    (bench.folder / "plans" / "a" / "1").unlink()
    with pytest.raises(FileNotFoundError):
        carrier.restore(bench.resume(), newest=1)

    # Even if a runtime starts the query, no row is lost, because Spark cannot commit.
    bench.epochs.clear()
    failure(bench.start(carrier.dataframe()))
    assert bench.epochs == {}
    assert bench.log.last_committed_batch() == 0


def test_a_memory_carrier_cannot_run_before_restore(spark: SparkSession, tmp_path: Path) -> None:
    bench = Bench(spark, MemoryCarrier, tmp_path)
    carrier = bench.carrier()
    with pytest.raises(StateCorruptedError, match="before restore"):
        carrier.feed(0, [numbers("a", 0, 1)])
    failure(bench.start(carrier.dataframe()))
    carrier.restore(Resume(), -1)
    with pytest.raises(StateCorruptedError, match="out of order"):
        carrier.feed(1, [])
    assert bench.log.last_logged_batch() == -1


def test_a_new_checkpoint_can_start_after_a_plan(bench: Bench) -> None:
    carrier = bench.carrier(initial=5)
    bench.plans().write(5, [numbers("a", 50, 51)])
    carrier.restore(Resume(5, 5), newest=5)
    query = bench.start(carrier.dataframe())
    query.processAllAvailable()
    bench.give(carrier, 6, numbers("a", 60, 61))
    query.processAllAvailable()
    assert [x for epoch in sorted(bench.epochs) for x in xs(bench.epochs[epoch])] == [60]
    last = bench.log.last_logged_batch()
    plans = [bench.log.plans_of(batch, ["a"], initial=5)["a"] for batch in range(last + 1)]
    assert [plan for batch in plans for plan in batch] == [6]
    assert bench.log.resume(["a"], initial=5) == {"a": Resume(6, 6)}


def test_swapped_sources_are_detected(spark: SparkSession, tmp_path: Path) -> None:
    if not native_available(spark):
        pytest.skip("only offsets of the native carrier name their source")
    bench = Bench(spark, choose_carrier(spark), tmp_path)
    a, b = bench.carrier("a"), bench.carrier("b")
    query = bench.start(a.dataframe().union(b.dataframe()))
    bench.give(a, 0, numbers("a", 0, 1))
    query.processAllAvailable()
    query.stop()
    query = bench.start(b.dataframe().union(a.dataframe()))
    bench.give(b, 0, numbers("b", 0, 1))
    assert "the offset of another source" in failure(query)


# --- Several sources ------------------------------------------------------------------------------


def test_two_sources_with_unequal_plans_are_read_together(bench: Bench) -> None:
    a, b = bench.carrier("a", max_entries=3), bench.carrier("b")
    query_df = a.dataframe().union(b.dataframe())
    for carrier in (a, b):
        carrier.restore(Resume(), -1)
    bench.plans("a").write(0, [numbers("a", i, i + 1) for i in range(3)])
    bench.plans("b").write(0, [numbers("b", 10, 12)])
    a.feed(0, bench.plans("a").entries(0))
    b.feed(0, bench.plans("b").entries(0))
    query = bench.start(query_df)
    query.processAllAvailable()
    assert [row[:2] for row in bench.epochs[0]] == [
        ("a", 0), ("a", 1), ("a", 2), ("b", 10), ("b", 11),
    ]  # fmt: skip
    bench.give(b, 1, numbers("b", 12, 13))
    query.processAllAvailable()
    query.stop()
    bench.forget_commit(1)
    bench.epochs.clear()

    a, b = bench.carrier("a"), bench.carrier("b")
    resumes = bench.log.resume(["a", "b"])
    assert resumes == {"a": Resume(0, 0), "b": Resume(0, 1)}
    for carrier in (a, b):
        carrier.restore(resumes[carrier.uid], newest=resumes[carrier.uid].end)
    query = bench.start(a.dataframe().union(b.dataframe()))
    bench.give(a, 1, numbers("a", 5, 6))
    query.processAllAvailable()
    assert [row[:2] for row in bench.epochs[1]] == [("b", 12)]
    assert [row[:2] for row in bench.epochs[2]] == [("a", 5)]


def test_two_branches_can_read_one_source(bench: Bench) -> None:
    carrier = bench.carrier()
    df = carrier.dataframe()
    both = df.where("x % 2 = 0").union(df.where("x > 2"))
    assert streams_of(both) == ["a", "a"]
    carrier.restore(Resume(), -1)
    query = bench.start(both)
    bench.give(carrier, 0, numbers("a", 0, 4), numbers("a", 4, 6))
    query.processAllAvailable()
    assert sorted(xs(bench.epochs[0])) == [0, 2, 3, 4, 4, 5]
    assert bench.log.offsets(0, ["a", "a"]) == {"a": 0}
    with pytest.raises(StateCorruptedError, match="offsets/0"):
        bench.log.offsets(0, ["a"])
    assert set(bench.entries_read().values()) == {2}
    query.stop()
    bench.forget_commit(0)
    carrier = bench.carrier()
    df = carrier.dataframe()
    resumes = bench.log.resume(["a", "a"])
    assert resumes == {"a": Resume(-1, 0)}
    first = bench.epochs.pop(0)
    carrier.restore(resumes["a"], newest=0)
    query = bench.start(df.where("x % 2 = 0").union(df.where("x > 2")))
    query.processAllAvailable()
    assert [row[:2] for row in bench.epochs[0]] == [row[:2] for row in first]


def _union(a: DataFrame, b: DataFrame) -> DataFrame:
    return b.union(a)


def _join(a: DataFrame, b: DataFrame) -> DataFrame:
    return b.where("x > 0").join(a.withColumnRenamed("task", "t"), "x").select("x")


def _join_of_unions(a: DataFrame, b: DataFrame) -> DataFrame:
    left, right = a.union(b).alias("l"), b.select("x").alias("r")
    return left.join(right, "x").join(a.select("x").alias("q"), "x").select("x")


def _self_join(a: DataFrame, b: DataFrame) -> DataFrame:
    return b.select("x").join(a.alias("l").join(a.alias("r"), "x"), "x").select("x")


def _with_a_table(a: DataFrame, b: DataFrame) -> DataFrame:
    table = a.sparkSession.range(3).withColumnRenamed("id", "x")
    return table.join(b, "x").select("x").union(a.join(table, "x").select("x"))


def _common_table(a: DataFrame, b: DataFrame) -> DataFrame:
    a.createOrReplaceTempView("carrier_a")
    b.createOrReplaceTempView("carrier_b")
    return a.sparkSession.sql(
        "WITH u AS (SELECT x FROM carrier_b), v AS (SELECT x FROM carrier_a) "
        "SELECT x FROM v UNION ALL SELECT x FROM u UNION ALL (SELECT x FROM v)"
    )


@pytest.mark.parametrize(
    "shape", [_union, _join, _join_of_unions, _self_join, _with_a_table, _common_table]
)
def test_sources_have_the_order_of_the_offset_log(
    bench: Bench, shape: Callable[[DataFrame, DataFrame], DataFrame]
) -> None:
    if bench.kind is not MemoryCarrier and shape not in (_self_join, _common_table):
        pytest.skip("the order is Spark's: two shapes show it for a slow start of the native one")
    a, b = bench.carrier("a"), bench.carrier("b")
    df = shape(a.dataframe(), b.dataframe())
    sources = streams_of(df)
    assert set(sources) == {"a", "b"}
    for carrier in (a, b):
        carrier.restore(Resume(), -1)
    bench.give(b, 0)
    query = bench.start(df)
    log = bench.log
    until(lambda: log.last_logged_batch() == 0, query)
    # Before its first plan, the memory carrier has no offset, and the native carrier has -1.
    assert log.offsets(0, sources) in ({"a": None, "b": 0}, {"a": -1, "b": 0})


def test_streams_of_other_sources_are_distinguished(bench: Bench) -> None:
    a = bench.carrier("a").dataframe().select("x")
    rate = bench.spark.readStream.format("rate").load().selectExpr("value AS x")
    assert streams_of(rate.union(a)) == ["@rate", "a"]
    assert list(uids_of(streams_of(rate.union(a)))) == ["a"]
    assert streams_of(bench.spark.range(3)) == []


def test_a_stream_of_spark_has_no_plan_in_the_offset_log(bench: Bench) -> None:
    carrier = bench.carrier("a")
    rate = bench.spark.readStream.format("rate").load().selectExpr("value AS x")
    df = rate.union(carrier.dataframe().select("x"))
    carrier.restore(Resume(), -1)
    bench.give(carrier, 0)
    query = bench.start(df)
    until(lambda: bench.log.last_logged_batch() >= 0, query)
    assert bench.log.offsets(0, streams_of(df)).keys() == {"a"}
    assert bench.log.resume(streams_of(df)).keys() == {"a"}


# --- Watermark ------------------------------------------------------------------------------------


def test_heartbeats_drive_the_watermark(bench: Bench) -> None:
    carrier = bench.carrier(schema=EVENT_SCHEMA, read=read_events, max_entries=3)
    carrier.restore(Resume(), -1)
    df = watermarked(carrier.dataframe()).groupBy("ts").count()
    query = bench.start(df)
    # One split is ten hours ahead of the other. With a common delay, the rows of the other are
    # late.
    for plan in range(3):
        rows = [event("fast", BASE + (plan + 10) * HOUR), event("slow", BASE + plan * HOUR)]
        if plan:
            rows.append(heartbeat(BASE + (plan - 1) * HOUR))
        bench.give(carrier, plan, *rows)
        query.processAllAvailable()
    assert reported_watermark(query) == BASE + HOUR
    assert [row[0].hour for rows in bench.epochs.values() for row in rows] == [0, 1]

    bench.give(carrier, 3, heartbeat(BASE + 100 * HOUR))
    query.processAllAvailable()
    assert reported_watermark(query) == BASE + 100 * HOUR
    counted = sorted(row for rows in bench.epochs.values() for row in rows)
    assert [count for _, count in counted] == [1] * 6
    states = [state for p in progress(query) for state in p["stateOperators"]]
    assert {state["numRowsDroppedByWatermark"] for state in states} == {0}

    # A batch that only moves the watermark has no plan.
    plans = [bench.log.plans_of(batch, ["a"])["a"] for batch in sorted(bench.epochs)]
    assert [plan for batch in plans for plan in batch] == [0, 1, 2, 3]
    assert len(plans) > 4
    assert len(plans[-1]) == 0


def test_after_a_restart_every_source_must_send_its_heartbeat_again(bench: Bench) -> None:
    def run(batches: Sequence[tuple[list[str], list[str]]]) -> list[datetime | None]:
        a, b = (bench.carrier(uid, schema=EVENT_SCHEMA, read=read_events) for uid in ("a", "b"))
        resumes = bench.log.resume(["a", "b"])
        for carrier in (a, b):
            carrier.restore(resumes[carrier.uid], newest=resumes[carrier.uid].end)
        both = watermarked(a.dataframe()).union(watermarked(b.dataframe()))
        query = bench.start(both.groupBy("ts").count())
        marks = []
        plan = resumes["a"].end
        for rows in batches:
            plan += 1
            # Durable and known to both sources before the query may check.
            for carrier, entries in zip((a, b), rows, strict=True):
                bench.give(carrier, plan, *entries)
            query.processAllAvailable()
            marks.append(reported_watermark(query))
        query.stop()
        return marks

    two, nine, ten = (BASE + hours * HOUR for hours in (2, 9, 10))
    assert run([([heartbeat(two)], [heartbeat(ten)])]) == [two]
    # Spark keeps the minimum in its log, but not the watermark of each source.
    assert run([([heartbeat(nine)], []), ([], [heartbeat(ten)])]) == [two, nine]


# --- Failures and settings ------------------------------------------------------------------------


def test_an_error_of_a_reader_is_raised_and_no_row_is_lost(bench: Bench) -> None:
    attempts = bench.folder / "attempts"
    attempts_path = str(attempts)

    def broken(entry: str) -> Iterator[pa.RecordBatch]:
        with open(attempts_path, "a") as file:
            file.write("x")
        try:
            raise OSError("the disk is on fire")
        except OSError as error:
            raise RuntimeError(f"cannot read {entry[:9]}") from error
        yield

    carrier = bench.carrier(read=broken)
    carrier.restore(Resume(), -1)
    query = bench.start(carrier.dataframe())
    bench.give(carrier, 0, numbers("a", 0, 3))
    text = failure(query)
    assert "the disk is on fire" in text
    assert "cannot read" in text
    assert attempts.read_text() == "x" * 4  # the attempts of local[2,4]
    carrier.stop()

    # The same name and session with other objects: the new objects count.
    carrier = bench.carrier()
    assert bench.resume() == Resume(-1, 0)
    carrier.restore(bench.resume(), newest=0)
    query = bench.start(carrier.dataframe())
    query.processAllAvailable()
    assert xs(bench.epochs[0]) == [0, 1, 2]


def test_a_failed_attempt_is_retried(bench: Bench) -> None:
    marker = str(bench.folder / "failed-once")

    def flaky(entry: str) -> Iterator[pa.RecordBatch]:
        yield pa.RecordBatch.from_pydict({"x": [1]}, schema=schema)
        try:
            open(marker, "x").close()
        except FileExistsError:
            yield pa.RecordBatch.from_pydict({"x": [2]}, schema=schema)
        else:
            raise OSError("gone for a moment")

    schema = pa.schema([("x", pa.int64())])
    carrier = bench.carrier(schema=schema, read=flaky)
    carrier.restore(Resume(), -1)
    query = bench.start(carrier.dataframe())
    bench.give(carrier, 0, "entry")
    query.processAllAvailable()
    assert bench.epochs == {0: [(1,), (2,)]}


def test_secrets_stay_out_of_plans(bench: Bench) -> None:
    password = "hunter2-in-a-closure"  # pragma: allowlist secret

    def read(entry: str) -> Iterator[pa.RecordBatch]:
        assert password
        yield from ()

    df = bench.carrier(read=read).dataframe()
    plan = cast(Any, df)._jdf.queryExecution().toString()
    assert password not in plan


def test_only_tasks_create_user_objects(bench: Bench) -> None:
    carrier = bench.carrier(read=NotedReader(str(bench.trace)))
    carrier.restore(Resume(), -1)
    query = bench.start(carrier.dataframe())
    bench.give(carrier, 0, numbers("a", 0, 3))
    query.processAllAvailable()
    assert xs(bench.epochs[0]) == [0, 1, 2]
    made_in = {line.split("pyspark.daemon")[-1].strip() for line in bench.entries_read()}
    assert made_in <= {"", "pyspark.worker"}


def test_the_carrier_is_chosen_by_the_features_of_spark(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(CARRIER_ENV, raising=False)
    name = "NativeCarrier" if native_available(spark) else "MemoryCarrier"
    assert choose_carrier(spark).__name__ == name
    monkeypatch.setenv(CARRIER_ENV, "memory")
    assert choose_carrier(spark) is MemoryCarrier
    spark.conf.set(CARRIER_CONF, "auto")
    try:
        assert choose_carrier(spark).__name__ == name
        spark.conf.set(CARRIER_CONF, "natve")
        with pytest.raises(InvalidOptionError, match="unknown carrier"):
            choose_carrier(spark)
    finally:
        spark.conf.unset(CARRIER_CONF)
    monkeypatch.setenv(CARRIER_ENV, "native")
    if not native_available(spark):
        with pytest.raises(UnsupportedError, match="Python Data Source API"):
            choose_carrier(spark)


def test_a_foreign_memory_stream_is_refused(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory_stream, "_verified", set())
    verify_contract(spark)
    good = memory_stream._contract(spark)
    key = "partition sizes of the first plan"
    monkeypatch.setattr(memory_stream, "_verified", set())
    monkeypatch.setattr(memory_stream, "_contract", lambda _: good | {key: [2, 0, 0]})
    with pytest.raises(UnsupportedError, match="is not supported") as caught:
        verify_contract(spark)
    assert caught.value.found == "[2, 0, 0]"
    with pytest.raises(UnsupportedError, match="needs a classic Spark session"):
        verify_contract(cast("SparkSession", object()))


# --- Spark's logs ---------------------------------------------------------------------------------


def test_the_second_version_of_the_log_format_is_read(bench: Bench) -> None:
    if bench.spark.version.startswith("3."):
        pytest.skip("this Spark has one log format")
    a, b = bench.carrier("a"), bench.carrier("b")
    for carrier in (a, b):
        carrier.restore(Resume(), -1)
    df = a.dataframe().union(b.dataframe()).union(a.dataframe())
    key = "spark.sql.streaming.offsetLog.formatVersion"
    bench.spark.conf.set(key, "2")
    try:
        query = bench.start(df)
    finally:
        bench.spark.conf.unset(key)
    bench.give(b, 0, numbers("b", 0, 1))
    query.processAllAvailable()
    assert (bench.checkpoint / "offsets" / "0").read_text().startswith("v2")
    assert bench.log.resume(streams_of(df)) == {"a": Resume(-1, -1), "b": Resume(0, 0)}


def test_logs_are_read_line_by_line(spark: SparkSession, tmp_path: Path) -> None:
    sources = ["a", "b", "a", "c"]
    log = SparkLog(spark, tmp_path.as_uri())
    assert (log.last_logged_batch(), log.last_committed_batch()) == (-1, -1)
    assert log.resume(sources, initial=4)["c"] == Resume(4, 4)
    (tmp_path / "offsets").mkdir()
    (tmp_path / "commits").mkdir()
    for name in ("metadata", "offsets/9", "offsets/10", "offsets/.11.tmp", "offsets/.10.crc"):
        (tmp_path / name).touch()
    assert (log.last_logged_batch(), log.last_committed_batch()) == (10, -1)
    for name in (".9.crc", ".10.crc"):
        (tmp_path / "offsets" / name).unlink(missing_ok=True)

    def write(batch: int, text: str) -> SparkLog:
        (tmp_path / "offsets" / f"{batch}").write_text(text)
        return SparkLog(spark, str(tmp_path))

    write(9, 'v1\n{}\n-\n3\n-\n{"uid": "c", "plan": 7}')
    log = write(10, 'v2\n{}\n3:{"uid": "c", "plan": 8}\n2:0')
    assert log.offsets(9, sources) == {"a": None, "b": 3, "c": 7}
    assert log.offsets(10, sources) == {"a": 0, "b": None, "c": 8}
    log = write(10, 'v1\n{}\n0\n3\n0\n{"uid": "c", "plan": 8}')
    assert log.plans_of(10, sources) == {"a": range(0, 1), "b": range(4, 4), "c": range(8, 9)}
    assert log.resume(sources) == {"a": Resume(-1, 0), "b": Resume(3, 3), "c": Resume(7, 8)}
    (tmp_path / "commits" / "10").touch()
    assert log.resume(sources) == {"a": Resume(0, 0), "b": Resume(3, 3), "c": Resume(8, 8)}
    log = write(10, "v1\n{}\n1\n1\n2\n1")
    assert log.offsets(10, sources) == {"a": 1, "b": 1, "c": 1}
    for wrong in (
        "",
        "v3\n{}\n1\n1\n1\n1",
        "v1\n{}\n1\n1\n1",
        "v1\n{}\n1\n1\n1\nx",
        'v1\n{}\n1\n1\n1\n{"topic":1}',
        'v1\n{}\n1\n1\n1\n{"uid": "a", "plan": 8}',
        "v2\n{}\nname:1",
        "v2\n{}\n4:1",
    ):
        with pytest.raises(StateCorruptedError, match="offsets/10"):
            write(10, wrong).offsets(10, sources)
    with pytest.raises(StateCorruptedError, match="no such file"):
        log.offsets(11, sources)
    shutil.rmtree(tmp_path / "offsets")
    assert log.last_logged_batch() == -1
