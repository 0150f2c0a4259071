# SPDX-License-Identifier: Apache-2.0
"""The Elasticsearch server for the core's test suites."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from connector_elasticsearch import ElasticsearchConnection
from connector_elasticsearch.testing import ElasticsearchServer, ServerSecurity
from connectors_core.secrets import Secret
from connectors_core.testing.servers import TcpTestSystem, direct_address

# The suite release that these tests are written for. Cases of later releases count as new.
SUITES = "1.5"
PASSWORD = "canary-52e9"  # pragma: allowlist secret
SECURITY = ServerSecurity(password=Secret(PASSWORD))

_running: dict[str, ElasticsearchServer] = {}


class ElasticsearchSystem(TcpTestSystem):
    """One server that requires a login, shared by the whole run."""

    name = "elasticsearch"
    variable = "CONNECTORS_ELASTICSEARCH_URL"

    @contextmanager
    def server(self) -> Iterator[str]:
        with ElasticsearchServer(security=SECURITY) as server:
            _running[server.url] = server
            yield server.url


class OnElasticsearch:
    """Settings that all suites share."""

    system = ElasticsearchSystem()
    written_for = SUITES


def server_at(address: str) -> ElasticsearchServer:
    """Return the server of an address from `ElasticsearchSystem`, for direct access."""
    return _running[direct_address(address)]


def connection_to(address: str) -> ElasticsearchConnection:
    """Return the connection that sources and sinks use."""
    return ElasticsearchConnection(address, username=SECURITY.user, password=PASSWORD)


def login_options(address: str) -> dict[str, str]:
    """Return the connection as options."""
    return {"hosts": address, "username": SECURITY.user, "password": PASSWORD}
