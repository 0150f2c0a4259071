# SPDX-License-Identifier: Apache-2.0
"""The core's test suites for the Elasticsearch sink, with their indices and capabilities."""

from __future__ import annotations

import dataclasses
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from busy_gateway import BusyGateway
from elasticsearch_system import (
    PASSWORD,
    OnElasticsearch,
    connection_to,
    login_options,
    server_at,
)

from connector_elasticsearch import ElasticsearchSink
from connector_elasticsearch.client import ElasticsearchClient, path_of
from connector_elasticsearch.sink import WriteOperation
from connector_elasticsearch.sink.options import BULK_FLUSH
from connectors_core.formats.text import JsonReader
from connectors_core.sink import AsyncSinkWriterConfiguration
from connectors_core.testing import (
    ROWS,
    AsyncSinkExternalContext,
    AsyncSinkWriterTestSuite,
    Capabilities,
    Capability,
    RequestFault,
    SinkExternalContext,
    SinkFormatTestSuite,
    SinkTestSuite,
)

KEY = ("split", "seq")
# The documents keep all digits, but the server rewrites a filtered response.
DECIMALS = dict.fromkeys(
    ("decimal: more digits than a double has", "decimal: ends"),
    "the answer to who reads them back has numbers with a fraction as doubles",
)
AUTOMATIC_IDS = Capabilities(
    can=frozenset(
        {
            Capability.DATA_TYPES,
            Capability.SCHEMA_CHANGE,
            Capability.SECRETS,
            Capability.OUTAGES,
        }
    ),
    cannot={
        Capability.EXACTLY_ONCE: "documents are seen as they are written",
        Capability.COMMITTED_EPOCHS: "there are no epochs in the index",
        Capability.LEASES: "there are no transactions",
        Capability.REWRITING: "there is no second phase",
        Capability.WRITER_STATE: "writers keep nothing from one epoch to the next",
        Capability.TOPOLOGIES: "there is no second phase",
    },
    cannot_carry={
        "float": "JSON has no infinity",
        "double": "JSON has no infinity",
        "day-time interval": "JSON has no lengths of time",
        "map": "written as a JSON object, which cannot be read back as a map",
        **DECIMALS,
    },
)
IDS = Capabilities(
    can=AUTOMATIC_IDS.can - {Capability.DATA_TYPES},
    cannot={
        **AUTOMATIC_IDS.cannot,
        Capability.DATA_TYPES: "its rows have no columns of the id; with automatic ids they do",
    },
)
WRITER = Capabilities(
    can=frozenset({Capability.SECRETS}),
    cannot={
        Capability.KEYS: "the server keeps one document of an id; a fake keeps all",
    },
)


class SinkIndex(SinkExternalContext):
    """An index for one test case, which accepts any document."""

    def __init__(self, address: str, **settings: Any) -> None:
        self._address = address
        self._settings = settings
        self._server = server_at(address)
        self._index = f"sink-{uuid.uuid4().hex}"
        mapping = {"dynamic": False, "properties": {"split": {"type": "long"}}}
        self._server.request("PUT", f"/{self._index}", {"mappings": mapping})

    def create_sink(self, **settings: Any) -> ElasticsearchSink:
        settings = self._settings | settings
        return ElasticsearchSink(connection_to(self._address), self._index, **settings)

    def changed_sinks(self) -> Mapping[str, ElasticsearchSink]:
        changed: dict[str, Any] = {
            "id_columns": ["seq"],
            "routing_column": "split",
            "operation": WriteOperation.CREATE,
            "bulk_flush": dataclasses.replace(BULK_FLUSH, max_batch_size=2),
            "parallelism": 1,
        }
        return {name: self.create_sink(**{name: value}) for name, value in changed.items()}

    def format_options(self) -> Mapping[str, str]:
        return {**login_options(self._address), "index": self._index}

    def read_back(self, schema: pa.Schema = ROWS) -> pa.Table:
        self._server.request("POST", f"/{self._index}/_refresh")
        client = ElasticsearchClient(connection_to(self._address))
        try:
            answer = client.request_bytes(
                "POST",
                path_of(self._index, "_search"),
                {"size": 10_000, "sort": ["_doc"]},
                params={"filter_path": "hits.hits._source"},
                doing="reading back",
            )
        finally:
            client.close()
        source = pa.struct([pa.field("_source", pa.struct(list(schema)))])
        hits = pa.struct([pa.field("hits", pa.list_(source))])
        reader = JsonReader(pa.schema([pa.field("hits", hits)]))
        column = reader.read(answer).column("hits")
        documents = column.field("hits").flatten().field("_source")
        return pa.Table.from_arrays(documents.flatten(), schema=schema)

    def secrets(self) -> Sequence[str]:
        return [PASSWORD]

    def close(self) -> None:
        self._server.request("DELETE", f"/{self._index}")


class KeyedIndex(SinkIndex):
    """An index whose documents have explicit IDs, so that a rewritten row replaces itself."""

    def __init__(self, address: str) -> None:
        super().__init__(address, id_columns=list(KEY))

    def format_options(self) -> Mapping[str, str]:
        return {**super().format_options(), "document-id.columns": ",".join(KEY)}

    def read_back(self, schema: pa.Schema = ROWS) -> pa.Table:
        rows = super().read_back(schema)
        assert rows.group_by(list(KEY)).aggregate([]).num_rows == rows.num_rows, "doubled"
        return rows


class AutomaticIdSuite(OnElasticsearch, SinkTestSuite):
    capabilities = AUTOMATIC_IDS

    def external_context(self, folder: Path) -> SinkIndex:
        return SinkIndex(self.address)


class IdSuite(AutomaticIdSuite):
    capabilities = IDS

    def external_context(self, folder: Path) -> KeyedIndex:
        return KeyedIndex(self.address)


class IdFormatSuite(OnElasticsearch, SinkFormatTestSuite):
    capabilities = IDS
    format = "connector_elasticsearch"

    def external_context(self, folder: Path) -> KeyedIndex:
        return KeyedIndex(self.address)


class IndexBehindGateway(SinkIndex, AsyncSinkExternalContext):
    """An index for one test case of a writer, which rejects documents without a numeric `seq`."""

    def __init__(self, address: str, **settings: Any) -> None:
        super().__init__(address, **settings)
        self._server.request(
            "PUT", f"/{self._index}/_mapping", {"properties": {"seq": {"type": "long"}}}
        )
        self._gateway = BusyGateway(self._server.port)
        self._gateway.__enter__()

    def create_async_sink(self, configuration: AsyncSinkWriterConfiguration) -> ElasticsearchSink:
        return ElasticsearchSink(
            connection_to(self._gateway.url),
            self._index,
            bulk_flush=configuration,
            **self._settings,
        )

    def treat(self, fault: RequestFault | None, requests: int | None = None) -> None:
        self._gateway.treat(fault, requests)

    def reject(self, seq: int) -> None:
        self._gateway.never.add(seq)

    def close(self) -> None:
        self._gateway.__exit__()
        super().close()


class AutomaticIdWriterSuite(OnElasticsearch, AsyncSinkWriterTestSuite):
    capabilities = WRITER

    def external_context(self, folder: Path) -> IndexBehindGateway:
        return IndexBehindGateway(self.address)


class IdWriterSuite(AutomaticIdWriterSuite):
    def external_context(self, folder: Path) -> IndexBehindGateway:
        return IndexBehindGateway(self.address, id_columns=list(KEY))
