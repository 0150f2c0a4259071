# SPDX-License-Identifier: Apache-2.0
"""Runs the reader's suite for the source of docs/write-a-connector/http-api.md."""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pyarrow as pa
from page_modules import modules_of

from connectors_core.source import Boundedness
from connectors_core.testing import (
    ROWS,
    Capabilities,
    Capability,
    SourceExternalContext,
    SourceReaderTestSuite,
    SplitDataWriter,
)
from connectors_core.testing.servers import HttpAnswer, HttpRelay, HttpRequest

TicketSource = modules_of("write-a-connector/http-api.md")["ticket_source"].TicketSource

PAGE = 20
SECRET = "open sesame"  # pragma: allowlist secret
EVERY = {4: (429, {"Retry-After": "0"}), 7: (503, {}), 9: (401, {})}


class Tickets:
    """The API of the page, in a bad mood: some requests are limited, fail, or lose their token."""

    def __init__(self) -> None:
        self.projects: dict[str, list[dict[str, Any]]] = {}
        self._requests = itertools.count(1)

    def add(self, project: str, tickets: Sequence[Mapping[str, Any]]) -> None:
        found = self.projects.setdefault(project, [])
        start = datetime.now(UTC) - timedelta(microseconds=len(tickets))
        for number, ticket in enumerate(tickets):
            at = start + timedelta(microseconds=number // 3)  # some share a timestamp
            found.append({**ticket, "stored_at": at.isoformat(timespec="microseconds")})

    def __call__(self, request: HttpRequest, forward: object) -> HttpAnswer:
        url = urlsplit(request.path)
        if url.path == "/token":
            form = dict(parse_qsl(request.body.decode()))
            if form.get("client_secret") != SECRET:
                return HttpAnswer(401, {}, b'{"error": "invalid_client"}')
            return self._answer({"access_token": "t", "expires_in": 3600})
        if request.headers.get("Authorization") != "Bearer t":
            return HttpAnswer(401)
        count = next(self._requests)
        for period, (status, headers) in EVERY.items():
            if count % (period * 3) == 0:
                return HttpAnswer(status, headers)
        if url.path == "/projects":
            return self._answer([{"name": each} for each in sorted(self.projects)])
        query, project = dict(parse_qsl(url.query)), url.path.split("/")[2]
        start, since = int(query.get("page_token", 0)), query.get("stored_since", "")
        found = [each for each in self.projects[project] if each["stored_at"] >= since]
        token = str(start + PAGE) if start + PAGE < len(found) else None
        return self._answer({"tickets": found[start : start + PAGE], "next_page_token": token})

    @staticmethod
    def _answer(content: object) -> HttpAnswer:
        return HttpAnswer(200, {}, json.dumps(content).encode())


class ProjectWriter(SplitDataWriter):
    def __init__(self, api: Tickets, project: str) -> None:
        self._api = api
        self._project = project
        api.add(project, [])

    def write(self, rows: pa.Table) -> None:
        for row in rows.to_pylist():
            self._project = str(row["split"])
            ticket = {"id": row["seq"], "title": row["text"], "opened": row["at"].isoformat()}
            self._api.add(self._project, [ticket])

    def write_poison(self) -> None:
        self._api.add(self._project, [{"id": "not a number"}])


class TicketsContext(SourceExternalContext):
    def __init__(self) -> None:
        self._running = ExitStack()
        self._api = Tickets()
        self._url = self._running.enter_context(HttpRelay(0, self._api)).endpoint
        self._names = itertools.count()

    def create_split(self) -> ProjectWriter:
        return ProjectWriter(self._api, str(next(self._names)))

    def create_source(self, boundedness: Boundedness) -> Any:
        endless = boundedness is Boundedness.CONTINUOUS_UNBOUNDED
        return TicketSource(
            self._url,
            client_id="tester",
            client_secret=SECRET,
            settle="0 s",
            discovery_interval="50 ms" if endless else None,
        )

    def to_rows(self, read: pa.Table) -> pa.Table:
        return read.rename_columns(ROWS.names).cast(ROWS)

    def secrets(self) -> Sequence[str]:
        return [SECRET]

    def close(self) -> None:
        self._running.close()


class TestTicketReader(SourceReaderTestSuite):
    written_for = "1.5"
    capabilities = Capabilities(
        can=frozenset(
            {
                Capability.BOUNDED,
                Capability.UNBOUNDED,
                Capability.DISCOVERY,
                Capability.GROWING_SPLITS,
                Capability.POISON_READS,
                Capability.REPLAYABLE,
                Capability.SCHEMA_CHANGE,
                Capability.SECRETS,
            }
        ),
        cannot={
            Capability.DATA_TYPES: "a ticket has four columns",
            Capability.OUTAGES: "no network stands before its server",
            Capability.REFUSALS: "the API of the page has no rights",
        },
    )

    def external_context(self, folder: Path) -> TicketsContext:
        return TicketsContext()
