# SPDX-License-Identifier: Apache-2.0
"""The index of one lookup or vector search case, behind a network that can fail."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from typing import Any, ClassVar

import pyarrow as pa
from elasticsearch_system import PASSWORD, connection_to, server_at
from source_suites import IndexWriter

from connector_elasticsearch import ElasticsearchTable
from connectors_core.lookup import LookupOptions, LookupRequestConfiguration
from connectors_core.testing.servers import FaultyNetwork

_REQUESTS = LookupRequestConfiguration(
    timeout=timedelta(seconds=5),
    initial_backoff=timedelta(milliseconds=10),
    max_backoff=timedelta(milliseconds=50),
)


class JoinedIndex:
    """A base of external contexts.

    Attributes:
        types: The types of the fields.
    """

    types: ClassVar[Mapping[str, Any]]

    def __init__(self, address: str) -> None:
        self._server = server_at(address)
        self._network = FaultyNetwork()
        self._network.__enter__()
        self._network.forward_to(self._server.port)
        self._connection = connection_to(f"http://{self._network.address}")
        self._name = f"suite-{uuid.uuid4().hex}"

    def write(self, rows: pa.Table) -> None:
        with contextlib.suppress(Exception):
            self._server.request("DELETE", f"/{self._name}")
        self._server.request("PUT", f"/{self._name}", {"mappings": {"properties": self.types}})
        if rows.num_rows:
            IndexWriter(self._server, self._name).write(rows)

    @contextlib.contextmanager
    def away(self) -> Iterator[None]:
        self._network.refuse()
        yield
        self._network.restore()

    def secrets(self) -> Sequence[str]:
        return [PASSWORD]

    def close(self) -> None:
        self._network.__exit__(None, None, None)
        self._server.request("DELETE", f"/{self._name}*")

    def _table(self, name: str, options: Mapping[str, str], **more: Any) -> ElasticsearchTable:
        given = LookupOptions.from_options(options)
        return ElasticsearchTable(
            self._connection,
            name,
            cache=given.cache,
            requests=_REQUESTS.replaced(max_retries=given.requests.max_retries),
            asynchronous=given.asynchronous,
            reload_trigger=given.reload_trigger,
            **more,
        )
