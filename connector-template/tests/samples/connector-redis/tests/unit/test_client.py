# SPDX-License-Identifier: Apache-2.0
"""Tests of the client: errors of Redis become errors of the core, and a commit happens once."""

from __future__ import annotations

import itertools
import socket
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from typing import Any

import pyarrow as pa
import pytest
from redis import Connection as RedisConnection
from redis.exceptions import ConnectionError as Disconnected

from connector_redis.client import Client, check_connection
from connector_redis.options import Connection
from connector_redis.split import PartSplit, Position
from connector_redis.testing import RedisServer, Stream, add_user
from connectors_core.errors import ConfigurationError, DataLossError, FatalError, RetryableError
from connectors_core.secrets import Secret

ROWS = pa.table({"id": [1, 2, 3]})
PASSWORD = "open sesame"  # pragma: allowlist secret


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with RedisServer() as server:
        add_user(server.address, "reader", PASSWORD)
        yield server.address


@pytest.fixture
def key(request: pytest.FixtureRequest) -> str:
    return str(request.node.name)


def connection(address: str, key: str, password: str = PASSWORD) -> Connection:
    return Connection(address, key, username="reader", password=Secret(password))


def client(address: str, key: str, **settings: str) -> Any:
    return closing(Client(connection(address, key, **settings)))


def test_a_read_continues_after_a_position(address: str, key: str) -> None:
    Stream(address, key).append(ROWS)
    with client(address, key) as reader:
        ((found, extent),) = reader.extents().items()
        assert found == key
        first = reader.read(PartSplit.of(key, extent.start, None), 2)
        rest = reader.read(PartSplit.of(key, first.position, extent.end), 2)
        assert rest.batch.column("message").to_pylist() == [b'{"id":3}']
        assert rest.position == extent.end
        assert reader.read(PartSplit.of(key, extent.end, None), 2) is None


def test_entries_that_were_read_can_be_removed(address: str, key: str) -> None:
    Stream(address, key).append(ROWS)
    with client(address, key) as reader:
        extent = reader.extents()[key]
        first = reader.read(PartSplit.of(key, extent.start, extent.end), 2)
        Stream(address, key).trim(1)
        rest = reader.read(PartSplit.of(key, first.position, extent.end), 2)
        assert rest.batch.num_rows == 1


def test_entries_that_were_removed_before_the_start_are_no_loss(address: str, key: str) -> None:
    Stream(address, key).append(ROWS)
    Stream(address, key).trim(1)
    with client(address, key) as reader:
        extent = reader.extents()[key]
        found = reader.read(PartSplit.of(key, extent.start, extent.end), 10)
        assert found.batch.num_rows == 1


def test_entries_that_were_removed_before_they_were_read_are_a_loss(address: str, key: str) -> None:
    Stream(address, key).append(ROWS)
    with client(address, key) as reader:
        start = reader.extents()[key].start
        Stream(address, key).trim(1)
        with pytest.raises(DataLossError, match="removed"):
            reader.read(PartSplit.of(key, start, None), 10)


@pytest.mark.parametrize("again", [False, True])
def test_a_stream_that_was_deleted_is_a_loss(address: str, key: str, again: bool) -> None:
    Stream(address, key).append(ROWS)
    with client(address, key) as reader:
        far = Position(9999999999999, 0, 3)
        Stream(address, key).delete()
        if again:
            Stream(address, key).append(ROWS)
        with pytest.raises(DataLossError, match="deleted"):
            reader.read(PartSplit.of(key, far, None), 10)


def test_a_transaction_is_committed_once(address: str, key: str) -> None:
    with client(address, key) as writer:
        writer.stage("p/s/1/a", [b'{"id":1}', b'{"id":2}'])
        assert writer.open_transactions("p/s/") == ["p/s/1/a"]
        assert writer.commit("p/s/1/a", 2) is True
        assert writer.commit("p/s/1/a", 2) is False
        assert writer.open_transactions("p/s/") == []
    assert Stream(address, key).rows(ROWS.schema).num_rows == 2


@pytest.mark.parametrize("staged", [0, 1, 3])
def test_a_transaction_without_exactly_its_rows_is_not_committed(
    address: str, key: str, staged: int
) -> None:
    with client(address, key) as writer:
        if staged:
            writer.stage("p/s/1/a", [b'{"id":1}'] * staged)
        assert writer.commit("p/s/1/a", 2) is None
    assert Stream(address, key).rows(ROWS.schema).num_rows == 0


def test_only_old_commits_of_the_sink_are_forgotten(address: str, key: str) -> None:
    with client(address, key) as writer:
        for name in ("p/r/1/a", "p/s/1/a", "p/s/2/a", "p/t/1/a"):
            writer.stage(name, [b"{}"])
            writer.commit(name, 1)
        writer.forget_commits("p/s/", "p/s/2/")
        assert writer.commit("p/s/1/a", 1) is None
        for name in ("p/r/1/a", "p/s/2/a", "p/t/1/a"):
            assert writer.commit(name, 1) is False


def test_a_wrong_password_is_reported_for_its_option(address: str, key: str) -> None:
    with (
        client(address, key, password="guessed") as reader,  # pragma: allowlist secret
        pytest.raises(ConfigurationError) as failure,
    ):
        reader.ping()
    assert failure.value.option == "password"
    assert "guessed" not in str(failure.value)


def test_a_key_of_another_type_is_fatal(address: str, key: str) -> None:
    with client(address, f"{{{key}}}:staged:p") as writer, client(address, key) as other:
        other.stage("p", [b"{}"])  # a list
        writer.stage("q", [b"{}"])
        with pytest.raises(FatalError, match="WRONGTYPE"):
            writer.commit("q", 1)
        assert writer.open_transactions("") == ["q"]


def test_an_address_without_a_port_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="host:port"):
        Client(connection("localhost", "k"))


def test_an_unavailable_server_is_retryable() -> None:
    with RedisServer() as server:
        add_user(server.address, "reader", PASSWORD)
        reader = Client(connection(server.address, "k"))
        reader.ping()
    with pytest.raises(RetryableError):
        reader.ping()


def test_the_connection_check_reports_a_silent_server_in_time() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        began = time.monotonic()
        with pytest.raises(RetryableError, match=address) as failure:
            check_connection(connection(address, "k"), 0.2)
    assert failure.value.option == "address"
    assert time.monotonic() - began < 10


def test_a_commit_that_loses_any_response_is_finished_once(
    address: str, key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server has done what was requested, and the client does not know it."""
    for number in itertools.count():
        stream = f"{key}-{number}"
        with client(address, stream) as writer:
            writer.stage("p/s/1/a", [b'{"id":1}', b'{"id":2}'])
        known = False
        with (
            monkeypatch.context() as patch,
            suppress(RetryableError),
            client(address, stream) as writer,
        ):
            lose_response(patch, number)
            known = writer.commit("p/s/1/a", 2)
        with client(address, stream) as writer:
            assert writer.commit("p/s/1/a", 2) is not None
        assert Stream(address, stream).rows(ROWS.schema).num_rows == 2
        if known:
            break
    assert number > 0


def lose_response(patch: pytest.MonkeyPatch, number: int) -> None:
    """Make the library read the response with this number, but not return it."""
    read_response, numbers = RedisConnection.read_response, itertools.count()

    def read(connection: RedisConnection, **options: Any) -> Any:
        response = read_response(connection, **options)
        if next(numbers) == number:
            raise Disconnected("the response is lost")
        return response

    patch.setattr(RedisConnection, "read_response", read)
