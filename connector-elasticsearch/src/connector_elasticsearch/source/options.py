# SPDX-License-Identifier: Apache-2.0
"""The settings of the source."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

from connector_elasticsearch.client.options import SINCE
from connector_elasticsearch.documents import DocumentMetadata, DocumentOptions
from connectors_core.options import (
    DURATION,
    JSON_MAP,
    OptionType,
    Setting,
    at_least,
    not_empty,
    option,
    positive,
)

__all__ = ["ElasticsearchSourceOptions"]


def _metadata_columns(value: Any) -> tuple[tuple[DocumentMetadata, str], ...]:
    is_map = isinstance(value, Mapping | str)
    names = JSON_MAP.parse(value) if is_map else {name: name for name in value}
    try:
        return tuple((DocumentMetadata(column), name) for column, name in names.items())
    except ValueError:
        known = ", ".join(each.value for each in DocumentMetadata)
        raise ValueError(f"a map from {known} to names") from None


class ElasticsearchSourceOptions(
    DocumentOptions,
    scope="Elasticsearch source",
    since=SINCE,
    elsewhere={"es.input.max.docs.per.partition": "use 'source.slices'"},
):
    """What to read and how: the settings of `ElasticsearchSource`."""

    metadata_columns: Setting[
        tuple[tuple[DocumentMetadata, str], ...], Mapping[str, str] | Sequence[str] | None
    ] = option(
        "metadata.columns",
        OptionType("map", _metadata_columns),
        aliases=("metadata-columns",),
        doc="Metadata columns: a map from `_id`, `_index`, `_routing`, `_version`, `_seq_no`, or "
        "`_primary_term` to a column name. They come last.",
        default=(),
    )
    sort_field: Setting[str | None] = option(
        "source.sort-field",
        str,
        validator=not_empty,
        doc="Keyword, date, or numeric field whose value is unique in each document and never "
        "changes. With it, the reader continues in a new point in time if the server loses the "
        "first one.",
        default=None,
    )
    limit: Setting[int | None] = option(
        "source.limit",
        int,
        unit="documents",
        validator=positive,
        aliases=("limit",),
        doc="Maximum number of documents to read in all, with a single reader. The default is all "
        "documents.",
        default=None,
    )
    slices: Setting[int | None] = option(
        "source.slices",
        int,
        validator=positive,
        doc="Number of slices of the documents, which are read in parallel. The default is two "
        "for each reader.",
        default=None,
    )
    page_size: Setting[int] = option(
        "source.page-size",
        int,
        unit="documents",
        default=5000,
        validator=positive,
        aliases=("es.scroll.size", "page-size"),
        doc="Number of documents in a response and in a batch, at most the server's "
        "`index.max_result_window`, which is 10000 by default.",
    )
    keep_alive: Setting[timedelta, timedelta | str] = option(
        "source.keep-alive",
        DURATION,
        default=timedelta(minutes=5),
        validator=at_least(timedelta(seconds=1)),
        aliases=("es.scroll.keepalive", "keep-alive"),
        doc="How long the server keeps the point in time after a request. The driver extends it "
        "while a pipeline runs. It must cover the time that a pipeline is down.",
    )
    retry_timeout: Setting[timedelta, timedelta | str] = option(
        "source.retry-timeout",
        DURATION,
        default=timedelta(minutes=1),
        validator=at_least(timedelta(0)),
        doc="How long to retry a request that the server does not answer, or temporarily rejects.",
    )
