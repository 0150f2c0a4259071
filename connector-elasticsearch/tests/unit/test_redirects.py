# SPDX-License-Identifier: Apache-2.0
"""Tests that redirects are refused."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from typing import Any

import pyarrow as pa
import pytest
from sink_writing import QUICK, write
from treating_server import Answer, TreatingServer

from connector_elasticsearch import (
    ElasticsearchConnection,
    ElasticsearchRequestError,
    ElasticsearchSink,
)
from connector_elasticsearch.client import AsyncElasticsearchClient, ElasticsearchClient
from connectors_core.records import RecordPolicy
from connectors_core.testing import RequestFault

SECRET = "canary-6d02"  # pragma: allowlist secret

Ask = Callable[[ElasticsearchConnection], Any]
pytestmark = pytest.mark.cell


class Redirecting(TreatingServer):
    """Redirects every request."""

    def __init__(self, status: int, location: str) -> None:
        super().__init__()
        self._answer = Answer(status, headers={"location": location})

    def answer(
        self, path: str, headers: Mapping[str, str], body: bytes, fault: RequestFault | None
    ) -> Answer:
        return self._answer


class Elsewhere(TreatingServer):
    """Accepts and records every request."""

    def __init__(self) -> None:
        super().__init__()
        self.requests: list[Mapping[str, str]] = []

    def answer(
        self, path: str, headers: Mapping[str, str], body: bytes, fault: RequestFault | None
    ) -> Answer:
        self.requests.append(headers)
        return Answer(200, {"errors": False, "items": [{"index": {"status": 201}}] * 2})


@contextmanager
def redirected(status: int) -> Iterator[tuple[ElasticsearchConnection, Elsewhere]]:
    with Elsewhere() as other, Redirecting(status, f"{other.url}/?token={SECRET}") as server:
        yield ElasticsearchConnection(server.url, api_key=SECRET, headers={"x-key": SECRET}), other


def waits(connection: ElasticsearchConnection) -> Any:
    """Send a request with the blocking client."""
    with closing(ElasticsearchClient(connection)) as client:
        return client.request("POST", "/_search", {}, doing="asking")


def awaits(connection: ElasticsearchConnection) -> Any:
    """Send a request with the asynchronous client."""

    async def asked() -> Any:
        client = AsyncElasticsearchClient(connection)
        try:
            return await client.request("POST", "/_search", {}, doing="asking")
        finally:
            await client.close()

    return asyncio.run(asked())


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
@pytest.mark.parametrize("ask", [waits, awaits])
def test_a_redirect_is_refused_and_its_target_receives_no_request(ask: Ask, status: int) -> None:
    with redirected(status) as (connection, other):
        with pytest.raises(ElasticsearchRequestError, match="redirects") as failure:
            ask(connection)
        assert not other.requests
    assert failure.value.option == "hosts"
    assert failure.value.status == status
    assert failure.value.found == f"{status} to {other.url}"
    assert SECRET not in f"{failure.value} {failure.value!r}"


@pytest.mark.parametrize("status", [301, 307])
def test_no_document_is_written_to_the_target_of_a_redirect(status: int) -> None:
    rows = pa.table({"n": [1, 2]})
    with redirected(status) as (connection, other):
        sink = ElasticsearchSink(connection, "rows", bulk_flush=QUICK)
        with pytest.raises(ElasticsearchRequestError, match="redirects"):
            write(sink, rows, policy=RecordPolicy.skip())
        assert not other.requests
