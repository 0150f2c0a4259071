# SPDX-License-Identifier: Apache-2.0
"""Tests that unresponsive servers are reported within seconds."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from datetime import timedelta

import pytest

from connector_elasticsearch import (
    ElasticsearchConnection,
    ElasticsearchSink,
    ElasticsearchSource,
    ElasticsearchTable,
)
from connectors_core.errors import RetryableError
from connectors_core.testing import check_connections


@pytest.fixture(params=["refuses", "is silent"])
def address(request: pytest.FixtureRequest) -> Iterator[str]:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        if request.param == "is silent":
            server.listen()
        yield f"http://127.0.0.1:{server.getsockname()[1]}"


def test_source_sink_and_table_name_the_unresponsive_servers(address: str) -> None:
    other = "http://127.0.0.1:9"
    parts = {
        "source": ElasticsearchSource([address, other], "flights"),
        "sink": ElasticsearchSink(address, "flights"),
        "table": ElasticsearchTable(address, "flights"),
    }
    for name, part in parts.items():
        with pytest.raises(RetryableError, match=name) as raised:
            check_connections({name: part}, 2.0)
        assert address in str(raised.value)


@pytest.mark.parametrize("given", ["keywords", "options"])
def test_the_error_of_a_short_timeout_names_the_setting_as_the_user_gave_it(given: str) -> None:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        address = f"http://127.0.0.1:{server.getsockname()[1]}"
        shown = (
            "connection.request_timeout" if given == "keywords" else "connection.request-timeout"
        )
        source = (
            ElasticsearchSource(
                ElasticsearchConnection(address, request_timeout=timedelta(seconds=1)), "flights"
            )
            if given == "keywords"
            else ElasticsearchSource.from_options(
                {"hosts": address, "index": "flights", "connection.request-timeout": "1 s"}
            )
        )
        with pytest.raises(RetryableError) as raised:
            check_connections({"source": source}, 1.0)
        assert f"option: {shown}" in str(raised.value)
