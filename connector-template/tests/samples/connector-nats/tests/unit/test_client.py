# SPDX-License-Identifier: Apache-2.0
"""Tests the client and the publisher with a real server."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Iterator
from contextlib import closing
from uuid import uuid4

import pytest

from connector_nats.client import ALL, Client, check_connection
from connector_nats.options import Connection
from connector_nats.publisher import Message, Outcome, Publisher
from connector_nats.testing import NatsServer, Stream
from connectors_core.errors import ConfigurationError, ConnectorError, RetryableError

TOKEN = "open sesame"


@pytest.fixture(scope="module")
def server() -> Iterator[NatsServer]:
    with NatsServer(TOKEN) as server:
        yield server


@pytest.fixture
def stream(server: NatsServer) -> Stream:
    stream = Stream(server.address, f"stream-{uuid4().hex}", TOKEN)
    stream.create()
    return stream


@pytest.fixture
def client(server: NatsServer) -> Iterator[Client]:
    with closing(Client(Connection(server.address, token=TOKEN))) as client:
        yield client


def publish(server: NatsServer, *messages: Message, stream: str | None = None) -> list[Outcome]:
    async def publishing() -> list[Outcome]:
        publisher = Publisher(Connection(server.address, token=TOKEN), stream)
        try:
            return await publisher.publish(messages)
        finally:
            await publisher.close()

    return asyncio.run(publishing())


# --- Errors ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("token", [None, "guessed"])
def test_a_wrong_token_is_reported_for_its_option(server: NatsServer, token: str | None) -> None:
    with pytest.raises(ConfigurationError) as failure:
        check_connection(Connection(server.address, token=token), 10.0)
    assert failure.value.option == "token"
    assert "guessed" not in str(failure.value)


def test_an_unknown_stream_is_reported_for_its_option(client: Client) -> None:
    with pytest.raises(ConfigurationError, match="no such stream") as failure:
        client.state("unknown", ALL)
    assert failure.value.option == "streams"


def test_a_connection_is_opened_again_after_an_outage() -> None:
    with NatsServer() as server, closing(Client(Connection(server.address))) as client:
        client.ping()
        server.stop()
        with pytest.raises(RetryableError):
            client.ping()
        server.start()
        client.ping()


def test_the_connection_check_reports_a_silent_server_in_time() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"nats://127.0.0.1:{silent.getsockname()[1]}"
        began = time.monotonic()
        with pytest.raises(RetryableError, match=address) as failure:
            check_connection(Connection(address), 0.2)
    assert failure.value.option == "servers"
    assert time.monotonic() - began < 10


# --- Streams --------------------------------------------------------------------------------------


def test_a_stream_ends_with_the_last_message_of_the_subjects(
    client: Client, stream: Stream
) -> None:
    subject = f"{stream.name}.other"
    stream.publish([b"1", b"2"])
    stream.publish([b"3"], subject)
    state = client.state(stream.name, [stream.subject, f"{stream.name}.none"])
    assert (state.first, state.end, state.next) == (1, 3, 4)
    assert client.state(stream.name, [subject]).end == client.state(stream.name, ALL).end == 4


def test_a_stream_without_messages_has_an_end(client: Client, stream: Stream) -> None:
    assert client.state(stream.name, ALL).end == 1
    assert client.state(stream.name, [stream.subject]).end == 0


def test_messages_that_many_readers_read_have_gaps(client: Client, stream: Stream) -> None:
    stream.publish([b"1", b"2"])
    stream.publish([b"3"], f"{stream.name}.other")
    stream.publish([b"4"])
    for _ in range(2):
        cursor = client.open_cursor(stream.name, [stream.subject], 2)
        assert client.fetch(cursor, 1).column("data").to_pylist() == [b"2"]
        assert client.fetch(cursor, 10).column("sequence").to_pylist() == [4]
        assert len(client.fetch(cursor, 10)) == 0
        client.close_cursor(cursor)


@pytest.mark.parametrize("retention", ["limits", "interest"])
def test_acknowledged_messages_are_removed_if_nobody_needs_them(
    client: Client, server: NatsServer, retention: str
) -> None:
    stream = Stream(server.address, f"stream-{uuid4().hex}", TOKEN)
    stream.create(retention=retention)
    for _ in range(2):  # an existing consumer is used
        client.create_durable(stream.name, "spark", ALL)
    stream.publish([b"1", b"2", b"3"])
    client.acknowledge("spark", {stream.name: 3})
    assert stream.acknowledged("spark") == 2
    assert stream.state().first == (3 if retention == "interest" else 1)


def test_an_acknowledgement_never_goes_back(client: Client, stream: Stream) -> None:
    client.create_durable(stream.name, "spark", ALL)
    stream.publish([b"1", b"2", b"3"])
    client.acknowledge("spark", {stream.name: 3})
    client.acknowledge("spark", {stream.name: 2})
    assert stream.acknowledged("spark") == 2


# --- Messages -------------------------------------------------------------------------------------


def test_a_message_with_the_same_id_is_stored_once(server: NatsServer, stream: Stream) -> None:
    message = Message(stream.subject, "1", b"1")
    assert publish(server, message, message) == [Outcome.STORED] * 2
    assert publish(server, message) == [Outcome.STORED]
    assert stream.messages().column("data").to_pylist() == [b"1"]


def test_a_message_that_cannot_be_stored_is_refused_alone(
    server: NatsServer, stream: Stream
) -> None:
    stream.update(max_msg_size=1000)
    good = Message(stream.subject, "1", b"1")
    large = Message(stream.subject, "2", b"x" * 2000)
    assert publish(server, large, good) == [Outcome.REFUSED, Outcome.STORED]


@pytest.mark.parametrize(
    "subject", ["", "a b", "a.*", "a.>", "$JS.API.STREAM.DELETE.a", "a\r\nPUB b 0"]
)
def test_a_row_cannot_send_requests_to_the_server_itself(server: NatsServer, subject: str) -> None:
    assert publish(server, Message(subject, "1", b"")) == [Outcome.REFUSED]


def test_a_full_stream_is_busy(server: NatsServer, stream: Stream) -> None:
    stream.update(max_msgs=1, discard="new")
    messages = [Message(stream.subject, str(number), b"") for number in range(3)]
    assert sorted(publish(server, *messages), key=str) == [
        Outcome.BUSY,
        Outcome.BUSY,
        Outcome.STORED,
    ]
    with pytest.raises(RetryableError):
        publish(server, Message(stream.subject, "4", b""))


@pytest.mark.parametrize(
    ("subject", "stream_name", "error"),
    [("{0}.all", "other", ConfigurationError), ("not.stored", None, RetryableError)],
)
def test_a_subject_of_another_stream_or_of_none_is_named(
    server: NatsServer,
    stream: Stream,
    subject: str,
    stream_name: str | None,
    error: type[ConnectorError],
) -> None:
    subject = subject.format(stream.name)
    with pytest.raises(error, match=subject):
        publish(server, Message(subject, "1", b""), stream=stream_name)


# --- Settings -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "option"),
    [
        ({"user": "a"}, "password"),
        ({"password": "b"}, "user"),
        ({"user": "a", "password": "b", "token": "c"}, "token"),
    ],
)
def test_a_login_is_complete(settings: dict[str, str], option: str) -> None:
    with pytest.raises(ConfigurationError) as failure:
        Connection("nats://localhost:4222", **settings).check()
    assert failure.value.option == option


def test_an_address_has_no_login() -> None:
    with pytest.raises(ConfigurationError) as failure:
        Connection("nats://a:b@localhost:4222").check()
    assert failure.value.option == "servers"
