# SPDX-License-Identifier: Apache-2.0
"""Tests of a system that its clients reach through a faulty network."""

from __future__ import annotations

from contextlib import contextmanager
from http.client import HTTPConnection
from urllib.parse import urlsplit

import pytest

from connectors_core.testing import Outage
from connectors_core.testing.servers import (
    HttpAnswer,
    HttpRelay,
    ServerError,
    TcpTestSystem,
    direct_address,
)


class Api(TcpTestSystem):
    name, variable = "api", "API_URL"

    def __init__(self):
        self.asked = 0

    @contextmanager
    def server(self):
        with HttpRelay(0, self._answer) as relay:
            yield f"{relay.endpoint}/v1"

    def _answer(self, request, forward):
        self.asked += 1
        return HttpAnswer(200, {}, request.path.encode())


def get(url):
    parts = urlsplit(url)
    http = HTTPConnection(parts.netloc, timeout=30)
    try:
        http.request("GET", parts.path)
        return http.getresponse().read().decode()
    finally:
        http.close()


def test_clients_reach_the_server_through_the_network_and_tests_bypass_it():
    with Api().embedded() as address:
        assert address.startswith("http://127.0.0.1:")
        assert direct_address(address) != address
        assert get(address) == get(direct_address(address)) == "/v1"


def test_an_outage_affects_only_the_clients():
    api = Api()
    with api.embedded() as address:
        with api.outage(address, Outage.STOPPED):
            with pytest.raises(ConnectionError):
                get(address)
            assert get(direct_address(address)) == "/v1"
        assert get(address) == "/v1"


def test_a_request_takes_effect_although_its_response_is_lost():
    api = Api()
    with api.embedded() as address, api.lost_response(address, 2) as lost:
        get(address)
        with pytest.raises(ConnectionError):
            get(address)
        assert lost.is_set()
        assert api.asked == 2
        assert get(address) == "/v1"


@pytest.mark.parametrize(
    "given",
    [
        "127.0.0.1:{}",
        "nats://127.0.0.1:{}",
        "s3://127.0.0.1:{}/a/b",
        "redis://:pw@127.0.0.1:{}/0",  # pragma: allowlist secret
    ],
)
def test_the_address_keeps_its_form(given):
    class Server(TcpTestSystem):
        name, variable = "server", "SERVER"

        @contextmanager
        def server(self):
            yield given.format(7)

    with Server().embedded() as address:
        port = urlsplit(address if "://" in address else f"//{address}").port
        assert port != 7
        assert address == given.format(port)
        assert direct_address(address) == given.format(7)
    assert direct_address(address) == address


def test_an_address_without_a_port_is_refused():
    class Server(TcpTestSystem):
        name, variable = "server", "SERVER"

        @contextmanager
        def server(self):
            yield "localhost"

    with (
        pytest.raises(ServerError, match=r"(?s)'localhost' of server has no port.*Server\.server"),
        Server().embedded(),
    ):
        pass


def test_a_running_system_has_no_outages():
    assert direct_address("elsewhere:1") == "elsewhere:1"
    for fail in (
        lambda: Api().outage("elsewhere:1", Outage.STOPPED),
        lambda: Api().lost_response("elsewhere:1", 1),
    ):
        with pytest.raises(ServerError, match=r"(?s)api at elsewhere:1.*unset API_URL"):
            fail()
