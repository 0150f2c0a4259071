# SPDX-License-Identifier: Apache-2.0
"""Tests that the network forwards, slows, cuts, and rejects connections."""

import asyncio
import socket
import socketserver
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from connectors_core.testing import Outage
from connectors_core.testing.servers import HOST, FaultyNetwork, ServerError


class Echo(socketserver.BaseRequestHandler):
    def handle(self) -> None:
        while data := self.request.recv(1 << 16):
            self.request.sendall(data)


@contextmanager
def before(handler: type[socketserver.BaseRequestHandler]) -> Iterator[FaultyNetwork]:
    """A network between the test and a server."""
    with socketserver.ThreadingTCPServer((HOST, 0), handler) as server, FaultyNetwork() as network:
        threading.Thread(target=server.serve_forever, args=(0.01,)).start()
        network.forward_to(server.server_address[1])
        yield network
        network.cut()
        server.shutdown()


@pytest.fixture
def network() -> Iterator[FaultyNetwork]:
    """A network between the test and an echo server."""
    with before(Echo) as network:
        yield network


def connect(network: FaultyNetwork) -> socket.socket:
    return socket.create_connection((HOST, network.port), timeout=20)


def echo(connection: socket.socket, data: bytes) -> bytes:
    connection.sendall(data)
    with connection.makefile("rb") as answer:
        return answer.read(len(data))


def assert_open_connections_end(network: FaultyNetwork, fault: Callable[[], None]) -> None:
    with connect(network) as connection:
        assert echo(connection, b"hello") == b"hello"
        fault()
        with pytest.raises(ConnectionResetError):
            connection.recv(1)


class Talker(socketserver.BaseRequestHandler):
    def handle(self) -> None:
        self.request.sendall(b"x" * 1000)
        self.request.recv(1)


def test_a_slow_network_ends_although_data_is_on_its_way_in_both_directions() -> None:
    with before(Talker) as network:
        network.slow(bytes_per_second=1)
        with connect(network) as connection:
            connection.sendall(b"x" * 1000)
            connection.settimeout(0.1)
            with pytest.raises(TimeoutError):
                connection.recv(1)


def test_a_healthy_network_forwards_all_data(network: FaultyNetwork) -> None:
    data = bytes(range(256)) * 2000
    with connect(network) as one, connect(network) as two:
        assert echo(one, data) == data
        assert echo(two, b"hello") == b"hello"


def test_a_cut_resets_open_connections_and_accepts_new_ones(network: FaultyNetwork) -> None:
    assert_open_connections_end(network, network.cut)
    assert network.cuts == 1
    with connect(network) as connection:
        assert echo(connection, b"again") == b"again"


def test_a_second_cut_can_follow_immediately(network: FaultyNetwork) -> None:
    """The second cut meets connections that are closed but not yet removed."""

    async def twice() -> None:
        await network._cut()
        await asyncio.sleep(0)
        await network._cut()

    with connect(network) as connection:
        assert echo(connection, b"hello") == b"hello"
        network._run(twice())
    assert network.cuts == 2


def test_a_cut_can_occur_in_the_middle_of_a_response(network: FaultyNetwork) -> None:
    network.cut_after(3)
    with connect(network) as connection:
        connection.sendall(b"hello")
        assert connection.recv(5) == b"hel"
        with pytest.raises(ConnectionResetError):
            connection.recv(1)
    with connect(network) as connection:
        assert echo(connection, b"hello") == b"hello"


def assert_lost(connection: socket.socket, request: bytes = b"lost") -> None:
    connection.sendall(request)
    with pytest.raises(ConnectionResetError):
        connection.recv(1)


def test_only_the_nth_response_is_lost_and_only_its_connection_ends(
    network: FaultyNetwork,
) -> None:
    with connect(network) as one, connect(network) as two:
        assert echo(one, b"before") == b"before"
        with network.lost_response(3) as lost:
            assert echo(one, b"first") == b"first"
            assert echo(two, b"second") == b"second"
            assert not lost.is_set()
            assert_lost(one)
            assert lost.is_set()
            assert echo(two, b"fourth") == b"fourth"
            with connect(network) as three:
                assert echo(three, b"fifth") == b"fifth"
    assert network.cuts == 0


def test_a_long_response_is_lost_as_a_whole_and_its_request_is_handled() -> None:
    long = bytes(1 << 20)
    handled = []

    class LongResponses(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            while request := self.request.recv(100):
                handled.append(request)
                self.request.sendall(long)

    with before(LongResponses) as network, network.lost_response(2) as lost:
        with connect(network) as connection:
            connection.sendall(b"first")
            with connection.makefile("rb") as response:
                assert response.read(len(long)) == long
            assert not lost.is_set()
            assert_lost(connection, b"second")
        assert handled == [b"first", b"second"]


@pytest.mark.parametrize("ends", ["context", "restore"])
def test_no_response_is_lost_after_the_end_of_the_fault(network: FaultyNetwork, ends: str) -> None:
    with connect(network) as connection:
        with network.lost_response() as lost:
            if ends == "restore":
                network.restore()
                assert echo(connection, b"hello") == b"hello"
        assert echo(connection, b"hello") == b"hello"
    assert not lost.is_set()


def test_a_refusing_network_accepts_no_connection_until_it_is_restored(
    network: FaultyNetwork,
) -> None:
    assert_open_connections_end(network, network.refuse)
    with pytest.raises(ConnectionRefusedError):
        connect(network)
    network.restore()
    with connect(network) as connection:
        assert echo(connection, b"hello") == b"hello"


def test_a_slow_network_delays_data(network: FaultyNetwork) -> None:
    network.slow(latency=0.1, bytes_per_second=1000)
    start = time.monotonic()
    with connect(network) as connection:
        assert echo(connection, bytes(100)) == bytes(100)
    assert time.monotonic() - start >= 2 * (0.1 + 0.1)


def test_without_a_server_connections_end(network: FaultyNetwork) -> None:
    with socket.socket() as nobody:
        nobody.bind((HOST, 0))
        network.forward_to(nobody.getsockname()[1])
        with connect(network) as connection:
            assert connection.recv(1) == b""


def test_a_network_that_was_not_started_raises_an_error() -> None:
    with pytest.raises(ServerError, match="not started"):
        FaultyNetwork().address  # noqa: B018


def test_a_network_that_hangs_up_accepts_connections_and_closes_them(
    network: FaultyNetwork,
) -> None:
    assert_open_connections_end(network, network.hang_up)
    with connect(network) as connection:
        assert connection.recv(1) == b""
    network.restore()
    with connect(network) as connection:
        assert echo(connection, b"again") == b"again"


@pytest.mark.parametrize("outage", Outage)
def test_an_outage_ends_with_its_context(network: FaultyNetwork, outage: Outage) -> None:
    with pytest.raises(KeyError), network.outage(outage):
        raise KeyError
    with connect(network) as connection:
        assert echo(connection, b"hello") == b"hello"


def test_no_connection_is_accepted_while_a_system_is_stopped(network: FaultyNetwork) -> None:
    with network.outage(Outage.STOPPED), pytest.raises(ConnectionRefusedError):
        connect(network)


def test_a_disconnected_system_cuts_off_one_response(network: FaultyNetwork) -> None:
    with network.outage(Outage.DISCONNECTED):
        with connect(network) as connection:
            assert len(echo(connection, bytes(19))) == 19
            with pytest.raises(ConnectionResetError):
                echo(connection, bytes(100))
        with connect(network) as connection:
            assert echo(connection, bytes(100)) == bytes(100)


def test_a_slow_system_responds_late(network: FaultyNetwork) -> None:
    with connect(network) as connection, network.outage(Outage.SLOW):
        began = time.monotonic()
        assert echo(connection, b"hello") == b"hello"
        assert time.monotonic() - began > 0.09


def test_only_the_first_response_of_a_connection_is_late(network: FaultyNetwork) -> None:
    network.slow(first_latency=0.2)
    for _ in range(2):
        with connect(network) as connection:
            began = time.monotonic()
            assert echo(connection, b"hello") == b"hello"
            first = time.monotonic() - began
            assert echo(connection, b"hello") == b"hello"
            assert first > 0.2 > time.monotonic() - began - first
