# SPDX-License-Identifier: Apache-2.0
"""Tests the format `connector_filesystem` of Spark 4, which needs no pipeline."""

from __future__ import annotations

import functools
import json
import signal
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from file_suites import FileSinkFormatSuite, FileSourceFormatSuite

from connectors_core.testing import (
    Fault,
    FaultAction,
    FaultPoint,
    injected,
    new_session,
    run_driver,
    wait_for_survivors,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytest.importorskip("pyspark.sql.datasource")
pytestmark = pytest.mark.line("4.3")

FORMAT = "connector_filesystem"
PARQUET = {"format": "parquet"}


def put(folder: Path, *ids: range) -> None:
    """Write a Parquet file for each range of ids."""
    folder.mkdir(parents=True, exist_ok=True)
    for rows in ids:
        table = pa.table({"id": pa.array(rows, pa.int64()), "name": [f"n{i}" for i in rows]})
        pq.write_table(table, folder / f"{rows.start:06d}.parquet")


def ids_in(folder: Path) -> Counter[int]:
    """Return the ids in all files that readers see."""
    files = [f for f in folder.rglob("*.parquet") if "_staging" not in f.parts]
    return Counter(i for file in files for i in pq.read_table(file)["id"].to_pylist())


def read(spark: SparkSession, folder: Path, **options: Any) -> DataFrame:
    return spark.read.format(FORMAT).options(**PARQUET, **options).load(str(folder))


def copy(spark: SparkSession, root: Path, **options: Any) -> list[int]:
    """Copy what `in` has now to `out` in a stream; return the rows of each micro-batch."""
    progress = copy_with_progress(spark, root, **options)
    return [each.numInputRows for each in progress if each.numInputRows]


def copy_with_progress(spark: SparkSession, root: Path, **options: Any) -> list[Any]:
    frame = spark.readStream.format(FORMAT).options(**PARQUET, **options).load(str(root / "in"))
    query = (
        frame.writeStream.format(FORMAT)
        .options(**PARQUET, checkpointLocation=str(root / "checkpoint"))
        .trigger(availableNow=True)
        .start(str(root / "out"))
    )
    try:
        assert query.awaitTermination(240)
    finally:
        query.stop()
    return list(query.recentProgress)


class TestReading(FileSourceFormatSuite):
    pass


class TestWriting(FileSinkFormatSuite):
    pass


def refused(act: Callable[[], Any]) -> str:
    """Return the message of the error that an action raises."""
    with pytest.raises(Exception) as refusal:  # noqa: PT011
        act()
    return str(refusal.value)


# --- Batch ---


def test_small_files_share_a_task_and_have_the_schema_of_the_files(
    spark: SparkSession, tmp_path: Path
) -> None:
    put(tmp_path / "in", range(10), range(10, 40))
    frame = read(spark, tmp_path / "in")
    assert frame.schema.simpleString() == "struct<id:bigint,name:string>"
    assert frame.rdd.getNumPartitions() == 1
    assert Counter(row.id for row in frame.collect()) == Counter(range(40))


def test_the_schema_of_the_user_selects_columns_and_their_order(
    spark: SparkSession, tmp_path: Path
) -> None:
    put(tmp_path / "in", range(3))
    for columns, first in (("name string, id bigint", ("n0", 0)), ("name string", ("n0",))):
        reader = spark.read.format(FORMAT).schema(columns).options(**PARQUET)
        assert reader.load(str(tmp_path / "in")).orderBy("name").first() == first


@pytest.mark.parametrize("declared", [{}, {"schema": "id BIGINT, name STRING"}])
def test_columns_outside_the_schema_of_the_user_are_not_read(
    spark: SparkSession, tmp_path: Path, declared: dict[str, str]
) -> None:
    put(tmp_path / "in", range(3))
    [file] = (tmp_path / "in").iterdir()
    names = pq.ParquetFile(file).metadata.row_group(0).column(1)
    data, start = bytearray(file.read_bytes()), names.dictionary_page_offset
    data[start : start + names.total_compressed_size] = b"?" * names.total_compressed_size
    file.write_bytes(data)
    reader = spark.read.format(FORMAT).options(**PARQUET, **declared)
    found = reader.schema("id BIGINT").load(str(tmp_path / "in"))
    assert sorted(found.collect()) == [(0,), (1,), (2,)]
    refused(reader.schema("name STRING").load(str(tmp_path / "in")).collect)


def test_a_stream_reads_the_columns_of_the_schema_of_the_user(
    spark: SparkSession, tmp_path: Path
) -> None:
    put(tmp_path / "in", range(3))
    reader = spark.readStream.format(FORMAT).schema("name STRING").options(**PARQUET)
    query = (
        reader.load(str(tmp_path / "in"))
        .writeStream.format("json")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start(str(tmp_path / "out"))
    )
    assert query.awaitTermination(240)
    rows = spark.read.json(str(tmp_path / "out")).collect()
    assert Counter(rows) == Counter([("n0",), ("n1",), ("n2",)])


@pytest.mark.parametrize("columns", ["id BIGINT, nam STRING", "id STRING"])
@pytest.mark.parametrize("declared", [{}, {"schema": "id BIGINT, name STRING"}])
def test_unknown_columns_and_other_types_in_the_schema_of_the_user_are_refused(
    spark: SparkSession, tmp_path: Path, columns: str, declared: dict[str, str]
) -> None:
    put(tmp_path / "in", range(3))
    reader = spark.read.format(FORMAT).schema(columns).options(**PARQUET, **declared)
    message = refused(reader.load(str(tmp_path / "in")).collect)
    print(message)
    assert "schema" in message
    assert columns.split()[-2] in message


def test_rows_pass_through_views_joins_and_insert(spark: SparkSession, tmp_path: Path) -> None:
    put(tmp_path / "in", range(5))
    options = f"path '{tmp_path / 'in'}', format 'parquet', schema 'id bigint, name string'"
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW flights USING {FORMAT} OPTIONS ({options})")
    assert spark.sql("SELECT sum(id) FROM flights WHERE name > 'n2'").first() == (7,)
    spark.sql("INSERT INTO flights SELECT id + 5, name FROM flights")
    assert ids_in(tmp_path / "in") == Counter(range(10))
    spark.sql("DROP VIEW flights")


def test_a_written_dataframe_appears_as_a_whole_and_leaves_nothing_staged(
    spark: SparkSession, tmp_path: Path
) -> None:
    frame = spark.range(0, 100, 1, 4)
    frame.write.format(FORMAT).options(**PARQUET).mode("append").save(str(tmp_path / "out"))
    frame.write.format(FORMAT).options(**PARQUET).mode("append").save(str(tmp_path / "out"))
    assert ids_in(tmp_path / "out") == Counter([*range(100), *range(100)])
    assert not (tmp_path / "out" / "_staging").exists()


def test_a_failed_write_leaves_no_rows(spark: SparkSession, tmp_path: Path) -> None:
    frame = spark.range(0, 100, 1, 4).selectExpr("if(id = 99, raise_error('broken'), id) AS id")
    write = frame.write.format(FORMAT).options(**PARQUET).mode("append")
    assert "broken" in refused(lambda: write.save(str(tmp_path / "out")))
    assert ids_in(tmp_path / "out") == Counter()
    assert not list(tmp_path.rglob("*.parquet"))


def test_an_unknown_option_is_refused_with_the_hint_of_the_source(
    spark: SparkSession, tmp_path: Path
) -> None:
    put(tmp_path / "in", range(1))
    message = refused(lambda: read(spark, tmp_path / "in", paht="x"))
    assert "unknown option 'paht' for file source" in message
    assert "did you mean 'path'" in message


def test_overwriting_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    write = spark.range(1).write.format(FORMAT).options(**PARQUET).mode("overwrite")
    message = refused(lambda: write.save(str(tmp_path / "out")))
    assert "connector_filesystem only appends rows" in message


def test_a_batch_read_of_a_source_without_an_end_is_refused(
    spark: SparkSession, tmp_path: Path
) -> None:
    put(tmp_path / "in", range(1))
    frame = read(spark, tmp_path / "in", **{"source.monitor-interval": "1 s"})
    assert "use spark.readStream" in refused(frame.collect)


def test_a_number_of_writers_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    write = spark.range(1).write.format(FORMAT).options(**PARQUET).mode("append")
    write = write.option("sink.parallelism", 2)
    message = refused(lambda: write.save(str(tmp_path / "out")))
    assert "repartition the DataFrame" in message


# --- Streaming ---


def test_a_stream_resumes_after_the_files_that_it_has_read(
    spark: SparkSession, tmp_path: Path
) -> None:
    monitored = {"source.monitor-interval": "100 ms"}
    put(tmp_path / "in", range(4), range(4, 8), range(8, 12))
    assert copy(spark, tmp_path, **monitored, **{"limits.splits": 2}) == [8, 4]
    assert copy(spark, tmp_path, **monitored) == []
    put(tmp_path / "in", range(12, 16))
    assert copy(spark, tmp_path, **monitored) == [4]
    assert ids_in(tmp_path / "out") == Counter(range(16))


def test_a_stream_of_existing_files_does_not_see_later_ones(
    spark: SparkSession, tmp_path: Path
) -> None:
    put(tmp_path / "in", range(4))
    assert copy(spark, tmp_path) == [4]
    put(tmp_path / "in", range(4, 8))
    assert copy(spark, tmp_path) == []


def test_a_limit_of_bytes_ends_a_micro_batch(spark: SparkSession, tmp_path: Path) -> None:
    put(tmp_path / "in", range(4), range(4, 8), range(8, 12))
    assert copy(spark, tmp_path, **{"limits.bytes": "1"}) == [4, 4, 4]


def test_progress_shows_offsets_that_hold_the_plan(spark: SparkSession, tmp_path: Path) -> None:
    put(tmp_path / "in", range(4))
    progress = copy_with_progress(spark, tmp_path)
    latest = json.loads(progress[0].sources[0].latestOffset)
    assert latest == {"source": FORMAT, "unfinished_splits": 1}
    offset = json.loads((tmp_path / "checkpoint" / "offsets" / "0").read_text().splitlines()[-1])
    assert (offset["source"], offset["plan"]) == (FORMAT, 0)


def test_an_exactly_once_stream_needs_the_option_of_its_checkpoint(
    spark: SparkSession, tmp_path: Path
) -> None:
    spark.conf.set("spark.sql.streaming.checkpointLocation", str(tmp_path / "default"))
    try:
        frame = spark.readStream.format("rate").load()
        write = frame.writeStream.format(FORMAT).options(**PARQUET)
        query = write.start(str(tmp_path / "out"))
        message = refused(lambda: query.awaitTermination(60))
    finally:
        spark.conf.unset("spark.sql.streaming.checkpointLocation")
    assert "only if it knows the checkpoint location" in message


STREAM_POINTS = [
    FaultPoint.AFTER_PLAN,
    FaultPoint.READER_FETCHED,
    FaultPoint.WRITER_WROTE,
    FaultPoint.AFTER_PREPARE,
    FaultPoint.BEFORE_DECISION,
    FaultPoint.AFTER_DECISION,
    FaultPoint.BEFORE_COMMIT,
    FaultPoint.AFTER_COMMIT,
]


def copy_in_a_driver(root: Path) -> None:
    copy(new_session(), root, **{"limits.splits": 1})


@pytest.mark.timeout(1200)
@pytest.mark.parametrize(
    "points",
    [
        pytest.param(STREAM_POINTS[1::4], id="some"),
        pytest.param(STREAM_POINTS, id="all", marks=pytest.mark.slow),
    ],
)
def test_killing_drivers_at_these_points_loses_and_duplicates_no_row(
    tmp_path: Path, points: list[FaultPoint]
) -> None:
    files = len(points) + 2
    put(tmp_path / "in", *(range(i * 50, i * 50 + 50) for i in range(files)))
    log = tmp_path / "driver.log"
    job = functools.partial(copy_in_a_driver, tmp_path)
    for point in points:
        fault = Fault(point, action=FaultAction.KILL_DRIVER, once=tmp_path / f"fault-{point}")
        code = run_driver(job, log, fault)
        assert fault.fired, f"{point} was not reached\n{log.read_text()[-4000:]}"
        assert code == -signal.SIGKILL
        wait_for_survivors(log)
    assert run_driver(job, log) == 0, log.read_text()[-4000:]
    assert ids_in(tmp_path / "out") == Counter(range(files * 50))


@pytest.mark.parametrize("point", [FaultPoint.READER_FETCHED, FaultPoint.WRITER_WROTE])
def test_a_killed_worker_is_retried_without_duplicates(
    spark: SparkSession, tmp_path: Path, point: FaultPoint
) -> None:
    put(tmp_path / "in", range(50), range(50, 90))
    fault = Fault(point, once=tmp_path / "killed")
    with injected(fault):
        copy(spark, tmp_path)
    assert fault.fired
    assert ids_in(tmp_path / "out") == Counter(range(90))


# --- Traps of Spark 4.3 that the documentation names ---


def test_create_table_loses_the_options_and_so_is_refused(
    spark: SparkSession, tmp_path: Path
) -> None:
    put(tmp_path / "in", range(3))
    options = f"path '{tmp_path / 'in'}', format 'parquet'"
    spark.sql(f"CREATE TABLE lost (id BIGINT, name STRING) USING {FORMAT} OPTIONS ({options})")
    try:
        message = refused(spark.table("lost").collect)
        assert "path" in message
        assert "required" in message or "missing" in message
    finally:
        spark.sql("DROP TABLE lost")


@pytest.mark.parametrize("pushdown", ["true", "false"])
def test_filters_work_whether_spark_would_push_them_or_not(
    spark: SparkSession, tmp_path: Path, pushdown: str
) -> None:
    put(tmp_path / "in", range(9))
    spark.conf.set("spark.sql.python.filterPushdown.enabled", pushdown)
    try:
        assert read(spark, tmp_path / "in").where("id > 5").select("name").count() == 3
    finally:
        spark.conf.unset("spark.sql.python.filterPushdown.enabled")


def test_a_batch_read_gets_the_filters_of_spark(spark: SparkSession, tmp_path: Path) -> None:
    for key in "abc":
        put(tmp_path / "in" / f"key={key}", range(10))
    damaged = tmp_path / "in" / "key=c" / "000000.parquet"
    damaged.write_bytes(damaged.read_bytes()[:-9])  # an error if it is opened
    options = {**PARQUET, "schema": "id BIGINT, name STRING", "partition.columns": "key STRING"}
    reader = spark.read.format(FORMAT).options(**options).option("scan.filter-pushdown", "true")
    setting = "spark.sql.python.filterPushdown.enabled"
    spark.conf.set(setting, "true")
    try:
        kept = reader.load(str(tmp_path / "in")).where(
            "key < 'c' and id in (3, 7) and name != 'n7'"
        )
        assert sorted((row.key, row.id) for row in kept.collect()) == [("a", 3), ("b", 3)]
    finally:
        spark.conf.unset(setting)
    with pytest.raises(Exception, match="DATA_SOURCE_PUSHDOWN_DISABLED"):
        reader.load(str(tmp_path / "in")).where("id = 1").collect()


def test_types_that_only_spark_has_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    rows = spark.sql("select parse_json('[1]') v")
    with pytest.raises(Exception, match="the column 'v' has a type that only Spark has"):
        rows.write.format(FORMAT).options(**PARQUET).mode("append").save(str(tmp_path / "out"))
    assert not (tmp_path / "out").exists()
