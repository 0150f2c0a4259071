# SPDX-License-Identifier: Apache-2.0
"""Reads of merged files against small ones, and the cost of merging against Spark's rewrite."""

from __future__ import annotations

import functools
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from benchmarks.comparison import OURS, Result, compared
from benchmarks.files import Data, flights_table
from connector_filesystem import CsvOptions, FileCompactStrategy, FileSink, FileSource
from connector_filesystem.filesystem import FileLocation
from connector_filesystem.folder_compaction import FolderCompaction
from connectors_core import Pipeline
from connectors_core.source import ReadLimits
from connectors_core.spark.carriers import spark_schema

SMALL_FILES = 800
EPOCHS = 40
TARGET_SIZE = 128 << 20
_COALESCE = "Spark's coalesce"


def measure(spark: SparkSession, runs: int, root: Path, data: Data) -> Iterator[Result]:
    """Return the comparisons.

    Args:
        spark: The Spark session.
        runs: Measured runs of each side.
        root: A folder for small and merged files.
        data: Files of the flights table.
    """
    small, rows = _prepare_small_files(root / "small"), flights_table().num_rows
    merged = _copied(small, root / "merged")
    _compact(merged)
    readers: dict[str, Callable[[Path], None]] = {
        "Spark's reader": functools.partial(_read_by_spark, spark, data.schema),
        "FileSource": functools.partial(_read_by_source, spark, data.schema),
        "DuckDB": _read_by_duckdb,
    }
    for name, read in readers.items():
        yield from compared(
            f"read merged files, {name} (rows/s)",
            runs,
            {
                OURS: lambda read=read: 1000 * rows / _milliseconds(lambda: read(merged)),
                f"{SMALL_FILES} small files": lambda read=read: (
                    1000 * rows / _milliseconds(lambda: read(small))
                ),
            },
        )

    def merge(way: Callable[[Path], None]) -> float:
        folder = _copied(small, root / "copy")
        return _milliseconds(lambda: way(folder))

    yield from compared(
        f"merge {SMALL_FILES} files of a folder (ms)",
        runs,
        {
            OURS: lambda: merge(_compact),
            _COALESCE: lambda: merge(functools.partial(_coalesce, spark)),
        },
    )

    def write(*, compacts: bool, rewrites: bool = False) -> float:
        out = root / "out"
        shutil.rmtree(out, ignore_errors=True)
        sink = FileSink(out)
        if compacts:
            sink = sink.enable_compact(FileCompactStrategy(epochs=EPOCHS))

        def run() -> None:
            _write_epochs(spark, data, sink)
            if rewrites:
                _coalesce(spark, out)

        return _milliseconds(run)

    yield from compared(
        f"write {EPOCHS} epochs and merge their files (ms)",
        runs,
        {
            OURS: lambda: write(compacts=True),
            "files are not merged": lambda: write(compacts=False),
            f"then {_COALESCE}": lambda: write(compacts=False, rewrites=True),
        },
    )


def _milliseconds(run: Callable[[], None]) -> float:
    began = time.monotonic()
    run()
    return 1000 * (time.monotonic() - began)


def _prepare_small_files(folder: Path) -> Path:
    """Write the flights table in files as small as those of short epochs."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    flights = flights_table()
    size = -(-flights.num_rows // SMALL_FILES)
    for number in range(SMALL_FILES):
        part = flights.slice(number * size, size)
        pq.write_table(part, folder / f"{number:04d}.parquet", compression="zstd")
    return folder


def _copied(source: Path, target: Path) -> Path:
    shutil.rmtree(target, ignore_errors=True)
    return Path(shutil.copytree(source, target))


def _compact(folder: Path) -> None:
    """Merge the files, as `connectors files compact` does."""
    FolderCompaction(FileLocation(str(folder)), TARGET_SIZE, CsvOptions()).run()


def _coalesce(spark: SparkSession, folder: Path) -> None:
    """Rewrite a folder into one file, and put it in the place of the former files."""
    rewritten = folder.with_name(f"{folder.name}-rewritten")
    files = spark.read.parquet(str(folder)).coalesce(1)
    files.write.option("compression", "zstd").mode("overwrite").parquet(str(rewritten))
    shutil.rmtree(folder)
    rewritten.rename(folder)


def _read_by_spark(spark: SparkSession, schema: pa.Schema, folder: Path) -> None:
    rows = spark.read.schema(spark_schema(schema)).parquet(str(folder))
    rows.write.format("noop").mode("overwrite").save()


def _read_by_source(spark: SparkSession, schema: pa.Schema, folder: Path) -> None:
    with (
        tempfile.TemporaryDirectory() as state,
        Pipeline(spark, "read", checkpoint_location=f"{state}/c", streaming=False) as pipeline,
    ):
        source = FileSource(str(folder), format="parquet", schema=schema)
        rows = pipeline.from_source(source, uid="files")
        rows.write.format("noop").mode("overwrite").save()


def _read_by_duckdb(folder: Path) -> None:
    with duckdb.connect() as database:
        database.execute("SET threads = 2")
        database.execute(
            f"SELECT count(DISTINCT flight), sum(distance), max(tailnum) "
            f"FROM read_parquet('{folder}/*.parquet')"
        ).fetchall()


def _write_epochs(spark: SparkSession, data: Data, sink: FileSink) -> None:
    with (
        tempfile.TemporaryDirectory() as state,
        Pipeline(spark, "write", checkpoint_location=f"{state}/c") as pipeline,
    ):
        source = FileSource(str(data.root / "parquet"), format="parquet", schema=data.schema)
        limits = ReadLimits(rows=-(-data.rows // EPOCHS))
        pipeline.sink_to(pipeline.from_source(source, uid="files", limits=limits), sink, uid="out")
        pipeline.run()
