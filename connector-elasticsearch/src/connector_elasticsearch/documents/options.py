# SPDX-License-Identifier: Apache-2.0
"""The selection of documents: settings that the source and the table share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

import pyarrow as pa

from connector_elasticsearch.client import ElasticsearchConnection
from connector_elasticsearch.client.options import SINCE
from connector_elasticsearch.documents.decoder import DocumentDecoder
from connector_elasticsearch.documents.mapping import pruned
from connector_elasticsearch.documents.selection import DocumentSelection
from connectors_core.errors import ConfigurationError
from connectors_core.options import JSON_MAP, Configured, Setting, list_of, not_empty, option, part
from connectors_core.schema import SCHEMA, SchemaLike

__all__ = ["ConnectedOptions", "DocumentOptions"]

#: Options of elasticsearch-hadoop without an equivalent here.
_OF_HADOOP = {
    "es.port": "give the port in 'hosts', as in https://host:9200",
    "es.net.ssl": "give the scheme in 'hosts', as in https://host:9200",
    "es.nodes.wan.only": "the connector only talks to the servers of 'hosts'; remove it",
    "es.nodes.discovery": "the connector only talks to the servers of 'hosts'; remove it",
    "es.index.auto.create": "the server's setting action.auto_create_index decides; remove it",
    "es.net.ssl.truststore.location": "use 'ssl.ca-file', a PEM file",
    "es.net.ssl.keystore.location": "client certificates are not supported; use a login",
}


class ConnectedOptions(Configured, elsewhere=_OF_HADOOP):
    """The servers to read from."""

    connection: Setting[ElasticsearchConnection, ElasticsearchConnection | str | Sequence[str]] = (
        part(
            ElasticsearchConnection,
            accept=ElasticsearchConnection.of,
            kw_only=False,
            doc="Connection to the servers, or their addresses.",
        )
    )


class DocumentOptions(
    ConnectedOptions,
    scope="Elasticsearch documents",
    since=SINCE,
    elsewhere={"es.read.field.exclude": "name the fields to read in 'fields'"},
):
    """Which documents to read, and from which servers."""

    index: Setting[tuple[str, ...], str | Sequence[str]] = option(
        "index",
        list_of(str),
        validator=not_empty,
        aliases=("es.resource", "es.resource.read", "indices"),
        doc="Indices, aliases, data streams, or patterns (`flights-*`).",
        kw_only=False,
    )
    query: Setting[dict[str, Any] | None, Mapping[str, Any] | None] = option(
        "query",
        JSON_MAP,
        aliases=("es.query",),
        doc="Query that selects the documents to read, in Elasticsearch's query language, e.g. "
        '`{"term": {"carrier": "UA"}}`. The default is all documents.',
        default=None,
    )
    declared_schema: Setting[pa.Schema | None, SchemaLike | None] = option(
        "schema",
        SCHEMA,
        doc="Columns, as a Spark SQL schema. By default, the mapping determines them.",
        default=None,
        alias="schema",
    )
    fields: Setting[tuple[str, ...], str | Sequence[str]] = option(
        "fields",
        list_of(str),
        default=(),
        aliases=("es.read.field.include",),
        doc="Columns or paths to read, e.g. `carrier, aircraft.maker`. The server sends no "
        "other columns. The default is all columns.",
    )
    array_fields: Setting[tuple[str, ...], str | Sequence[str]] = option(
        "array-fields",
        list_of(str),
        default=(),
        aliases=("es.read.field.as.array.include",),
        doc="Paths of fields that hold several values, which a mapping does not show.",
    )

    def selection(self, retry_timeout: timedelta) -> DocumentSelection:
        """Return the selection of documents.

        Args:
            retry_timeout: How long to retry a request after temporary errors.

        Raises:
            ConfigurationError: The settings contradict each other.
        """
        schema = self.declared_schema
        if schema is not None:
            if self.array_fields:
                raise ConfigurationError(
                    "the schema already determines which fields hold several values",
                    expected="`array-fields`, or a schema with ARRAY<...>",
                    found="both",
                    option="array-fields",
                )
            kept = pruned(schema, self.fields) if self.fields else schema
            DocumentDecoder(kept)  # refuses a type that cannot be decoded
        return DocumentSelection(
            connection=self.connection,
            index=",".join(self.index),
            query=self.query,
            schema=schema,
            fields=self.fields,
            array_fields=self.array_fields,
            retry_timeout=retry_timeout,
        )
