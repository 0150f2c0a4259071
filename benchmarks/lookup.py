# SPDX-License-Identifier: Apache-2.0
"""Lookup joins with documents, by key and cached, and with files against a broadcast join.

Keys are text. A fifth of the rows have a key that is not in the table.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import Observation, SparkSession
from pyspark.sql import functions as F
from rich.console import Console

from benchmarks.comparison import Result, alternating, compared
from benchmarks.session import new_session
from connector_elasticsearch import ElasticsearchSink, ElasticsearchTable
from connector_elasticsearch.testing import ElasticsearchServer
from connector_filesystem import FileSource, FileTable
from connectors_core import Pipeline
from connectors_core.lookup import DefaultLookupCache
from connectors_core.sink import DiscardingSink
from connectors_core.table import LookupTableSource

FEW_KEYS = 3_000
FILES = 4
SHARDS = 2
ROWS = pa.schema([("number", pa.int64()), ("key", pa.string()), ("delay", pa.float64())])
TABLE = pa.schema([("key", pa.string()), ("name", pa.string()), ("seats", pa.int64())])
MAPPING = {
    "properties": {
        "key": {"type": "keyword"},
        "name": {"type": "keyword"},
        "seats": {"type": "long"},
    }
}
# The settings of the document tables.
WAYS: Mapping[str, Mapping[str, Any]] = {
    "by key": {},
    "by id": {"id_column": "key", "fields": ["name", "seats"]},
    "by key, async": {"asynchronous": True},
    "partial cache": {"cache": DefaultLookupCache(max_rows=2_000_000)},
    "full cache": {"cache": "full"},
}


@dataclass(frozen=True)
class Data:
    """Files of rows, and of the table to join with them.

    Attributes:
        rows: The folder of the rows.
        table: The folder of the table.
        keys: The number of keys in the table.
        row_count: The number of rows.
        matches: The number of rows with a key in the table.
    """

    rows: Path
    table: Path
    keys: int
    row_count: int
    matches: int


def measure(runs: int, rows: int) -> Iterator[Result]:
    """Measure everything.

    Args:
        runs: The number of measured runs of each contestant.
        rows: The number of rows to join, and of keys in the larger table.
    """
    with (
        tempfile.TemporaryDirectory() as folder,
        ElasticsearchServer(heap="2g", quick=False) as server,
    ):
        spark = new_session()
        for keys in (FEW_KEYS, rows):
            say(f"preparing {keys} keys")
            data = prepared(Path(folder) / str(keys), rows=rows, keys=keys)
            say(f"files, {keys} keys")
            yield from compared(
                f"join with {keys} keys of files, full cache (rows/s)",
                runs,
                joins(spark, data),
                aims={"Spark's broadcast join": "at least 0.5"},
            )
            index = filled(spark, server, data)
            say(f"documents, {keys} keys")
            for way, median in alternating(runs, lookups(spark, server, index, data)).items():
                yield Result(f"join with {keys} keys of documents, {way} (rows/s)", median)
            server.request("DELETE", f"/{index}")
        spark.stop()


def prepared(folder: Path, *, rows: int, keys: int) -> Data:
    """Write the files, which are the same in every run."""
    chosen = np.random.default_rng(0).integers(0, keys * 5 // 4, rows)
    numbers = np.arange(rows)
    joined = pa.table([numbers, _texts(chosen), numbers / 7], schema=ROWS)
    known = np.arange(keys)
    table = pa.table(
        [_texts(known), [f"the name of {number}" for number in known], known % 400], schema=TABLE
    )
    data = Data(folder / "rows", folder / "table", keys, rows, int((chosen < keys).sum()))
    for path, content in ((data.rows, joined), (data.table, table)):
        path.mkdir(parents=True)
        size = -(-content.num_rows // FILES)
        for number in range(FILES):
            pq.write_table(content.slice(number * size, size), path / f"{number}.parquet")
    return data


def filled(spark: SparkSession, server: ElasticsearchServer, data: Data) -> str:
    """Create an index of the table with the keys as IDs and as a field, one segment per shard."""
    index = f"bench-{data.keys}"
    settings = {"number_of_shards": SHARDS, "number_of_replicas": 0}
    server.request("PUT", f"/{index}", {"settings": settings, "mappings": MAPPING})
    sink = ElasticsearchSink(server.url, index=index, id_columns=["key"])
    with (
        tempfile.TemporaryDirectory() as folder,
        Pipeline(spark, "fill", checkpoint_location=f"{folder}/c") as pipeline,
    ):
        source = FileSource(str(data.table), format="parquet", schema=TABLE)
        pipeline.sink_to(pipeline.from_source(source, uid="files"), sink, uid="index")
        pipeline.run()
    server.request("POST", f"/{index}/_forcemerge?max_num_segments=1")
    found = server.count(index)
    assert found == data.keys, f"{found} of {data.keys} documents were written"
    return index


def file_table(data: Data) -> FileTable:
    """Return the table of the files, cached as a whole."""
    return FileTable(FileSource(str(data.table), format="parquet", schema=TABLE))


def lookups(
    spark: SparkSession, server: ElasticsearchServer, index: str, data: Data
) -> Mapping[str, Callable[[], float]]:
    """Return a table for each way to look up documents."""
    return {
        way: lambda given=given: ours(spark, data, ElasticsearchTable(server.url, index, **given))
        for way, given in WAYS.items()
    }


def joins(spark: SparkSession, data: Data) -> Mapping[str, Callable[[], float]]:
    """Compare ours with and without Spark rows, and Spark alone."""
    return {
        "ours": lambda: ours(spark, data, file_table(data)),
        "ours, with a condition in Spark": lambda: ours(
            spark, data, file_table(data), condition="number >= 0"
        ),
        "Spark's broadcast join": lambda: broadcast(spark, data),
    }


def ours(
    spark: SparkSession, data: Data, table: LookupTableSource, *, condition: str | None = None
) -> float:
    """Return the rows per second of a pipeline, including the time to fill a cached table."""
    with (
        tempfile.TemporaryDirectory() as folder,
        Pipeline(spark, "join", checkpoint_location=f"{folder}/c", parallelism=2) as pipeline,
    ):
        began = time.monotonic()
        source = FileSource(str(data.rows), format="parquet", schema=ROWS)
        rows = pipeline.from_source(source, uid="rows")
        joined = pipeline.lookup_join(rows, table, on=["key"], how="inner")
        kept = joined if condition is None else joined.where(condition)
        pipeline.sink_to(kept, DiscardingSink(), uid="nothing")
        pipeline.run()
        elapsed = time.monotonic() - began
        (sink,) = pipeline.status().sinks
    assert sink.rows == data.matches, f"{sink.rows} rows arrived instead of {data.matches}"
    return data.row_count / elapsed


def broadcast(spark: SparkSession, data: Data) -> float:
    """Return the rows per second of Spark alone."""
    counts = Observation()
    began = time.monotonic()
    table = F.broadcast(spark.read.parquet(str(data.table)))
    joined = spark.read.parquet(str(data.rows)).join(table, "key")
    joined.observe(counts, F.count("name").alias("rows")).write.format("noop").mode(
        "overwrite"
    ).save()
    elapsed = time.monotonic() - began
    found = counts.get["rows"]
    assert found == data.matches, f"{found} rows arrived instead of {data.matches}"
    return data.row_count / elapsed


def _texts(numbers: np.ndarray[Any, Any]) -> list[str]:
    return [f"N{number:07}" for number in numbers]


def say(what: str) -> None:
    """Report the progress."""
    Console(stderr=True).print(f"lookup: {what}")
