# SPDX-License-Identifier: Apache-2.0
"""INSERT statements against the same pipelines in Python."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from benchmarks.comparison import OURS, Result, compared
from benchmarks.files import Data
from connector_filesystem import FileSink, FileSource
from connectors_core import Pipeline, TableEnvironment
from connectors_core.spark.carriers import spark_schema

PEER = "the same in Python"
# Queries on the rows of `flights`, and the same in Python.
_QUERIES: dict[str, tuple[str, Callable[[DataFrame], DataFrame]]] = {
    "all flights": ("SELECT * FROM flights", lambda df: df),
    "flights late by an hour": (
        "SELECT carrier, flight, dep_delay FROM flights WHERE dep_delay > 60",
        lambda df: df.where("dep_delay > 60").select("carrier", "flight", "dep_delay"),
    ),
    "flights by carrier": (
        "SELECT carrier, count(*) AS flights FROM flights GROUP BY carrier",
        lambda df: df.groupBy("carrier").count().withColumnRenamed("count", "flights"),
    ),
}


def measure(spark: SparkSession, runs: int, many: Data, few: Data) -> Iterator[Result]:
    """Compare each query, from Parquet files to Parquet files in batch.

    Args:
        spark: The Spark session.
        runs: The number of measured runs of each side.
        many: The flights.
        few: A table of a few rows, which shows the cost of a start.
    """
    for what, (query, in_python) in _QUERIES.items():
        yield from compared(
            f"INSERT of {what} (rows/s)",
            runs,
            {
                OURS: partial(_rate, many, partial(_insert, spark, many, query)),
                PEER: partial(_rate, many, partial(_write, spark, many, in_python)),
            },
            aims={PEER: "at least 0.95"},
        )
    query, in_python = _QUERIES["all flights"]
    yield from compared(
        f"INSERT of {few.rows} rows (ms)",
        3 * runs,
        {
            OURS: partial(_milliseconds, partial(_insert, spark, few, query)),
            PEER: partial(_milliseconds, partial(_write, spark, few, in_python)),
        },
    )


def _rate(data: Data, act: Callable[[str], None]) -> float:
    return 1000 * data.rows / _milliseconds(act)


def _milliseconds(act: Callable[[str], None]) -> float:
    with tempfile.TemporaryDirectory() as folder:
        began = time.monotonic()
        act(folder)
        return 1000 * (time.monotonic() - began)


def _insert(spark: SparkSession, data: Data, query: str, folder: str) -> None:
    fields = spark_schema(data.schema).fields
    columns = ", ".join(f"`{each.name}` {each.dataType.simpleString()}" for each in fields)
    with TableEnvironment(spark, checkpoint_location=f"{folder}/checkpoints") as tables:
        tables.execute_script(
            f"""
            CREATE TABLE flights ({columns})
            WITH ('connector' = 'filesystem', 'path' = '{data.root}/parquet', 'format' = 'parquet');
            CREATE TABLE written
            WITH ('connector' = 'filesystem', 'path' = '{folder}/output', 'format' = 'parquet');
            INSERT INTO written {query};
            """
        )


def _write(
    spark: SparkSession, data: Data, query: Callable[[DataFrame], DataFrame], folder: str
) -> None:
    with Pipeline(spark, "write", checkpoint_location=f"{folder}/checkpoint") as pipeline:
        source = FileSource(str(Path(data.root, "parquet")), format="parquet", schema=data.schema)
        df = pipeline.from_source(source, uid="flights")
        pipeline.sink_to(query(df), FileSink(f"{folder}/output"), uid="written")
        pipeline.run()
