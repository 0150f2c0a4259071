# SPDX-License-Identifier: Apache-2.0
"""The client of Redis, and the only module that communicates with it.

It turns every error into an error of the core, whose class tells the runtime what to do.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from typing import Any, Final

import pyarrow as pa
from redis import Redis
from redis.backoff import NoBackoff
from redis.exceptions import AuthenticationError, RedisError, ResponseError
from redis.exceptions import ConnectionError as Disconnected
from redis.exceptions import TimeoutError as Late
from redis.retry import Retry

from connector_redis.options import Connection
from connector_redis.split import Extent, PartSplit, Position
from connectors_core.errors import (
    ConfigurationError,
    DataLossError,
    FatalError,
    InvalidOptionError,
    RetryableError,
)
from connectors_core.source import PositionedBatch

__all__ = ["ENTRIES", "Client", "check_connection"]

ENTRIES = pa.schema([pa.field("id", pa.string()), pa.field("message", pa.binary())])
"""The columns of the entries that `Client.read` returns."""

_TIMEOUT_SECONDS: Final = 30.0
_BUSY: Final = ("BUSY", "LOADING", "MASTERDOWN", "NOREPLICAS", "OOM", "READONLY", "TRYAGAIN")
_LOGIN: Final = ("NOAUTH", "NOPERM", "WRONGPASS")

# Makes a transaction visible, exactly once: the entries, the record of the commit, and the end of
# the staged list are one atomic step. A list with another length has lost rows.
_COMMIT: Final = """
local staged, stream, index, committed = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local name, rows, field = ARGV[1], tonumber(ARGV[2]), ARGV[3]
if redis.call('ZSCORE', committed, name) then return 0 end
if redis.call('LLEN', staged) ~= rows then return -1 end
for start = 0, rows - 1, 1000 do
  for _, message in ipairs(redis.call('LRANGE', staged, start, start + 999)) do
    redis.call('XADD', stream, '*', field, message)
  end
end
redis.call('ZADD', committed, 0, name)
redis.call('DEL', staged)
redis.call('SREM', index, name)
return 1
"""


class Client:
    """A connection to a server, for one thread. The constructor does no I/O.

    Args:
        connection: The connection to the server.
        timeout: Seconds to wait for the connection, and for the response to each command.

    Raises:
        ConfigurationError: The address is not valid.
    """

    def __init__(self, connection: Connection, timeout: float = _TIMEOUT_SECONDS) -> None:
        host, port = endpoint(connection)
        password = connection.password
        self._connection = connection
        # The library must not repeat a command whose response is lost: it may have had its effect.
        self._redis: Any = Redis(
            host=host,
            port=port,
            username=connection.username if password else None,
            password=password.reveal() if password else None,
            socket_timeout=timeout,
            socket_connect_timeout=timeout,
            retry=Retry(NoBackoff(), 0),
        )

    # --- Reading ---

    def extents(self) -> dict[str, Extent]:
        """Return the keys of the streams, and the positions between which each has entries."""
        with self._errors():
            pattern = self._connection.stream
            keys = self._redis.scan_iter(match=pattern, count=1000, _type="stream")
            return {key.decode(): _extent(self._redis.xinfo_stream(key)) for key in keys}

    def read(self, split: PartSplit, limit: int) -> PositionedBatch[Position] | None:
        """Return the next entries of a stream, at most `limit`, with the columns `ENTRIES`.

        Returns:
            The entries, or None if there are none yet.

        Raises:
            DataLossError: Entries from the position on are gone.
        """
        key, start = split.part, split.position
        with self._errors(), self._redis.pipeline(transaction=True) as together:
            together.xinfo_stream(key)
            together.xrange(key, f"({start}", str(split.end or "+"), count=limit)
            info, found = together.execute(raise_on_error=False)
        if isinstance(info, Exception) or _newest(info) < start:
            raise DataLossError(
                f"the stream {key!r} was deleted",
                expected=f"entries after {start}",
                hint="restart without a checkpoint to read the stream that has replaced it",
            ) from (info if isinstance(info, Exception) else None)
        removed = info["entries-added"] - info["length"]
        if removed > start.entries:
            raise DataLossError(
                f"entries of the stream {key!r} were removed before they were read",
                expected=f"at most {start.entries} removed entries",
                found=removed,
                hint="trim the stream later",
            )
        if not found:
            return None
        field = self._connection.field.encode()
        ids = [entry_id for entry_id, _ in found]
        entries = pa.record_batch([ids, [each.get(field) for _, each in found]], schema=ENTRIES)
        return PositionedBatch(entries, Position.after(ids[-1], start.entries + len(ids)))

    # --- Writing ---

    def stage(self, transaction: str, messages: Sequence[bytes]) -> None:
        """Add messages to a transaction. Its commit makes them visible."""
        with self._errors(), self._redis.pipeline(transaction=True) as together:
            together.sadd(self._key("staged"), transaction)
            together.rpush(self._key("staged", transaction), *messages)
            together.execute()

    def commit(self, transaction: str, rows: int) -> bool | None:
        """Make all rows of a transaction visible at once.

        Returns:
            True if this call committed it, False if an earlier call did, None if rows are missing.
        """
        keys = [
            self._key("staged", transaction),
            self._connection.stream,
            self._key("staged"),
            self._key("committed"),
        ]
        with self._errors():
            answer = self._redis.eval(
                _COMMIT, len(keys), *keys, transaction, rows, self._connection.field
            )
        return {1: True, 0: False}.get(answer)

    def abort(self, transaction: str) -> None:
        """Remove a transaction that is not committed, if it exists."""
        with self._errors(), self._redis.pipeline(transaction=True) as together:
            together.delete(self._key("staged", transaction))
            together.srem(self._key("staged"), transaction)
            together.execute()

    def open_transactions(self, prefix: str) -> list[str]:
        """Return the names of the staged transactions with this prefix."""
        with self._errors():
            names = [name.decode() for name in self._redis.smembers(self._key("staged"))]
        return sorted(name for name in names if name.startswith(prefix))

    def forget_commits(self, first: str, end: str) -> None:
        """Forget the commits of the transactions from a name up to another, in their order."""
        with self._errors():
            self._redis.zremrangebylex(self._key("committed"), f"[{first}", f"({end}")

    def ping(self) -> None:
        """Check that the server responds and accepts the login."""
        with self._errors():
            self._redis.ping()

    def close(self) -> None:
        """Close the connection. A later call reopens it."""
        self._redis.close()

    def _key(self, *parts: str) -> str:
        # The braces keep all keys of a stream in one slot of a cluster.
        return ":".join([f"{{{self._connection.stream}}}", *parts])

    @contextmanager
    def _errors(self) -> Iterator[None]:
        where = f"the server at {self._connection.address}"
        try:
            yield
        except RedisError as exc:
            found = f"{type(exc).__name__}: {exc}"
            if isinstance(exc, AuthenticationError) or str(exc).startswith(_LOGIN):
                raise ConfigurationError(f"{where} rejects the login", option="password") from exc
            if isinstance(exc, Disconnected | Late):
                raise RetryableError(
                    f"{where} does not respond", found=found, option="address"
                ) from exc
            if isinstance(exc, ResponseError) and str(exc).startswith(_BUSY):
                raise RetryableError(f"{where} cannot respond now", found=found) from exc
            raise FatalError(f"{where} rejects a command", found=found) from exc


def check_connection(connection: Connection, timeout: float) -> None:
    """Check that the server responds and accepts the login. See `SupportsConnectionCheck`.

    Raises:
        ConnectorError: The check failed.
    """
    with closing(Client(connection, timeout / 2)) as client:  # to connect, and to respond
        client.ping()


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


def _newest(info: dict[str, Any]) -> Position:
    """Return the position after the last entry that a stream ever had."""
    return Position.after(info["last-generated-id"], info["entries-added"])


def _extent(info: dict[str, Any]) -> Extent:
    added, last = info["entries-added"], info["last-entry"]
    start = Position(entries=added - info["length"])
    return Extent(start, start if last is None else Position.after(last[0], added))
