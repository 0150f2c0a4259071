# SPDX-License-Identifier: Apache-2.0
"""Fixtures that the tests share, and the path of the helper modules in this folder."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from connector_elasticsearch.testing import ElasticsearchServer

sys.path.insert(0, str(Path(__file__).parent))

# On a busy machine, the duration of an example says nothing about the code.
settings.register_profile("connector", deadline=None)
settings.load_profile("connector")


@pytest.fixture(scope="session")
def server() -> Iterator[ElasticsearchServer]:
    """Start the server that all tests share. It requires no login."""
    with ElasticsearchServer() as server:
        yield server


@pytest.fixture
def index(server: ElasticsearchServer, request: pytest.FixtureRequest) -> Iterator[str]:
    """Return an index name for the test, and delete all indices with this prefix afterwards."""
    name = "".join(each if each.isalnum() else "-" for each in request.node.name.lower())
    yield name
    server.start()  # the test may have stopped it
    server.request("DELETE", f"/{name}*?expand_wildcards=all")
