# SPDX-License-Identifier: Apache-2.0
"""A gateway before a real Elasticsearch, for responses that the server rarely gives."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import closing
from http.client import HTTPConnection

from treating_server import BUSY, Answer, TreatingServer, answer_to_bulk

from connectors_core.testing import RequestFault
from connectors_core.testing.servers import HOST

_OF_A_CONNECTION = frozenset({"connection", "content-length", "host"})
_LOGIN = "authorization"


class BusyGateway(TreatingServer):
    """Hands bulks of `index` operations on to a server, and its answers back.

    It says itself that the server is too busy, for a whole request or every other operation, and
    hands the others on. A wrong login and a document that does not fit the mapping are the server's
    to refuse: it gets the request without the login, and the document with a wrong value.

    Args:
        port: Of the server, on this machine.

    Attributes:
        never: Values of `seq` of the documents that do not fit.
    """

    def __init__(self, port: int) -> None:
        super().__init__()
        self.never: set[int] = set()
        self._port = port

    def answer(
        self, path: str, headers: Mapping[str, str], body: bytes, fault: RequestFault | None
    ) -> Answer:
        if fault is RequestFault.REFUSE:
            raise Answer(429, {"error": BUSY, "status": 429})
        left_out = _OF_A_CONNECTION
        if fault is RequestFault.REFUSE_FOR_GOOD:
            left_out |= {_LOGIN}
        headers = {name: value for name, value in headers.items() if name not in left_out}
        lines = body.splitlines()
        operations = [
            (head, self._damaged(document))
            for head, document in zip(lines[::2], lines[1::2], strict=True)
        ]
        if fault is not RequestFault.REFUSE_SOME:
            return self._handed_on(path, headers, operations)
        taken = iter(())
        if operations[1::2]:
            answer = self._handed_on(path, headers, operations[1::2])
            # The server leaves out what the client did not ask for, but never an item.
            taken = iter(json.loads(answer.body)["items"])
        refused = {"index": {"status": 429, "error": BUSY}}
        return answer_to_bulk(
            [next(taken) if number % 2 else refused for number in range(len(operations))]
        )

    def _damaged(self, document: bytes) -> bytes:
        row = json.loads(document)
        if row["seq"] not in self.never:
            return document
        return json.dumps(row | {"seq": "no number"}).encode()

    def _handed_on(
        self, path: str, headers: Mapping[str, str], operations: Sequence[tuple[bytes, bytes]]
    ) -> Answer:
        body = b"".join(b"%s\n%s\n" % operation for operation in operations)
        with closing(HTTPConnection(HOST, self._port)) as server:
            server.request("POST", path, body, dict(headers))
            response = server.getresponse()
            return Answer(
                response.status,
                data=response.read(),
                headers={"content-type": response.headers["content-type"]},
            )
