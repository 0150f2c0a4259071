# SPDX-License-Identifier: Apache-2.0
"""The shared tools of the tests: one server, and the helper modules in this folder."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from connector_elasticsearch.testing import ElasticsearchServer

sys.path.insert(0, str(Path(__file__).parent))

# How long an example takes says nothing on a busy machine.
settings.register_profile("connector", deadline=None)
settings.load_profile("connector")


@pytest.fixture(scope="session")
def server() -> Iterator[ElasticsearchServer]:
    """The server of the run, without login. Indices are named after their test."""
    with ElasticsearchServer() as server:
        yield server


@pytest.fixture
def index(server: ElasticsearchServer, request: pytest.FixtureRequest) -> Iterator[str]:
    """A name for an index of this test; what is made under it, or begins with it, is removed."""
    name = "".join(each if each.isalnum() else "-" for each in request.node.name.lower())
    yield name
    server.start()  # one that the test stopped
    server.request("DELETE", f"/{name}*?expand_wildcards=all")
