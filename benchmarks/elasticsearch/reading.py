# SPDX-License-Identifier: Apache-2.0
"""Reads the documents of an index into a DataFrame and discards them."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from pyspark.sql import SparkSession

from benchmarks.elasticsearch import peer
from benchmarks.elasticsearch.clients import parallel_bulk, scan
from benchmarks.elasticsearch.documents import Documents, new_index
from connector_elasticsearch import ElasticsearchSource
from connector_elasticsearch.testing import ElasticsearchServer
from connectors_core import Pipeline

TUNED = {"es.scroll.size": "5000"}


@contextmanager
def filled(server: ElasticsearchServer, documents: Documents) -> Iterator[str]:
    """Create an index with the documents, and one segment for each shard."""
    with new_index(server, documents) as index:
        parallel_bulk(server, index, documents.table().to_pylist(), ids=True)
        server.request("POST", f"/{index}/_refresh")
        server.request("POST", f"/{index}/_forcemerge?max_num_segments=1")
        yield index


def contestants(
    spark: SparkSession,
    server: ElasticsearchServer,
    index: str,
    documents: Documents,
    *,
    has_peer: bool,
) -> Mapping[str, Callable[[], float]]:
    """Compare ours, the default and the tuned peer, and the client's own loop without Spark."""

    def ours() -> float:
        with tempfile.TemporaryDirectory() as folder:
            began = time.monotonic()
            pipeline = Pipeline(spark, "read", checkpoint_location=f"{folder}/c")
            df = pipeline.from_source(ElasticsearchSource(server.url, index), uid="index")
            df.write.format("noop").mode("overwrite").save()
            return documents.count / (time.monotonic() - began)

    def theirs(options: Mapping[str, str]) -> float:
        began = time.monotonic()
        df = spark.read.format("es").options(**peer.options(server), **options).load(index)
        df.write.format("noop").mode("overwrite").save()
        return documents.count / (time.monotonic() - began)

    def looped(size: int) -> float:
        began = time.monotonic()
        assert scan(server, index, size=size) == documents.count
        return documents.count / (time.monotonic() - began)

    found: dict[str, Callable[[], float]] = {"ours": ours}
    if has_peer:
        found["elasticsearch-hadoop"] = lambda: theirs({})
        found["elasticsearch-hadoop, tuned"] = lambda: theirs(TUNED)
    found["helpers.scan"] = lambda: looped(1000)
    found["helpers.scan, 5000 a page"] = lambda: looped(5000)
    return found
