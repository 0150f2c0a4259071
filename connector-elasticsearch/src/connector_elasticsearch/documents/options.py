# SPDX-License-Identifier: Apache-2.0
"""Which documents are read: the settings that source and table share."""

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
from connectors_core.schema import SCHEMA

__all__ = ["ConnectedOptions", "DocumentOptions"]

#: Options of elasticsearch-hadoop without an equal here.
_OF_HADOOP = {
    "es.port": "give the port in 'hosts', as in https://host:9200",
    "es.net.ssl": "give the scheme in 'hosts', as in https://host:9200",
    "es.nodes.wan.only": "only the servers of 'hosts' are talked to; remove it",
    "es.nodes.discovery": "only the servers of 'hosts' are talked to; remove it",
    "es.index.auto.create": "the server's setting action.auto_create_index decides; remove it",
    "es.mapping.id.field": "use 'document-id.columns'",
    "es.batch.write.retry.count": "use 'sink.bulk-flush.backoff.timeout', the time of retries",
    "es.read.field.exclude": "name the fields to read in 'fields'",
    "es.input.max.docs.per.partition": "use 'source.slices'",
    "es.net.ssl.truststore.location": "use 'ssl.ca-file', a PEM file",
    "es.net.ssl.keystore.location": "client certificates are not supported; use a login",
}


class ConnectedOptions(Configured, elsewhere=_OF_HADOOP):
    """Which servers are asked."""

    connection: Setting[ElasticsearchConnection, ElasticsearchConnection | str | Sequence[str]] = (
        part(
            ElasticsearchConnection,
            accept=ElasticsearchConnection.of,
            kw_only=False,
            doc="How the servers are reached, or their addresses.",
        )
    )


class DocumentOptions(ConnectedOptions, scope="elasticsearch documents"):
    """What is read of which servers."""

    index: Setting[tuple[str, ...], str | Sequence[str]] = option(
        "index",
        list_of(str),
        validator=not_empty,
        since=SINCE,
        aliases=("es.resource", "es.resource.read", "indices"),
        doc="Indices, aliases, data streams or patterns (`flights-*`).",
        kw_only=False,
    )
    query: Setting[dict[str, Any] | None, Mapping[str, Any] | None] = option(
        "query",
        JSON_MAP,
        since=SINCE,
        aliases=("es.query",),
        doc='Documents that are read, in Elasticsearch\'s query language, as `{"term": {"carrier": '
        '"UA"}}`. By default all.',
        default=None,
    )
    declared_schema: Setting[pa.Schema | None, Any] = option(
        "schema",
        SCHEMA,
        since=SINCE,
        doc="Columns, in the words of Spark SQL. By default they follow from the mapping.",
        default=None,
        alias="schema",
    )
    fields: Setting[tuple[str, ...], str | Sequence[str]] = option(
        "fields",
        list_of(str),
        default=(),
        since=SINCE,
        aliases=("es.read.field.include",),
        doc="Columns to read, or paths into them, as `carrier, aircraft.maker`; no others are "
        "sent. By default all.",
    )
    array_fields: Setting[tuple[str, ...], str | Sequence[str]] = option(
        "array-fields",
        list_of(str),
        default=(),
        since=SINCE,
        aliases=("es.read.field.as.array.include",),
        doc="Paths of fields that hold several values, which no mapping tells.",
    )

    def selection(self, retry_timeout: timedelta) -> DocumentSelection:
        """What is read.

        Args:
            retry_timeout: How long a request is repeated that may succeed later.

        Raises:
            ConfigurationError: The settings do not fit together.
        """
        schema = self.declared_schema
        if schema is not None:
            if self.array_fields:
                raise ConfigurationError(
                    "the schema already says which fields hold several values",
                    expected="`array-fields`, or a schema with ARRAY<...>",
                    found="both",
                    option="array-fields",
                )
            kept = pruned(schema, self.fields) if self.fields else schema
            DocumentDecoder(kept)  # so that a type that cannot be read is refused here
        return DocumentSelection(
            connection=self.connection,
            index=",".join(self.index),
            query=self.query,
            schema=schema,
            fields=self.fields,
            array_fields=self.array_fields,
            retry_timeout=retry_timeout,
        )
