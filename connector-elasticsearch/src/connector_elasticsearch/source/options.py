# SPDX-License-Identifier: Apache-2.0
"""The options of the source, declared once."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from connector_elasticsearch.client.options import SINCE
from connector_elasticsearch.documents.options import DOCUMENT_OPTIONS
from connectors_core.options import DURATION, Option, at_least, not_empty, positive

__all__ = ["SOURCE_OPTIONS"]

DEFAULT_PAGE_SIZE: Final = 5000
DEFAULT_KEEP_ALIVE: Final = timedelta(minutes=5)
DEFAULT_RETRY_TIMEOUT: Final = timedelta(minutes=1)

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
