# SPDX-License-Identifier: Apache-2.0
"""A scripted HTTP API on loopback."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from connectors_core.testing.servers import HttpAnswer, HttpRelay, HttpRequest


def answer(
    content: object = None, status: int = 200, headers: Mapping[str, str] | None = None
) -> HttpAnswer:
    return HttpAnswer(status, headers or {}, json.dumps(content).encode())


class Api:
    """Records its requests, and gives the scripted answers first, then those of a function."""

    def __init__(self, respond: Callable[[HttpRequest], HttpAnswer]) -> None:
        self.url = ""
        self.requests: list[HttpRequest] = []
        self.script: deque[HttpAnswer] = deque()
        self._respond = respond

    def __call__(self, request: HttpRequest, forward: object) -> HttpAnswer:
        self.requests.append(request)
        return self.script.popleft() if self.script else self._respond(request)

    @property
    def paths(self) -> list[str]:
        return [each.path for each in self.requests]


def query_of(request: HttpRequest) -> dict[str, Any]:
    """Return the parameters of a request, with the fields of a POST request."""
    query: dict[str, Any] = dict(parse_qsl(urlsplit(request.path).query))
    if request.method == "POST":
        assert request.headers["Content-Type"] == "application/json"
        query |= json.loads(request.body)
    return query


@contextmanager
def running(respond: Callable[[HttpRequest], HttpAnswer] = lambda _: answer({})) -> Iterator[Api]:
    api = Api(respond)
    with HttpRelay(0, api) as relay:
        api.url = relay.endpoint
        yield api
