# SPDX-License-Identifier: Apache-2.0
"""The Elasticsearch that the suites of the core work against."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

from connector_elasticsearch import ElasticsearchConnection
from connector_elasticsearch.testing import ElasticsearchServer, ServerSecurity
from connectors_core.secrets import Secret
from connectors_core.testing import TestSystem

# The release of the suites that these tests are written for: what later ones bring is new.
SUITES = "1.2"
PASSWORD = "canary-52e9"  # pragma: allowlist secret
SECURITY = ServerSecurity(password=Secret(PASSWORD))

_running: dict[str, ElasticsearchServer] = {}


class ElasticsearchSystem(TestSystem):
    """One server for a whole run, where users log in."""

    name = "elasticsearch"
    variable = "CONNECTORS_ELASTICSEARCH_URL"

    def embedded(self) -> AbstractContextManager[str]:
        return self._server()

    @contextmanager
    def _server(self) -> Iterator[str]:
        with ElasticsearchServer(security=SECURITY) as server:
            _running[server.url] = server
            yield server.url


def server_at(address: str) -> ElasticsearchServer:
    """The server behind an address that `ElasticsearchSystem` gave, as its owner sees it."""
    return _running[address]


def connection_to(address: str) -> ElasticsearchConnection:
    """How sources and sinks reach it."""
    return ElasticsearchConnection(address, username=SECURITY.user, password=PASSWORD)
