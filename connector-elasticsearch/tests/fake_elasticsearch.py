# SPDX-License-Identifier: Apache-2.0
"""A fake Elasticsearch in this process, for faults that a real one cannot produce on request."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from treating_server import BUSY, Answer, TreatingServer, answer_to_bulk

from connectors_core.testing import RequestFault

BAD = {
    "type": "document_parsing_exception",
    "reason": "failed to parse field [seq]. Preview of field's value: 'canary-value'",
}
DENIED = {"type": "security_exception", "reason": "unable to authenticate"}


class FakeElasticsearch(TreatingServer):
    """A server that accepts bulk requests and applies configured faults to them.

    Attributes:
        written: The written documents with their IDs, in order.
        bodies: The bodies of all requests.
        headers: The headers of all requests.
        paths: The paths of all requests, with their query strings.
        answers: The responses to the next requests, one each. The server sends an `Answer` instead
            of doing the work. A function receives the correct response and replaces it.
        max_content_length: The server answers larger requests with status 413.
        keeps_length: Whether a replaced response keeps the content length of the correct one.
    """

    def __init__(self) -> None:
        super().__init__()
        self.written: list[tuple[str | None, dict[str, Any]]] = []
        self.bodies: list[bytes] = []
        self.headers: list[Mapping[str, str]] = []
        self.paths: list[str] = []
        self.answers: list[Answer | Callable[[bytes], bytes]] = []
        self.max_content_length = 1 << 30
        self.keeps_length = False
        self.never: set[int] = set()

    def answer(
        self, path: str, headers: Mapping[str, str], body: bytes, fault: RequestFault | None
    ) -> Answer:
        with self._lock:
            self.bodies.append(body)
            self.paths.append(path)
            self.headers.append(headers)
            other = self.answers.pop(0) if self.answers else None
        if isinstance(other, Answer):
            raise other
        if len(body) > self.max_content_length:
            raise Answer(413)
        if fault is RequestFault.REFUSE:
            raise Answer(429, {"error": BUSY, "status": 429})
        if fault is RequestFault.REFUSE_FOR_GOOD:
            raise Answer(401, {"error": DENIED, "status": 401})
        with self._lock:
            right = answer_to_bulk(self._take(body.splitlines(), fault))
        if other is None:
            return right
        data = other(right.body)
        return Answer(right.status, data=data, length=right.length if self.keeps_length else None)

    def _take(self, lines: Sequence[bytes], fault: RequestFault | None) -> list[dict[str, Any]]:
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
