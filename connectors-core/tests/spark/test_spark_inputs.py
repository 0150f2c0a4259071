# SPDX-License-Identifier: Apache-2.0
"""Tests pipelines with rows that Spark reads itself: tables and its own streams."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pipeline_support import (
    LogSource,
    counts,
    new_pipeline,
    once,
    query_store,
    travel_with_closures,
    wait_until,
)
from typer.testing import CliRunner

from connectors_core import (
    ConfigurationError,
    ConnectorError,
    IdentityError,
    NumberSequenceSource,
    StateCorruptedError,
    WatermarkStrategy,
)
from connectors_core.cli import app
from connectors_core.engine.coordinator.plan_log import newest_decision
from connectors_core.engine.protocol import decision_path
from connectors_core.spark.carriers import spark_inputs_of, stream_keys_of
from connectors_core.testing.directory_sink import DirectorySink
from connectors_core.testing.faults import Fault, FaultAction, FaultPoint, injected

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from connectors_core import Pipeline

travel_with_closures(__name__)

BATCH: dict[str, Any] = {"streaming": None}
EVENT_TIME = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner("ts")


@pytest.fixture
def sink(tmp_path: Path) -> DirectorySink:
    return DirectorySink(tmp_path / "out")


class TextFiles:
    """A folder of text files with one number per line, which Spark reads as a stream."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.folder = folder
        self._spark = spark
        folder.mkdir()

    def write(self, name: str, numbers: Sequence[int]) -> None:
        (self.folder / name).write_text("".join(f"{number}\n" for number in numbers))

    def stream(self, **options: Any) -> DataFrame:
        lines = self._spark.readStream.options(**options).text(str(self.folder))
        return lines.selectExpr("CAST(value AS BIGINT) AS n")


@pytest.fixture
def files(spark: SparkSession, tmp_path: Path) -> TextFiles:
    found = TextFiles(spark, tmp_path / "in")
    found.write("a", range(10))
    return found


def failing_at(point: FaultPoint) -> AbstractContextManager[None]:
    return injected(Fault(point, action=FaultAction.RAISE))


def numbers(pipeline: Pipeline) -> DataFrame:
    return pipeline.from_source(NumberSequenceSource(0, 9), uid="numbers").toDF("n")


# --- Batch ----------------------------------------------------------------------------------------


def test_a_batch_run_writes_a_table_of_spark(
    spark: SparkSession, tmp_path: Path, sink: DirectorySink
) -> None:
    spark.range(100).toDF("n").write.parquet(str(tmp_path / "table"))
    for _ in range(2):  # each run reads the table again, as with a bounded source
        pipeline = new_pipeline(spark, tmp_path, **BATCH)
        pipeline.sink_to(spark.read.parquet(str(tmp_path / "table")), sink, uid="out")
        assert pipeline.run()
        (status,) = pipeline.status().sinks
        assert (status.rows, status.spark_inputs) == (100, ("LogicalRelation",))
    assert set(counts(sink).values()) == {2}
    assert len(counts(sink)) == 100


def test_a_batch_run_joins_a_source_with_a_table_of_spark(
    spark: SparkSession, tmp_path: Path, sink: DirectorySink
) -> None:
    pipeline = new_pipeline(spark, tmp_path, **BATCH)
    even = spark.range(0, 20, 2).toDF("n")
    pipeline.sink_to(numbers(pipeline).join(even, "n"), sink, uid="out")
    assert pipeline.run()
    assert counts(sink) == once(range(0, 10, 2))


def test_a_decided_batch_run_of_a_table_is_finished_by_the_next_one(
    spark: SparkSession, tmp_path: Path, sink: DirectorySink
) -> None:
    def build() -> Pipeline:
        pipeline = new_pipeline(spark, tmp_path, **BATCH)
        pipeline.sink_to(spark.range(50).toDF("n"), sink, uid="out")
        return pipeline

    with failing_at(FaultPoint.AFTER_DECISION), pytest.raises(ConnectorError):
        build().run()
    assert counts(sink) == once([])
    assert not build().run()
    assert counts(sink) == once(range(50))


def test_a_batch_dataframe_in_a_streaming_pipeline_is_refused(
    spark: SparkSession, tmp_path: Path, sink: DirectorySink
) -> None:
    pipeline = new_pipeline(spark, tmp_path)
    pipeline.sink_to(spark.range(3).toDF("n"), sink, uid="out")
    with pytest.raises(ConfigurationError, match="'out' writes rows of a batch DataFrame"):
        pipeline.run()


# --- Streams --------------------------------------------------------------------------------------


def test_a_stream_of_spark_is_written_once_over_restarts(
    spark: SparkSession, tmp_path: Path, files: TextFiles, sink: DirectorySink
) -> None:
    for count in (1, 2, 3):
        files.write(f"more-{count}", range(10 * count, 10 * count + 10))
        pipeline = new_pipeline(spark, tmp_path, streaming=None)
        pipeline.sink_to(files.stream(maxFilesPerTrigger=1), sink, uid="out")
        assert pipeline.run(available_now=True)
        assert pipeline.status().state == "finished"
        assert counts(sink) == once(range(10 * count + 10))


def test_a_stream_of_spark_runs_until_it_is_stopped(
    spark: SparkSession, tmp_path: Path, files: TextFiles, sink: DirectorySink
) -> None:
    with new_pipeline(spark, tmp_path, trigger_interval="200 ms") as pipeline:
        pipeline.sink_to(files.stream(), sink, uid="out")
        pipeline.start()
        wait_until(lambda: counts(sink) == once(range(10)), "the first file", pipeline)
        files.write("b", range(10, 20))
        wait_until(lambda: counts(sink) == once(range(20)), "the second file", pipeline)
        (status,) = pipeline.status().sinks
        assert (status.rows, status.spark_inputs) == (20, ("FileSource",))
    assert pipeline.status().state == "stopped"


def test_a_stream_of_spark_and_a_source_share_a_query(
    spark: SparkSession, tmp_path: Path, files: TextFiles, sink: DirectorySink
) -> None:
    log = LogSource(tmp_path / "log", live=True)
    log.write("a", range(100, 110))
    expected = [*range(10), *range(100, 110)]

    def all_rows() -> bool:
        return counts(sink) == once(expected)

    for count in (1, 2):
        with new_pipeline(spark, tmp_path) as pipeline:
            rows = pipeline.from_source(log, uid="log").select("n")
            pipeline.sink_to(rows.union(files.stream()), sink, uid="out")
            pipeline.start()
            wait_until(all_rows, "the first rows", pipeline)
            log.write("a", [count * 1000])
            files.write(f"more-{count}", [count * 1000 + 1])
            expected += [count * 1000, count * 1000 + 1]
            wait_until(all_rows, "the next rows", pipeline)


def test_sinks_of_one_stream_of_spark_share_its_decisions(
    spark: SparkSession, tmp_path: Path, files: TextFiles, sink: DirectorySink
) -> None:
    odd = DirectorySink(tmp_path / "odd")
    pipeline = new_pipeline(spark, tmp_path)
    rows = files.stream()
    pipeline.sink_to(rows, sink, uid="all")
    pipeline.sink_to(rows.where("n % 2 = 1"), odd, uid="odd")
    pipeline.run(available_now=True)
    assert len(pipeline.status().queries) == 1
    assert counts(sink) == once(range(10))
    assert counts(odd) == once(range(1, 10, 2))


@pytest.mark.parametrize(
    "point",
    [
        FaultPoint.BEFORE_DECISION,
        FaultPoint.AFTER_DECISION,
        FaultPoint.AFTER_COMMIT,
        FaultPoint.BEFORE_SPARK_COMMIT,
    ],
)
def test_a_failed_micro_batch_of_a_stream_of_spark_is_repeated(
    spark: SparkSession, tmp_path: Path, files: TextFiles, sink: DirectorySink, point: FaultPoint
) -> None:
    def build() -> Pipeline:
        pipeline = new_pipeline(spark, tmp_path)
        pipeline.sink_to(files.stream(), sink, uid="out")
        return pipeline

    with failing_at(point), pytest.raises(ConnectorError):
        build().run(available_now=True)
    build().run(available_now=True)
    assert counts(sink) == once(range(10))


@pytest.mark.parametrize("left", [range(9), range(11), None])
def test_a_committed_micro_batch_without_state_needs_no_rows(
    spark: SparkSession,
    tmp_path: Path,
    files: TextFiles,
    sink: DirectorySink,
    left: Sequence[int] | None,
) -> None:
    def build() -> Pipeline:
        pipeline = new_pipeline(spark, tmp_path)
        pipeline.sink_to(files.stream(), sink, uid="out")
        return pipeline

    with failing_at(FaultPoint.BEFORE_SPARK_COMMIT), pytest.raises(ConnectorError):
        build().run(available_now=True)
    if left is None:
        (files.folder / "a").unlink()
    else:
        files.write("a", left)
    files.write("b", range(10, 15))
    build().run(available_now=True)
    assert counts(sink) == once(range(15))


def test_other_rows_in_the_replay_of_a_query_with_state_are_accepted_by_a_command(
    spark: SparkSession, tmp_path: Path, sink: DirectorySink
) -> None:
    folder = str(tmp_path / "table")

    def build() -> Pipeline:
        pipeline = new_pipeline(spark, tmp_path)
        rows = numbers(pipeline).dropDuplicates(["n"]).join(spark.read.parquet(folder), "n")
        pipeline.sink_to(rows, sink, uid="out")
        return pipeline

    spark.range(20).toDF("n").write.parquet(folder)
    with failing_at(FaultPoint.BEFORE_SPARK_COMMIT), pytest.raises(ConnectorError):
        build().run()
    spark.range(5).toDF("n").write.mode("overwrite").parquet(folder)
    with pytest.raises(ConnectorError, match="other rows than when epoch") as error:
        build().run()
    (command,) = re.findall("`connectors (.*?)`", str(error.value))
    arguments = command.replace("LOCATION", str(tmp_path / "checkpoint")).split()
    shown = CliRunner().invoke(app, [*arguments, "--yes"])
    assert shown.exit_code == 0, shown.output
    build().run()
    assert counts(sink) == once(range(10))


def test_a_missing_decision_on_a_stream_of_spark_is_found(
    spark: SparkSession, tmp_path: Path, files: TextFiles, sink: DirectorySink
) -> None:
    def run() -> None:
        pipeline = new_pipeline(spark, tmp_path)
        pipeline.sink_to(files.stream(), sink, uid="out")
        pipeline.run(available_now=True)

    run()
    store = query_store(tmp_path / "checkpoint")
    epoch = newest_decision(store)
    store.delete(decision_path(epoch))
    store.delete_tree("done")
    with pytest.raises(StateCorruptedError, match=f"decision {epoch} is missing"):
        run()


# --- Refusals -------------------------------------------------------------------------------------


def test_a_run_to_the_end_of_a_stream_of_spark_is_refused(
    spark: SparkSession, tmp_path: Path, files: TextFiles, sink: DirectorySink
) -> None:
    pipeline = new_pipeline(spark, tmp_path)
    pipeline.sink_to(files.stream(), sink, uid="out")
    with pytest.raises(
        ConfigurationError, match=r"run\(\) would never end: out reads a stream of Spark"
    ):
        pipeline.run()


def test_a_run_of_a_stream_of_spark_with_a_source_is_refused(
    spark: SparkSession, tmp_path: Path, files: TextFiles, sink: DirectorySink
) -> None:
    pipeline = new_pipeline(spark, tmp_path)
    pipeline.sink_to(files.stream().union(numbers(pipeline)), sink, uid="out")
    with pytest.raises(ConfigurationError, match="which cannot end together"):
        pipeline.run(available_now=True)


def test_a_driven_watermark_with_a_stream_of_spark_is_refused(
    spark: SparkSession, tmp_path: Path, files: TextFiles, sink: DirectorySink
) -> None:
    pipeline = new_pipeline(spark, tmp_path)
    log = LogSource(tmp_path / "log", live=True)
    rows = pipeline.from_source(log, uid="log", watermark_strategy=EVENT_TIME).select("n")
    pipeline.sink_to(rows.union(files.stream()), sink, uid="out")
    with pytest.raises(ConfigurationError, match="does not move that watermark"):
        pipeline.start()


def test_watermarks_of_spark_apply_to_its_streams(
    spark: SparkSession, tmp_path: Path, files: TextFiles, sink: DirectorySink
) -> None:
    files.write("late", range(1000, 1005))
    timed = files.stream(maxFilesPerTrigger=1, latestFirst=False).selectExpr(
        "n", "timestamp_seconds(n + 1) AS ts"
    )
    windows = (
        timed.withWatermark("ts", "10 seconds")
        .groupBy("ts")
        .count()
        .selectExpr("unix_seconds(ts) - 1 AS n")
    )
    pipeline = new_pipeline(spark, tmp_path)
    pipeline.sink_to(windows, sink, uid="out")
    pipeline.run(available_now=True)
    assert counts(sink) == once(range(10))


def test_a_new_generation_of_a_stream_of_spark_is_refused(
    spark: SparkSession, tmp_path: Path, files: TextFiles, sink: DirectorySink
) -> None:
    def run(uid: str) -> None:
        pipeline = new_pipeline(spark, tmp_path, on_changed_query="new-generation")
        pipeline.sink_to(files.stream(), sink, uid=uid)
        pipeline.run(available_now=True)

    run("out")
    with pytest.raises(IdentityError, match="would lose the positions of Spark's own streams"):
        run("another")


def test_another_stream_of_spark_is_a_changed_query(
    spark: SparkSession, tmp_path: Path, files: TextFiles, sink: DirectorySink
) -> None:
    def run(df: DataFrame) -> None:
        pipeline = new_pipeline(spark, tmp_path)
        pipeline.sink_to(df, sink, uid="out")
        pipeline.run(available_now=True)

    run(files.stream())
    with pytest.raises(IdentityError, match="sources or sinks of pipeline 'p' changed"):
        run(spark.readStream.format("rate").load().selectExpr("value AS n"))


# --- The streams and inputs of a DataFrame --------------------------------------------------------


def test_inputs_of_spark_are_named_without_constant_rows(
    spark: SparkSession, tmp_path: Path
) -> None:
    rows = numbers(new_pipeline(spark, tmp_path))
    spark.range(3).toDF("n").write.parquet(str(tmp_path / "table"))
    table, constant = spark.read.parquet(str(tmp_path / "table")), spark.sql("SELECT 1 AS n")
    rate = spark.readStream.format("rate").load().selectExpr("value AS n")
    assert spark_inputs_of(rows.join(constant, "n").join(spark.range(3).toDF("n"), "n")) == ()
    assert spark_inputs_of(rows.union(rate).join(table, "n")) == ("rate", "LogicalRelation")
    table.createOrReplaceTempView("a_table")
    some = constant.where("n IN (SELECT n FROM a_table)")
    assert spark_inputs_of(some) == ("LogicalRelation",)


def test_a_stream_has_the_same_key_in_every_dataframe(spark: SparkSession) -> None:
    one, other = (spark.readStream.format("rate").load() for _ in range(2))
    (key,) = stream_keys_of(one.select("value"))
    assert stream_keys_of(one.where("value > 1")) == {key}
    assert stream_keys_of(other) != {key}
