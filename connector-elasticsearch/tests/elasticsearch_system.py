# SPDX-License-Identifier: Apache-2.0
"""The Elasticsearch server for the core's test suites."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

from connector_elasticsearch import ElasticsearchConnection
from connector_elasticsearch.testing import ElasticsearchServer, ServerSecurity
from connectors_core.secrets import Secret
from connectors_core.testing import Outage, TestSystem
from connectors_core.testing.servers import FaultyNetwork

# The suite release that these tests are written for. Cases of later releases count as new.
SUITES = "1.4"
PASSWORD = "canary-52e9"  # pragma: allowlist secret
SECURITY = ServerSecurity(password=Secret(PASSWORD))

_running: dict[str, tuple[ElasticsearchServer, FaultyNetwork]] = {}


class ElasticsearchSystem(TestSystem):
    """One server that requires a login, shared by the whole run."""

    name = "elasticsearch"
    variable = "CONNECTORS_ELASTICSEARCH_URL"

    def embedded(self) -> AbstractContextManager[str]:
        return self._server()

    @contextmanager
    def _server(self) -> Iterator[str]:
        with ElasticsearchServer(security=SECURITY) as server, FaultyNetwork() as network:
            network.forward_to(server.port)
            address = f"http://{network.address}"
            _running[address] = server, network
            yield address

    def outage(self, address: str, outage: Outage) -> AbstractContextManager[None]:
        _, network = _running[address]
        return network.outage(outage)


class OnElasticsearch:
    """Settings that all suites share."""

    system = ElasticsearchSystem()
    written_for = SUITES


def server_at(address: str) -> ElasticsearchServer:
    """Return the server of an address from `ElasticsearchSystem`, for direct access."""
    server, _ = _running[address]
    return server


def connection_to(address: str) -> ElasticsearchConnection:
    """Return the connection that sources and sinks use."""
    return ElasticsearchConnection(address, username=SECURITY.user, password=PASSWORD)


def login_options(address: str) -> dict[str, str]:
    """Return the connection as options."""
    return {"hosts": address, "username": SECURITY.user, "password": PASSWORD}
