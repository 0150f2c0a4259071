# SPDX-License-Identifier: Apache-2.0
"""Tests that errors of the system become errors of the core."""

from __future__ import annotations

{% if cookiecutter.__requests %}
import asyncio
{% endif %}
import socket
import time
from collections.abc import Iterator

import pyarrow as pa
import pytest

{% if cookiecutter.__requests %}
from {{ cookiecutter.__package }}.async_client import AsyncClient
{% endif %}
from {{ cookiecutter.__package }}.client import Client, check_connection
from {{ cookiecutter.__package }}.options import Connection
from {{ cookiecutter.__package }}.testing import Topic, running_server
from connectors_core.errors import ConfigurationError, RetryableError
from connectors_core.secrets import Secret

TOKEN = "open sesame"
SCHEMA = pa.schema([("id", pa.int64())])


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with running_server(TOKEN) as address:
        Topic(address, "known", TOKEN).create(SCHEMA)
        yield address


def connection(address: str, *, token: str | None = TOKEN, topic: str = "known") -> Connection:
    secret = None if token is None else Secret(token)
    return Connection(address=address, token=secret, topic=topic)


def client(address: str, **settings: str | None) -> Client:
    return Client(connection(address, **settings))


def test_a_topic_has_the_columns_that_it_was_created_with(address: str) -> None:
    assert client(address).schema() == SCHEMA


@pytest.mark.parametrize("token", [None, "guessed"])
def test_a_wrong_token_is_reported_for_its_option(address: str, token: str | None) -> None:
    with pytest.raises(ConfigurationError) as failure:
        client(address, token=token).schema()
    assert failure.value.option == "token"
    assert "guessed" not in str(failure.value)


def test_an_unknown_topic_is_reported_for_its_option(address: str) -> None:
    with pytest.raises(ConfigurationError, match="unknown") as failure:
        client(address, topic="unknown").schema()
    assert failure.value.option == "topic"


def test_an_address_without_a_port_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="host:port"):
        client("localhost")


def test_an_unavailable_server_is_retryable() -> None:
    with running_server(TOKEN) as address:
        Topic(address, "known", TOKEN).create(SCHEMA)
        reader = client(address)
        assert reader.schema() == SCHEMA
    with pytest.raises(RetryableError):
        reader.schema()


def test_the_connection_check_does_not_need_the_topic(address: str) -> None:
    check_connection(connection(address, topic="unknown"), 10.0)


def test_the_connection_check_reports_a_wrong_token(address: str) -> None:
    with pytest.raises(ConfigurationError) as failure:
        check_connection(connection(address, token="guessed"), 10.0)
    assert failure.value.option == "token"


def test_the_connection_check_reports_a_silent_server_in_time() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        began = time.monotonic()
        with pytest.raises(RetryableError, match=address) as failure:
            check_connection(connection(address), 0.2)
    assert failure.value.option == "address"
    assert time.monotonic() - began < 10
{% if cookiecutter.__requests %}


@pytest.mark.parametrize("answer", ["HTTP/1.1 200 OK\r\n", "HTTP/1.1 200 OK\r\n\r\n[200, 2"])
def test_a_response_that_is_cut_off_is_retryable(answer: str) -> None:
    async def respond(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer.encode())
        await writer.drain()
        writer.close()

    async def put() -> None:
        async with await asyncio.start_server(respond, "127.0.0.1") as server:
            port = server.sockets[0].getsockname()[1]
            rows = pa.RecordBatch.from_pydict({"id": [1, 2]})
            await AsyncClient(connection(f"127.0.0.1:{port}")).put(0, rows)

    with pytest.raises(RetryableError, match="incomplete"):
        asyncio.run(put())
{% endif %}
