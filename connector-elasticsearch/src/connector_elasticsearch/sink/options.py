# SPDX-License-Identifier: Apache-2.0
"""The settings of the sink."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from enum import StrEnum
from typing import Any, Final, Literal, TypeVar

from connector_elasticsearch.client.options import SINCE
from connector_elasticsearch.documents import ConnectedOptions
from connector_elasticsearch.sink.operations import VersionType, WriteOperation
from connector_elasticsearch.sink.outcomes import MERGE_OBJECTS
from connector_elasticsearch.sink.writer import Refresh
from connectors_core.options import (
    Option,
    Options,
    Setting,
    list_of,
    not_empty,
    option,
    option_like,
    part,
    positive,
)
from connectors_core.sink import (
    SINK_PARALLELISM,
    AsyncSinkWriterConfiguration,
    DeliveryGuarantee,
)

__all__ = ["BULK_FLUSH", "BackoffStrategy", "ElasticsearchSinkOptions"]

T = TypeVar("T")

BULK_FLUSH: Final = AsyncSinkWriterConfiguration(
    max_batch_size=10_000,
    max_in_flight_requests=2,
    max_buffered_requests=40_000,
    max_batch_size_in_bytes=5 << 20,
    max_record_size_in_bytes=5 << 20,
    max_time_in_buffer=timedelta(seconds=1),
)
"""The default limits of bulk requests."""


class BackoffStrategy(StrEnum):
    """How the pause before a retry grows."""

    EXPONENTIAL = "exponential"
    """Double it each time."""
    CONSTANT = "constant"
    """Keep it constant."""


def _only_at_least_once(guarantee: DeliveryGuarantee) -> str | None:
    if guarantee is DeliveryGuarantee.AT_LEAST_ONCE:
        return None
    return (
        "at-least-once: a bulk request cannot be rolled back; with document-id.columns, a "
        "document that is written again replaces itself"
    )


_Limits = AsyncSinkWriterConfiguration


def _limit(limit: Setting[T, Any], key: str, **changes: Any) -> Option[T]:
    """Return the option for a limit of the core, with the default of `BULK_FLUSH`."""
    default = getattr(BULK_FLUSH, limit.attribute)
    return option_like(limit, key, **{"default": default, "since": SINCE, **changes})


_MAX_ACTIONS: Final = _limit(
    _Limits.max_batch_size,
    "sink.bulk-flush.max-actions",
    unit="documents",
    aliases=("es.batch.size.entries",),
    doc="Maximum number of documents in a request.",
)
_MAX_SIZE: Final = _limit(
    _Limits.max_batch_size_in_bytes,
    "sink.bulk-flush.max-size",
    aliases=("es.batch.size.bytes",),
    doc="Maximum size of a request. A single larger document is a bad record.",
)
_INTERVAL: Final = _limit(
    _Limits.max_time_in_buffer,
    "sink.bulk-flush.interval",
    validator=positive,
    doc="How long a document waits for its request to fill.",
)
_MAX_IN_FLIGHT: Final = _limit(
    _Limits.max_in_flight_requests, "sink.bulk-flush.max-in-flight-requests", since="3.0.0"
)
_MAX_BUFFERED: Final = _limit(
    _Limits.max_buffered_requests,
    "sink.bulk-flush.max-buffered-actions",
    unit="documents",
    default=None,
    doc="Maximum number of documents in a task, including those in flight. The default is the "
    "size of four requests.",
)
_BACKOFF_STRATEGY: Final = Option(
    "sink.bulk-flush.backoff.strategy",
    BackoffStrategy,
    default=BackoffStrategy.EXPONENTIAL,
    doc="How the pause before a retry of rejected documents grows. Each pause is random, up to "
    "this length.",
    since=SINCE,
)
_BACKOFF_DELAY: Final = _limit(
    _Limits.initial_backoff,
    "sink.bulk-flush.backoff.delay",
    aliases=("es.batch.write.retry.wait",),
    doc="First pause.",
)
_BACKOFF_MAX_DELAY: Final = _limit(
    _Limits.max_backoff, "sink.bulk-flush.backoff.max-delay", doc="Longest pause."
)
_BACKOFF_TIMEOUT: Final = _limit(
    _Limits.retry_timeout,
    "sink.bulk-flush.backoff.timeout",
    validator=positive,
    aliases=("es.batch.write.retry.count",),
    doc="How long to retry a document before the task fails.",
)
_RATE_LIMITING: Final = _limit(
    _Limits.rate_limiting,
    "sink.bulk-flush.rate-limiting",
    since="3.0.0",
    doc="Request rate while the server rejects documents: reduced until it accepts them "
    "(`congestion-control`), or unchanged (`fixed`).",
)


def _bulk_flush(parsed: Options) -> AsyncSinkWriterConfiguration:
    """Return the limits from the options.

    Raises:
        ConfigurationError: The limits contradict each other.
    """
    most, size, delay = parsed[_MAX_ACTIONS], parsed[_MAX_SIZE], parsed[_BACKOFF_DELAY]
    longest = delay
    if parsed[_BACKOFF_STRATEGY] is BackoffStrategy.EXPONENTIAL:
        longest = max(delay, parsed[_BACKOFF_MAX_DELAY])
    return BULK_FLUSH.replaced(
        max_batch_size=most,
        max_in_flight_requests=parsed[_MAX_IN_FLIGHT],
        max_buffered_requests=parsed.get(_MAX_BUFFERED) or 4 * most,
        max_batch_size_in_bytes=size,
        max_record_size_in_bytes=size,
        max_time_in_buffer=parsed[_INTERVAL],
        request_timeout=parsed.values["connection.request-timeout"],
        retry_timeout=parsed[_BACKOFF_TIMEOUT],
        initial_backoff=delay,
        max_backoff=longest,
        rate_limiting=parsed[_RATE_LIMITING],
    )


_RETRIES: Final = "use 'sink.bulk-flush.backoff.timeout', the time limit of retries"


class ElasticsearchSinkOptions(
    ConnectedOptions,
    scope="Elasticsearch sink",
    since=SINCE,
    elsewhere={
        "es.mapping.id.field": "use 'document-id.columns'",
        "es.batch.write.retry.count": _RETRIES,
        "pipeline": "use 'ingest-pipeline'",
        "sink.bulk-flush.max-in-flight-actions": "use 'sink.bulk-flush.max-in-flight-requests'",
        "sink.bulk-flush.backoff.max-retries": _RETRIES,
        "failure-handler": "the record policy of the pipeline handles bad documents; pass a "
        "record_policy to sink_to",
        "sink.flush-on-checkpoint": "an epoch always ends when all its documents are written; "
        "remove it",
        "document-type": "Elasticsearch has had no types since version 8; remove it",
        "format": "documents are always JSON; remove it",
    },
    former={"pipeline": "use ingest_pipeline"},
):
    """What to write and how: the settings of `ElasticsearchSink`."""

    index: Setting[str] = option(
        "index",
        str,
        validator=not_empty,
        aliases=("es.resource", "es.resource.write", "resource"),
        doc="Index, alias, or data stream. A name can contain columns, as in `{to}` or "
        "`flights-{to}`, and dates with a format, as in `flights-{at|yyyy-MM-dd}`. "
        "`{now()|yyyy-MM-dd}` is the time of writing. All times are in UTC.",
        kw_only=False,
    )
    operation: Setting[
        WriteOperation, WriteOperation | Literal["index", "create", "update", "upsert"]
    ] = option(
        "sink.operation",
        WriteOperation,
        default=WriteOperation.INDEX,
        aliases=("es.write.operation", "op-type"),
        doc="Operation for a row: write the document, create it, update it, or update or create "
        "it. A data stream accepts only `create`.",
    )
    id_columns: Setting[tuple[str, ...], str | Sequence[str]] = option(
        "document-id.columns",
        list_of(str),
        aliases=("es.mapping.id", "primary-key"),
        doc="Columns of the document ID. Without this option, the server assigns an ID.",
        default=(),
        validator=not_empty,
    )
    id_delimiter: Setting[str] = option(
        "document-id.key-delimiter",
        str,
        default="_",
        doc="Separator between the columns of an ID.",
    )
    routing_column: Setting[str | None] = option(
        "routing.column",
        str,
        aliases=("es.mapping.routing",),
        doc="Column that determines the shard of a document. If it is null, the ID determines "
        "the shard.",
        default=None,
    )
    version_column: Setting[str | None] = option(
        "version.column",
        str,
        aliases=("es.mapping.version",),
        doc="Column of a document's version, a whole number from 0. An older version never "
        "replaces a newer one.",
        default=None,
    )
    version_type: Setting[VersionType, VersionType | Literal["external", "external-gte"]] = option(
        "version.type",
        VersionType,
        default=VersionType.EXTERNAL_GTE,
        aliases=("es.mapping.version.type",),
        doc="Whether a document replaces another one of the same version (`external-gte`) or not.",
    )
    exclude_columns: Setting[tuple[str, ...], str | Sequence[str]] = option(
        "document.exclude-columns",
        list_of(str),
        aliases=("es.mapping.exclude",),
        doc="Columns that are not part of the document, such as the version.",
        default=(),
    )
    ignore_null_fields: Setting[bool] = option(
        "document.ignore-null-fields",
        bool,
        default=False,
        aliases=("es.spark.dataframe.write.null",),
        doc="Omit null fields. An update then leaves them unchanged.",
    )
    merge_objects: Setting[bool] = option(
        MERGE_OBJECTS,
        bool,
        default=False,
        since="3.1.0",
        doc="Whether `update` and `upsert` merge maps and structs into the document's objects, "
        "whose other keys stay. By default, each column replaces its field. For rows with maps or "
        "structs, this needs a server that runs Painless scripts.",
    )
    ingest_pipeline: Setting[str | None] = option(
        "ingest-pipeline",
        str,
        validator=not_empty,
        since="3.0.0",
        aliases=("es.ingest.pipeline",),
        doc="Ingest pipeline of the server for the documents.",
        default=None,
    )
    refresh: Setting[Refresh, Refresh | Literal["false", "wait-for"]] = option(
        "sink.refresh",
        Refresh,
        default=Refresh.FALSE,
        aliases=("es.batch.write.refresh",),
        doc="Whether an epoch ends only when its documents are visible to searches.",
    )
    bulk_flush: Setting[AsyncSinkWriterConfiguration] = part(
        AsyncSinkWriterConfiguration,
        _MAX_ACTIONS,
        _MAX_SIZE,
        _INTERVAL,
        _MAX_IN_FLIGHT,
        _MAX_BUFFERED,
        _BACKOFF_STRATEGY,
        _BACKOFF_DELAY,
        _BACKOFF_MAX_DELAY,
        _BACKOFF_TIMEOUT,
        _RATE_LIMITING,
        build=_bulk_flush,
        default=BULK_FLUSH,
        doc="Limits of bulk requests.",
    )
    delivery_guarantee: Setting[DeliveryGuarantee, DeliveryGuarantee | Literal["at-least-once"]] = (
        option(
            "sink.delivery-guarantee",
            DeliveryGuarantee,
            default=DeliveryGuarantee.AT_LEAST_ONCE,
            validator=_only_at_least_once,
            doc="Delivery guarantee. The sink only supports at-least-once; with IDs and versions, "
            "the result is the same as exactly once.",
        )
    )
    parallelism: Setting[int | None] = option_like(SINK_PARALLELISM)
