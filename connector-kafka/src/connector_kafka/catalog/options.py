# SPDX-License-Identifier: Apache-2.0
"""The options of a catalog, and those of `CREATE TABLE` that become a topic's own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from enum import StrEnum
from typing import Any, Final, Literal

from connector_kafka.client.options import ClientOptions
from connector_kafka.source.deserialization import METADATA_COLUMNS
from connectors_core.errors import MissingOptionError
from connectors_core.formats import HttpSchemaRegistry
from connectors_core.options import (
    DURATION,
    MEMORY_SIZE,
    Configured,
    Options,
    Setting,
    option,
    option_like,
    part,
    positive,
)

__all__ = ["KafkaCatalogOptions", "SampleOptions", "SampleStart", "TopicOptions"]

_SINCE: Final = "3.0.0"
_REGISTRY: Final = tuple(option_like(each, required=False) for each in HttpSchemaRegistry.OPTIONS)


class SampleStart(StrEnum):
    """The records of each partition that a sample contains."""

    LATEST = "latest"
    """The newest records."""
    EARLIEST = "earliest"
    """The oldest records."""


class SampleOptions(Configured, since=_SINCE):
    """The records from which columns are inferred."""

    start: Setting[SampleStart, SampleStart | Literal["latest", "earliest"]] = option(
        "sample.from",
        SampleStart,
        default=SampleStart.LATEST,
        doc="Whether the columns of a topic are inferred from its newest or oldest records.",
    )
    records: Setting[int] = option(
        "sample.records",
        int,
        default=1000,
        unit="records",
        validator=positive,
        doc="Maximum number of records of each partition in a sample.",
    )
    size: Setting[int, int | str] = option(
        "sample.size",
        MEMORY_SIZE,
        default=8 << 20,
        validator=positive,
        doc="Maximum size of a sample, of which each partition has an equal share. The first of "
        "its newest or oldest records count, at least one.",
    )
    timeout: Setting[timedelta, timedelta | str] = option(
        "sample.timeout",
        DURATION,
        default=timedelta(seconds=10),
        validator=positive,
        doc="Time after which a sample ends with the records that have arrived.",
    )


def _registry(options: Options) -> HttpSchemaRegistry | None:
    url, *_ = _REGISTRY
    if options.is_given(url):
        return HttpSchemaRegistry.from_parsed(options)
    if any(map(options.is_given, _REGISTRY)):
        raise MissingOptionError(url.key, doc=url.doc)
    return None


class KafkaCatalogOptions(ClientOptions, scope="Kafka catalog", since=_SINCE):
    """The settings of `KafkaCatalog`."""

    registry: Setting[HttpSchemaRegistry | None] = part(
        HttpSchemaRegistry,
        *_REGISTRY,
        build=_registry,
        default=None,
        doc="Registry of the schemas of topics.",
    )
    sample: Setting[SampleOptions, SampleOptions | None] = part(
        SampleOptions, default=SampleOptions, doc="The records from which columns are inferred."
    )
    metadata_columns: Setting[dict[str, str], Mapping[str, str] | Sequence[str] | None] = option(
        "metadata.columns",
        METADATA_COLUMNS,
        default={name: name for name in ("partition", "offset", "timestamp")},
        doc="Metadata columns of tables, as a map from the names of the source's option to names "
        "of columns. A table lacks those whose names its fields have.",
    )
    upsert: Setting[bool] = option(
        "compacted-topics.upsert",
        bool,
        default=False,
        doc="Whether a compacted topic with keys becomes an `upsert-kafka` table, whose rows "
        "replace each other by key.",
    )
    drop_topics: Setting[bool] = option(
        "drop-topics",
        bool,
        default=False,
        doc="Whether `DROP TABLE` deletes the topic with its records. Otherwise, it is refused.",
    )


class TopicOptions(Configured, scope="Kafka topic", since=_SINCE):
    """The options of `CREATE TABLE` in a catalog that become a topic's own."""

    partitions: Setting[int | None] = option(
        "partitions",
        int,
        default=None,
        validator=positive,
        doc="Number of partitions. The default is that of the brokers.",
    )
    replication: Setting[int | None] = option(
        "replication-factor",
        int,
        default=None,
        validator=positive,
        doc="Number of replicas. The default is that of the brokers.",
    )
    settings: Setting[dict[str, Any], Mapping[str, Any] | None] = option(
        "topic-config.*",
        dict,
        default=None,
        doc="Settings of the topic by their own names, such as `topic-config.retention.ms`.",
    )
