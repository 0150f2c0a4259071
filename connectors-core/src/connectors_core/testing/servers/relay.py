# SPDX-License-Identifier: Apache-2.0
"""A relay of HTTP whose answers a test decides."""

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
# Of one connection alone, or told anew by who sends the body.
_NOT_PASSED_ON: Final = frozenset(
    {"connection", "content-length", "expect", "keep-alive", "transfer-encoding"}
)


@dataclass(frozen=True)
class HttpRequest:
    """What a client asked.

    Attributes:
        method: GET, PUT and the like.
        path: From the first slash on, with its query.
        headers: By their names as they were sent.
        body: The bytes.
    """

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes


@dataclass(frozen=True)
class HttpAnswer:
    """What a client is told.

    Attributes:
        status: The code.
        headers: By name, without those of the connection.
        body: The bytes.
        size: Length that is told instead of that of the body, as an answer to HEAD does.
    """

    status: int
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    size: int | None = None


#: Makes the answer to a request; the second argument asks the server, as often as it is called.
Answering: TypeAlias = Callable[[HttpRequest, Callable[[], HttpAnswer]], HttpAnswer]


class HttpRelay:
    """Stands in front of an HTTP server on loopback, for what the server itself cannot be told.

    ```python
    def busy(request: HttpRequest, forward: Callable[[], HttpAnswer]) -> HttpAnswer:
        return HttpAnswer(503) if request.method == "PUT" else forward()

    with HttpRelay(server.port, busy) as relay:
        client = connect(relay.endpoint)
    ```

    Headers are passed on as they came, so that signatures stay valid.

    Args:
        port: Of the server.
        answering: Makes the answers; by default the server's own. Called on a thread for each
            connection.
    """

    def __init__(self, port: int, answering: Answering | None = None) -> None:
        self.answering = answering
        self._port = port
        self._server: ThreadingHTTPServer | None = None
        self._thread: threading.Thread | None = None

    @property
    def endpoint(self) -> str:
        """Where clients connect that are to go through it."""
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
    # Header and body are written apart; waiting for the first's receipt would cost 40 ms.
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
        """Nothing is printed."""


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
