# SPDX-License-Identifier: Apache-2.0
"""The options of the source, declared once."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Final

from connector_elasticsearch.client import CONNECTION_OPTIONS
from connector_elasticsearch.client.options import SINCE
from connectors_core.ddl import SCHEMA as SCHEMA_TYPE
from connectors_core.options import (
    DURATION,
    JSON_MAP,
    Option,
    OptionSet,
    at_least,
    list_of,
    not_empty,
    positive,
)

__all__ = ["SOURCE_OPTIONS"]

DEFAULT_PAGE_SIZE: Final = 5000
DEFAULT_KEEP_ALIVE: Final = timedelta(minutes=5)
DEFAULT_RETRY_TIMEOUT: Final = timedelta(minutes=1)

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
METADATA_COLUMNS: Final = Option(
    "metadata.columns",
    dict,
    since=SINCE,
    aliases=("metadata-columns",),
    doc="Columns about the document: a map from `_id`, `_index`, `_routing`, `_version`, `_seq_no` "
    "or `_primary_term` to a column's name. They come last.",
)
SORT_FIELD: Final = Option(
    "source.sort-field",
    str,
    validator=not_empty,
    since=SINCE,
    doc="Field of the kind keyword, date or number whose values are different in each document and "
    "never change. With it, reading goes on in a new point in time when the server lost the first.",
)
LIMIT: Final = Option(
    "source.limit",
    int,
    validator=positive,
    since=SINCE,
    aliases=("limit",),
    doc="Most documents that the source gives in all; one reader reads them then. By default all.",
)
SLICES: Final = Option(
    "source.slices",
    int,
    validator=positive,
    since=SINCE,
    doc="Parts that the documents are read in, side by side. By default two for each reader.",
)
PAGE_SIZE: Final = Option(
    "source.page-size",
    int,
    default=DEFAULT_PAGE_SIZE,
    validator=positive,
    since=SINCE,
    aliases=("es.scroll.size", "page-size"),
    doc="Documents of an answer, and of a batch; at most the server's `index.max_result_window`, "
    "which is 10000 unless it was changed.",
)
KEEP_ALIVE: Final = Option(
    "source.keep-alive",
    DURATION,
    default=DEFAULT_KEEP_ALIVE,
    validator=at_least(timedelta(seconds=1)),
    since=SINCE,
    aliases=("es.scroll.keepalive", "keep-alive"),
    doc="How long the server keeps the point in time behind a request. The driver asks for more "
    "while a pipeline runs; it has to bridge the time that one stands still.",
)
RETRY_TIMEOUT: Final = Option(
    "source.retry-timeout",
    DURATION,
    default=DEFAULT_RETRY_TIMEOUT,
    validator=at_least(timedelta(0)),
    since=SINCE,
    doc="How long a request is repeated that the server does not answer, or refuses for now.",
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

SOURCE_OPTIONS: Final = DOCUMENT_OPTIONS.extended(
    METADATA_COLUMNS,
    SORT_FIELD,
    LIMIT,
    SLICES,
    PAGE_SIZE,
    KEEP_ALIVE,
    RETRY_TIMEOUT,
    scope="elasticsearch source",
)
"""The options of `ElasticsearchSource.from_options`."""
