# SPDX-License-Identifier: Apache-2.0
"""Tests a real pipeline from files to files."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.dataset as pa_dataset
import pyarrow.parquet as pq
import pytest

from connector_filesystem import BucketAssigner, FileCompactStrategy, FileSink, FileSource
from connectors_core import Pipeline
from connectors_core.errors import ConfigurationError, ConnectorError
from connectors_core.source import ReadLimits, WatermarkStrategy
from connectors_core.testing import Fault, FaultAction, FaultPoint, injected

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SCHEMA = pa.schema(
    [("id", pa.int64()), ("at", pa.timestamp("us", tz="UTC")), ("place", pa.string())]
)
BASE = datetime(2013, 1, 1, tzinfo=UTC)


def rows(first: int, last: int) -> pa.Table:
    ids = range(first, last)
    return pa.table(
        {
            "id": pa.array(ids, pa.int64()),
            "at": pa.array([BASE + timedelta(minutes=i) for i in ids], SCHEMA.field("at").type),
            "place": pa.array([("EWR", "JFK", "LGA")[i % 3] for i in ids]),
        }
    )


def put(folder: Path, name: str, table: pa.Table) -> None:
    """Create a file atomically, as the source requires."""
    folder.mkdir(exist_ok=True)
    hidden = folder / f".{name}"
    if name.endswith(".csv"):
        pa_csv.write_csv(table, hidden)
    else:
        pq.write_table(table, hidden)
    hidden.rename(folder / name)


def written(folder: Path) -> pa.Table:
    table = pa_dataset.dataset(folder, format="parquet", partitioning="hive").to_table()
    return table.sort_by("id")


def monitored(spark: SparkSession, root: Path) -> Pipeline:
    pipeline = Pipeline(spark, "monitored", checkpoint_location=str(root / "checkpoint"))
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner("at")
    source = FileSource(
        str(root / "in"), format="csv", schema=SCHEMA, monitor_interval=timedelta(milliseconds=200)
    )
    df = pipeline.from_source(source, uid="files", watermark_strategy=strategy)
    pipeline.sink_to(hourly(df), FileSink(str(root / "out"), format="parquet"), uid="hourly")
    return pipeline


def hourly(df: DataFrame) -> DataFrame:
    from pyspark.sql import functions as F

    counts = df.groupBy(F.window("at", "1 hour")).count()
    return counts.select(F.col("window.start").alias("start"), F.col("count").alias("id"))


@pytest.mark.cell
def test_a_bounded_run_converts_mixed_csv_files_to_partitioned_parquet(
    spark: SparkSession, tmp_path: Path
) -> None:
    for number in range(4):
        put(tmp_path / "in", f"{number}.csv", rows(number * 100, number * 100 + 100))
    (tmp_path / "in" / "empty.csv").touch()
    (tmp_path / "in" / ".hidden.csv").touch()
    with Pipeline(spark, "batch", checkpoint_location=str(tmp_path / "checkpoint")) as pipeline:
        df = pipeline.from_source(
            FileSource(str(tmp_path / "in"), format="csv", schema=SCHEMA), uid="files"
        )
        sink = FileSink(
            str(tmp_path / "out"),
            format="parquet",
            bucket_assigner=BucketAssigner.columns("place"),
        )
        pipeline.sink_to(df, sink, uid="archive")
        assert pipeline.run()
        (status,) = pipeline.status().sources
    assert status.rows == 400
    assert status.counters["discoveredFiles"] == 4
    left_out = {name: number for name, number in status.gauges.items() if "leftOut" in name}
    assert left_out == {"leftOutFiles": 2, "leftOutFiles.empty": 1, "leftOutFiles.hidden": 1}
    found = written(tmp_path / "out")
    assert found["id"].to_pylist() == list(range(400))
    assert {path.name for path in (tmp_path / "out").iterdir() if path.name[0] not in "._"} == {
        "place=EWR",
        "place=JFK",
        "place=LGA",
    }


def test_available_now_runs_resume_until_a_run_drains(spark: SparkSession, tmp_path: Path) -> None:
    put(tmp_path / "in", "1.csv", rows(0, 90))
    assert monitored(spark, tmp_path).run(available_now=True, drain=False)
    put(tmp_path / "in", "2.csv", rows(90, 150))
    assert monitored(spark, tmp_path).run(available_now=True)
    assert sorted(written(tmp_path / "out")["id"].to_pylist()) == [30, 60, 60]
    put(tmp_path / "in", "3.csv", rows(150, 160))
    with monitored(spark, tmp_path) as late, pytest.raises(ConfigurationError, match="was drained"):
        late.start()


@pytest.mark.parametrize("streaming", [True, False], ids=["stream", "batch"])
def test_small_files_are_merged_in_jobs_next_to_the_epochs(
    spark: SparkSession, tmp_path: Path, streaming: bool
) -> None:
    put(tmp_path / "in", "1.csv", rows(0, 120))
    out = FileSink(str(tmp_path / "out"), bucket_assigner=BucketAssigner.columns("place"))
    with Pipeline(
        spark, "merged", checkpoint_location=str(tmp_path / "checkpoint"), streaming=streaming
    ) as pipeline:
        source = FileSource(str(tmp_path / "in"), format="csv", schema=SCHEMA)
        limits = ReadLimits(rows=20) if streaming else None
        df = pipeline.from_source(source, uid="files", limits=limits)
        sink = out.enable_compact(FileCompactStrategy(epochs=3, parallelism=2))
        if not streaming:
            df = df.repartition(4)
        pipeline.sink_to(df, sink, uid="out")
        assert pipeline.run()
        (status,) = pipeline.status().sinks
    assert written(tmp_path / "out")["id"].to_pylist() == list(range(120))
    files = list((tmp_path / "out").glob("place=*/*"))
    merged = [path for path in files if "-compacted-" in path.name]
    assert len(merged) == (6 if streaming else 3)  # two times three epochs, or one run
    # Spark can run an epoch without rows in between, which counts. Then a seventh one has rows.
    assert len(files) - len(merged) in ((0, 3) if streaming else (0,))
    assert status.counters["numFilesCompacted"] >= (18 if streaming else 12)
    assert status.gauges["heldCommittables"] == 0
    assert not (tmp_path / "out" / "_staging").exists()


def test_spark_reads_whole_epochs_as_the_page_shows(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = (Path(__file__).parents[2] / "docs" / "manifests.md").read_text()
    put(tmp_path / "in", "1.csv", rows(0, 90))
    files = FileSink(
        tmp_path / "out", bucket_assigner=BucketAssigner.columns("place"), manifests=True
    )
    with Pipeline(spark, "listed", checkpoint_location=str(tmp_path / "checkpoint")) as pipeline:
        source = FileSource(str(tmp_path / "in"), format="csv", schema=SCHEMA)
        df = pipeline.from_source(source, uid="files", limits=ReadLimits(rows=20))
        pipeline.sink_to(df, files.enable_compact(FileCompactStrategy(epochs=2)), uid="out")
        assert pipeline.run()
    spark.createDataFrame([(-1,)], "id BIGINT").coalesce(1).write.mode("append").parquet(
        str(tmp_path / "out" / "place=EWR")
    )
    for code in re.findall(r"```python\n(.*?)```", page, re.DOTALL):
        names: dict[str, Any] = {}
        exec(code.replace("data/archive", str(tmp_path / "out")), names)
        archive = names["archive"]
        assert sorted(row.id for row in archive.select("id").collect()) == list(range(90))
        assert archive.where("place = 'JFK'").count() == 30


@pytest.mark.line("4.3")
def test_a_batch_run_that_failed_before_its_merges_is_completed_by_the_next(
    spark: SparkSession, tmp_path: Path
) -> None:
    put(tmp_path / "in", "1.csv", rows(0, 60))

    def run() -> bool:
        with Pipeline(
            spark, "merged", checkpoint_location=str(tmp_path / "checkpoint")
        ) as pipeline:
            source = FileSource(str(tmp_path / "in"), format="csv", schema=SCHEMA)
            df = pipeline.from_source(source, uid="files").repartition(3)
            pipeline.sink_to(df, FileSink(str(tmp_path / "out")).enable_compact(), uid="out")
            return pipeline.run()

    with (
        injected(Fault(FaultPoint.AFTER_COMPACTION, action=FaultAction.RAISE)),
        pytest.raises(ConnectorError, match="fault injected"),
    ):
        run()
    assert not list((tmp_path / "out").glob("*.parquet"))
    assert not run()  # it completed the earlier run
    assert written(tmp_path / "out")["id"].to_pylist() == list(range(60))
    assert len(list((tmp_path / "out").glob("*.parquet"))) == 1
    assert run()
    assert len(list((tmp_path / "out").glob("*.parquet"))) == 2


def test_an_error_for_a_file_of_the_wrong_format_names_the_file(
    spark: SparkSession, tmp_path: Path
) -> None:
    put(tmp_path / "in", "good.csv", rows(0, 10))
    (tmp_path / "in" / "broken.csv").write_text("id,at,place\n1,2013-01-01 00:00:00Z,EWR\nx,y\n")
    with Pipeline(
        spark, "broken", checkpoint_location=str(tmp_path / "checkpoint"), streaming=True
    ) as pipeline:
        source = FileSource(str(tmp_path / "in"), format="csv", schema=SCHEMA)
        df = pipeline.from_source(source, uid="files")
        pipeline.sink_to(df, FileSink(str(tmp_path / "out"), format="parquet"), uid="out")
        with pytest.raises(ConnectorError, match=r"broken\.csv"):
            pipeline.run()
