# SPDX-License-Identifier: Apache-2.0
"""The client of the external system, and the only module that communicates with it.

Replace it with your system's client library, and import the library only here. Keep three rules:
rows are Arrow batches, `call` and `failure` turn every error into an error of the core, and the
library does not repeat a request that writes, because a request whose response is lost may have had
its effect. The error's class tells the runtime what to do: `RetryableError` (retry later),
`ConfigurationError` (a person must change an option), or `FatalError` (stop, because continuing
would lose data).
"""

from __future__ import annotations

{% if cookiecutter.source or cookiecutter.__commits or cookiecutter.lookup or cookiecutter.catalog %}
import json
{% endif %}
{% if cookiecutter.lookup or cookiecutter.__merges or cookiecutter.__topologies or cookiecutter.__applies %}
from collections.abc import Sequence
{% endif %}
from contextlib import closing
from http.client import HTTPConnection, HTTPException
from typing import Any
from urllib.parse import urlencode

import pyarrow as pa

from {{ cookiecutter.__package }}.options import Connection
{% if cookiecutter.source %}
from {{ cookiecutter.__package }}.split import Extent, PartSplit, Position
{% endif %}
from connectors_core.errors import (
    ConfigurationError,
    ConnectorError,
    FatalError,
    InvalidOptionError,
    RetryableError,
)
{% if cookiecutter.source %}
from connectors_core.source import PositionedBatch
{% endif %}

{% if cookiecutter.__requests %}
__all__ = [
    "Client",
    "check_connection",
    "decode_rows",
    "encode_rows",
    "endpoint",
    "failure",
    "fitted",
    "headers",
]
{% else %}
__all__ = ["Client", "check_connection", "decode_rows", "encode_rows", "fitted"]
{% endif %}

_TIMEOUT_SECONDS = 30.0


class Client:
    """A connection to the log server, for one thread. The constructor does no I/O.

    Args:
        connection: The connection to the server.
        timeout: Seconds to wait for the connection, and for the response to each call.

    Raises:
        ConfigurationError: The address is not valid.
    """

    def __init__(self, connection: Connection, timeout: float = _TIMEOUT_SECONDS) -> None:
        host, port = endpoint(connection)
        self._connection = connection
        self._http = HTTPConnection(host, port, timeout=timeout)

    def schema(self) -> pa.Schema:
        """Return the columns of the topic."""
        return pa.ipc.read_schema(pa.py_buffer(self.call("schema")))
{% if cookiecutter.catalog %}

    def topics(self) -> list[str]:
        """Return the names of all topics, in order."""
        names: list[str] = json.loads(self.call("topics"))
        return names
{% endif %}
{% if cookiecutter.source %}

    # --- Reading ---

    def extents(self) -> dict[str, Extent]:
        """Return the partitions of the topic, and the positions between which each has rows."""
        answer: dict[str, int] = json.loads(self.call("ends"))
        return {partition: Extent(0, end) for partition, end in answer.items()}

    def read(self, split: PartSplit, limit: int) -> PositionedBatch[Position] | None:
        """Return the next rows of a split, at most `limit`, or None if there are none yet.

        A log never changes, so the same position always has the same rows in the same order.
        """
        offset = split.position
        if split.end is not None:
            limit = min(limit, split.end - offset)
        answer = self.call("read", partition=split.part, offset=offset, limit=limit)
        if not answer:
            return None
        rows = decode_rows(answer)
        return PositionedBatch(rows, offset + rows.num_rows)
{% endif %}
{% if cookiecutter.__commits %}

    # --- Writing ---

    def stage(self, transaction: str, partition: int, rows: pa.RecordBatch) -> None:
        """Add rows to a transaction. The first rows start it, and its commit makes them visible."""
        self.call("stage", encode_rows(rows), transaction=transaction, partition=partition)

{% if cookiecutter.__applies %}
    def commit(self, transaction: str, key: Sequence[str] = ()) -> bool | None:
        """Make all rows of a transaction visible at once, or apply its changes.

        Args:
            transaction: The name of the transaction.
            key: The columns that identify a row. Without any, all rows are added.

        Returns:
            True if this call committed it, False if an earlier call did, None if it is unknown.
        """
        body = json.dumps(key).encode()
        answer: bool | None = json.loads(self.call("commit", body, transaction=transaction))
        return answer
{% else %}
    def commit(self, transaction: str) -> bool | None:
        """Make all rows of a transaction visible at once.

        Returns:
            True if this call committed it, False if an earlier call did, None if it is unknown.
        """
        answer: bool | None = json.loads(self.call("commit", transaction=transaction))
        return answer
{% endif %}

    def abort(self, transaction: str) -> None:
        """Abort an open transaction, if it exists."""
        self.call("abort", transaction=transaction)

{% if cookiecutter.__merges %}
    def merge(self, transactions: Sequence[str], into: str) -> bool:
        """Stage the rows of open transactions in a new one. The others stay open.

        Returns:
            False if one of them is not open.
        """
        done: bool = json.loads(self.call("merge", json.dumps(transactions).encode(), into=into))
        return done

{% endif %}
    def open_transactions(self, prefix: str) -> list[str]:
        """Return the names of the open transactions with this prefix."""
        answer: list[str] = json.loads(self.call("open", prefix=prefix))
        return answer
{% if cookiecutter.__topologies %}

    def announce(self, transactions: Sequence[str]) -> None:
        """Announce committed transactions. A repetition has no effect."""
        self.call("announce", json.dumps(transactions).encode())
{% endif %}
{% endif %}
{% if cookiecutter.lookup %}

    # --- Lookup ---

    def find(self, keys: pa.RecordBatch, columns: Sequence[str]) -> pa.RecordBatch:
        """Return the rows of some keys.

        Args:
            keys: The values to look up, in their columns.
            columns: The columns of the result.
        """
        answer = self.call("find", encode_rows(keys), columns=json.dumps(columns))
        return decode_rows(answer)
{% endif %}

    def call(self, name: str, body: bytes = b"", **arguments: Any) -> bytes:
        """Send a request to the server.

        Args:
            name: The name of the call.
            body: The body of the request.
            **arguments: The arguments of the call.

        Raises:
            ConnectorError: The call failed. The error's class determines the reaction.
        """
        query = urlencode({"topic": self._connection.topic, **arguments})
        try:
            self._http.request("POST", f"/{name}?{query}", body, headers(self._connection))
            response = self._http.getresponse()
            answer = response.read()
        except (OSError, HTTPException) as exc:
            self.close()  # the next call reconnects
            raise RetryableError(
                f"the server at {self._connection.address} does not respond",
                found=f"{type(exc).__name__}: {exc}",
                option="address",
            ) from exc
        if response.status != 200:
            raise failure(self._connection, name, response.status, answer)
        return answer

    def close(self) -> None:
        """Close the connection. A later call reopens it."""
        self._http.close()


def check_connection(connection: Connection, timeout: float) -> None:
    """Check that the server responds and accepts the token. See `SupportsConnectionCheck`.

    Raises:
        ConnectorError: The check failed.
    """
    with closing(Client(connection, timeout / 2)) as client:  # to connect, and to respond
        client.call("ping")


def endpoint(connection: Connection) -> tuple[str, int]:
    """Return the host and port of the server.

    Raises:
        ConfigurationError: The address is not valid.
    """
    host, _, port = connection.address.rpartition(":")
    if not host or not port.isdigit():
        raise InvalidOptionError(
            "the address of the server is not valid",
            expected="host:port",
            found=connection.address,
            option="address",
        )
    return host, int(port)


def headers(connection: Connection) -> dict[str, str]:
    """Return the headers that the server requires in every call."""
    token = connection.token
    return {} if token is None else {"Authorization": f"Bearer {token.reveal()}"}


def failure(connection: Connection, name: str, status: int, answer: bytes) -> ConnectorError:
    """Return the error for a response. Its class determines the reaction of the runtime."""
    where = f"the server at {connection.address}"
    found = f"{status}: {answer.decode(errors='replace')}"
    if status == 401:
        return ConfigurationError(f"{where} rejects the token", option="token")
    if status == 404:
        return ConfigurationError(
            f"{where} has no such topic", found=connection.topic, option="topic"
        )
    if status == 429 or status >= 500:
        return RetryableError(f"{where} cannot {name} now", found=found)
    return FatalError(f"{where} rejects the request to {name}", found=found)


def encode_rows(rows: pa.RecordBatch) -> bytes:
    """Encode rows as an Arrow IPC stream."""
    out = pa.BufferOutputStream()
    with pa.ipc.new_stream(out, rows.schema) as writer:
        writer.write_batch(rows)
    data: bytes = out.getvalue().to_pybytes()
    return data


def decode_rows(data: bytes) -> pa.RecordBatch:
    """Decode the rows that `encode_rows` encoded."""
    with pa.ipc.open_stream(data) as reader:
        return reader.read_next_batch()


def fitted(rows: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Return rows with exactly the columns of a schema. Missing columns are null.

    Raises:
        pyarrow.ArrowInvalid: A value does not fit its column.
    """
    columns = []
    for each in schema:
        if each.name not in rows.schema.names:
            columns.append(pa.nulls(rows.num_rows, each.type))
            continue
        try:
            columns.append(rows.column(each.name).cast(each.type))
        except pa.ArrowException as exc:  # its text holds the value
            raise pa.ArrowInvalid(f"a value does not fit the column {each.name!r}") from exc
    return pa.RecordBatch.from_arrays(columns, schema=schema)
