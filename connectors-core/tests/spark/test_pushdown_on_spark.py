# SPDX-License-Identifier: Apache-2.0
"""Tests what is read off Spark's plans, and that the rows stay the same."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import lookup_scenarios
import pyarrow as pa
import pytest
from lookup_scenarios import Function, Table
from pipeline_support import BASE, SECOND, counts, new_pipeline, travel_with_closures
from pyspark.sql import Window
from pyspark.sql import functions as F

from connectors_core import (
    ConnectorError,
    DataGeneratorSource,
    InvalidOptionError,
    ReadLimits,
    RecordPolicy,
    WatermarkStrategy,
)
from connectors_core.lookup import LookupFunctionProvider
from connectors_core.spark.pushdown import PUSHDOWN_CONF, push_down
from connectors_core.testing.directory_sink import DirectorySink
from connectors_core.testing.faults import Fault, FaultAction, injected

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from connectors_core import Pipeline

travel_with_closures(__name__)
travel_with_closures(lookup_scenarios.__name__)
BATCH: dict[str, Any] = {"streaming": None}
COUNT = 60
MANY = range(11, 40)
OMITTED = {3, 7, 22, 27, 43}
START = datetime.fromtimestamp(BASE / SECOND, UTC)
SCHEMA = pa.schema(
    [
        ("n", pa.int64()),
        ("i", pa.int32()),
        ("s", pa.string()),
        ("b", pa.bool_()),
        ("d", pa.date32()),
        ("t", pa.timestamp("us", tz="UTC")),
        ("money", pa.decimal128(10, 2)),
        ("x", pa.float64()),
        ("nested", pa.struct([("a", pa.int64()), ("c", pa.struct([("e", pa.string())]))])),
        ("list", pa.list_(pa.int32())),
    ]
)


def generated(numbers: pa.Int64Array) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(
        [
            {
                "n": n,
                "i": n % 7 if n % 5 else None,
                "s": f"s{n % 11}" if n % 6 else None,
                "b": n % 2 == 0,
                "d": date(2024, 1, 1) + timedelta(days=n),
                "t": START + timedelta(minutes=n),
                "money": Decimal(n) / 4,
                "x": float("nan") if n % 9 == 0 else n / 2,
                "nested": {"a": n, "c": {"e": str(n)}} if n % 4 else None,
                "list": [n],
            }
            for n in numbers.to_pylist()
        ],
        schema=SCHEMA,
    )


def rows_of(pipeline: Pipeline, **options: Any) -> DataFrame:
    source = DataGeneratorSource(generated, COUNT, SCHEMA, split_rows=20, batch_rows=7)
    return pipeline.from_source(source, uid="rows", **options)


@contextmanager
def pushing(spark: SparkSession, value: str) -> Iterator[None]:
    spark.conf.set(PUSHDOWN_CONF, value)
    try:
        yield
    finally:
        spark.conf.unset(PUSHDOWN_CONF)


def explained(pipeline: Pipeline) -> dict[str, Any]:
    """Return the columns, conditions, and limit in the explanation of one query of one source."""
    lines = [line.strip() for line in pipeline.explain().splitlines()]
    found: dict[str, Any] = {"columns": None, "conditions": set(), "limit": None}
    for line in lines:
        key, _, value = line.partition(": ")
        if key == "columns":
            found["columns"] = set(value.split(", ")) if value != "all" else {*SCHEMA.names}
        elif key == "condition":
            found["conditions"].add(value.removesuffix(" (the pipeline drops rows)"))
        elif key == "limit":
            found["limit"] = int(value.split()[0])
    return found


QUERIES: dict[str, tuple[Callable[[DataFrame], DataFrame], set[str], set[str]]] = {
    "select": (lambda df: df.select("n", "s"), {"n", "s"}, set()),
    "numbers": (
        lambda df: df.where("n > 10 and i <= 4 and 50 > n").select("n"),
        {"n", "i"},
        {"n IS NOT NULL", "i IS NOT NULL", "n > 10", "i <= 4", "n < 50"},
    ),
    "texts": (
        lambda df: df.where("s in ('s1', 's3') or s like 's4%'").select("n"),
        {"n", "s"},
        {"(s IN ('s1', 's3') OR s STARTS WITH 's4')"},
    ),
    "many values": (
        lambda df: df.where(
            F.col("n").isin(*MANY)
            & F.col("s").isin(*(f"s{n - 11}" for n in MANY))
            & F.col("d").isin(*(date(2024, 1, 1) + timedelta(days=n) for n in MANY))
            & F.col("t").isin(*(START + timedelta(minutes=n) for n in MANY))
            & (F.col("money").isin(*(Decimal(n) / 4 for n in MANY)) | F.col("b"))
            & ~F.col("i").isin(*(n + 5 for n in MANY))
        ).select("n"),
        {"n", "s", "d", "t", "money", "b", "i"},
        {
            f"n IN ({', '.join(map(str, MANY))})",
            f"s IN ({', '.join(sorted(f'{chr(39)}s{n - 11}{chr(39)}' for n in MANY))})",
            f"d IN ({', '.join(str(date(2024, 1, 1) + timedelta(days=n)) for n in MANY)})",
            f"t IN ({', '.join(str(START + timedelta(minutes=n)) for n in MANY)})",
            f"(money IN ({', '.join(f'{n / 4:.2f}' for n in MANY)}) OR b = True)",
            f"NOT i IN ({', '.join(str(n + 5) for n in MANY)})",
        },
    ),
    "many values and null": (
        lambda df: df.where(f"n in (null, {', '.join(map(str, MANY))})").select("n"),
        {"n"},
        set(),
    ),
    "nulls": (
        lambda df: df.where("s is null or not (i <=> 3)").select("n"),
        {"n", "i", "s"},
        {"(s IS NULL OR NOT (i IS NOT NULL AND i = 3))"},
    ),
    "times": (
        lambda df: df.where(
            (F.col("t") >= F.lit(START + timedelta(minutes=30)))
            & (F.col("d") < F.lit(date(2024, 2, 20)))
        ).select("n"),
        {"n", "t", "d"},
        {
            "t IS NOT NULL",
            "d IS NOT NULL",
            "t >= 2024-01-01 00:30:00+00:00",
            "d < 2024-02-20",
        },
    ),
    "decimals": (
        lambda df: df.where("money >= 5.25BD and not b").select("n"),
        {"n", "money", "b"},
        {"money IS NOT NULL", "b IS NOT NULL", "money >= 5.25", "b != True"},
    ),
    "nested fields": (
        lambda df: df.where("nested.a > 20").select("n", "nested.c.e"),
        {"n", "nested"},
        {"nested.a IS NOT NULL", "nested.a > 20"},
    ),
    "floats are left to Spark": (
        lambda df: df.where("x > 1000").select("n"),
        {"n", "x"},
        {"x IS NOT NULL"},
    ),
    "expressions are left to Spark": (
        lambda df: df.where("n + 1 > 30 and upper(s) = 'S5' and n < 55").select("n"),
        {"n", "s"},
        {"n IS NOT NULL", "s IS NOT NULL", "n < 55"},
    ),
    "random": (
        lambda df: df.where(F.rand(1) > 1e-9).where("n > 3").select("n"),
        {"n"},
        set(),
    ),
    "python": (
        lambda df: df.where(F.udf(lambda n: n > 3, "boolean")("n")).select("n"),
        {"n"},
        set(),
    ),
    "lists": (
        lambda df: df.select("n", F.explode("list").alias("element")).where("n > 4"),
        {"n", "list"},
        {"n IS NOT NULL", "list IS NOT NULL", "n > 4"},
    ),
}
BATCH_QUERIES: dict[str, tuple[Callable[[DataFrame], DataFrame], set[str], set[str]]] = {
    "aggregate": (
        lambda df: df.where("b").groupBy("s").agg(F.sum("n").alias("n")),
        {"s", "n", "b"},
        {"b IS NOT NULL", "b = True"},
    ),
    "join": (
        lambda df: (
            df.alias("l")
            .join(df.where("i = 3").alias("r"), F.expr("l.n = r.n"))
            .select("l.n", "r.s")
        ),
        {"n", "i", "s"},
        {"n IS NOT NULL"},
    ),
    "window": (
        lambda df: (
            df.withColumn("at", F.row_number().over(Window.partitionBy("b").orderBy("n")))
            .where("at < 5")
            .select("n", "s")
        ),
        {"n", "s", "b"},
        set(),
    ),
    "limit": (lambda df: df.select("n").limit(COUNT), {"n"}, set()),
    "count": (lambda df: df.groupBy().count().withColumnRenamed("count", "n"), {"b"}, set()),
}
UNION: tuple[Callable[[DataFrame], DataFrame], set[str], set[str]] = (
    lambda df: df.where("n < 5 and b").select("n").union(df.where("n > 55").select("n")),
    {"n", "b"},
    {"n IS NOT NULL", "((b IS NOT NULL AND n < 5 AND b = True) OR n > 55)"},
)


def check_same_rows(
    spark: SparkSession, root: Path, query: Callable[[Pipeline], DataFrame], **settings: Any
) -> dict[str, Any]:
    """Run a query, by default a stream, with and without pushdown; return the explanation."""
    found = {}
    explanation: dict[str, Any] = {}
    for value in ("true", "false"):
        with pushing(spark, value):
            pipeline = new_pipeline(spark, root / value, **settings)
            sink = DirectorySink(root / value / "out")
            pipeline.sink_to(query(pipeline), sink, uid="out")
            if value == "true":
                explanation = explained(pipeline)
            assert pipeline.run()
            found[value] = Counter(map(str, sink.read().to_pylist()))
    assert found["true"] == found["false"]
    assert found["true"]
    return explanation


@pytest.mark.parametrize("name", [*QUERIES, *BATCH_QUERIES, "union"])
def test_a_batch_query_gets_what_it_needs(spark: SparkSession, tmp_path: Path, name: str) -> None:
    query, columns, conditions = {**QUERIES, **BATCH_QUERIES, "union": UNION}[name]
    pipeline = new_pipeline(spark, tmp_path, **BATCH)
    df = query(rows_of(pipeline))
    pipeline.sink_to(df, DirectorySink(tmp_path / "out"), uid="out")
    found = explained(pipeline)
    assert found["columns"] == columns
    assert found["conditions"] == conditions
    assert found["limit"] == (COUNT if name == "limit" else None)
    pushed = push_down(df, pipeline._frames.batches, {}).df
    assert Counter(map(str, pushed.collect())) == Counter(map(str, df.collect()))


@pytest.mark.parametrize("name", ["numbers", "many values", "nested fields", "union"])
def test_a_streaming_query_gets_what_it_needs(
    spark: SparkSession, tmp_path: Path, name: str
) -> None:
    query, columns, conditions = {**QUERIES, "union": UNION}[name]
    found = check_same_rows(spark, tmp_path, lambda pipeline: query(rows_of(pipeline)))
    assert (found["columns"], found["conditions"]) == (columns, conditions)


@pytest.mark.parametrize("how", ["left", "inner"])
def test_a_lookup_needs_its_keys_and_what_the_query_uses(
    spark: SparkSession, tmp_path: Path, how: Any
) -> None:
    table = Table(LookupFunctionProvider(Function()))

    def query(pipeline: Pipeline) -> DataFrame:
        rows = rows_of(pipeline)
        for name in ("first", "second"):
            rows = pipeline.lookup_join(
                rows, table, uid=name, on={"n": "key"}, how=how, columns={"value": name}
            )
        rows = rows.where("i > 2 and n < 40 and first is not null")
        return rows.select("nested.a", "s", "second")

    streaming = None if how == "left" else True
    explanation = check_same_rows(spark, tmp_path, query, streaming=streaming)
    assert explanation["columns"] == {"n", "i", "s", "nested"}
    conditions = {"n IS NOT NULL", "i IS NOT NULL", "n < 40", "i > 2"}
    assert explanation["conditions"] == conditions


def test_a_driven_watermark_stays_the_same(spark: SparkSession, tmp_path: Path) -> None:
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner("t")
    found = {}
    for value in ("true", "false"):
        with pushing(spark, value):
            pipeline = new_pipeline(spark, tmp_path / value)
            rows = rows_of(pipeline, watermark_strategy=strategy, limits=ReadLimits(rows=10))
            counted = rows.where("b and n != 4").groupBy(F.window("t", "10 minutes")).count()
            sink = DirectorySink(tmp_path / value / "out")
            pipeline.sink_to(counted.select("window.start", "count"), sink, uid="out")
            if value == "true":
                assert explained(pipeline)["columns"] == {"n", "b", "t"}
                assert "n != 4" in explained(pipeline)["conditions"]
            pipeline.run()
            found[value] = Counter(map(str, sink.read().to_pylist()))
    assert found["true"] == found["false"]
    assert len(found["true"]) == COUNT // 10


def test_sql_on_a_view_is_pushed_down(spark: SparkSession, tmp_path: Path) -> None:
    pipeline = new_pipeline(spark, tmp_path, **BATCH)
    rows_of(pipeline).createOrReplaceTempView("generated_rows")
    query = "WITH late AS (SELECT * FROM generated_rows WHERE n > 50) SELECT n, s FROM late"
    sink = DirectorySink(tmp_path / "out")
    pipeline.sink_to(spark.sql(query), sink, uid="out")
    assert explained(pipeline)["columns"] == {"n", "s"}
    assert explained(pipeline)["conditions"] == {"n IS NOT NULL", "n > 50"}
    pipeline.run()
    assert sorted(sink.read()["n"].to_pylist()) == [*range(51, COUNT)]


def test_rows_that_spark_keeps_for_several_queries_are_complete(
    spark: SparkSession, tmp_path: Path
) -> None:
    pipeline = new_pipeline(spark, tmp_path, **BATCH)
    rows = rows_of(pipeline).persist()
    try:
        pipeline.sink_to(rows.select("n"), DirectorySink(tmp_path / "out"), uid="out")
        assert "keeps rows" in pipeline.explain()
        pipeline.run()
        assert rows.where("nested.c.e is null").count() == COUNT // 4
    finally:
        rows.unpersist()


def test_rows_that_go_straight_to_a_sink_are_complete(spark: SparkSession, tmp_path: Path) -> None:
    pipeline = new_pipeline(spark, tmp_path, **BATCH)
    sink = DirectorySink(tmp_path / "out")
    pipeline.sink_to(rows_of(pipeline), sink, uid="out")
    assert "straight" in pipeline.explain()
    pipeline.run()
    assert sink.read()["nested"].null_count == COUNT // 4


def test_a_policy_that_counts_bad_records_reads_all_columns(
    spark: SparkSession, tmp_path: Path
) -> None:
    pipeline = new_pipeline(spark, tmp_path, **BATCH)
    rows = rows_of(pipeline, record_policy=RecordPolicy.skip()).select("n")
    pipeline.sink_to(rows, DirectorySink(tmp_path / "out"), uid="out")
    assert "the record policy skip reads all columns" in pipeline.explain()


def test_pushdown_can_be_turned_off(spark: SparkSession, tmp_path: Path) -> None:
    pipeline = new_pipeline(spark, tmp_path, **BATCH)
    pipeline.sink_to(rows_of(pipeline).select("n"), DirectorySink(tmp_path / "out"), uid="out")
    with pushing(spark, "false"):
        assert f"{PUSHDOWN_CONF} is false" in pipeline.explain()
    with (
        pushing(spark, "maybe"),
        pytest.raises(InvalidOptionError, match="neither true nor false"),
    ):
        pipeline.explain()


@pytest.mark.parametrize("values", [("true", "false"), ("false", "true"), ("true", "true")])
def test_another_query_after_a_failure_is_exact(
    spark: SparkSession, tmp_path: Path, values: tuple[str, str]
) -> None:
    sink = DirectorySink(tmp_path / "out")

    def build(condition: str) -> Pipeline:
        pipeline = new_pipeline(spark, tmp_path)
        rows = rows_of(pipeline, limits=ReadLimits(rows=16))
        pipeline.sink_to(rows.where(condition).select("n", "s"), sink, uid="out")
        return pipeline

    first, second = values
    fault = Fault("before_decision", action=FaultAction.RAISE, where={"epoch": 2})
    with pushing(spark, first), injected(fault), pytest.raises(ConnectorError):
        build(f"n not in ({', '.join(map(str, OMITTED))})").run()
    before = {*sink.read()["n"].to_pylist()}
    assert before
    with pushing(spark, second):
        assert build("n != 40 and n < 57").run()
    found = counts(sink)
    rest = {*range(57)} - {40} - before
    assert found.keys() - OMITTED == (before | rest) - OMITTED
    assert {*found.values()} == {1}


SELECTIONS: dict[str, tuple[Callable[[DataFrame], DataFrame], bool]] = {
    "rows and columns": (lambda df: df.where("n > 10 and s is not null").select("s", "n"), True),
    "renamed columns": (lambda df: df.selectExpr("n AS m", "n AS n", "money"), True),
    "a stream of expressions": (lambda df: df.selectExpr("n + 1 AS n").where("n < 40"), False),
    "floats": (lambda df: df.where("x > 30 and n < 50").select("n"), False),
    "fields": (lambda df: df.where("nested.a > 20").select("nested.a"), False),
}


@pytest.mark.parametrize("streaming", [False, True])
@pytest.mark.parametrize("name", SELECTIONS)
def test_rows_that_spark_need_not_process_go_straight_to_the_sinks(
    spark: SparkSession, tmp_path: Path, name: str, streaming: bool
) -> None:
    query, direct = SELECTIONS[name]
    found = {}
    for pushdown in ("true", "false"):
        sinks = [DirectorySink(tmp_path / pushdown / each) for each in ("one", "two")]
        pipeline = new_pipeline(spark, tmp_path / pushdown, streaming=streaming)
        rows = query(rows_of(pipeline))
        for at, sink in enumerate(sinks):
            pipeline.sink_to(rows, sink, uid=f"sink-{at}")
        with pushing(spark, pushdown):
            straight = "go straight from the source" in pipeline.explain()
            assert straight == (direct and pushdown == "true")
            assert pipeline.run()
        one, two = (sink.read() for sink in sinks)
        assert one.column_names == rows.columns
        found[pushdown] = sorted(map(str, one.to_pylist()))
        assert found[pushdown] == sorted(map(str, two.to_pylist()))
    assert found["true"]
    assert found["true"] == found["false"]
