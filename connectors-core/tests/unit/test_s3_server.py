# SPDX-License-Identifier: Apache-2.0
"""Tests that the object store keeps its data over restarts, and that a relay changes responses."""

from __future__ import annotations

import http.client
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from connectors_core.engine.state import StateStore
from connectors_core.testing.servers import HOST, HttpAnswer, HttpRelay, HttpRequest, S3Server


def test_an_object_store_restarts_with_its_objects() -> None:
    with S3Server(buckets=["state"]) as server:
        store = StateStore("s3://state/kept", server.storage_options())
        assert store.create("a", b"x")
        port = server.port
        server.kill()
        assert not server.running
        server.start()
        assert server.port == port
        assert store.read("a") == b"x"
        assert not store.create("a", b"y")


class Echo(BaseHTTPRequestHandler):
    """Responds with the body of the request and one of its headers."""

    protocol_version = "HTTP/1.1"

    def do_PUT(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.send_response(201)
        self.send_header("X-Host", self.headers["Host"])
        self.send_header("Content-Length", str(len(body) or 7))
        self.end_headers()
        self.wfile.write(body)

    do_HEAD = do_PUT  # noqa: N815  # names of the library

    def log_message(self, format: str, *arguments: object) -> None:
        pass


@pytest.fixture
def port() -> Iterator[int]:
    with ThreadingHTTPServer((HOST, 0), Echo) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server.server_address[1]
        server.shutdown()
        thread.join()


def ask(relay: HttpRelay, method: str, body: object = None) -> http.client.HTTPResponse:
    host = relay.endpoint.removeprefix("http://")
    connection = http.client.HTTPConnection(host, timeout=20)
    connection.request(method, "/a?b=c", body, {"Host": "as.it.was"})  # type: ignore[arg-type]
    return connection.getresponse()


def test_a_relay_forwards_everything_else_unchanged(port: int) -> None:
    with HttpRelay(port) as relay:
        answer = ask(relay, "PUT", b"whole")
        assert (answer.status, answer.read()) == (201, b"whole")
        assert answer.headers["X-Host"] == "as.it.was"
        answer = ask(relay, "PUT", iter([b"in ", b"pieces"]))
        assert answer.read() == b"in pieces"
        answer = ask(relay, "HEAD")
        assert (answer.headers["Content-Length"], answer.read()) == ("7", b"")


def test_a_relay_can_change_reject_and_count_requests(port: int) -> None:
    seen = []

    def answering(request: HttpRequest, forward: Callable[[], HttpAnswer]) -> HttpAnswer:
        seen.append((request.method, request.path, request.body))
        if request.body == b"no":
            return HttpAnswer(503, {"Retry-After": "1"}, b"busy")
        return HttpAnswer(forward().status, {}, b"changed")

    with HttpRelay(port, answering) as relay:
        answer = ask(relay, "PUT", b"no")
        assert (answer.status, answer.headers["Retry-After"], answer.read()) == (503, "1", b"busy")
        answer = ask(relay, "PUT", b"yes")
        assert (answer.status, answer.read()) == (201, b"changed")
    assert seen == [("PUT", "/a?b=c", b"no"), ("PUT", "/a?b=c", b"yes")]
