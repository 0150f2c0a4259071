# SPDX-License-Identifier: Apache-2.0
"""Tests the lineage and the events of pipelines on Spark."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pipeline_support import LogSource, new_pipeline, travel_with_closures, wait_until
from pyspark.sql import functions as F
from toy_table import ToyTable

from connectors_core import ConnectorError, WatermarkStrategy
from connectors_core.engine.query.status import PipelineState
from connectors_core.errors import InvalidOptionError
from connectors_core.lineage import (
    ColumnOrigin,
    JobCreatedEvent,
    JobExecutionStatusEvent,
    JobStatus,
    LineageDataset,
    LineageEdge,
    LineageGraph,
    LineageVertexProvider,
    RuntimeExecutionMode,
)
from connectors_core.source import DataGeneratorSource, RateLimiterStrategy
from connectors_core.testing import DirectorySink, Fault, FaultAction, injected

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

travel_with_closures(__name__)
SCHEMA = pa.schema([("n", pa.int64()), ("s", pa.string()), ("list", pa.list_(pa.int64()))])
NUMBERS = LineageDataset(namespace="generator", name="numbers")


def generated(numbers: pa.Int64Array) -> pa.RecordBatch:
    rows = [{"n": n, "s": f"s{n % 3}", "list": [n, n]} for n in numbers.to_pylist()]
    return pa.RecordBatch.from_pylist(rows, schema=SCHEMA)


class Numbers(DataGeneratorSource, LineageVertexProvider):
    def lineage_datasets(self) -> tuple[LineageDataset, ...]:
        return (NUMBERS,)


class Folder(DirectorySink, LineageVertexProvider):
    def lineage_datasets(self) -> tuple[LineageDataset, ...]:
        return (LineageDataset(namespace="file", name="/out"),)


class Unnamed(Folder):
    def lineage_datasets(self) -> tuple[LineageDataset, ...]:
        raise RuntimeError("no name today")


class Recording:
    def __init__(self) -> None:
        self.events: list[Any] = []

    def on_event(self, event: object) -> None:
        self.events.append(event)

    def states(self) -> list[JobStatus]:
        return [e.new_status for e in self.events if isinstance(e, JobExecutionStatusEvent)]

    def graph(self) -> LineageGraph:
        created = self.events[0]
        assert isinstance(created, JobCreatedEvent)
        return created.lineage_graph


def numbers(count: int = 30, **options: Any) -> DataGeneratorSource:
    return Numbers(generated, count, SCHEMA, split_rows=10, **options)


@pytest.mark.parametrize("streaming", [False, True])
def test_a_run_reports_its_state_and_lineage(
    spark: SparkSession, tmp_path: Path, streaming: bool
) -> None:
    listener = Recording()
    pipeline = new_pipeline(spark, tmp_path, streaming=streaming or None, listeners=[listener])
    rows = pipeline.from_source(numbers(), uid="numbers")
    pipeline.sink_to(rows.where("n > 4").selectExpr("n AS m"), Folder(tmp_path / "out"), uid="out")
    assert pipeline.run()
    created = listener.events[0]
    mode = RuntimeExecutionMode.STREAMING if streaming else RuntimeExecutionMode.BATCH
    assert created.execution_mode is mode
    assert listener.states() == [JobStatus.RUNNING, JobStatus.FINISHED]
    assert listener.events[-1].written == {"out": 25}
    assert {each.job_id for each in listener.events} == {created.job_id}
    graph = listener.graph()
    assert graph.datasets == {
        "numbers": (NUMBERS,),
        "out": (LineageDataset(namespace="file", name="/out"),),
    }
    (edge,) = graph.edges
    assert (edge.sink, edge.inputs, edge.schema.names) == ("out", ("numbers",), ["m"])


def statement(text: str) -> Callable[[DataFrame], DataFrame]:
    """Return a function that runs a statement on the view `numbers`."""

    def run(df: DataFrame) -> DataFrame:
        df.createOrReplaceTempView("numbers")
        try:
            return df.sparkSession.sql(text)
        finally:
            df.sparkSession.catalog.dropTempView("numbers")

    return run


COLUMNS: dict[str, tuple[Callable[[DataFrame], DataFrame], list[str]]] = {
    "columns": (lambda df: df.select("s", F.col("n").alias("m")), ["s=s", "m=n"]),
    "expressions": (
        lambda df: df.selectExpr("n + length(s) AS x", "1 AS one"),
        ["x=n TRANSFORMATION,s TRANSFORMATION", "one="],
    ),
    "groups": (
        lambda df: df.where("n > 3").groupBy("s").agg(F.sum("n").alias("n")),
        ["s=s", "n=n AGGREGATION"],
    ),
    "elements": (
        lambda df: df.select("n", F.explode("list").alias("e")),
        ["n=n", "e=list TRANSFORMATION"],
    ),
    "unions of elements": (
        lambda df: df.selectExpr("n", "explode(list) AS e").union(df.selectExpr("n", "n")),
        ["n=n", "e=list TRANSFORMATION,n"],
    ),
    "functions": (
        lambda df: df.select(F.udf(lambda n: n + 1, "bigint")("n").alias("m")),
        ["m=n TRANSFORMATION"],
    ),
    "joins and unions": (
        lambda df: df.select("n").join(df.select("n", "s"), "n").unionByName(df.select("n", "s")),
        ["n=n", "s=s"],
    ),
    "choices": (
        lambda df: df.selectExpr("CASE WHEN n > 3 THEN s ELSE '' END AS c", "if(n > 3, 1, 2) AS i"),
        ["c=n CONDITIONAL,s TRANSFORMATION", "i=n CONDITIONAL"],
    ),
    "sums of some rows": (
        lambda df: df.groupBy().agg(F.expr("sum(n) FILTER (WHERE s <> '') AS n")),
        ["n=n AGGREGATION,s CONDITIONAL"],
    ),
    "grouping sets": (
        lambda df: df.rollup("s").agg(F.sum("n").alias("n")),
        ["s=s", "n=n AGGREGATION"],
    ),
    "groups in pandas": (
        lambda df: df.select("n", "s").groupBy("s").applyInPandas(lambda rows: rows, "x STRING"),
        ["x=n TRANSFORMATION,s TRANSFORMATION"],
    ),
    "ranks": (
        lambda df: df.selectExpr("n", "rank() OVER (PARTITION BY s ORDER BY n) AS place"),
        ["n=n", "place=n WINDOW,s WINDOW"],
    ),
    "subqueries of one value": (
        statement("SELECT n + (SELECT max(length(s)) FROM numbers) AS x FROM numbers"),
        ["x=n TRANSFORMATION,s AGGREGATION"],
    ),
    "subqueries as conditions": (
        statement("SELECT CASE WHEN (SELECT min(s) FROM numbers) = s THEN n END AS x FROM numbers"),
        ["x=n TRANSFORMATION,s CONDITIONAL"],
    ),
    "subqueries of a row": (
        statement(
            "SELECT (SELECT max(b.n) FROM numbers AS b WHERE a.s = b.s) AS x, "
            "n IN (SELECT length(s) FROM numbers) AS y FROM numbers AS a"
        ),
        ["x=n AGGREGATION", "y=n CONDITIONAL,s CONDITIONAL"],
    ),
}
ROWS: dict[str, tuple[Callable[[DataFrame], DataFrame], str]] = {
    "conditions": (lambda df: df.where("n > 3 AND s <> ''").select("list"), "n FILTER,s FILTER"),
    "joins": (lambda df: df.select("n").join(df.select("n", "s"), "n").select("s"), "n JOIN"),
    "groups": (lambda df: df.groupBy("s").agg(F.sum("n")), "s GROUP_BY"),
    "distinct rows": (lambda df: df.select("s").distinct(), "s GROUP_BY"),
    "orders": (lambda df: df.orderBy("n").limit(3).select("s"), "n SORT"),
    "first rows": (
        lambda df: df.selectExpr(
            "s", "row_number() OVER (PARTITION BY s ORDER BY n) AS place"
        ).where("place = 1"),
        "n FILTER,s FILTER",
    ),
    "semi joins": (
        lambda df: df.select("n").join(df.where("s = 's1'").select("n"), "n", "left_semi"),
        "n JOIN,s FILTER",
    ),
    "subqueries of one value": (
        statement(
            "SELECT s FROM numbers WHERE n > (SELECT avg(length(s)) FROM numbers WHERE list[0] > 1)"
        ),
        "list FILTER,n FILTER,s FILTER",
    ),
    "subqueries that exist": (
        statement("SELECT s FROM numbers WHERE EXISTS (SELECT 1 FROM numbers WHERE n > 3)"),
        "n FILTER",
    ),
}


def shown(origins: Iterable[ColumnOrigin]) -> str:
    texts = sorted(f"{each.column} {each.transformation.value}" for each in origins)
    return ",".join(text.removesuffix(" IDENTITY") for text in texts)


@pytest.fixture
def edge_of(spark: SparkSession, tmp_path: Path) -> Callable[[Any], LineageEdge]:
    """Return a function that builds a pipeline with a query on numbers, and returns its edge."""

    def build(query: Callable[[DataFrame], DataFrame]) -> LineageEdge:
        pipeline = new_pipeline(spark, tmp_path, streaming=None)
        rows = query(pipeline.from_source(numbers(), uid="numbers"))
        pipeline.sink_to(rows, Folder(tmp_path / "out"), uid="out")
        (edge,) = pipeline._frames.lineage().edges
        return edge

    return build


@pytest.mark.parametrize("name", COLUMNS)
def test_a_column_has_the_origins_that_spark_derives_it_from(
    edge_of: Callable[[Any], LineageEdge], name: str
) -> None:
    query, expected = COLUMNS[name]
    columns = edge_of(query).columns
    assert [f"{column}={shown(origins)}" for column, origins in columns.items()] == expected


@pytest.mark.parametrize("name", ROWS)
def test_rows_depend_on_the_columns_that_decide_about_them(
    edge_of: Callable[[Any], LineageEdge], name: str
) -> None:
    query, expected = ROWS[name]
    assert shown(edge_of(query).row_origins) == expected


def test_a_watermark_is_no_condition_of_the_query(spark: SparkSession, tmp_path: Path) -> None:
    pipeline = new_pipeline(spark, tmp_path)
    by_time = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner("ts")
    log = LogSource(tmp_path / "log")
    rows = pipeline.from_source(log, uid="log", watermark_strategy=by_time).where("n > 3")
    pipeline.sink_to(rows, Folder(tmp_path / "out"), uid="out")
    (edge,) = pipeline._frames.lineage().edges
    assert shown(edge.row_origins) == "n FILTER"
    found = {name: shown(origins) for name, origins in edge.columns.items()}
    assert found == {"n": "n", "ts": "ts"}


def test_a_lookup_joins_on_its_keys(spark: SparkSession, tmp_path: Path) -> None:
    table = ToyTable(str(tmp_path / "rows.arrow"), {})
    pipeline = new_pipeline(spark, tmp_path)
    by_time = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner("ts")
    log = LogSource(tmp_path / "log")
    rows = pipeline.from_source(log, uid="numbers", watermark_strategy=by_time)
    joined = pipeline.lookup_join(rows, table, on={"n": "number"}, columns=["value"], uid="table")
    pipeline.sink_to(joined.select("value"), Folder(tmp_path / "out"), uid="out")
    graph = pipeline._frames.lineage()
    (edge,) = graph.edges
    assert edge.inputs == ("numbers", "table")
    assert graph.datasets["table"] == table.lineage_datasets()
    assert {(each.uid, each.column) for each in edge.columns["value"]} == {("table", "value")}
    assert {(each.uid, each.column, each.transformation.value) for each in edge.row_origins} == {
        ("numbers", "n", "JOIN"),
        ("table", "number", "JOIN"),
    }


def test_a_failed_run_reports_the_cause(spark: SparkSession, tmp_path: Path) -> None:
    listener = Recording()
    for fails in (True, False):
        pipeline = new_pipeline(
            spark, tmp_path, streaming=None if fails else True, listeners=[listener]
        )
        rows = pipeline.from_source(numbers(), uid="numbers")
        pipeline.sink_to(rows, Folder(tmp_path / "out"), uid="out")
        with (
            injected(Fault("before_decision", action=FaultAction.RAISE)),
            pytest.raises(ConnectorError),
        ):
            pipeline.run()
        assert listener.states() == [JobStatus.RUNNING, JobStatus.FAILED]
        assert "FaultInjected" in (listener.events[-1].cause or "")
        listener.events.clear()
        tmp_path = tmp_path / "next"


def test_a_stopped_stream_is_canceled(spark: SparkSession, tmp_path: Path) -> None:
    listener = Recording()
    sink = Folder(tmp_path / "out")
    pipeline = new_pipeline(spark, tmp_path, listeners=[listener])
    rows = pipeline.from_source(
        numbers(10_000, rate_limiter=RateLimiterStrategy.per_second(50)), uid="numbers"
    )
    pipeline.sink_to(rows, sink, uid="out")
    pipeline.start()
    wait_until(lambda: sink.read().num_rows > 0, "rows", pipeline)
    pipeline.stop()
    pipeline.stop()
    assert listener.states() == [JobStatus.RUNNING, JobStatus.CANCELED]


def test_a_stream_that_no_one_awaits_has_failed_when_it_is_stopped(
    spark: SparkSession, tmp_path: Path
) -> None:
    listener = Recording()
    pipeline = new_pipeline(spark, tmp_path, listeners=[listener])
    rows = pipeline.from_source(numbers(), uid="numbers")
    pipeline.sink_to(rows, Folder(tmp_path / "out"), uid="out")
    with injected(Fault("before_decision", action=FaultAction.RAISE)):
        pipeline.start()
        wait_until(lambda: pipeline.status().state is PipelineState.FAILED, "the failure")
    pipeline.stop()
    assert listener.states() == [JobStatus.RUNNING, JobStatus.FAILED]
    assert "FaultInjected" in (listener.events[-1].cause or "")


def test_lineage_that_fails_does_not_fail_the_pipeline(
    spark: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    listener = Recording()
    pipeline = new_pipeline(spark, tmp_path, streaming=None, listeners=[listener])
    rows = pipeline.from_source(numbers(), uid="numbers")
    pipeline.sink_to(rows, Unnamed(tmp_path / "out"), uid="out")
    assert pipeline.run()
    assert listener.events == []
    assert "no name today" in caplog.text


def test_a_listener_of_another_type_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(InvalidOptionError, match="listeners"):
        new_pipeline(spark, tmp_path, listeners=[print])
