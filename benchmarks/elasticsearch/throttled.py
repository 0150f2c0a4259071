# SPDX-License-Identifier: Apache-2.0
"""Writes to a server that rejects a part of nearly every request.

The server has one write thread and a queue for one more part of a request. Our requests have a part
for each shard. The server therefore returns 429 for the other parts, which are retried.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

from benchmarks.comparison import Result, compared
from benchmarks.elasticsearch.documents import Documents, new_index, prepared
from benchmarks.files import flights_table
from connector_elasticsearch import ElasticsearchSink
from connector_elasticsearch.sink.options import BULK_FLUSH
from connector_elasticsearch.testing import ElasticsearchServer
from connector_filesystem import FileSource
from connectors_core.sink import RateLimiting
from connectors_core.testing import LocalPipeline

SHARDS = 6
_SETTINGS = {"node.processors": "1", "thread_pool.write.queue_size": "1"}
_PATIENT = replace(BULK_FLUSH, retry_timeout=timedelta(minutes=10))
_FEW, _MANY = 2, 8
# With a fixed window of many requests, even so few rows take a minute.
_ROWS = 84_000


def measure(runs: int) -> Iterator[Result]:
    """Measure writing with both strategies, in a pipeline without Spark.

    Args:
        runs: The number of measured runs of each strategy.
    """
    with (
        tempfile.TemporaryDirectory() as folder,
        ElasticsearchServer(settings=_SETTINGS, heap="2g", quick=False) as server,
    ):
        documents = prepared(Path(folder) / "rows", flights_table().slice(0, _ROWS))
        for requests in (_FEW, _MANY):
            contestants: dict[str, Callable[[], float]] = {
                name: _writing(server, documents, strategy, requests)
                for name, strategy in (
                    ("ours", RateLimiting.CONGESTION_CONTROL),
                    ("a fixed window", RateLimiting.FIXED),
                )
            }
            yield from compared(
                f"write to a server that throttles, {requests} requests in flight (documents/s)",
                runs,
                contestants,
                aims={"a fixed window": "at least 1.0"},
            )


def _writing(
    server: ElasticsearchServer, documents: Documents, strategy: RateLimiting, requests: int
) -> Callable[[], float]:
    bounds = replace(_PATIENT, rate_limiting=strategy, max_in_flight_requests=requests)

    def run() -> float:
        with new_index(server, documents, shards=SHARDS) as index:
            sink = ElasticsearchSink(server.url, index, id_columns=["id"], bulk_flush=bounds)
            source = FileSource(str(documents.folder), format="parquet", schema=documents.schema)
            began = time.monotonic()
            with (
                tempfile.TemporaryDirectory() as folder,
                LocalPipeline("write", checkpoint_location=folder) as pipeline,
            ):
                pipeline.sink_to(pipeline.from_source(source, uid="files"), sink, uid="index")
                pipeline.run()
            elapsed = time.monotonic() - began
            found = server.count(index)
            rejected = _rejected(server)
        assert found == documents.count, f"{found} of {documents.count} documents were written"
        assert rejected, "the server rejected nothing: it was not throttled"
        return documents.count / elapsed

    return run


def _rejected(server: ElasticsearchServer) -> int:
    """Return the number of request parts that the server has rejected since its start."""
    (node,) = server.request("GET", "/_nodes/stats/thread_pool")["nodes"].values()
    number: int = node["thread_pool"]["write"]["rejected"]
    return number
