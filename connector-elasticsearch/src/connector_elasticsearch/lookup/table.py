# SPDX-License-Identifier: Apache-2.0
"""The table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import pyarrow as pa

from connector_elasticsearch.client import ElasticsearchConnection
from connector_elasticsearch.client.options import SINCE
from connector_elasticsearch.client.reachability import check_reachable
from connector_elasticsearch.documents import DocumentSelection, Layout
from connector_elasticsearch.documents import options as document_options
from connector_elasticsearch.lookup.functions import (
    ElasticsearchAsyncLookupFunction,
    ElasticsearchLookupFunction,
)
from connector_elasticsearch.lookup.questions import Questions
from connector_elasticsearch.source import ElasticsearchSource
from connectors_core.annotations import public
from connectors_core.clients.connection_check import SupportsConnectionCheck
from connectors_core.errors import ConfigurationError, InvalidOptionError, UnsupportedError
from connectors_core.lookup import (
    LOOKUP_OPTIONS,
    LookupCache,
    LookupRequestConfiguration,
    PartialCachingLookupProvider,
    lookup_provider,
)
from connectors_core.options import Option, OptionSet, not_empty
from connectors_core.spelling import spelled_in_python
from connectors_core.table import LookupContext, LookupRuntimeProvider, LookupTableSource

__all__ = ["TABLE_OPTIONS", "ElasticsearchTable"]

ID_COLUMN: Final = Option(
    "id-column",
    str,
    validator=not_empty,
    since=SINCE,
    doc="Name of a column that holds the id of documents; looked up by it, documents are got as "
    "they are right now.",
)
_LOOKUP: Final = OptionSet(*LOOKUP_OPTIONS, scope="elasticsearch table")
TABLE_OPTIONS: Final = document_options.DOCUMENT_OPTIONS.extended(
    ID_COLUMN, *LOOKUP_OPTIONS, scope="elasticsearch table"
)
"""The options of `ElasticsearchTable.from_options`."""

# Types whose values are compared as they are.
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


@public
@spelled_in_python()
class ElasticsearchTable(LookupTableSource, SupportsConnectionCheck):
    """Documents for `Pipeline.lookup_join`: asked for by key, or cached as a whole.

    By the id the documents of an index are got as they are right now. By other fields, or through
    aliases, data streams and patterns, they are found as of the last refresh. What was written with
    a routing of its own cannot be got by its id alone: unless the mapping requires a routing, give
    a query (``{"match_all": {}}``), so that it is searched for. A key of
    texts needs a field of the kind keyword, or one with such a sub-field.

    Immutable and picklable; no I/O in the constructor.

    Args:
        connection: How the servers are reached, or their addresses.
        index: Index, alias, data stream or pattern.
        query: Documents that belong to the table, in Elasticsearch's query language; None for all.
        schema: Columns, as Arrow or in the words of Spark SQL; None to take them from the mapping.
        fields: Columns to offer, or paths into them; none for all.
        array_fields: Paths of fields that hold several values.
        id_column: Name of a column that holds the id of documents; it need not be a field.
        lookup: How rows are looked up, by the keys of `connectors_core.lookup.LOOKUP_OPTIONS`.
        cache: A cache of one's own for what was asked for, in the place of ``lookup.cache``.
        requests: Bounds of requests, but for the repetitions, which ``lookup`` says. Where a table
            is cached as a whole, its time-out says for how long a request is repeated.

    Raises:
        ConfigurationError: Something given cannot be used, or does not fit together.
    """

    def __init__(
        self,
        connection: ElasticsearchConnection | str | Sequence[str],
        index: str | Sequence[str],
        *,
        query: Mapping[str, Any] | None = None,
        schema: pa.Schema | str | None = None,
        fields: Sequence[str] = (),
        array_fields: Sequence[str] = (),
        id_column: str | None = None,
        lookup: Mapping[str, Any] | None = None,
        cache: LookupCache | None = None,
        requests: LookupRequestConfiguration | None = None,
    ) -> None:
        self._requests = requests or LookupRequestConfiguration()
        self._documents = DocumentSelection.of(
            connection,
            index,
            query=query,
            schema=schema,
            fields=fields,
            array_fields=array_fields,
            retry_timeout=self._requests.timeout,
        )
        self._id_column = None if id_column is None else ID_COLUMN.parse(id_column)
        self._lookup = _LOOKUP.parse(lookup or {})
        self._cache = cache
        if cache is not None and "lookup.cache" in (lookup or {}):
            raise ConfigurationError(
                "a table has two caches",
                expected="a cache of your own, or lookup.cache",
                found="both",
                option="lookup.cache",
            )

    @classmethod
    def from_options(cls, mapping: Mapping[str, Any]) -> ElasticsearchTable:
        """Make a table from options by key, as Spark and SQL give them.

        Args:
            mapping: Values by key of `TABLE_OPTIONS`, strings or Python values.

        Raises:
            OptionError: A key is not known, is missing or has a value that cannot be used.
        """
        parsed = TABLE_OPTIONS.parse(mapping)
        return cls(
            ElasticsearchConnection.of(parsed),
            parsed[document_options.INDEX],
            query=parsed.get(document_options.QUERY),
            schema=parsed.get(document_options.SCHEMA),
            fields=parsed.values[document_options.FIELDS.key],
            array_fields=parsed.values[document_options.ARRAY_FIELDS.key],
            id_column=parsed.get(ID_COLUMN),
            lookup={key: value for key, value in mapping.items() if key in _LOOKUP},
        )

    def check_connection(self, timeout: float) -> None:
        """Ask the servers for an answer; see `SupportsConnectionCheck`. Driver."""
        check_reachable(self._documents.connection, timeout)

    def schema(self) -> pa.Schema:
        """Columns of the documents; the id first, where it is a column and no field.

        The server is asked for its mapping, once. Driver.

        Raises:
            ConfigurationError: There is no such index, or its mapping cannot be used.
        """
        schema = self._documents.layout.schema
        if self._id_column is None or self._id_column in schema.names:
            return schema
        return pa.schema([pa.field(self._id_column, pa.string(), nullable=False), *schema])

    def get_lookup_runtime_provider(self, context: LookupContext) -> LookupRuntimeProvider:
        """By key with or without a cache, or the whole table, as the options say. Driver.

        Raises:
            ConfigurationError: A key is not compared exactly by the server.
        """

        def function() -> ElasticsearchLookupFunction:
            return ElasticsearchLookupFunction(self._questions(context))

        if self._cache is not None:
            return PartialCachingLookupProvider(function(), self._cache, self._requests)
        return lookup_provider(
            self._lookup,
            function=function,
            async_function=lambda: ElasticsearchAsyncLookupFunction(self._questions(context)),
            source=lambda: self._source(context.schema),
            requests=self._requests,
        )

    def __repr__(self) -> str:
        return f"ElasticsearchTable({self._documents.connection!r}, {self._documents.index!r})"

    def _source(self, schema: pa.Schema) -> ElasticsearchSource:
        columns = [field for field in schema if field.name != self._id_column]
        has_id = self._id_column in schema.names
        return ElasticsearchSource(
            self._documents.connection,
            self._documents.index,
            query=self._documents.query,
            schema=pa.schema(columns),
            metadata_columns={"_id": str(self._id_column)} if has_id else {},
            retry_timeout=self._documents.retry_timeout,
        )

    def _questions(self, context: LookupContext) -> Questions:
        documents, layout = self._documents, self._documents.layout
        names = [field.name for field in context.schema]
        # An alias may have a filter, a data stream cannot be asked so.
        is_index = set(layout.mappings) == {documents.index}
        is_routed = layout.requires_routing
        formatted = tuple(path for path in layout.formatted if path.split(".")[0] in names)
        by_id = context.keys == (self._id_column,)
        return Questions(
            connection=documents.connection,
            index=documents.index,
            schema=context.schema,
            id_column=self._id_column,
            fields=tuple(self._field(layout, key) for key in context.keys),
            formatted=formatted,
            query=documents.query,
            gets=by_id and is_index and not is_routed and documents.query is None and not formatted,
            retry_timeout=documents.retry_timeout,
        )

    def _field(self, layout: Layout, key: str) -> str | None:
        """The field that a key is compared with."""
        if key == self._id_column:
            return None
        if key in layout.formatted:
            raise UnsupportedError(
                f"lookups by dates with a custom format are not supported: {key!r}",
                expected="a date of the default format",
                option="on",
                hint="cache the whole table: lookup.cache=FULL",
            )
        for path in (key, f"{key}.keyword"):
            if layout.kinds(path) <= _EXACT:
                return path
        kinds = ", ".join(sorted(str(kind) for kind in layout.kinds(key)))
        raise InvalidOptionError(
            f"documents cannot be looked up by {key!r}: the server does not compare it exactly",
            expected="a keyword field, or a field with a sub-field 'keyword'",
            found=kinds,
            option="on",
            hint="change the mapping, or cache the whole table: lookup.cache=FULL",
        )
