# SPDX-License-Identifier: Apache-2.0
"""A gateway in front of a real Elasticsearch that adds responses the server rarely sends."""

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
    """A gateway that forwards bulk requests with `index` operations to a server.

    The gateway itself reports a busy server, for a whole request or for every other operation. The
    server itself rejects wrong logins and bad documents. To cause that, the gateway removes the
    login from a request, or replaces a value of a document.

    Args:
        port: The port of the server on this machine.

    Attributes:
        never: The `seq` values of the documents that the server must reject.
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
            # The response contains only the requested fields, but always every item.
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
