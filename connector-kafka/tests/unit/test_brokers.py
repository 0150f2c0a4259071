# SPDX-License-Identifier: Apache-2.0
"""Tests that one broker of several is enough, if the others are dead or hang."""

from __future__ import annotations

import socket
import socketserver
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from kafka.protocol.metadata import ApiVersionsResponse, MetadataResponse

from connector_kafka.client.cluster import check_reachable
from connector_kafka.client.config import ClientConfig
from connector_kafka.client.wire import Wire

TIMEOUT = 9.0
API_VERSIONS, METADATA, OLDEST, NEWEST = 18, 3, 0, 8


def answer(header: bytes, ports: dict[int, int]) -> bytes:
    """Answer a request for versions or for the brokers of the cluster."""
    api, version, number = struct.unpack(">hhi", header)
    response: Any
    if api == API_VERSIONS:
        key = ApiVersionsResponse.ApiVersion
        keys = [key(api_key=METADATA, min_version=OLDEST, max_version=NEWEST)]
        keys.append(key(api_key=API_VERSIONS, min_version=0, max_version=0))
        version, response = 0, ApiVersionsResponse(error_code=0, api_keys=keys)
        if struct.unpack(">h", header[2:4]) != (0,):
            response.error_code = 35  # UNSUPPORTED_VERSION
    else:
        node = MetadataResponse.MetadataResponseBroker
        brokers = [node(n, "127.0.0.1", port, None) for n, port in ports.items()]
        response = MetadataResponse(
            throttle_time_ms=0, brokers=brokers, cluster_id="c", controller_id=0, topics=[]
        )
    body = struct.pack(">i", number) + response.encode(version=version)
    return struct.pack(">i", len(body)) + body


@contextmanager
def broker(ports: dict[int, int]) -> Iterator[int]:
    """Run a broker that knows where all brokers of its cluster are."""

    class Connection(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            while size := self.rfile.read(4):
                frame = self.rfile.read(*struct.unpack(">i", size))
                self.wfile.write(answer(frame[:8], ports))

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Connection) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, args=(0.01,)).start()
        try:
            yield server.server_address[1]
        finally:
            server.shutdown()


@pytest.fixture(params=["dead", "hangs"])
def other(request: pytest.FixtureRequest) -> Iterator[int]:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        if request.param == "hangs":
            server.listen()
        yield server.getsockname()[1]


def test_a_cluster_is_reachable_if_one_of_its_brokers_responds(other: int) -> None:
    ports = {1: other, 2: other}
    with broker(ports) as alive:
        ports[0] = alive
        config = ClientConfig.of({"bootstrap.servers": f"127.0.0.1:{alive}"})
        for _ in range(3):  # the client chooses a broker at random
            started = time.monotonic()
            check_reachable(config, TIMEOUT)
            assert time.monotonic() - started < TIMEOUT


def test_one_of_the_bootstrap_servers_is_enough(other: int) -> None:
    ports: dict[int, int] = {}
    with broker(ports) as alive:
        ports[0] = alive
        servers = f"127.0.0.1:{other}, 127.0.0.1:{other}, 127.0.0.1:{alive}"
        check_reachable(ClientConfig.of({"bootstrap.servers": servers}), TIMEOUT)


def test_other_requests_need_one_broker_too(other: int) -> None:
    ports = {1: other, 2: other}
    with broker(ports) as alive:
        ports[0] = alive
        wire = Wire(
            ClientConfig.of({"bootstrap.servers": f"127.0.0.1:{alive}", "request.timeout.ms": 9000})
        )
        found = wire.refresh_metadata()
        wire.close()
    assert {each.node_id for each in found.brokers} == {0, 1, 2}


@pytest.mark.parametrize("servers", ["[::1]:9092", "[::1]:9092, b:9093", '["[::1]:9092"]'])
def test_a_list_of_servers_can_begin_with_an_ipv6_address(servers: str) -> None:
    assert ClientConfig.of({"bootstrap.servers": servers}).servers[0] == "[::1]:9092"
