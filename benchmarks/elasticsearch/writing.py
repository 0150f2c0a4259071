# SPDX-License-Identifier: Apache-2.0
"""Writes Parquet files into an index."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Mapping

from pyspark.sql import SparkSession

from benchmarks.elasticsearch import peer
from benchmarks.elasticsearch.clients import (
    Bulks,
    helpers_bulk,
    json_bulks,
    parallel_bulk,
    send,
    smile_bulks,
)
from benchmarks.elasticsearch.documents import Documents, seconds_to_write
from benchmarks.session import write_files
from connector_elasticsearch import ElasticsearchSink
from connector_elasticsearch.testing import ElasticsearchServer

TUNED = {"es.batch.size.entries": "10000", "es.batch.size.bytes": "5mb"}  # the same as ours


def contestants(
    spark: SparkSession,
    server: ElasticsearchServer,
    documents: Documents,
    *,
    ids: bool,
    has_peer: bool,
) -> Mapping[str, Callable[[], float]]:
    """Compare ours with and without Spark rows, the default and the tuned peer, and clients alone.

    Args:
        spark: The Spark session of both.
        server: The server to write to.
        documents: The documents to write.
        ids: Whether the documents have their own IDs.
        has_peer: Whether the peer runs on this Spark.
    """

    def ours(index: str, condition: str | None) -> None:
        sink = ElasticsearchSink(server.url, index=index, id_columns=["id"] if ids else [])
        write_files(spark, documents.folder, documents.schema, sink, condition)

    def theirs(index: str, options: Mapping[str, str]) -> None:
        (
            spark.read.parquet(str(documents.folder))
            .write.format("es")
            .options(**peer.options(server), **options)
            .options(**({"es.mapping.id": "id"} if ids else {}))
            .mode("append")
            .save(index)
        )

    def timed(write: Callable[[str], None]) -> float:
        return documents.count / seconds_to_write(server, documents, write, time.monotonic)

    found: dict[str, Callable[[], float]] = {
        "ours": lambda: timed(lambda index: ours(index, None)),
        "ours, with a condition in Spark": lambda: timed(lambda index: ours(index, "id % 2 >= 0")),
    }
    if has_peer:
        found["elasticsearch-hadoop"] = lambda: timed(lambda index: theirs(index, {}))
        found["elasticsearch-hadoop, tuned"] = lambda: timed(lambda index: theirs(index, TUNED))

    def sending(bulks: Bulks) -> Callable[[str], None]:
        return lambda index: send(server, index, bulks)

    rows = documents.table().to_pylist()
    found["helpers.bulk"] = lambda: timed(lambda index: helpers_bulk(server, index, rows, ids=ids))
    found["helpers.parallel_bulk"] = lambda: timed(
        lambda index: parallel_bulk(server, index, rows, ids=ids)
    )
    for name, bulks in (("", json_bulks(rows, ids=ids)), (" in SMILE", smile_bulks(rows, ids=ids))):
        found[f"requests made before{name}"] = functools.partial(timed, sending(bulks))
    return found
