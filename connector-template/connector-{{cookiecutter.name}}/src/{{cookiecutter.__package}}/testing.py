# SPDX-License-Identifier: Apache-2.0
"""The external system of the tests: a small log server on loopback, in its own process.

{% if cookiecutter.__requests %}
A topic has partitions, a partition has rows, and a row has an offset and never changes. The
response to a write request has a status for each row. A test can make requests fail. Everything is
in memory.
{% else %}
A topic has partitions, a partition has rows, and a row has an offset and never changes. The rows of
a transaction become visible together, with its commit. Everything is in memory.
{% endif %}

Replace it with a small fake of your system, so that the connector's tests need neither a network
nor containers, or with the system's own server: see `ServerProcess` in
`connectors_core.testing.servers`. It has its own process because the tests kill drivers and check
for leaked threads.
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

{% if cookiecutter.__requests %}
from {{ cookiecutter.__package }}.async_client import BUSY, REFUSED, TAKEN
{% endif %}
from {{ cookiecutter.__package }}.client import Client, decode_rows, encode_rows, fitted
from {{ cookiecutter.__package }}.options import Connection
from connectors_core.secrets import Secret
{% if cookiecutter.__applies %}
from connectors_core.sink import ROW_KIND_COLUMN, is_deletion
{% endif %}
{% if cookiecutter.__requests %}
from connectors_core.testing import RequestFault
{% endif %}
from connectors_core.testing.servers import TcpTestSystem

__all__ = ["LogSystem", "Topic", "running_server"]


@contextmanager
def running_server(token: str = "") -> Iterator[str]:
    """Run a server until the end of the block or of this process.

    Args:
        token: The token that the server requires. If it is empty, the server requires none.

    Yields:
        The address of the server.
    """
    with subprocess.Popen(
        [sys.executable, "-m", "{{ cookiecutter.__package }}.testing"],
        stdin=PIPE,
        stdout=PIPE,
        text=True,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(f"{token}\n")
        process.stdin.flush()
        yield process.stdout.readline().strip()


class LogSystem(TcpTestSystem):
    """One server for a test run: a running server, or the embedded one behind a faulty network.

    To test against the real system too, name a container image and start it in `container`.
    """

    name = "{{ cookiecutter.name }}"
    variable = "{{ cookiecutter.name | upper | replace('-', '_') }}_ADDRESS"

    def server(self) -> AbstractContextManager[str]:
        """Start the embedded server."""
        return running_server()


class Topic:
    """An administrator's view of a topic, for tests and examples.

    Args:
        address: The address of the server.
        name: The name of the topic.
        token: The token that the server requires.
    """

    def __init__(self, address: str, name: str, token: str = "") -> None:
        secret = Secret(token) if token else None
        self._connection = Connection(address=address, token=secret, topic=name)

    def create(self, schema: pa.Schema) -> None:
        """Create the topic, without partitions."""
        self._call("create", schema.serialize().to_pybytes())

{% if cookiecutter.catalog %}
    def drop(self) -> None:
        """Remove the topic with its rows."""
        self._call("drop")

{% endif %}
    def append(self, partition: int, rows: pa.Table) -> None:
        """Append rows to a partition. The first call creates it, even without rows.

        The server accepts rows with any columns, as a log of bytes would.
        """
        for batch in rows.to_batches() or [pa.RecordBatch.from_pylist([], schema=rows.schema)]:
            self._call("append", encode_rows(batch), partition=partition)

{% if cookiecutter.source %}
    def cut(self, partition: int, rows: int) -> None:
        """Make a partition lose all but its first rows."""
        self._call("cut", partition=partition, rows=rows)

    def deny(self, denied: bool) -> None:
        """Refuse all reads from now on, or allow them again."""
        self._call("deny", json.dumps(denied).encode())

{% endif %}
    def rows(self, schema: pa.Schema) -> pa.Table:
        """Return all visible rows, partition by partition.

        Args:
            schema: The columns to return. They are null in rows that lack them.
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

{% if cookiecutter.__requests %}
    def treat(self, fault: RequestFault | None, requests: int | None = None) -> None:
        """Make the next write requests fail, or handle all requests normally from now on.

        Args:
            fault: The fault, or None for no fault.
            requests: The number of requests, or None for all.
        """
        self._call("treat", json.dumps([fault, requests]).encode())

    def reject(self, seq: int) -> None:
        """Reject every row with this `seq` from now on."""
        self._call("reject", json.dumps(seq).encode())
{% else %}
    def open_transactions(self) -> list[str]:
        """Return the names of the open transactions."""
        names: list[str] = json.loads(self._call("open", prefix=""))
        return names
{% if cookiecutter.__topologies %}

    def announced(self) -> list[str]:
        """Return the names of the announced transactions."""
        names: list[str] = json.loads(self._call("announced"))
        return names
{% endif %}
{% endif %}

    def _call(self, name: str, body: bytes = b"", **arguments: int | str) -> bytes:
        with closing(Client(self._connection)) as client:
            return client.call(name, body, **arguments)


# --- The server's process -------------------------------------------------------------------------


@dataclass
class _Partition:
    batches: list[tuple[int, pa.RecordBatch]] = field(default_factory=list)
    end: int = 0

    def append(self, batch: pa.RecordBatch) -> None:
        if batch.num_rows:
            self.batches.append((self.end, batch))
            self.end += batch.num_rows

{% if cookiecutter.source %}
    def cut(self, rows: int) -> None:
        self.batches = [
            (start, batch.slice(0, rows - start)) for start, batch in self.batches if start < rows
        ]
        self.end = min(self.end, rows)

{% endif %}
    def read(self, offset: int, limit: int) -> pa.RecordBatch | None:
        """Return rows from an offset, up to the first row with other columns."""
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
{% if cookiecutter.source %}
    denied: bool = False
{% endif %}
{% if cookiecutter.__requests %}
    fault: RequestFault | None = None
    faults_left: int | None = None
    treats_well: threading.Event = field(default_factory=threading.Event)
    rejected: set[int] = field(default_factory=set)
{% else %}
    open: dict[str, list[tuple[int, pa.RecordBatch]]] = field(default_factory=dict)
    committed: set[str] = field(default_factory=set)
{% if cookiecutter.__topologies %}
    announced: set[str] = field(default_factory=set)
{% endif %}
{% endif %}

    def append(self, body: bytes, partition: str) -> bytes:
        self.partitions.setdefault(int(partition), _Partition()).append(decode_rows(body))
        return b""

{% if cookiecutter.source %}
    def cut(self, body: bytes, partition: str, rows: str) -> bytes:
        self.partitions[int(partition)].cut(int(rows))
        return b""

    def deny(self, body: bytes) -> bytes:
        self.denied = json.loads(body)
        return b""

{% endif %}
    def ends(self, body: bytes) -> bytes:
        return _json({number: each.end for number, each in self.partitions.items()})

    def read(self, body: bytes, partition: str, offset: str, limit: str) -> bytes:
        found = self.partitions[int(partition)].read(int(offset), int(limit))
        return b"" if found is None else encode_rows(found)
{% if cookiecutter.lookup %}

    def find(self, body: bytes, columns: str) -> bytes:
        keys = decode_rows(body)
        wanted = {tuple(row.values()) for row in keys.to_pylist()}
        rows = pa.Table.from_batches(
            [
                fitted(batch, self.schema)
                for partition in self.partitions.values()
                for _, batch in partition.batches
            ],
            self.schema,
        )
        found = [
            tuple(row.values()) in wanted for row in rows.select(keys.schema.names).to_pylist()
        ]
        rows = rows.filter(pa.array(found, pa.bool_())).select(json.loads(columns))
        batches = rows.combine_chunks().to_batches()
        return encode_rows(batches[0] if batches else pa.RecordBatch.from_pylist([], rows.schema))
{% endif %}

{% if cookiecutter.__requests %}
    def put(self, body: bytes, fault: RequestFault | None, partition: str) -> bytes:
        """Store rows, and return the status of each."""
        rows = decode_rows(body)
        names = rows.schema.names
        seqs = rows.column("seq").to_pylist() if "seq" in names else [None] * rows.num_rows
        some = fault is RequestFault.REFUSE_SOME
        statuses = [
            REFUSED if seq in self.rejected else BUSY if some and number % 2 == 0 else TAKEN
            for number, seq in enumerate(seqs)
        ]
        taken = rows.filter(pa.array([status == TAKEN for status in statuses]))
        self.partitions.setdefault(int(partition), _Partition()).append(taken)
        self.schema = pa.unify_schemas([self.schema, rows.schema])
        return _json(statuses)

    def next_fault(self) -> RequestFault | None:
        if self.faults_left == 0:
            return None
        if self.faults_left is not None:
            self.faults_left -= 1
        return self.fault

    def treat(self, body: bytes) -> bytes:
        fault, self.faults_left = json.loads(body)
        self.fault = None if fault is None else RequestFault(fault)
        if self.fault is None:
            self.treats_well.set()
            self.treats_well = threading.Event()  # for later waiters
        return b""

    def reject(self, body: bytes) -> bytes:
        self.rejected.add(json.loads(body))
        return b""
{% else %}
    def stage(self, body: bytes, transaction: str, partition: str) -> bytes:
        self.open.setdefault(transaction, []).append((int(partition), decode_rows(body)))
        return b""

    def commit(self, body: bytes, transaction: str) -> bytes:
        if transaction in self.committed:
            return _json(False)
        if transaction not in self.open:
            return _json(None)
        for partition, batch in self.open.pop(transaction):
{% if cookiecutter.__applies %}
            if key := json.loads(body):
                self._apply(key, batch)
                continue
{% endif %}
            self.partitions.setdefault(partition, _Partition()).append(batch)
            self.schema = pa.unify_schemas([self.schema, batch.schema])
        self.committed.add(transaction)
        return _json(True)

{% if cookiecutter.__applies %}
    def _apply(self, key: list[str], changes: pa.RecordBatch) -> None:
        """Replace or delete the row of each key, in the order of the changes."""
        deletions = [False] * changes.num_rows
        if ROW_KIND_COLUMN in changes.schema.names:
            deletions = is_deletion(changes.column(ROW_KIND_COLUMN)).to_pylist()
            changes = changes.drop_columns([ROW_KIND_COLUMN])
        self.schema = pa.unify_schemas([self.schema, changes.schema])
        rows = {
            tuple(row[name] for name in key): row
            for partition in self.partitions.values()
            for _, batch in partition.batches
            for row in batch.to_pylist()
        }
        for row, deleted in zip(changes.to_pylist(), deletions, strict=True):
            identity = tuple(row[name] for name in key)
            if deleted:
                rows.pop(identity, None)
            else:
                rows[identity] = row
        self.partitions = {0: _Partition()}
        self.partitions[0].append(pa.RecordBatch.from_pylist(list(rows.values()), self.schema))

{% endif %}
    def abort(self, body: bytes, transaction: str) -> bytes:
        self.open.pop(transaction, None)
        return b""

{% if cookiecutter.__merges %}
    def merge(self, body: bytes, into: str) -> bytes:
        names = json.loads(body)
        if not self.open.keys() >= set(names):
            return _json(False)
        self.open[into] = [each for name in names for each in self.open[name]]
        return _json(True)

{% endif %}
    def open_names(self, body: bytes, prefix: str) -> bytes:
        return _json(sorted(name for name in self.open if name.startswith(prefix)))
{% if cookiecutter.__topologies %}

    def announce(self, body: bytes) -> bytes:
        self.announced |= set(json.loads(body))
        return b""

    def announced_names(self, body: bytes) -> bytes:
        return _json(sorted(self.announced))
{% endif %}
{% endif %}

    def schema_bytes(self, body: bytes) -> bytes:
        data: bytes = self.schema.serialize().to_pybytes()
        return data


_CALLS: Final[dict[str, Callable[..., bytes]]] = {
{% if cookiecutter.__requests %}
    "append": _Topic.append,
{% if cookiecutter.source %}
    "cut": _Topic.cut,
    "deny": _Topic.deny,
{% endif %}
    "ends": _Topic.ends,
{% if cookiecutter.lookup %}
    "find": _Topic.find,
{% endif %}
    "read": _Topic.read,
    "reject": _Topic.reject,
    "schema": _Topic.schema_bytes,
    "treat": _Topic.treat,
{% else %}
    "abort": _Topic.abort,
{% if cookiecutter.__topologies %}
    "announce": _Topic.announce,
    "announced": _Topic.announced_names,
{% endif %}
    "append": _Topic.append,
    "commit": _Topic.commit,
{% if cookiecutter.source %}
    "cut": _Topic.cut,
    "deny": _Topic.deny,
{% endif %}
    "ends": _Topic.ends,
{% if cookiecutter.lookup %}
    "find": _Topic.find,
{% endif %}
{% if cookiecutter.__merges %}
    "merge": _Topic.merge,
{% endif %}
    "open": _Topic.open_names,
    "read": _Topic.read,
    "schema": _Topic.schema_bytes,
    "stage": _Topic.stage,
{% endif %}
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

{% if cookiecutter.__requests %}
    def answer(self, name: str, arguments: dict[str, str], body: bytes) -> tuple[int, bytes] | None:
        """Return the status and data of the response, or None for no response."""
        topic = arguments.pop("topic")
        if name == "put":
            return self._put(topic, arguments["partition"], body)
{% else %}
    def answer(self, name: str, arguments: dict[str, str], body: bytes) -> tuple[int, bytes]:
        """Return the status and data of the response."""
        topic = arguments.pop("topic")
{% endif %}
        if name == "ping":
            return 200, b""
        with self._lock:
{% if cookiecutter.catalog %}
            if name == "topics":
                return 200, _json(sorted(self._topics))
{% endif %}
            if name == "create":
                self._topics[topic] = _Topic(pa.ipc.read_schema(pa.py_buffer(body)))
                return 200, b""
            if topic not in self._topics:
                return 404, b""
{% if cookiecutter.catalog %}
            if name == "drop":
                del self._topics[topic]
                return 200, b""
{% endif %}
{% if cookiecutter.source %}
            if self._topics[topic].denied and name == "read":
                return 403, b""
{% endif %}
            return 200, _CALLS[name](self._topics[topic], body, **arguments)
{% if cookiecutter.__requests %}

    def _put(self, topic: str, partition: str, body: bytes) -> tuple[int, bytes] | None:
        with self._lock:
            if topic not in self._topics:
                return 404, b""
            found = self._topics[topic]
            fault, treated_well = found.next_fault(), found.treats_well
        if fault is RequestFault.STALL:
            treated_well.wait()
        if fault in {RequestFault.REFUSE, RequestFault.REFUSE_FOR_GOOD}:
            return 429 if fault is RequestFault.REFUSE else 401, b""
        with self._lock:
            statuses = found.put(body, fault, partition)
        return None if fault is RequestFault.LOSE_ANSWER else (200, statuses)
{% endif %}


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
{% if cookiecutter.__requests %}
                said = self.server.answer(url.path[1:], arguments, body)
                if said is None:
                    self.close_connection = True
                    return
                status, answer = said
{% else %}
                status, answer = self.server.answer(url.path[1:], arguments, body)
{% endif %}
            except (KeyError, TypeError, ValueError, pa.ArrowException) as exc:
                status, answer = 400, f"{type(exc).__name__}: {exc}".encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing."""


def serve() -> None:
    """Run the server until standard input ends. Its first line is the token."""
    with _Server(sys.stdin.readline().strip()) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        print(f"127.0.0.1:{server.server_port}", flush=True)
        sys.stdin.read()
        server.shutdown()


if __name__ == "__main__":
    serve()
