# SPDX-License-Identifier: Apache-2.0
"""The core's test suite for lookup tables, with its test data and capabilities."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

import pyarrow as pa
from elasticsearch_system import OnElasticsearch
from joined_index import JoinedIndex
from source_suites import SOURCE, IndexWriter

from connector_elasticsearch import ElasticsearchTable
from connectors_core.testing import (
    Capabilities,
    Capability,
    LookupExternalContext,
    LookupTestSuite,
)

TABLE = Capabilities(
    can=frozenset(
        {
            Capability.LOOKUP_BY_KEY,
            Capability.ASYNC_LOOKUP,
            Capability.FULL_CACHE,
            Capability.OUTAGES,
            Capability.DATA_TYPES,
            Capability.MISFITS,
            Capability.SECRETS,
        }
    ),
    cannot_carry=SOURCE.cannot_carry,
)


class TableIndex(JoinedIndex, LookupExternalContext):
    types: ClassVar = {
        "number": {"type": "long"},
        "text": {"type": "keyword"},
        "value": {"type": "keyword"},
        "amount": {"type": "long"},
    }

    def create_table(self, options: Mapping[str, str]) -> ElasticsearchTable:
        return self._table(self._name, options)

    def create_typed_table(self, rows: pa.Table, options: Mapping[str, str]) -> ElasticsearchTable:
        return self.create_misfit_table(rows.schema, rows, options)

    def create_misfit_table(
        self, schema: pa.Schema, rows: pa.Table, options: Mapping[str, str]
    ) -> ElasticsearchTable:
        name = f"{self._name}-{uuid.uuid4().hex}"
        mapping = {"dynamic": False, "properties": {"id": {"type": "long"}}}
        self._server.request("PUT", f"/{name}", {"mappings": mapping})
        IndexWriter(self._server, name).write(rows)
        return self._table(name, options, schema=schema)


class ElasticsearchTableSuite(OnElasticsearch, LookupTestSuite):
    capabilities = TABLE

    def external_context(self, folder: Path) -> TableIndex:
        return TableIndex(self.address)
