# SPDX-License-Identifier: Apache-2.0
"""The external system of the tests: a small log server on loopback, in a process of its own.

A topic has partitions, a partition has rows, a row has an offset and never changes. Rows that are
staged under a transaction become visible together, with its commit. Everything is in memory.

Replace it by a small fake of your system, so that the tests of the connector need neither network
nor containers. It is a process of its own because the tests kill drivers and look for threads.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from subprocess import PIPE
from typing import Final
from urllib.parse import parse_qsl, urlsplit

import pyarrow as pa

from connector_elasticsearch.client import Client, decode_rows, encode_rows, fitted
from connector_elasticsearch.options import Connection
from connectors_core.secrets import Secret
from connectors_core.testing import TestSystem

__all__ = ["LogSystem", "Topic", "running_server"]


@contextmanager
def running_server(token: str = "") -> Iterator[str]:
    """Run a server; it ends with the block, or with this process.

    Args:
        token: What it asks for; nothing if this is empty.

    Yields:
        Its address.
    """
    with subprocess.Popen(
        [sys.executable, "-m", "connector_elasticsearch.testing.example"],
        stdin=PIPE,
        stdout=PIPE,
        text=True,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(f"{token}\n")
        process.stdin.flush()
        yield process.stdout.readline().strip()


class LogSystem(TestSystem):
    """One server for a whole test run: a running one, or the embedded one.

    Name a container image, and start it in `container`, to test against the real system too.
    """

    name = "elasticsearch"
    variable = "ELASTICSEARCH_ADDRESS"

    def embedded(self) -> AbstractContextManager[str]:
        """Start the embedded server."""
        return running_server()


class Topic:
    """A topic, as who owns the system sees it: for tests and examples.

    Args:
        address: Address of the server.
        name: Name of the topic.
        token: What the server asks for.
    """

    def __init__(self, address: str, name: str, token: str = "") -> None:
        secret = Secret(token) if token else None
        self._connection = Connection(address=address, token=secret, topic=name)

    def create(self, schema: pa.Schema) -> None:
        """Create the topic, without partitions."""
        self._call("create", schema.serialize().to_pybytes())

    def append(self, partition: int, rows: pa.Table) -> None:
        """Append rows to a partition, which is created by its first rows, even if they are none.

        The server takes rows of any columns, as a log of bytes would.
        """
        for batch in rows.to_batches() or [pa.RecordBatch.from_pylist([], schema=rows.schema)]:
            self._call("append", encode_rows(batch), partition=partition)

    def rows(self, schema: pa.Schema) -> pa.Table:
        """All rows that can be seen, partition by partition.

        Args:
            schema: Columns to return; null in rows that do not have them.
        """
        found = []
        ends: dict[str, int] = json.loads(self._call("ends"))
        for partition, end in sorted(ends.items()):
            offset = 0
            while offset < end:
                data = self._call("read", partition=partition, offset=offset, limit=end)
                found.append(fitted(decode_rows(data), schema))
                offset += found[-1].num_rows
        return pa.Table.from_batches(found, schema)

    def open_transactions(self) -> list[str]:
        """Names of the transactions that are open."""
        names: list[str] = json.loads(self._call("open", prefix=""))
        return names

    def _call(self, name: str, body: bytes = b"", **arguments: int | str) -> bytes:
        with closing(Client(self._connection)) as client:
            return client.call(name, body, **arguments)


# --- The process of the server -------------------------------------------------------------------


@dataclass
class _Partition:
    batches: list[tuple[int, pa.RecordBatch]] = field(default_factory=list)
    end: int = 0

    def append(self, batch: pa.RecordBatch) -> None:
        if batch.num_rows:
            self.batches.append((self.end, batch))
            self.end += batch.num_rows

    def read(self, offset: int, limit: int) -> pa.RecordBatch | None:
        """Rows from an offset on, as far as their columns are the same."""
        found: list[pa.RecordBatch] = []
        for start, batch in self.batches:
            if start + batch.num_rows <= offset:
                continue
            if not limit or (found and batch.schema != found[0].schema):
                break
            found.append(batch.slice(offset - start, limit))
            offset += found[-1].num_rows
            limit -= found[-1].num_rows
        return pa.Table.from_batches(found).combine_chunks().to_batches()[0] if found else None


@dataclass
class _Topic:
    schema: pa.Schema
    partitions: dict[int, _Partition] = field(default_factory=dict)
    open: dict[str, list[tuple[int, pa.RecordBatch]]] = field(default_factory=dict)
    committed: set[str] = field(default_factory=set)

    def append(self, body: bytes, partition: str) -> bytes:
        self.partitions.setdefault(int(partition), _Partition()).append(decode_rows(body))
        return b""

    def ends(self, body: bytes) -> bytes:
        return _json({number: each.end for number, each in self.partitions.items()})

    def read(self, body: bytes, partition: str, offset: str, limit: str) -> bytes:
        found = self.partitions[int(partition)].read(int(offset), int(limit))
        return b"" if found is None else encode_rows(found)

    def stage(self, body: bytes, transaction: str, partition: str) -> bytes:
        self.open.setdefault(transaction, []).append((int(partition), decode_rows(body)))
        return b""

    def commit(self, body: bytes, transaction: str) -> bytes:
        if transaction in self.committed:
            return _json(False)
        if transaction not in self.open:
            return _json(None)
        for partition, batch in self.open.pop(transaction):
            self.partitions.setdefault(partition, _Partition()).append(batch)
            self.schema = pa.unify_schemas([self.schema, batch.schema])
        self.committed.add(transaction)
        return _json(True)

    def abort(self, body: bytes, transaction: str) -> bytes:
        self.open.pop(transaction, None)
        return b""

    def open_names(self, body: bytes, prefix: str) -> bytes:
        return _json(sorted(name for name in self.open if name.startswith(prefix)))

    def schema_bytes(self, body: bytes) -> bytes:
        data: bytes = self.schema.serialize().to_pybytes()
        return data


_CALLS: Final[dict[str, Callable[..., bytes]]] = {
    "abort": _Topic.abort,
    "append": _Topic.append,
    "commit": _Topic.commit,
    "ends": _Topic.ends,
    "open": _Topic.open_names,
    "read": _Topic.read,
    "schema": _Topic.schema_bytes,
    "stage": _Topic.stage,
}


def _json(value: object) -> bytes:
    return json.dumps(value).encode()


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, token: str) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.authorization = f"Bearer {token}" if token else None
        self._topics: dict[str, _Topic] = {}
        self._lock = threading.Lock()

    def answer(self, name: str, arguments: dict[str, str], body: bytes) -> tuple[int, bytes]:
        """Status and data."""
        topic = arguments.pop("topic")
        with self._lock:
            if name == "create":
                self._topics[topic] = _Topic(pa.ipc.read_schema(pa.py_buffer(body)))
                return 200, b""
            if topic not in self._topics:
                return 404, b""
            return 200, _CALLS[name](self._topics[topic], body, **arguments)


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    protocol_version = "HTTP/1.1"  # a connection serves many calls
    disable_nagle_algorithm = True

    def do_POST(self) -> None:
        url = urlsplit(self.path)
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if self.server.authorization not in (None, self.headers.get("Authorization")):
            status, answer = 401, b""
        else:
            try:
                arguments = dict(parse_qsl(url.query, keep_blank_values=True))
                status, answer = self.server.answer(url.path[1:], arguments, body)
            except (KeyError, TypeError, ValueError, pa.ArrowException) as exc:
                status, answer = 400, f"{type(exc).__name__}: {exc}".encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, format: str, *args: object) -> None:
        """Be silent."""


def serve() -> None:
    """Be the server until the standard input ends; the first line of it is the token."""
    with _Server(sys.stdin.readline().strip()) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        print(f"127.0.0.1:{server.server_port}", flush=True)
        sys.stdin.read()
        server.shutdown()


if __name__ == "__main__":
    serve()
