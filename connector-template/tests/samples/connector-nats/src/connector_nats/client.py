# SPDX-License-Identifier: Apache-2.0
"""The client of JetStream. Only this module and `publisher` import nats-py.

nats-py is asynchronous. `Client` runs it on the event loop of the process and waits. The library
does not reconnect: every error becomes an error of the core, whose class determines the reaction,
and the next call of a `Client` connects again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from typing import Final, TypeVar

import pyarrow as pa
from nats.aio.client import Client as Nats
from nats.aio.msg import Msg
from nats.errors import AuthorizationError, Error
from nats.js import JetStreamContext
from nats.js.api import AckPolicy, ConsumerConfig, DeliverPolicy, StreamInfo
from nats.js.errors import APIError, NotFoundError

from connector_nats.options import Connection
from connectors_core.clients import causes_of, submit
from connectors_core.errors import (
    ConfigurationError,
    ConnectorError,
    DataLossError,
    FatalError,
    RetryableError,
)

__all__ = [
    "ALL",
    "MESSAGES",
    "Client",
    "Cursor",
    "StreamState",
    "check_connection",
    "check_not_cut",
    "connect",
    "failure",
]

_T = TypeVar("_T")

ALL: Final = (">",)
"""The subjects that match every message of a stream."""

MESSAGES: Final = pa.schema(
    [
        pa.field("subject", pa.string()),
        pa.field("sequence", pa.int64()),
        pa.field("time", pa.timestamp("us", tz="UTC")),
        pa.field("data", pa.binary()),
    ]
)
"""The columns of fetched messages."""

_TIMEOUT_SECONDS: Final = 30.0
# The server removes a consumer that no client has used for so long, such as that of a
# killed task. A slow pipeline asks rarely.
_ABANDONED_SECONDS: Final = 600.0
_STREAM_NOT_FOUND: Final = 10059
_SERVER_ERROR: Final = 500


@dataclass(frozen=True, kw_only=True)
class StreamState:
    """What a stream contains at one moment.

    Attributes:
        first: The sequence of the first message. Earlier ones were removed.
        next: The sequence of the next message that is stored.
        end: The sequence after the last message with one of the subjects.
        retention: `limits`, `interest`, or `workqueue`.
    """

    first: int
    next: int
    end: int
    retention: str


def check_not_cut(stream: str, position: int, state: StreamState) -> None:
    """Check that a stream contains all messages before a position, or had them.

    Raises:
        DataLossError: The stream has lost its end, or was created again.
    """
    if state.next < position:
        raise DataLossError(
            f"the stream {stream!r} was created again, or has lost its last messages",
            expected=f"sequence {position}",
            found=f"no sequence from {state.next}",
            hint="start with a new pipeline",
        )


class Cursor:
    """The messages of a stream from a sequence, in order; see `Client.open_cursor`.

    Args:
        stream: The name of the stream.
        consumer: The name of the server's consumer.
        subscription: The subscription to the consumer.
        pending: The number of messages that the consumer has not delivered.
    """

    delivered = 0  # the number of the last delivered message

    def __init__(
        self,
        stream: str,
        consumer: str,
        subscription: JetStreamContext.PullSubscription,
        pending: int,
    ) -> None:
        self.stream = stream
        self.consumer = consumer
        self.subscription = subscription
        self.pending = pending


class Client:
    """A connection to the servers. The constructor does no I/O. Any thread except the loop's.

    Args:
        connection: The connection settings.
        timeout: Seconds to wait for the connection, and for the response to each call.
    """

    def __init__(self, connection: Connection, timeout: float = _TIMEOUT_SECONDS) -> None:
        self._connection = connection
        self._timeout = timeout
        self._nats: Nats | None = None

    def ping(self) -> None:
        """Return when a server has responded.

        Raises:
            ConnectorError: None does.
        """
        self.call(lambda nats: nats.flush())

    # --- Streams ---

    def state(self, stream: str, subjects: Sequence[str]) -> StreamState:
        """Return what a stream contains. Driver.

        Args:
            stream: The name of the stream.
            subjects: The subjects to read.
        """

        async def state(nats: Nats) -> StreamState:
            found = await nats.jetstream().stream_info(stream)
            end = found.state.last_seq + 1
            if tuple(subjects) != ALL:
                ends = [await self._end_of(nats, stream, subject) for subject in subjects]
                end = max(ends)
            return StreamState(
                first=max(found.state.first_seq, 1),  # 0 in a new stream
                next=found.state.last_seq + 1,
                end=end,
                retention=_retention(found),
            )

        return self.call(state)

    async def _end_of(self, nats: Nats, stream: str, subject: str) -> int:
        try:
            found = await nats.jetstream().get_last_msg(stream, subject)
        except NotFoundError as error:
            if error.err_code == _STREAM_NOT_FOUND:
                raise
            return 0
        assert found.seq is not None, "the server sends the sequence of each message"
        return found.seq + 1

    # --- The durable consumer ---

    def create_durable(self, stream: str, name: str, subjects: Sequence[str]) -> None:
        """Create a durable consumer, unless it exists. It keeps a position, and reads nothing.

        Args:
            stream: The name of the stream.
            name: The name of the consumer.
            subjects: The subjects to read.
        """
        config = ConsumerConfig(
            durable_name=name,
            deliver_policy=DeliverPolicy.ALL,
            ack_policy=AckPolicy.ALL,
            filter_subjects=list(subjects),
        )

        async def create(nats: Nats) -> None:
            await nats.jetstream().add_consumer(stream, config)

        self.call(create)

    def acknowledge(self, durable: str, positions: Mapping[str, int]) -> None:
        """Acknowledge all messages before a position of each stream, unless they are already.

        A durable consumer that is reset to a position has acknowledged all messages before it.

        Args:
            durable: The name of the durable consumer of every stream.
            positions: The sequence after the last message to acknowledge, by stream.
        """

        async def acknowledge(nats: Nats) -> None:
            for stream, position in positions.items():
                info = await nats.jetstream().consumer_info(stream, durable)
                assert info.ack_floor is not None, "the server sends it of each consumer"
                if info.ack_floor.stream_seq < position - 1:
                    await nats.jetstream().reset_consumer(stream, durable, position)

        self.call(acknowledge)

    # --- Messages ---

    def open_cursor(self, stream: str, subjects: Sequence[str], position: int) -> Cursor:
        """Read a stream from a sequence. Executor.

        The consumer does not acknowledge, so any number of tasks can read the same messages.

        Args:
            stream: The name of the stream.
            subjects: The subjects to read.
            position: The sequence of the first message, if it exists.
        """
        config = ConsumerConfig(
            deliver_policy=DeliverPolicy.BY_START_SEQUENCE,
            opt_start_seq=position,
            ack_policy=AckPolicy.NONE,
            filter_subjects=list(subjects),
            inactive_threshold=_ABANDONED_SECONDS,
            mem_storage=True,
        )

        async def open_cursor(nats: Nats) -> Cursor:
            made = await nats.jetstream().add_consumer(stream, config)
            subscription = await nats.jetstream().pull_subscribe_bind(made.name, stream=stream)
            return Cursor(stream, made.name, subscription, made.num_pending or 0)

        return self.call(open_cursor)

    def fetch(self, cursor: Cursor, limit: int) -> pa.RecordBatch:
        """Return the next messages, at most `limit`. Executor.

        Returns:
            Messages with the columns `MESSAGES`: as many as the limit, or up to the end of the
            stream.
        """

        async def fetch(_: Nats) -> pa.RecordBatch:
            if not cursor.pending:
                return pa.RecordBatch.from_pylist([], schema=MESSAGES)
            found: list[Msg] = []
            wanted = min(limit, cursor.pending)
            while len(found) < wanted:
                found += await cursor.subscription.fetch(wanted - len(found), self._timeout)
            last = found[-1].metadata
            if last.sequence.consumer != cursor.delivered + len(found):
                raise RetryableError(f"messages of the stream {cursor.stream!r} did not arrive")
            cursor.delivered, cursor.pending = last.sequence.consumer, last.num_pending
            columns = [
                [each.subject for each in found],
                [each.metadata.sequence.stream for each in found],
                [each.metadata.timestamp for each in found],
                [each.data for each in found],
            ]
            types = [field.type for field in MESSAGES]
            return pa.RecordBatch.from_arrays(list(map(pa.array, columns, types)), schema=MESSAGES)

        return self.call(fetch)

    def close_cursor(self, cursor: Cursor) -> None:
        """Remove the consumer. If that fails, the server removes it later."""

        async def close(nats: Nats) -> None:
            await cursor.subscription.unsubscribe()
            await nats.jetstream().delete_consumer(cursor.stream, cursor.consumer)

        with suppress(ConnectorError):
            self.call(close)

    # --- The connection ---

    def close(self) -> None:
        """Disconnect. A later call connects again."""
        nats, self._nats = self._nats, None
        if nats is not None:
            submit(_end(nats)).result()

    def call(self, call: Callable[[Nats], Awaitable[_T]]) -> _T:
        """Run a call of the library on the event loop, and wait for its result.

        Args:
            call: Gets the library's connection.

        Raises:
            ConnectorError: It failed. The class of the error determines the reaction.
        """

        async def run() -> _T:
            if self._nats is None or self._nats.is_closed:
                self._nats = await connect(self._connection, self._timeout)
            try:
                return await asyncio.wait_for(call(self._nats), self._timeout)
            except Exception as error:
                raise failure(self._connection, error) from error

        return submit(run()).result()


async def connect(connection: Connection, timeout: float) -> Nats:
    """Return a connection that does not reconnect. Event loop's thread.

    Args:
        connection: The connection settings.
        timeout: Seconds to wait for a server.

    Raises:
        ConnectorError: No server accepts the connection.
    """
    nats = Nats()
    errors: list[Exception] = []

    async def note(error: Exception) -> None:
        errors.append(error)

    password = connection.password
    token = connection.token
    try:
        await asyncio.wait_for(
            nats.connect(
                list(connection.servers),
                name="connector-nats",
                user=connection.user,
                password=None if password is None else password.reveal(),
                token=None if token is None else token.reveal(),
                allow_reconnect=False,
                max_reconnect_attempts=1,
                reconnect_time_wait=0,
                connect_timeout=max(1, int(timeout)),
                error_cb=note,
            ),
            timeout,
        )
    except BaseException as error:
        await _end(nats)  # it may have connected
        if isinstance(error, Exception):
            raise failure(connection, errors[-1] if errors else error) from error
        raise
    return nats


async def _end(nats: Nats) -> None:
    """Close a connection. If the server has reset it, nats-py leaves its subscriptions running."""
    await nats.close()
    for subscription in nats._subs.values():
        subscription._stop_processing()


def check_connection(connection: Connection, timeout: float) -> None:
    """Check that a server responds and accepts the login. See `SupportsConnectionCheck`.

    Raises:
        ConnectorError: The check failed.
    """
    with closing(Client(connection, timeout / 2)) as client:  # to connect, and to respond
        client.ping()


def failure(connection: Connection, error: Exception) -> ConnectorError:
    """Return the error of the core for one of the library."""
    where = f"the server at {connection.servers[0]}"
    found = f"{type(error).__name__}: {error}"
    if isinstance(error, ConnectorError):
        return error
    if any(_is_refused(each) for each in causes_of(error)):
        login = "token" if connection.user is None else "user"
        return ConfigurationError(f"{where} rejects the login", option=login)
    if isinstance(error, APIError) and error.code is not None and error.code < _SERVER_ERROR:
        found = f"{error.code}: {error.description}"
        if error.err_code == _STREAM_NOT_FOUND:
            return ConfigurationError(f"{where} has no such stream", found=found, option="streams")
        return FatalError(f"{where} rejects a request", found=found)
    if isinstance(error, Error | OSError | TimeoutError):
        return RetryableError(f"{where} does not respond", found=found, option="servers")
    return FatalError(f"the client of {where} failed", found=found)


def _is_refused(error: BaseException) -> bool:

    return isinstance(error, AuthorizationError) or "authorization violation" in str(error).lower()


def _retention(stream: StreamInfo) -> str:
    return str(getattr(stream.config.retention, "value", stream.config.retention))
