# SPDX-License-Identifier: Apache-2.0
"""The proxy forwards, slows, cuts and refuses."""

import socket
import socketserver
import threading
import time
from collections.abc import Iterator

import pytest

from connector_kafka.testing import BrokerError, KafkaProxy
from connector_kafka.testing.ports import HOST


class Echo(socketserver.BaseRequestHandler):
    def handle(self) -> None:
        while data := self.request.recv(1 << 16):
            self.request.sendall(data)


@pytest.fixture
def proxy() -> Iterator[KafkaProxy]:
    """A proxy in front of a server that says what it hears."""
    with socketserver.ThreadingTCPServer((HOST, 0), Echo) as server, KafkaProxy() as proxy:
        threading.Thread(target=server.serve_forever, args=(0.01,)).start()
        proxy.forward_to(server.server_address[1])
        yield proxy
        proxy.cut()
        server.shutdown()


def connect(proxy: KafkaProxy) -> socket.socket:
    return socket.create_connection((HOST, proxy.port), timeout=20)


def echo(connection: socket.socket, data: bytes) -> bytes:
    connection.sendall(data)
    with connection.makefile("rb") as answer:
        return answer.read(len(data))


def test_a_good_network_carries_all(proxy: KafkaProxy) -> None:
    data = bytes(range(256)) * 2000
    with connect(proxy) as one, connect(proxy) as two:
        assert echo(one, data) == data
        assert echo(two, b"hello") == b"hello"


def test_a_cut_resets_what_is_open_and_lets_in_what_comes(proxy: KafkaProxy) -> None:
    with connect(proxy) as connection:
        assert echo(connection, b"hello") == b"hello"
        proxy.cut()
        with pytest.raises(ConnectionResetError):
            connection.recv(1)
    assert proxy.cuts == 1
    with connect(proxy) as connection:
        assert echo(connection, b"again") == b"again"


def test_a_cut_can_come_in_mid_answer(proxy: KafkaProxy) -> None:
    proxy.cut_after(3)
    with connect(proxy) as connection:
        connection.sendall(b"hello")
        assert connection.recv(5) == b"hel"
        with pytest.raises(ConnectionResetError):
            connection.recv(1)
    with connect(proxy) as connection:
        assert echo(connection, b"hello") == b"hello"


def test_one_that_refuses_lets_nobody_in_until_it_is_restored(proxy: KafkaProxy) -> None:
    with connect(proxy) as connection:
        assert echo(connection, b"hello") == b"hello"
        proxy.refuse()
        with pytest.raises(ConnectionResetError):
            connection.recv(1)
    with pytest.raises(ConnectionRefusedError):
        connect(proxy)
    proxy.restore()
    with connect(proxy) as connection:
        assert echo(connection, b"hello") == b"hello"


def test_a_slow_network_is_slow(proxy: KafkaProxy) -> None:
    proxy.slow(latency=0.1, bytes_per_second=1000)
    start = time.monotonic()
    with connect(proxy) as connection:
        assert echo(connection, bytes(100)) == bytes(100)
    assert time.monotonic() - start >= 2 * (0.1 + 0.1)


def test_without_a_broker_connections_end(proxy: KafkaProxy) -> None:
    with socket.socket() as nobody:
        nobody.bind((HOST, 0))
        proxy.forward_to(nobody.getsockname()[1])
        with connect(proxy) as connection:
            assert connection.recv(1) == b""


def test_one_that_was_not_started_says_so() -> None:
    with pytest.raises(BrokerError, match="not started"):
        KafkaProxy().bootstrap_servers  # noqa: B018
