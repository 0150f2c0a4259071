# SPDX-License-Identifier: Apache-2.0
"""The client of the external system: the one module that knows how to talk to it.

Replace it by the client library of your system, imported here and nowhere else. What stays: rows
come and go as Arrow batches, and every error becomes one of the core's, in `call` and
`failure`. That tells the runtime what to do: `RetryableError` (later it may work),
`ConfigurationError` (a person must change an option), `FatalError` (going on would lose data).
"""

from __future__ import annotations

{% if cookiecutter.source or cookiecutter.__commits or cookiecutter.lookup %}
import json
{% endif %}
{% if cookiecutter.lookup %}
from collections.abc import Sequence
{% endif %}
from contextlib import closing
from http.client import HTTPConnection, HTTPException
from typing import Any
from urllib.parse import urlencode

import pyarrow as pa

from {{ cookiecutter.__package }}.options import Connection
from connectors_core.errors import (
    ConfigurationError,
    ConnectorError,
    FatalError,
    InvalidOptionError,
    RetryableError,
)

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
    """A connection to the log server; belongs to one thread. No I/O in the constructor.

    Args:
        connection: How the server is reached.
        timeout: Seconds that the server has to take the connection, and to answer each call.

    Raises:
        ConfigurationError: The address is none.
    """

    def __init__(self, connection: Connection, timeout: float = _TIMEOUT_SECONDS) -> None:
        host, port = endpoint(connection)
        self._connection = connection
        self._http = HTTPConnection(host, port, timeout=timeout)

    def schema(self) -> pa.Schema:
        """Columns of the topic."""
        return pa.ipc.read_schema(pa.py_buffer(self.call("schema")))
{% if cookiecutter.source %}

    # --- Reading ---

    def ends(self) -> dict[int, int]:
        """The partitions of the topic, and the offset behind the last row of each."""
        answer: dict[str, int] = json.loads(self.call("ends"))
        return {int(partition): end for partition, end in answer.items()}

    def read(self, partition: int, offset: int, limit: int) -> pa.RecordBatch | None:
        """The next rows of a partition, `limit` at most; None where there are none yet.

        A log never changes, so the same offset gives the same rows in the same order again.
        """
        answer = self.call("read", partition=partition, offset=offset, limit=limit)
        return decode_rows(answer) if answer else None
{% endif %}
{% if cookiecutter.__commits %}

    # --- Writing ---

    def stage(self, transaction: str, partition: int, rows: pa.RecordBatch) -> None:
        """Add rows to a transaction, which is begun by its first rows; nobody sees them yet."""
        self.call("stage", encode_rows(rows), transaction=transaction, partition=partition)

    def commit(self, transaction: str) -> bool | None:
        """Make the rows of a transaction visible, all at once.

        Returns:
            True if this call did it, False if an earlier one did, None if nothing is known of it.
        """
        answer: bool | None = json.loads(self.call("commit", transaction=transaction))
        return answer

    def abort(self, transaction: str) -> None:
        """Drop an open transaction; nothing happens if there is none."""
        self.call("abort", transaction=transaction)

    def open_transactions(self, prefix: str) -> list[str]:
        """Names of the open transactions that begin like this."""
        answer: list[str] = json.loads(self.call("open", prefix=prefix))
        return answer
{% endif %}
{% if cookiecutter.lookup %}

    # --- Looking up ---

    def find(self, keys: pa.RecordBatch, columns: Sequence[str]) -> pa.RecordBatch:
        """The rows of some keys.

        Args:
            keys: The values that are looked for, and the columns that have them.
            columns: Those of the answer.
        """
        answer = self.call("find", encode_rows(keys), columns=json.dumps(columns))
        return decode_rows(answer)
{% endif %}

    def call(self, name: str, body: bytes = b"", **arguments: Any) -> bytes:
        """Ask the server for something.

        Args:
            name: What.
            body: Data of the call.
            **arguments: Its arguments.

        Raises:
            ConnectorError: It cannot be had; the class says what the caller must do.
        """
        query = urlencode({"topic": self._connection.topic, **arguments})
        try:
            self._http.request("POST", f"/{name}?{query}", body, headers(self._connection))
            response = self._http.getresponse()
            answer = response.read()
        except (OSError, HTTPException) as exc:
            self.close()  # the next call connects anew
            raise RetryableError(
                f"the server at {self._connection.address} does not answer",
                found=f"{type(exc).__name__}: {exc}",
                option="address",
            ) from exc
        if response.status != 200:
            raise failure(self._connection, name, response.status, answer)
        return answer

    def close(self) -> None:
        """Close the connection; a later call opens it again."""
        self._http.close()


def check_connection(connection: Connection, timeout: float) -> None:
    """Return when the server has answered, and takes the token; see `SupportsConnectionCheck`.

    Raises:
        ConnectorError: It has not.
    """
    with closing(Client(connection, timeout / 2)) as client:  # to connect, and to answer
        client.call("ping")


def endpoint(connection: Connection) -> tuple[str, int]:
    """Host and port of the server.

    Raises:
        ConfigurationError: The address is none.
    """
    host, _, port = connection.address.rpartition(":")
    if not host or not port.isdigit():
        raise InvalidOptionError(
            "the address of the server cannot be used",
            expected="host:port",
            found=connection.address,
            option="address",
        )
    return host, int(port)


def headers(connection: Connection) -> dict[str, str]:
    """What the server asks for in every call."""
    token = connection.token
    return {} if token is None else {"Authorization": f"Bearer {token.reveal()}"}


def failure(connection: Connection, name: str, status: int, answer: bytes) -> ConnectorError:
    """The error for an answer of the server; its class says what the caller must do."""
    where = f"the server at {connection.address}"
    found = f"{status}: {answer.decode(errors='replace')}"
    if status == 401:
        return ConfigurationError(f"{where} refuses the token", option="token")
    if status == 404:
        return ConfigurationError(
            f"{where} has no such topic", found=connection.topic, option="topic"
        )
    if status == 429 or status >= 500:
        return RetryableError(f"{where} cannot {name} now", found=found)
    return FatalError(f"{where} refuses to {name}", found=found)


def encode_rows(rows: pa.RecordBatch) -> bytes:
    """Rows as they travel: an Arrow IPC stream."""
    out = pa.BufferOutputStream()
    with pa.ipc.new_stream(out, rows.schema) as writer:
        writer.write_batch(rows)
    data: bytes = out.getvalue().to_pybytes()
    return data


def decode_rows(data: bytes) -> pa.RecordBatch:
    """The rows that `encode_rows` wrote."""
    with pa.ipc.open_stream(data) as reader:
        return reader.read_next_batch()


def fitted(rows: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Rows with exactly the columns of a schema; one that they do not have is null.

    Raises:
        pyarrow.ArrowException: A value has no place in its column.
    """
    columns = [
        rows.column(each.name).cast(each.type)
        if each.name in rows.schema.names
        else pa.nulls(rows.num_rows, each.type)
        for each in schema
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)
