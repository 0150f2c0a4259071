# SPDX-License-Identifier: Apache-2.0
"""The lookup table."""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from connector_elasticsearch.client.options import SINCE
from connector_elasticsearch.client.reachability import check_reachable
from connector_elasticsearch.documents import DocumentOptions, DocumentRows, Layout, moments_of
from connector_elasticsearch.lineage import dataset_of
from connector_elasticsearch.lookup.functions import (
    ElasticsearchAsyncLookupFunction,
    ElasticsearchLookupFunction,
)
from connector_elasticsearch.lookup.key_field import KeyField
from connector_elasticsearch.lookup.questions import Questions
from connector_elasticsearch.source import ElasticsearchSource
from connector_elasticsearch.vector_search import (
    ElasticsearchAsyncVectorSearchFunction,
    ElasticsearchVectorSearchFunction,
    VectorField,
    VectorSearches,
    VectorSearchOptions,
)
from connectors_core.clients import SupportsConnectionCheck
from connectors_core.errors import InvalidOptionError, UnsupportedError
from connectors_core.lineage import LineageDataset, LineageVertexProvider
from connectors_core.lookup import LookupOptions
from connectors_core.options import Setting, not_empty, option
from connectors_core.table import (
    LookupContext,
    LookupRuntimeProvider,
    LookupTableSource,
    VectorSearchContext,
    VectorSearchRuntimeProvider,
    VectorSearchTableSource,
)

__all__ = ["ELASTICSEARCH_TABLE_OPTIONS", "ElasticsearchTable"]

# Types whose values are compared exactly.
_EXACT: Final = frozenset(
    {
        "boolean",
        "byte",
        "constant_keyword",
        "date",
        "date_nanos",
        "integer",
        "ip",
        "keyword",
        "long",
        "short",
        "unsigned_long",
        "version",
        "wildcard",
    }
)


class ElasticsearchTable(
    VectorSearchOptions,
    LookupOptions,
    DocumentOptions,
    LookupTableSource,
    VectorSearchTableSource,
    SupportsConnectionCheck,
    LineageVertexProvider,
    scope="Elasticsearch table",
    since=SINCE,
    former={"lookup": "use cache, requests, asynchronous, and reload_trigger"},
):
    """Documents for `Pipeline.lookup_join`, requested by key or cached as a whole.

    `Pipeline.vector_search` finds those nearest to a vector, by a field of the type dense_vector.

    A lookup by ID returns the current state of an index's documents. A lookup by other fields, or
    through aliases, data streams, and patterns, returns the state of the last refresh. A document
    written with a custom routing cannot be found by its ID alone. Unless the mapping requires a
    routing, set a query (``{"match_all": {}}``), so that the connector searches for it. A text key
    needs a field of the type keyword, or a field with a sub-field of that type.

    Immutable and picklable. The constructor does no I/O.

    Raises:
        ConfigurationError: A setting is not valid, or settings contradict each other.
    """

    id_column: Setting[str | None] = option(
        "id-column",
        str,
        default=None,
        validator=not_empty,
        doc="Name of a column for the documents' ID, which does not have to be a field. A lookup "
        "by it returns the current state of documents.",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        # The source of a fully cached table retries a request for as long as one may take by key.
        self._documents = self.selection(self.requests.timeout)

    def check_connection(self, timeout: float) -> None:
        """Check that the servers respond. See `SupportsConnectionCheck`. Driver."""
        check_reachable(self._documents.connection, timeout)

    def schema(self) -> pa.Schema:
        """The columns of the documents. The ID comes first if it is a column and not a field.

        Requests the mapping from the server once. Driver.

        Raises:
            ConfigurationError: The index does not exist, or its mapping is not supported.
        """
        schema = self._documents.layout.schema
        if self.id_column is None or self.id_column in schema.names:
            return schema
        return pa.schema([pa.field(self.id_column, pa.string(), nullable=False), *schema])

    def get_lookup_runtime_provider(self, context: LookupContext) -> LookupRuntimeProvider:
        """Return a lookup by key, with or without a cache, or of the whole table. Driver.

        Raises:
            ConfigurationError: The server does not compare a key exactly.
        """
        return self.lookup_provider(
            function=lambda: ElasticsearchLookupFunction(self._questions(context)),
            async_function=lambda: ElasticsearchAsyncLookupFunction(self._questions(context)),
            source=lambda: self._source(context.schema),
        )

    def get_search_runtime_provider(
        self, context: VectorSearchContext
    ) -> VectorSearchRuntimeProvider:
        """Return a search for the nearest documents, with or without a cache. Driver.

        Raises:
            ConfigurationError: The server cannot search for the column, or does not return so many
                rows.
        """
        documents = self._documents
        column = context.search_column
        field = VectorField.of(column, documents.layout.definitions(column))
        searches = VectorSearches(
            connection=documents.connection,
            index=documents.index,
            rows=self._rows(context.schema),
            search=field.search(
                context.top_k,
                query=documents.query,
                exact=self.exact,
                num_candidates=self.num_candidates,
                result_window=documents.result_window(),
            ),
            max_searches=self.max_searches,
            max_size=self.max_request_size,
        )
        return self.vector_search_provider(
            function=lambda: ElasticsearchVectorSearchFunction(searches),
            async_function=lambda: ElasticsearchAsyncVectorSearchFunction(searches),
            dimensions=field.dimensions,
        )

    def lineage_datasets(self) -> tuple[LineageDataset, ...]:
        """Its index."""
        return (dataset_of(self._documents.connection, self._documents.index),)

    def __repr__(self) -> str:
        return f"ElasticsearchTable({self._documents.connection!r}, {self._documents.index!r})"

    def _source(self, schema: pa.Schema) -> ElasticsearchSource:
        columns = [field for field in schema if field.name != self.id_column]
        has_id = self.id_column in schema.names
        return ElasticsearchSource(
            self._documents.connection,
            self._documents.index,
            query=self._documents.query,
            schema=pa.schema(columns),
            metadata_columns={"_id": str(self.id_column)} if has_id else {},
            retry_timeout=self._documents.retry_timeout,
        )

    def _questions(self, context: LookupContext) -> Questions:
        documents, layout = self._documents, self._documents.layout
        # An alias can have a filter, and a data stream does not support getting by ID.
        is_index = set(layout.mappings) == {documents.index}
        is_routed = layout.requires_routing
        rows = self._rows(context.schema)
        by_id = context.keys == (self.id_column,)
        return Questions(
            connection=documents.connection,
            index=documents.index,
            rows=rows,
            fields=tuple(self._field(layout, key) for key in context.keys),
            query=documents.query,
            gets=by_id
            and is_index
            and not is_routed
            and documents.query is None
            and not rows.needs_search,
            retry_timeout=documents.retry_timeout,
        )

    def _rows(self, schema: pa.Schema) -> DocumentRows:
        moments = set(moments_of([each for each in schema if each.name != self.id_column]))
        formatted = (path for path in self._documents.layout.formatted if path in moments)
        return DocumentRows(schema=schema, id_column=self.id_column, formatted=tuple(formatted))

    def _field(self, layout: Layout, key: str) -> KeyField:
        """Return the field to compare with a key."""
        if key == self.id_column:
            return KeyField(None)
        if key in layout.formatted:
            raise UnsupportedError(
                f"lookups by dates with a custom format are not supported: {key!r}",
                expected="a date in the default format",
                option="on",
                hint="cache the whole table: lookup.cache=FULL",
            )
        for path in (key, f"{key}.keyword"):
            if layout.kinds(path) <= _EXACT:
                return KeyField.of(path, layout.definitions_at(path))
        kinds = ", ".join(sorted(str(kind) for kind in layout.kinds(key)))
        raise InvalidOptionError(
            f"documents cannot be looked up by {key!r}: the server does not compare it exactly",
            expected="a keyword field, or a field with a sub-field 'keyword'",
            found=kinds,
            option="on",
            hint="change the mapping, or cache the whole table: lookup.cache=FULL",
        )


ELASTICSEARCH_TABLE_OPTIONS: Final = ElasticsearchTable.OPTIONS
"""The options of `ElasticsearchTable.from_options`."""
