# SPDX-License-Identifier: Apache-2.0
"""The core's test suite for lookup tables, with its test data and capabilities."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
from elasticsearch_system import PASSWORD, OnElasticsearch, connection_to, server_at
from source_suites import SOURCE, IndexWriter

from connector_elasticsearch import ElasticsearchTable
from connectors_core.lookup import LookupOptions, LookupRequestConfiguration
from connectors_core.testing import (
    Capabilities,
    Capability,
    LookupExternalContext,
    LookupTestSuite,
)
from connectors_core.testing.servers import FaultyNetwork

TABLE = Capabilities(
    can=frozenset(
        {
            Capability.LOOKUP_BY_KEY,
            Capability.ASYNC_LOOKUP,
            Capability.FULL_CACHE,
            Capability.OUTAGES,
            Capability.DATA_TYPES,
            Capability.SECRETS,
        }
    ),
    cannot_carry=SOURCE.cannot_carry,
)
_TYPES = {
    "number": {"type": "long"},
    "text": {"type": "keyword"},
    "value": {"type": "keyword"},
    "amount": {"type": "long"},
}
_REQUESTS = LookupRequestConfiguration(
    timeout=timedelta(seconds=5),
    initial_backoff=timedelta(milliseconds=10),
    max_backoff=timedelta(milliseconds=50),
)


class TableIndex(LookupExternalContext):
    """An index for one test case, behind a network that can fail."""

    def __init__(self, address: str) -> None:
        self._server = server_at(address)
        self._network = FaultyNetwork()
        self._network.__enter__()
        self._network.forward_to(self._server.port)
        self._connection = connection_to(f"http://{self._network.address}")
        self._name = f"suite-{uuid.uuid4().hex}"

    def create_table(self, options: Mapping[str, str]) -> ElasticsearchTable:
        return self._table(self._name, options)

    def write(self, rows: pa.Table) -> None:
        with contextlib.suppress(Exception):
            self._server.request("DELETE", f"/{self._name}")
        self._server.request("PUT", f"/{self._name}", {"mappings": {"properties": _TYPES}})
        if rows.num_rows:
            IndexWriter(self._server, self._name).write(rows)

    def create_typed_table(self, rows: pa.Table, options: Mapping[str, str]) -> ElasticsearchTable:
        name = f"{self._name}-{uuid.uuid4().hex}"
        mapping = {"dynamic": False, "properties": {"id": {"type": "long"}}}
        self._server.request("PUT", f"/{name}", {"mappings": mapping})
        IndexWriter(self._server, name).write(rows)
        return self._table(name, options, rows.schema)

    def _table(
        self, name: str, options: Mapping[str, str], schema: pa.Schema | None = None
    ) -> ElasticsearchTable:
        given = LookupOptions.from_options(options)
        return ElasticsearchTable(
            self._connection,
            name,
            schema=schema,
            cache=given.cache,
            requests=_REQUESTS.replaced(max_retries=given.requests.max_retries),
            asynchronous=given.asynchronous,
            reload_trigger=given.reload_trigger,
        )

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


class ElasticsearchTableSuite(OnElasticsearch, LookupTestSuite):
    capabilities = TABLE

    def external_context(self, folder: Path) -> TableIndex:
        return TableIndex(self.address)
