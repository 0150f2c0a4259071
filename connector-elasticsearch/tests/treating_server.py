# SPDX-License-Identifier: Apache-2.0
"""An HTTP server in this process with the request faults of the `AsyncSink` suite."""

from __future__ import annotations

import json
import select
import socket
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

from connectors_core.testing import RequestFault

JSON = "application/vnd.elasticsearch+json;compatible-with=8"
BUSY = {"type": "es_rejected_execution_exception", "reason": "the queue is full"}


class Answer(Exception):
    """A response. A handler raises it to respond without doing the work.

    Attributes:
        length: The announced content length. If the body is shorter, the server closes the
            connection after the body.
    """

    def __init__(
        self,
        status: int,
        body: object = None,
        *,
        headers: Mapping[str, str] | None = None,
        data: bytes | None = None,
        length: int | None = None,
    ) -> None:
        self.status = status
        self.body = data or (b"" if body is None else json.dumps(body).encode())
        self.headers = headers or {}
        self.length = len(self.body) if length is None else length


class TreatingServer(ABC):
    """Serves HTTP requests on the loopback interface while its context is open."""

    def __init__(self) -> None:
        self._fault: RequestFault | None = None
        self._left: int | None = None
        self._lock = threading.Lock()
        treating = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def do_POST(self) -> None:
                treating._serve(self)

            def do_GET(self) -> None:
                treating._serve(self)

            def do_DELETE(self) -> None:
                treating._serve(self)

            def log_message(self, format: str, *args: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))

    @property
    def url(self) -> str:
        """The URL of the server."""
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def treat(self, fault: RequestFault | None, requests: int | None = None) -> None:
        """Set the fault for the next requests; see `AsyncSinkExternalContext`."""
        with self._lock:
            self._fault, self._left = fault, requests

    @abstractmethod
    def answer(
        self, path: str, headers: Mapping[str, str], body: bytes, fault: RequestFault | None
    ) -> Answer:
        """Do the work of a request as far as the fault allows, and return the response.

        Args:
            path: The path with its query string.
            headers: The headers with lowercase names.
            body: The body of the request.
            fault: The fault of the request. The caller handles lost and late responses.
        """

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.treat(None)
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def _serve(self, handler: BaseHTTPRequestHandler) -> None:
        body = handler.rfile.read(int(handler.headers.get("content-length", 0)))
        headers = {name.lower(): value for name, value in handler.headers.items()}
        fault = self._next_fault()
        if fault is RequestFault.STALL and not self._stalled(handler.connection):
            handler.close_connection = True
            return
        try:
            answer = self.answer(handler.path, headers, body, fault)
        except Answer as other:
            answer = other
        if fault is RequestFault.LOSE_ANSWER:
            handler.close_connection = True
            handler.connection.shutdown(socket.SHUT_RDWR)
            return
        handler.send_response(answer.status)
        said = {"content-type": JSON, "x-elastic-product": "Elasticsearch", **answer.headers}
        for name, value in said.items():
            handler.send_header(name, value)
        handler.send_header("content-length", str(answer.length))
        handler.end_headers()
        handler.wfile.write(answer.body)
        if len(answer.body) < answer.length:
            handler.close_connection = True

    def _next_fault(self) -> RequestFault | None:
        with self._lock:
            fault = self._fault
            if self._left is not None:
                self._left -= 1
                if self._left <= 0:
                    self._fault, self._left = None, None
        return fault

    def _stalled(self, connection: socket.socket) -> bool:
        """Wait until the fault changes, and return whether the client is still connected."""
        while self._fault is RequestFault.STALL:
            readable, _, _ = select.select([connection], [], [], 0.005)
            if readable and not connection.recv(1, socket.MSG_PEEK):
                return False
            time.sleep(0.001)
        return True


def answer_to_bulk(items: list[dict[str, Any]]) -> Answer:
    """Return the response to a bulk request with these items."""
    errors = any("error" in result for item in items for result in item.values())
    return Answer(200, {"errors": errors, "items": items})
