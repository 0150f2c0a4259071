# SPDX-License-Identifier: Apache-2.0
"""A faulty network between clients and their server."""

from __future__ import annotations

import asyncio
import socket
import struct
import threading
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, Final, Self

from connectors_core.testing.outages import LATE_SECONDS, Outage
from connectors_core.testing.servers.errors import ServerError
from connectors_core.testing.servers.ports import HOST, free_ports

__all__ = ["FaultyNetwork"]

_CHUNK: Final = 1 << 16
# Linger for zero seconds, so that the other side sees a reset instead of an orderly end.
_RESET: Final = struct.pack("ii", 1, 0)
# The number of bytes before a response is cut, and the delay of a slow packet in seconds.
_BEGUN: Final = 20
_LATE: Final = 0.05


class FaultyNetwork:
    """A proxy before a server on loopback, which slows, cuts, or rejects its connections.

    It can also lose a single response.

    ```python
    with FaultyNetwork() as network:
        network.forward_to(port_of_the_server)
        client = connect(network.address)
        network.cut_after(100_000)
    ```
    """

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.StreamWriter] = set()
        self._target = 0
        self._port = 0
        self._bytes_per_second = float("inf")
        self._latency = self._first_latency = 0.0
        self._left = float("inf")
        self._loss: _Loss | None = None
        self._cuts = 0
        self._hangs_up = False

    @property
    def port(self) -> int:
        """The port on which the network listens."""
        if self._loop is None:
            raise ServerError("the network was not started", hint="use it as a context manager")
        return self._port

    @property
    def address(self) -> str:
        """The host and port for clients that connect through the network."""
        return f"{HOST}:{self.port}"

    @property
    def cuts(self) -> int:
        """The number of cuts so far."""
        return self._cuts

    def forward_to(self, port: int) -> None:
        """Forward connections to the server on this port."""
        self._target = port

    def slow(
        self,
        *,
        bytes_per_second: float = float("inf"),
        latency: float = 0.0,
        first_latency: float = 0.0,
    ) -> None:
        """Slow each connection down, in both directions.

        Args:
            bytes_per_second: The maximum rate.
            latency: The delay of every packet in seconds.
            first_latency: The additional delay of the first response on a connection in seconds.
        """
        self._first_latency = first_latency
        self._bytes_per_second = bytes_per_second
        self._latency = latency

    def cut(self) -> None:
        """Reset all connections, but accept new ones."""
        self._run(self._cut())

    def cut_after(self, answered: int) -> None:
        """Reset all connections in the middle of a response, after this number of bytes."""
        self._left = answered

    def refuse(self) -> None:
        """Reset all connections and reject new ones, until `restore`."""
        self._run(self._refuse())

    def hang_up(self) -> None:
        """Reset all connections and close new ones immediately, until `restore`."""
        self._hangs_up = True
        self.cut()

    @contextmanager
    def outage(self, outage: Outage) -> Iterator[None]:
        """Make the server unavailable within this context. See `TestSystem.outage`."""
        if outage is Outage.STOPPED:
            self.refuse()
        elif outage is Outage.REFUSING:
            self.hang_up()
        elif outage is Outage.SLOW:
            self.slow(latency=_LATE)
        elif outage is Outage.LATE:
            self.slow(first_latency=LATE_SECONDS)
        else:
            self.cut()
            self.cut_after(_BEGUN)
        try:
            yield
        finally:
            self.restore()

    @contextmanager
    def lost_response(self, nth: int = 1) -> Iterator[threading.Event]:
        """Lose one response within this context. See `TestSystem.lost_response`.

        The network resets the connection of the response before its first byte. All other
        connections continue.

        A response starts with the first data from the server after data from the client, and its
        length does not matter. The responses of all connections count together, in the order in
        which they start. If a client sends a request during a response, the rest of that response
        counts as one too.
        """
        loss = _Loss(nth)
        self._loss = loss
        try:
            yield loss.happened
        finally:
            self._loss = None

    def restore(self) -> None:
        """End all faults."""
        self._left = float("inf")
        self._loss = None
        self._hangs_up = False
        self.slow()
        self._run(self._listen())

    def __enter__(self) -> Self:
        (self._port,) = free_ports(1)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="network", daemon=True)
        self._thread.start()
        self._run(self._listen())
        return self

    def __exit__(self, *_: object) -> None:
        self._run(self._end())
        assert self._loop is not None
        assert self._thread is not None
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
        self._loop = self._thread = None

    def _run(self, work: Coroutine[Any, Any, None]) -> None:
        assert self._loop is not None
        asyncio.run_coroutine_threadsafe(work, self._loop).result()

    async def _listen(self) -> None:
        if self._server is None:
            self._server = await asyncio.start_server(self._serve, HOST, self._port)

    async def _refuse(self) -> None:
        if self._server is not None:
            self._server.close()
            self._server = None
        await self._cut()

    async def _end(self) -> None:
        await self._refuse()
        left = asyncio.all_tasks() - {asyncio.current_task()}
        for each in left:
            each.cancel()
        await asyncio.gather(*left, return_exceptions=True)

    async def _cut(self) -> None:
        self._cuts += 1
        for connection in self._connections:
            _reset(connection)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._hangs_up:
            writer.close()
            return
        self._connections.add(writer)
        try:
            answers, questions = await asyncio.open_connection(HOST, self._target)
        except OSError:  # the server is down, so this connection is too
            self._connections.discard(writer)
            writer.close()
            return
        self._connections.add(questions)
        asked = asyncio.Event()
        pumps = [
            asyncio.create_task(self._pump(reader, questions, asked)),
            asyncio.create_task(self._pump(answers, writer, asked, answering=True)),
        ]
        await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
        for pump in pumps:
            pump.cancel()
        await asyncio.gather(*pumps, return_exceptions=True)  # cuts are the purpose of this class
        for connection in (writer, questions):
            self._connections.discard(connection)
            connection.close()

    async def _pump(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        asked: asyncio.Event,
        *,
        answering: bool = False,
    ) -> None:
        first = self._first_latency if answering else 0.0
        while data := await reader.read(_CHUNK):
            first, late = 0.0, first
            if delay := late + self._latency + len(data) / self._bytes_per_second:
                await asyncio.sleep(delay)
            if not answering:
                asked.set()
            else:
                starts = asked.is_set()
                asked.clear()
                if starts and self._loss is not None and self._loss.is_due():
                    _reset(writer)
                    return
                data = data[: int(min(self._left, _CHUNK))]
                self._left -= len(data)
            writer.write(data)
            await writer.drain()
            if self._left <= 0:
                self._left = float("inf")
                await self._cut()


class _Loss:
    """The loss of one response, the nth from now."""

    def __init__(self, nth: int) -> None:
        self.happened = threading.Event()
        self._left = nth

    def is_due(self) -> bool:
        """Count a response, and return whether it is the one to lose."""
        self._left -= 1
        if self._left == 0:
            self.happened.set()
        return self._left == 0


def _reset(connection: asyncio.StreamWriter) -> None:
    peer: socket.socket = connection.get_extra_info("socket")
    if peer.fileno() >= 0:  # it may be closed by now
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
    connection.transport.abort()
