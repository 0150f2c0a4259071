# SPDX-License-Identifier: Apache-2.0
"""The Elasticsearch connector against Elastic's own and the client's helpers.

All contestants run on the same server with the same documents, and alternate.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
from pyspark.sql import SparkSession
from rich.console import Console

from benchmarks.comparison import Result, compared
from benchmarks.elasticsearch import clients, memory, reading, writing
from benchmarks.elasticsearch.documents import Documents, prepared
from benchmarks.elasticsearch.peer import MAIN_INFO, jars
from benchmarks.files import flights_table
from benchmarks.session import new_session
from connector_elasticsearch.testing import ElasticsearchServer

MEMORY_COPIES = (1, 4)
_WARM_UPS = 5


def measure(runs: int, copies: int) -> Iterator[Result]:
    """Measure everything.

    Args:
        runs: Measured runs of each contestant.
        copies: Copies of the flights table.
    """
    with (
        tempfile.TemporaryDirectory() as folder,
        ElasticsearchServer(heap="2g", plugins=[MAIN_INFO], quick=False) as server,
    ):
        say("preparing documents")
        documents = prepared(Path(folder) / "rows", pa.concat_tables([flights_table()] * copies))
        found = jars()
        spark = new_session(2, jars=None if found is None else ",".join(map(str, found)))
        yield from _on_spark(spark, runs, server, documents, has_peer=found is not None)
        spark.stop()
        say("clients alone")
        yield from compared(
            "client CPU of a written document (us)",
            runs,
            clients.writing(server, documents),
            aims={"helpers.bulk": "at most 0.2"},
        )
        for times in MEMORY_COPIES:
            yield Result(
                f"peak memory (MB) reading {documents.count * times // copies} documents",
                memory.peak(server, documents, times),
            )


def _on_spark(
    spark: SparkSession,
    runs: int,
    server: ElasticsearchServer,
    documents: Documents,
    *,
    has_peer: bool,
) -> Iterator[Result]:
    aims = {"elasticsearch-hadoop, tuned": "at least 1.5"}
    say("warming up")  # a new server takes several minutes of writes to reach its speed
    warming = writing.contestants(spark, server, documents, ids=False, has_peer=False)
    for _ in range(_WARM_UPS):
        for name in ("ours", "requests made before"):
            warming[name]()
    for ids in (True, False):
        what = "with ids" if ids else "without ids"
        say(f"writing {what}")
        yield from compared(
            f"write {what} (documents/s)",
            runs,
            writing.contestants(spark, server, documents, ids=ids, has_peer=has_peer),
            aims=aims,
        )
    say("reading")
    with reading.filled(server, documents) as index:
        yield from compared(
            "read into Spark (documents/s)",
            runs,
            reading.contestants(spark, server, index, documents, has_peer=has_peer),
            aims={"elasticsearch-hadoop, tuned": "at least 1.1"},
        )


def say(what: str) -> None:
    """Report the progress."""
    Console(stderr=True).print(f"elasticsearch: {what}")
