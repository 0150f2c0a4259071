# SPDX-License-Identifier: Apache-2.0
"""The helpers of the Python client, in one process without Spark."""

from __future__ import annotations

import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from http.client import HTTPConnection
from itertools import islice
from typing import Any

import orjson
from elasticsearch import Elasticsearch, helpers

from benchmarks.elasticsearch import smile
from benchmarks.elasticsearch.documents import Documents, seconds_to_write
from connector_elasticsearch import ElasticsearchSink
from connector_elasticsearch.sink.options import BULK_FLUSH
from connector_elasticsearch.testing import ElasticsearchServer
from connector_filesystem import FileSource
from connectors_core.testing import LocalPipeline
from connectors_core.testing.servers import HOST

THREADS = 2
CHUNK = 2000
# Version 8 of the protocol, for any version of the client.
_HEADERS = {
    "accept": "application/vnd.elasticsearch+json; compatible-with=8",
    "content-type": "application/vnd.elasticsearch+json; compatible-with=8",
}


def client_of(server: ElasticsearchServer) -> Elasticsearch:
    """A client of the library."""
    return _Compatible(server.url, request_timeout=300)


class _Compatible(Elasticsearch):
    """A client that may be of a newer major version than the server."""

    def perform_request(self, method: str, path: str, **given: Any) -> Any:
        kinds = {"content-type": given.get("headers", {}).get("content-type", "")}
        lines = "ndjson" in kinds["content-type"]
        headers = {**_HEADERS, "content-type": _HEADERS["content-type"]}
        if lines:
            headers["content-type"] = "application/vnd.elasticsearch+x-ndjson; compatible-with=8"
        if given.get("body") is None:
            del headers["content-type"]
        return super().perform_request(method, path, **given | {"headers": headers})


def actions(index: str, rows: Sequence[Mapping[str, Any]], *, ids: bool) -> Iterator[Any]:
    """Return the actions for the helpers."""
    for row in rows:
        found = {"_index": index, "_source": row}
        yield found | {"_id": row["id"]} if ids else found


def helpers_bulk(
    server: ElasticsearchServer, index: str, rows: Sequence[Mapping[str, Any]], *, ids: bool
) -> None:
    """Write with `helpers.bulk` and its defaults."""
    with closing(client_of(server)) as client:
        helpers.bulk(client, actions(index, rows, ids=ids))


def parallel_bulk(
    server: ElasticsearchServer, index: str, rows: Sequence[Mapping[str, Any]], *, ids: bool
) -> None:
    """Write with `helpers.parallel_bulk` and larger chunks."""
    with closing(client_of(server)) as client:
        done = helpers.parallel_bulk(
            client, actions(index, rows, ids=ids), thread_count=THREADS, chunk_size=CHUNK
        )
        deque(done, maxlen=0)


@dataclass(frozen=True)
class Bulks:
    """Prepared requests.

    Attributes:
        kind: The content type.
        bodies: Their bodies.
    """

    kind: str
    bodies: Sequence[bytes]


def json_bulks(rows: Sequence[Mapping[str, Any]], *, ids: bool) -> Bulks:
    """Return all requests in JSON, with our default size."""
    return _bulks("application/x-ndjson", rows, orjson.dumps, b"\n", ids=ids)


def smile_bulks(rows: Sequence[Mapping[str, Any]], *, ids: bool) -> Bulks:
    """Return the same requests in SMILE."""
    plain = [orjson.loads(orjson.dumps(row)) for row in rows]  # times as texts
    return _bulks("application/smile", plain, smile.document, smile.SEPARATOR, ids=ids)


def _bulks(
    kind: str,
    rows: Sequence[Mapping[str, Any]],
    encode: Callable[[Mapping[str, Any]], bytes],
    separator: bytes,
    *,
    ids: bool,
) -> Bulks:
    lines = [
        encode({"index": {"_id": str(row["id"])} if ids else {}})
        + separator
        + encode(row)
        + separator
        for row in rows
    ]
    size = BULK_FLUSH.max_batch_size
    return Bulks(kind, [b"".join(lines[at : at + size]) for at in range(0, len(lines), size)])


def send(server: ElasticsearchServer, index: str, bulks: Bulks) -> None:
    """Send prepared requests, to measure the server without the costs of a client."""
    waiting = iter(bulks.bodies)
    # The answer has the type of the request, unless it names another.
    headers = {"content-type": bulks.kind, "accept": "application/json"}

    def take(body: bytes | None) -> None:
        with closing(HTTPConnection(HOST, server.port)) as connection:
            while body is not None:
                connection.request("POST", f"/{index}/_bulk?filter_path=errors", body, headers)
                answer = connection.getresponse().read()
                assert answer == b'{"errors":false}', answer[:200]
                body = next(waiting, None)

    with ThreadPoolExecutor(THREADS) as threads:
        deque(threads.map(take, list(islice(waiting, THREADS))), maxlen=0)


def writing(server: ElasticsearchServer, documents: Documents) -> Mapping[str, Callable[[], float]]:
    """Return the client's CPU time per document, in microseconds.

    Our client also reads its rows from files. The helpers have them in memory.
    """

    def ours(index: str) -> None:
        sink = ElasticsearchSink(server.url, index=index, id_columns=["id"])
        source = FileSource(str(documents.folder), format="parquet", schema=documents.schema)
        with (
            tempfile.TemporaryDirectory() as folder,
            LocalPipeline("write", checkpoint_location=folder) as pipeline,
        ):
            pipeline.sink_to(pipeline.from_source(source, uid="files"), sink, uid="index")
            pipeline.run()

    def used(write: Callable[[str], None]) -> float:
        elapsed = seconds_to_write(server, documents, write, time.process_time)
        return elapsed / documents.count * 1e6

    rows = documents.table().to_pylist()
    return {
        "ours": lambda: used(ours),
        "helpers.bulk": lambda: used(lambda index: helpers_bulk(server, index, rows, ids=True)),
    }


def scan(server: ElasticsearchServer, index: str, *, size: int) -> int:
    """Read with `helpers.scan`, and return the number of documents."""
    with closing(client_of(server)) as client:
        return sum(1 for _ in helpers.scan(client, index=index, size=size))
