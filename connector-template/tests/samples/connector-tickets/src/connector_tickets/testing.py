# SPDX-License-Identifier: Apache-2.0
"""The external system of the tests: the API in memory, on loopback.

It limits requests, fails, and forgets access tokens, as APIs do.
"""

from __future__ import annotations

import itertools
import json
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from email.utils import formatdate
from http.client import HTTPConnection
from typing import Any, Final
from urllib.parse import parse_qsl, urlsplit

from connectors_core.testing.servers import (
    HttpAnswer,
    HttpRelay,
    HttpRequest,
    TcpTestSystem,
    direct_address,
)

__all__ = ["Account", "TicketsSystem", "running_server"]

_PAGE: Final = 20
# Some tickets are stored at the same time.
_AT_ONCE: Final = 3
# Which requests fail, by their number.
_LIMITED, _FAILED, _LOGGED_OUT = 7, 11, 13


@contextmanager
def running_server() -> Iterator[str]:
    """Run the API until the end of the block, and yield its URL."""
    with HttpRelay(0, _Api()) as server:
        yield server.endpoint


class TicketsSystem(TcpTestSystem):
    """One API for a test run, behind a faulty network."""

    name = "tickets"
    variable = "TICKETS_URL"

    def server(self) -> AbstractContextManager[str]:
        """Start the API."""
        return running_server()


class Account:
    """An administrator's view of an account, for tests and examples.

    Args:
        url: The URL of the API.
        secret: The secret of the account's OAuth2 client.
    """

    def __init__(self, url: str, secret: str) -> None:
        self._address = urlsplit(direct_address(url)).netloc
        self._secret = secret

    def add(self, project: str, tickets: Sequence[Mapping[str, Any]]) -> None:
        """Add tickets. The first call opens the account and the project, even without tickets."""
        with closing(HTTPConnection(self._address, timeout=30)) as http:
            http.request("POST", "/admin", json.dumps([self._secret, project, tickets]).encode())
            assert http.getresponse().status == 200


class _Api:
    def __init__(self) -> None:
        self._accounts: dict[str, dict[str, list[dict[str, Any]]]] = {}
        self._logins: dict[str, str] = {}  # the secret of each access token
        self._numbers = itertools.count(1)
        self._lock = threading.Lock()

    def __call__(self, request: HttpRequest, forward: object) -> HttpAnswer:
        with self._lock:
            answer = self._answer(request)
        clock = {"Date": formatdate(usegmt=True)}
        return replace(answer, headers={**answer.headers, **clock})

    def _answer(self, request: HttpRequest) -> HttpAnswer:
        url, body = urlsplit(request.path), request.body.decode()
        match url.path.strip("/").split("/"):
            case ["admin"]:
                self._add(*json.loads(body))
                return _json({})
            case ["token"]:
                return self._log_in(dict(parse_qsl(body)))
            case path:
                login = request.headers.get("Authorization", "")
                return self._get(path, dict(parse_qsl(url.query)), login)

    def _add(self, secret: str, project: str, tickets: list[dict[str, Any]]) -> None:
        found = self._accounts.setdefault(secret, {}).setdefault(project, [])
        at = datetime.now(UTC) - timedelta(microseconds=len(tickets))
        if found:
            at = max(at, datetime.fromisoformat(found[-1]["stored_at"]))
        for number, ticket in enumerate(tickets):
            moment = at + timedelta(microseconds=1 + number // _AT_ONCE)
            found.append({**ticket, "stored_at": moment.isoformat(timespec="microseconds")})

    def _log_in(self, form: Mapping[str, str]) -> HttpAnswer:
        secret = form.get("client_secret", "")
        if secret not in self._accounts:
            return HttpAnswer(401, {}, b'{"error": "invalid_client"}')
        token = f"token-{next(self._numbers)}"
        self._logins[f"Bearer {token}"] = secret
        return _json({"access_token": token, "token_type": "Bearer", "expires_in": 3600})

    def _get(self, path: list[str], query: Mapping[str, str], login: str) -> HttpAnswer:
        number = next(self._numbers)
        if number % _LOGGED_OUT == 0:
            self._logins.pop(login, None)
        if login not in self._logins:
            return HttpAnswer(401, {}, b'{"error": "invalid_token"}')
        if number % _LIMITED == 0:
            return HttpAnswer(429, {"Retry-After": "0"})
        if number % _FAILED == 0:
            return HttpAnswer(503)
        projects = self._accounts[self._logins[login]]
        match path:
            case ["projects"]:
                return _json([{"name": name} for name in sorted(projects)])
            case ["projects", name, "tickets"] if name in projects:
                since, start = query.get("stored_since", ""), int(query.get("page_token", "0"))
                found = [each for each in projects[name] if each["stored_at"] >= since]
                end = start + _PAGE
                token = {"next_page_token": str(end)} if end < len(found) else {}
                return _json({"tickets": found[start:end], **token})
            case _:
                return HttpAnswer(404)


def _json(content: object) -> HttpAnswer:
    return HttpAnswer(200, {}, json.dumps(content).encode())
