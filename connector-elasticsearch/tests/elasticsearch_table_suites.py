# SPDX-License-Identifier: Apache-2.0
"""The core's test suites for tables, changelogs, and catalogs, with their indices."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from elasticsearch_system import (
    PASSWORD,
    SUITES,
    OnElasticsearch,
    connection_to,
    login_options,
    server_at,
)

from connector_elasticsearch import ElasticsearchSink
from connector_elasticsearch.catalog import ElasticsearchCatalog
from connector_elasticsearch.table_factory import ElasticsearchTableFactory
from connectors_core.catalog import FileCatalogStore
from connectors_core.table import CatalogTable, MetadataColumn
from connectors_core.testing import (
    Capabilities,
    Capability,
    CatalogExternalContext,
    CatalogTestSuite,
    ChangelogExternalContext,
    ChangelogTestSuite,
    TableExternalContext,
    TableTestSuite,
    table_schema,
)

_NOWHERE: Final = "http://127.0.0.1:9"
_TYPES: Final = {
    "id": {"type": "long"},
    "text": {"type": "keyword"},
    "amount": {"type": "double"},
    "at": {"type": "date_nanos"},
}


class ElasticsearchTables(TableExternalContext):
    """An index. Without an address, it is never read or written."""

    def __init__(self, address: str = "") -> None:
        self._options = login_options(address or _NOWHERE)
        self._index = f"tables-{uuid.uuid4().hex}"
        self._server = server_at(address) if address else None
        if self._server is not None:
            mapping = {"mappings": {"properties": _TYPES}}
            self._server.request("PUT", f"/{self._index}", mapping)

    def definition(self) -> CatalogTable:
        options = {
            "connector": "elasticsearch",
            **self._options,
            "index": self._index,
            "sink.refresh": "wait-for",
        }
        return CatalogTable(schema=table_schema(key=True), options=options)

    def metadata(self) -> Sequence[MetadataColumn]:
        return [MetadataColumn("document", pa.string(), "_id", virtual=True)]

    def secret_options(self) -> Mapping[str, str]:
        return {"password": PASSWORD}

    def close(self) -> None:
        if self._server is not None:
            self._server.request("DELETE", f"/{self._index}")


class ElasticsearchTableSuite(TableTestSuite):
    written_for = SUITES
    factory = ElasticsearchTableFactory
    capabilities = Capabilities(
        can=frozenset(
            {
                Capability.SCAN,
                Capability.INSERT,
                Capability.LOOKUP,
                Capability.METADATA_COLUMNS,
                Capability.SECRETS,
            }
        )
    )

    def external_context(self, folder: Path) -> ElasticsearchTables:
        return ElasticsearchTables(self.address)


class ChangedIndex(ChangelogExternalContext):
    """An index whose documents have the id of the row."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._server = server_at(address)
        self._index = f"changes-{uuid.uuid4().hex}"
        self._server.request("PUT", f"/{self._index}", {"mappings": {"properties": _TYPES}})

    def create_sink(self) -> ElasticsearchSink:
        return ElasticsearchSink(connection_to(self._address), self._index, id_columns=["id"])

    def read_back(self) -> pa.Table:
        self._server.request("POST", f"/{self._index}/_refresh")
        found: Any = self._server.request("GET", f"/{self._index}/_search?size=10000")
        empty = {"id": None, "text": None, "version": None}
        return pa.Table.from_pylist([empty | each["_source"] for each in found["hits"]["hits"]])

    def close(self) -> None:
        self._server.request("DELETE", f"/{self._index}")


class ElasticsearchChangelogSuite(OnElasticsearch, ChangelogTestSuite):
    capabilities = Capabilities(
        can=frozenset({Capability.CHANGELOG_SINK}),
        cannot={Capability.CHANGELOG_SOURCE: "a search finds documents, not their changes"},
    )

    def external_context(self, folder: Path) -> ChangedIndex:
        return ChangedIndex(self.address)


class Indices(CatalogExternalContext):
    """The indices of a cluster, which other cases leave empty."""

    def __init__(self, address: str, folder: Path) -> None:
        self._address = address
        self._server = server_at(address)
        self._store = FileCatalogStore(folder)
        self._added: list[str] = []

    def create_catalog(self, name: str) -> ElasticsearchCatalog:
        catalog = ElasticsearchCatalog(name, login_options(self._address))
        catalog.definitions = self._store.tables_of("indices")
        return catalog

    def add_table(self, name: str) -> None:
        self._server.request("PUT", f"/{name}", {"mappings": {"properties": _TYPES}})
        for number in (1, 2):
            self._server.request("PUT", f"/{name}/_doc/{number}?refresh=true", {"id": number})
        self._added.append(name)

    def stored(self, name: str) -> object:
        found: Any = self._server.request("GET", f"/{name}/_count")
        return found["count"]

    def definition(self) -> CatalogTable:
        return CatalogTable(schema=table_schema(key=True))

    def secrets(self) -> Sequence[str]:
        return [PASSWORD]

    def close(self) -> None:
        for name in (*self._added, "made"):
            self._server.request("DELETE", f"/{name}?ignore_unavailable=true")


class ElasticsearchCatalogSuite(OnElasticsearch, CatalogTestSuite):
    capabilities = Capabilities(
        can=frozenset(
            {
                Capability.CREATE_TABLES,
                Capability.STATISTICS,
                Capability.PERSISTENT,
                Capability.SECRETS,
            }
        ),
        cannot={
            Capability.CREATE_DATABASES: "a cluster has no databases",
            Capability.ALTER_TABLES: "the catalog changes no mapping",
            Capability.RENAME_TABLES: "an index keeps its name",
            Capability.DROP_TABLES: "the catalog removes no documents",
            Capability.VIEWS: "a cluster keeps no queries",
            Capability.PARTITIONS: "an index has shards, which hold no values of a column",
        },
    )

    def external_context(self, folder: Path) -> Indices:
        return Indices(self.address, folder)
