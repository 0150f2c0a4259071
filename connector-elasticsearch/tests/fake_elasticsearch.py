# SPDX-License-Identifier: Apache-2.0
"""A fake Elasticsearch in this process, for faults that a real one cannot be told to have."""

from __future__ import annotations

import json
import select
import socket
import threading
import time
from collections.abc import Callable, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

from connectors_core.testing import RequestFault

JSON = "application/vnd.elasticsearch+json;compatible-with=8"
BUSY = {"type": "es_rejected_execution_exception", "reason": "the queue is full"}
BAD = {
    "type": "document_parsing_exception",
    "reason": "failed to parse field [seq]. Preview of field's value: 'canary-value'",
}
DENIED = {"type": "security_exception", "reason": "unable to authenticate"}


class Answer(Exception):
    """What is answered in place of doing the work."""

    def __init__(
        self, status: int, body: object = None, *, headers: dict[str, str] | None = None
    ) -> None:
        self.status = status
        self.body = b"" if body is None else json.dumps(body).encode()
        self.headers = headers or {}


class FakeElasticsearch:
    """Takes bulk requests, and treats them as it is told.

    Attributes:
        written: Documents and their ids, in the order in which they were taken.
        bodies: Bodies of all requests.
        headers: Of all requests.
        paths: Of all requests, with what stands behind them.
        answers: What the next requests are answered, each at most once: an exception is raised
            before the work is done, a function makes another answer of the right one.
        max_content_length: A larger request is answered by 413.
    """

    def __init__(self) -> None:
        self.written: list[tuple[str | None, dict[str, Any]]] = []
        self.bodies: list[bytes] = []
        self.headers: list[dict[str, str]] = []
        self.paths: list[str] = []
        self.answers: list[Answer | Callable[[bytes], bytes]] = []
        self.max_content_length = 1 << 30
        self.never: set[int] = set()
        self._fault: RequestFault | None = None
        self._left: int | None = None
        self._lock = threading.Lock()
        fake = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def do_POST(self) -> None:
                fake._serve(self)

            def log_message(self, format: str, *args: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def treat(self, fault: RequestFault | None, requests: int | None = None) -> None:
        """How the next requests are treated; see `AsyncSinkExternalContext`."""
        with self._lock:
            self._fault, self._left = fault, requests

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.treat(None)
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def _serve(self, handler: BaseHTTPRequestHandler) -> None:
        body = handler.rfile.read(int(handler.headers["content-length"]))
        with self._lock:
            self.bodies.append(body)
            self.paths.append(handler.path)
            self.headers.append({name.lower(): value for name, value in handler.headers.items()})
            fault = self._fault
            if self._left is not None:
                self._left -= 1
                if self._left <= 0:
                    self._fault, self._left = None, None
            answer = self.answers.pop(0) if self.answers else None
        try:
            if fault is RequestFault.STALL and not self._stalled(handler.connection):
                handler.close_connection = True
                return
            sent = self._work(body, fault, answer)
        except Answer as other:
            sent = other
        if fault is RequestFault.LOSE_ANSWER:
            handler.close_connection = True
            handler.connection.shutdown(socket.SHUT_RDWR)
            return
        data = sent.body
        length = len(data)
        if callable(answer):
            data = answer(data)
        handler.send_response(sent.status)
        headers = {"content-type": JSON, "x-elastic-product": "Elasticsearch"} | sent.headers
        for name, value in headers.items():
            handler.send_header(name, value)
        handler.send_header("content-length", str(length))
        handler.end_headers()
        handler.wfile.write(data)
        if len(data) < length:
            handler.close_connection = True

    def _stalled(self, connection: socket.socket) -> bool:
        """Wait until requests are treated otherwise; whether the client is still there."""
        while self._fault is RequestFault.STALL:
            readable, _, _ = select.select([connection], [], [], 0.005)
            if readable and not connection.recv(1, socket.MSG_PEEK):
                return False
            time.sleep(0.001)
        return True

    def _work(self, body: bytes, fault: RequestFault | None, answer: object) -> Answer:
        if isinstance(answer, Answer):
            raise answer
        if len(body) > self.max_content_length:
            raise Answer(413)
        if fault is RequestFault.REFUSE:
            raise Answer(429, {"error": BUSY, "status": 429})
        if fault is RequestFault.REFUSE_FOR_GOOD:
            raise Answer(401, {"error": DENIED, "status": 401})
        with self._lock:
            items = self._take(body.splitlines(), fault)
        errors = any("error" in result for item in items for result in item.values())
        return Answer(200, {"errors": errors, "items": items})

    def _take(self, lines: Sequence[bytes], fault: RequestFault | None) -> list[Any]:
        items = []
        rest = iter(lines)
        for line in rest:
            ((action, head),) = json.loads(line).items()
            document = {} if action == "delete" else json.loads(next(rest))
            result: dict[str, Any] = {"status": 201}
            if document.get("seq") in self.never:
                result = {"status": 400, "error": BAD}
            elif fault is RequestFault.REFUSE_SOME and len(items) % 2 == 0:
                result = {"status": 429, "error": BUSY}
            else:
                self.written.append((head.get("_id"), document))
            items.append({action: result})
        return items
