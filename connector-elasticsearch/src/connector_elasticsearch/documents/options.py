# SPDX-License-Identifier: Apache-2.0
"""Options about which documents are read, declared once for source and table."""

from __future__ import annotations

from typing import Any, Final

from connector_elasticsearch.client import CONNECTION_OPTIONS
from connector_elasticsearch.client.options import SINCE
from connectors_core.options import JSON_MAP, Option, OptionSet, list_of, not_empty
from connectors_core.schema.ddl import SCHEMA as SCHEMA_TYPE

__all__ = ["ARRAY_FIELDS", "DOCUMENT_OPTIONS", "FIELDS", "INDEX", "QUERY", "SCHEMA"]

INDEX: Final = Option(
    "index",
    list_of(str),
    required=True,
    validator=not_empty,
    since=SINCE,
    aliases=("es.resource", "es.resource.read", "indices"),
    doc="Indices, aliases, data streams or patterns (`flights-*`).",
)
QUERY: Final[Option[dict[str, Any]]] = Option(
    "query",
    JSON_MAP,
    since=SINCE,
    aliases=("es.query",),
    doc='Documents that are read, in Elasticsearch\'s query language, as `{"term": {"carrier": '
    '"UA"}}`. By default all.',
)
SCHEMA: Final = Option(
    "schema",
    SCHEMA_TYPE,
    since=SINCE,
    doc="Columns, in the words of Spark SQL. By default they follow from the mapping.",
)
FIELDS: Final = Option(
    "fields",
    list_of(str),
    default=(),
    since=SINCE,
    aliases=("es.read.field.include",),
    doc="Columns to read, or paths into them, as `carrier, aircraft.maker`; no others are sent. By "
    "default all.",
)
ARRAY_FIELDS: Final = Option(
    "array-fields",
    list_of(str),
    default=(),
    since=SINCE,
    aliases=("es.read.field.as.array.include",),
    doc="Paths of fields that hold several values, which no mapping tells.",
)

DOCUMENT_OPTIONS: Final = OptionSet(
    *CONNECTION_OPTIONS,
    INDEX,
    QUERY,
    SCHEMA,
    FIELDS,
    ARRAY_FIELDS,
    scope="elasticsearch documents",
)
"""What is read of which servers; a part of the options of the source and of the table."""
