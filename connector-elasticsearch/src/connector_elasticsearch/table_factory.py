# SPDX-License-Identifier: Apache-2.0
"""Tables of indices for SQL: `'connector' = 'elasticsearch'`."""

from __future__ import annotations

from typing import Any, Final

from connector_elasticsearch.lookup import ElasticsearchTable
from connector_elasticsearch.sink import ElasticsearchSink
from connector_elasticsearch.source import ElasticsearchSource
from connectors_core.options import Configured
from connectors_core.table import (
    ChangelogMode,
    ConfiguredTableFactory,
    DynamicTableContext,
    DynamicTableSink,
    LookupTableSource,
    ScanTableSource,
    VectorSearchTableSource,
    given_options,
    metadata_option,
    refuse_metadata,
    schema_option,
)

__all__ = ["ElasticsearchTableFactory"]

_ID: Final = "document-id.columns"


class ElasticsearchTableFactory(ConfiguredTableFactory):
    """Tables of indices. The primary key is the id of a document."""

    identifier = "elasticsearch"
    parts = (ElasticsearchSource, ElasticsearchSink, ElasticsearchTable)

    def create_scan_source(self, context: DynamicTableContext) -> ScanTableSource:
        """See `DynamicTableFactory`."""
        options = self._reading(ElasticsearchSource, context)
        return ScanTableSource(source=ElasticsearchSource.from_options(options))

    def create_lookup_source(self, context: DynamicTableContext) -> LookupTableSource:
        """See `DynamicTableFactory`."""
        return self._table(context)

    def create_vector_search_source(self, context: DynamicTableContext) -> VectorSearchTableSource:
        """See `DynamicTableFactory`."""
        return self._table(context)

    def create_sink(self, context: DynamicTableContext) -> DynamicTableSink:
        """See `DynamicTableFactory`."""
        schema = context.table.schema
        refuse_metadata(context, schema.written_metadata)
        key = {_ID: schema.primary_key} if schema.primary_key else {}
        sink = ElasticsearchSink.from_options(given_options(ElasticsearchSink, context, key))
        mode = ChangelogMode.upsert() if sink.id_columns else ChangelogMode.insert_only()
        return DynamicTableSink(sink=sink, changelog_mode=mode, key=schema.primary_key)

    def _table(self, context: DynamicTableContext) -> ElasticsearchTable:
        return ElasticsearchTable.from_options(self._reading(ElasticsearchTable, context))

    def _reading(self, made: type[Configured], context: DynamicTableContext) -> dict[str, Any]:
        columns = {"schema": schema_option(context)}
        if "metadata.columns" in made.OPTIONS:
            columns["metadata.columns"] = metadata_option(context)
        return given_options(made, context, columns)
