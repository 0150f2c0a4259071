# SPDX-License-Identifier: Apache-2.0
"""Tests redirects, timeouts, and cancellation with both clients."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from datetime import timedelta
from typing import Any

import pyarrow as pa
import pytest
from sink_writing import QUICK, write
from treating_server import JSON, Answer, TreatingServer

from connector_elasticsearch import (
    ElasticsearchAuthenticationError,
    ElasticsearchConnection,
    ElasticsearchRequestError,
    ElasticsearchRetryableError,
    ElasticsearchSink,
)
from connector_elasticsearch.client import AsyncElasticsearchClient, ElasticsearchClient
from connector_elasticsearch.client.reachability import check_reachable
from connectors_core.clients import submit
from connectors_core.records import RecordPolicy
from connectors_core.secrets import Secret
from connectors_core.testing import RequestFault

SECRET = "canary-6d02"  # pragma: allowlist secret
QUICKLY = timedelta(milliseconds=300)


def waits(connection: ElasticsearchConnection) -> Any:
    """Send a request with the blocking client."""
    with closing(ElasticsearchClient(connection)) as client:
        return client.request("POST", "/_search", {}, doing="asking")


def awaits(connection: ElasticsearchConnection) -> Any:
    """Send a request with the asynchronous client."""

    async def asked() -> Any:
        client = AsyncElasticsearchClient(connection)
        try:
            return await client.request("POST", "/_search", {}, doing="asking")
        finally:
            await client.close()

    return submit(asked()).result()


BOTH = pytest.mark.parametrize("ask", [waits, awaits])
Ask = Callable[[ElasticsearchConnection], Any]


class Redirecting(TreatingServer):
    """Redirects every request."""

    def __init__(self, status: int, location: str) -> None:
        super().__init__()
        self._answer = Answer(status, headers={"location": location})

    def answer(
        self, path: str, headers: Mapping[str, str], body: bytes, fault: RequestFault | None
    ) -> Answer:
        return self._answer


class Elsewhere(TreatingServer):
    """Accepts and records every request."""

    def __init__(self) -> None:
        super().__init__()
        self.requests: list[Mapping[str, str]] = []

    def answer(
        self, path: str, headers: Mapping[str, str], body: bytes, fault: RequestFault | None
    ) -> Answer:
        self.requests.append(headers)
        return Answer(200, {"errors": False, "items": [{"index": {"status": 201}}] * 2})


@contextmanager
def redirected(status: int) -> Iterator[tuple[ElasticsearchConnection, Elsewhere]]:
    with Elsewhere() as other, Redirecting(status, f"{other.url}/?token={SECRET}") as server:
        yield ElasticsearchConnection(server.url, api_key=SECRET, headers={"x-key": SECRET}), other


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
@BOTH
def test_a_redirect_is_refused_and_its_target_receives_no_request(ask: Ask, status: int) -> None:
    with redirected(status) as (connection, other):
        with pytest.raises(ElasticsearchRequestError, match="redirects") as failure:
            ask(connection)
        assert not other.requests
    error: BaseException | None = failure.value
    assert failure.value.option == "hosts"
    assert failure.value.status == status
    assert f"{status} to {other.url}" == failure.value.found
    while error is not None:
        assert SECRET not in f"{error} {error!r} {vars(error)}"
        error = error.__cause__ or error.__context__


class Rotating(TreatingServer):
    """Accepts one token, then only the next one."""

    def __init__(self) -> None:
        super().__init__()
        self.accepted = "first"
        self.asked: list[str] = []

    def answer(
        self, path: str, headers: Mapping[str, str], body: bytes, fault: RequestFault | None
    ) -> Answer:
        sent = {name.lower(): value for name, value in headers.items()}["authorization"]
        self.asked.append(sent)
        if sent != f"Bearer {self.accepted}":
            return Answer(401, {"error": {"type": "security_exception"}})
        return Answer(200, {"took": 1})


def test_a_login_that_varies_is_asked_for_again_after_a_refusal() -> None:
    tokens = ["first"]
    with Rotating() as server:
        connection = ElasticsearchConnection(server.url, bearer_token=Secret(lambda: tokens[-1]))
        with closing(ElasticsearchClient(connection)) as client:
            for token in ("first", "second"):
                server.accepted = token
                tokens.append(token)
                assert client.request("GET", "/", doing="asking") == {"took": 1}
            server.accepted = "third"  # unknown to the supplier
            with pytest.raises(ElasticsearchAuthenticationError):
                client.request("GET", "/", doing="asking")
    assert server.asked == ["Bearer first"] * 2 + ["Bearer second"] * 3


def test_a_fixed_login_is_sent_once() -> None:
    with Rotating() as server:
        connection = ElasticsearchConnection(server.url, bearer_token="wrong")
        with pytest.raises(ElasticsearchAuthenticationError):
            waits(connection)
    assert len(server.asked) == 1


@pytest.mark.parametrize("status", [301, 307])
def test_no_document_is_written_to_the_target_of_a_redirect(status: int) -> None:
    rows = pa.table({"n": [1, 2]})
    with redirected(status) as (connection, other):
        sink = ElasticsearchSink(connection, "rows", bulk_flush=QUICK)
        with pytest.raises(ElasticsearchRequestError, match="redirects"):
            write(sink, rows, policy=RecordPolicy.skip())
        assert not other.requests


def trickling(connection: socket.socket, ended: threading.Event) -> None:
    """Send an endless response byte by byte, so that the socket never times out."""
    head = f"HTTP/1.1 200 OK\r\ncontent-type: {JSON}\r\nx-elastic-product: Elasticsearch\r\n"
    connection.sendall(f"{head}content-length: 100000\r\n\r\n".encode())
    while not ended.wait(0.02):
        connection.sendall(b" ")


def silent(connection: socket.socket, ended: threading.Event) -> None:
    """Send nothing."""
    ended.wait()


@contextmanager
def listening(serve: Callable[[socket.socket, threading.Event], None]) -> Iterator[str]:
    """Start a server that accepts one connection at a time and never completes a response."""
    ended = threading.Event()

    def take() -> None:
        while not ended.is_set():
            try:
                connection, _ = server.accept()
            except OSError:
                return
            with connection:
                try:
                    serve(connection, ended)
                except OSError:
                    continue  # the client has disconnected

    with socket.create_server(("127.0.0.1", 0)) as server, ThreadPoolExecutor(1) as thread:
        serving = thread.submit(take)
        try:
            yield f"http://127.0.0.1:{server.getsockname()[1]}"
        finally:
            ended.set()
            server.shutdown(socket.SHUT_RDWR)
            serving.result()


@pytest.mark.parametrize("serve", [trickling, silent])
@BOTH
def test_a_request_ends_at_its_timeout_whatever_the_server_sends(ask: Ask, serve: Any) -> None:
    with listening(serve) as url:
        began = time.monotonic()
        with pytest.raises(ElasticsearchRetryableError, match="in time"):
            ask(ElasticsearchConnection(url, request_timeout=QUICKLY))
        assert time.monotonic() - began < 20 * QUICKLY.total_seconds()


def test_a_canceled_request_ends_at_once() -> None:
    with (
        listening(silent) as url,
        closing(ElasticsearchClient(ElasticsearchConnection(url))) as client,
        ThreadPoolExecutor(1) as thread,
    ):
        asking = thread.submit(client.request, "GET", "/", doing="asking")
        deadline = time.monotonic() + 20
        while not client._waiting:
            assert time.monotonic() < deadline
            time.sleep(0.001)
        client.cancel()
        with pytest.raises(ElasticsearchRetryableError, match="canceled"):
            asking.result(20)


def test_a_client_can_be_used_from_several_threads() -> None:
    with Elsewhere() as server, closing(ElasticsearchClient(connection_to(server))) as client:
        with ThreadPoolExecutor(8) as threads:
            asked = [threads.submit(client.request, "GET", "/", doing="a") for _ in range(40)]
            assert all(each.result(20) for each in asked)
        assert len(server.requests) == 40


def connection_to(server: TreatingServer) -> ElasticsearchConnection:
    return ElasticsearchConnection(server.url)


def test_canceling_an_asyncio_task_cancels_its_request() -> None:
    async def given_up(url: str) -> bool:
        client = AsyncElasticsearchClient(ElasticsearchConnection(url))
        task = asyncio.ensure_future(client.request("GET", "/", doing="asking"))
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait({task}, timeout=20)
        await client.close()
        return task.cancelled()

    with listening(silent) as url:
        assert submit(given_up(url)).result(30)


@pytest.mark.parametrize("status", [400, 403, 404, 405])
def test_a_server_that_rejects_the_connection_check_counts_as_reachable(status: int) -> None:
    with Redirecting(status, "") as server:
        check_reachable(connection_to(server), 20)


def test_a_server_that_redirects_the_connection_check_is_an_error() -> None:
    with redirected(307) as (connection, other):
        with pytest.raises(ElasticsearchRequestError, match="redirects"):
            check_reachable(connection, 20)
        assert not other.requests


@BOTH
def test_an_https_address_of_a_server_without_tls_names_the_scheme(ask: Ask) -> None:
    with Elsewhere() as server:
        address = server.url.replace("http://", "https://")
        with pytest.raises(ElasticsearchRequestError, match="does not use TLS") as failure:
            ask(ElasticsearchConnection(address))
    assert failure.value.option == "hosts"
    assert "http://" in (failure.value.hint or "")
