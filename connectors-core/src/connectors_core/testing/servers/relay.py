# SPDX-License-Identifier: Apache-2.0
"""An HTTP relay whose responses a test controls."""

from __future__ import annotations

import http.client
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final, Self, TypeAlias

from connectors_core.testing.servers.ports import HOST

__all__ = ["HttpAnswer", "HttpRelay", "HttpRequest"]

_SECONDS: Final = 60.0
# Headers that belong to a single connection, or that the sender of the body sets again.
_NOT_PASSED_ON: Final = frozenset(
    {"connection", "content-length", "expect", "keep-alive", "transfer-encoding"}
)


@dataclass(frozen=True)
class HttpRequest:
    """A request of a client.

    Attributes:
        method: The method, such as GET or PUT.
        path: The path from the first slash, with the query.
        headers: The headers by name, spelled as the client sent them.
        body: The body.
    """

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes


@dataclass(frozen=True)
class HttpAnswer:
    """A response to a client.

    Attributes:
        status: The status code.
        headers: The headers by name, without those of the connection.
        body: The body.
        size: The reported length if it differs from the body's, as in a response to HEAD.
    """

    status: int
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    size: int | None = None


#: Returns the response to a request. Each call of the second argument sends a request to the
#: server.
Answering: TypeAlias = Callable[[HttpRequest, Callable[[], HttpAnswer]], HttpAnswer]


class HttpRelay:
    """An HTTP relay before a server on loopback, for behavior that the server does not offer.

    ```python
    def busy(request: HttpRequest, forward: Callable[[], HttpAnswer]) -> HttpAnswer:
        return HttpAnswer(503) if request.method == "PUT" else forward()

    with HttpRelay(server.port, busy) as relay:
        client = connect(relay.endpoint)
    ```

    It forwards headers unchanged, so that signatures stay valid.

    Args:
        port: The port of the server.
        answering: Returns the response, by default that of the server. Each connection calls it on
            its own thread.
    """

    def __init__(self, port: int, answering: Answering | None = None) -> None:
        self.answering = answering
        self._port = port
        self._server: ThreadingHTTPServer | None = None
        self._thread: threading.Thread | None = None

    @property
    def endpoint(self) -> str:
        """The host and port for clients that connect through the relay."""
        assert self._server is not None, "use it as a context manager"
        return f"http://{HOST}:{self._server.server_address[1]}"

    def __enter__(self) -> Self:
        relay = self

        class Handler(_Handler):
            def answer(self, request: HttpRequest) -> HttpAnswer:
                def forward() -> HttpAnswer:
                    return _forward(relay._port, request)

                return forward() if relay.answering is None else relay.answering(request, forward)

        self._server = ThreadingHTTPServer((HOST, 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(0.02,), name="relay", daemon=True
        )
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        assert self._server is not None
        assert self._thread is not None
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    # Header and body are separate writes. Nagle's algorithm would delay the second one by 40 ms.
    disable_nagle_algorithm = True
    timeout = _SECONDS

    def answer(self, request: HttpRequest) -> HttpAnswer:
        raise NotImplementedError

    def do_GET(self) -> None:
        request = HttpRequest(self.command, self.path, dict(self.headers.items()), self._body())
        answer = self.answer(request)
        self.send_response_only(answer.status)
        for name, value in answer.headers.items():
            self.send_header(name, value)
        size = len(answer.body) if answer.size is None else answer.size
        self.send_header("Content-Length", str(size))
        self.end_headers()
        self.wfile.write(answer.body)

    do_DELETE = do_HEAD = do_POST = do_PUT = do_GET  # noqa: N815  # names of the library

    def _body(self) -> bytes:
        if self.headers.get("Transfer-Encoding", "").lower() != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length", 0)))
        chunks = []
        while size := int(self.rfile.readline().split(b";")[0], 16):
            chunks.append(self.rfile.read(size))
            self.rfile.readline()
        while self.rfile.readline().strip():
            pass  # trailers
        return b"".join(chunks)

    def log_message(self, format: str, *arguments: Any) -> None:
        """Print nothing."""


def _forward(port: int, request: HttpRequest) -> HttpAnswer:
    connection = http.client.HTTPConnection(HOST, port, timeout=_SECONDS)
    try:
        connection.putrequest(
            request.method, request.path, skip_host=True, skip_accept_encoding=True
        )
        for name, value in request.headers.items():
            if name.lower() not in _NOT_PASSED_ON:
                connection.putheader(name, value)
        if request.body or request.method in ("POST", "PUT"):
            connection.putheader("Content-Length", str(len(request.body)))
        connection.endheaders(request.body or None)
        response = connection.getresponse()
        body = response.read()
        size = response.headers.get("Content-Length")
        return HttpAnswer(
            response.status,
            {
                name: value
                for name, value in response.getheaders()
                if name.lower() not in _NOT_PASSED_ON
            },
            body,
            int(size) if size and request.method == "HEAD" else None,
        )
    finally:
        connection.close()
