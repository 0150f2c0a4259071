# SPDX-License-Identifier: Apache-2.0
"""The options of the source, declared once. Keys are Flink's."""

from __future__ import annotations

import enum
import json
from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import Final

from connector_kafka.client.choosing import FetchApi
from connector_kafka.client.config import BOOTSTRAP_SERVERS_OF_TABLE as BOOTSTRAP_SERVERS
from connector_kafka.client.metadata import IsolationLevel, TopicPartition
from connector_kafka.fields import ValueFields
from connector_kafka.records import MAX_RECORD_BYTES
from connector_kafka.source.layout import METADATA
from connector_kafka.source.offsets import OffsetsInitializer
from connectors_core.annotations import public
from connectors_core.formats import format_options
from connectors_core.options import (
    MEMORY_SIZE,
    Option,
    OptionSet,
    OptionType,
    at_least,
    list_of,
    positive,
)
from connectors_core.schema.ddl import SCHEMA as SCHEMA_TYPE

__all__ = ["KAFKA_SOURCE_OPTIONS", "DataLossPolicy"]

_SINCE: Final = "2.0.0"
DEFAULT_DISCOVERY_INTERVAL: Final = timedelta(minutes=5)
DEFAULT_POLL_INTERVAL: Final = timedelta(milliseconds=50)
DEFAULT_BATCH_ROWS: Final = 65_536


@public
class DataLossPolicy(enum.Enum):
    """What happens where records are gone that should have been read."""

    FAIL = "fail"
    """The pipeline stops with a `DataLossError`."""
    EARLIEST = "earliest"
    """Reading goes on at the oldest record that is there."""
    LATEST = "latest"
    """Reading goes on behind the newest record that is there."""


class StartupMode(enum.Enum):
    """Where reading starts, by Flink's names."""

    EARLIEST = "earliest-offset"
    LATEST = "latest-offset"
    GROUP = "group-offsets"
    TIMESTAMP = "timestamp"
    SPECIFIC = "specific-offsets"


class BoundedMode(enum.Enum):
    """Where reading ends, by Flink's names."""

    UNBOUNDED = "unbounded"
    LATEST = "latest-offset"
    GROUP = "group-offsets"
    TIMESTAMP = "timestamp"
    SPECIFIC = "specific-offsets"


def parse_partitions(value: object) -> tuple[TopicPartition, ...]:
    """`topic:0, topic:1`; Spark's `{"topic": [0, 1]}` too, or pairs."""
    expected = "topics and numbers of partitions, such as 'flights:0, flights:1'"
    if isinstance(value, str):
        text = value.strip()
        if text.startswith("{"):
            value = [(topic, n) for topic, numbers in json.loads(text).items() for n in numbers]
        else:
            pairs = (part.strip().rpartition(":") for part in text.split(",") if part.strip())
            value = [(topic, number) for topic, _, number in pairs]
    if not isinstance(value, Iterable):
        raise ValueError(expected)
    try:
        found = tuple(TopicPartition(str(topic), int(number)) for topic, number in value)
    except (TypeError, ValueError):
        raise ValueError(expected) from None
    if not all(each.topic and each.partition >= 0 for each in found):
        raise ValueError(expected)
    return found


def _parse_offsets(value: object) -> dict[tuple[str, int], int | OffsetsInitializer]:
    """`topic:0=42; topic:1=latest`, or Spark's `{"topic": {"0": 42, "1": -1}}`."""
    expected = "offsets by partition, such as 'flights:0=42; flights:1=latest'"
    named: dict[str, int | OffsetsInitializer] = {
        "earliest": OffsetsInitializer.earliest(),
        "latest": OffsetsInitializer.latest(),
        "-2": OffsetsInitializer.earliest(),
        "-1": OffsetsInitializer.latest(),
    }
    if not isinstance(value, str):
        raise ValueError(expected)
    text = value.strip()
    pairs = []
    try:
        if text.startswith("{"):
            for topic, offsets in json.loads(text).items():
                pairs += [((topic, number), str(offset)) for number, offset in offsets.items()]
        else:
            for part in filter(str.strip, text.split(";")):
                partition, _, offset = part.strip().rpartition("=")
                topic, _, number = partition.strip().rpartition(":")
                pairs.append(((topic, number), offset.strip()))
        keys = parse_partitions([key for key, _ in pairs])
        return {
            (key.topic, key.partition): named[offset] if offset in named else int(offset)
            for key, (_, offset) in zip(keys, pairs, strict=True)
        }
    except (AttributeError, ValueError):
        raise ValueError(expected) from None


def _show_offsets(offsets: Mapping[tuple[str, int], int | OffsetsInitializer]) -> str:
    return "; ".join(f"{topic}:{n}={offset}" for (topic, n), offset in offsets.items())


_PARTITIONS: Final = OptionType(
    "list of partitions", parse_partitions, lambda value: ", ".join(map(str, value))
)
_OFFSETS: Final = OptionType("offsets", _parse_offsets, _show_offsets)

PROPERTIES: Final = Option(
    "properties.*",
    dict,
    since=_SINCE,
    secret=True,
    aliases=("kafka.*", "kafka.group.id", "kafka.security.protocol"),
    doc="Properties of Kafka's client by their own names, such as `properties.group.id` or "
    "`properties.security.protocol`.",
)
TOPIC: Final = Option(
    "topic",
    list_of(str),
    since=_SINCE,
    aliases=("topics", "subscribe"),
    doc="Topics to read. Exactly one of `topic`, `topic-pattern` and `partitions` is given.",
)
TOPIC_PATTERN: Final = Option(
    "topic-pattern",
    str,
    since=_SINCE,
    aliases=("subscribepattern", "topics-pattern", "topic.pattern"),
    doc="Regular expression that whole names of topics match; internal topics never do.",
)
PARTITIONS: Final = Option(
    "partitions",
    _PARTITIONS,
    since=_SINCE,
    aliases=("assign", "topic-partitions"),
    doc="Single partitions, as `topic:0, topic:1`.",
)
STARTUP_MODE: Final = Option(
    "scan.startup.mode",
    StartupMode,
    default=StartupMode.EARLIEST,
    since=_SINCE,
    aliases=("startingoffsets", "starting-offsets", "startup.mode", "auto.offset.reset"),
    doc="Where reading starts in partitions that are there at the start; those found later are "
    "read from the earliest offset.",
)
STARTUP_TIMESTAMP: Final = Option(
    "scan.startup.timestamp-millis",
    int,
    since=_SINCE,
    aliases=("startingtimestamp", "startingoffsetsbytimestamp"),
    doc="For `timestamp`: milliseconds since the epoch.",
)
STARTUP_OFFSETS: Final = Option(
    "scan.startup.specific-offsets",
    _OFFSETS,
    since=_SINCE,
    aliases=("specific-offsets",),
    doc="For `specific-offsets`: `topic:0=42; topic:1=latest`; other partitions from the earliest.",
)
BOUNDED_MODE: Final = Option(
    "scan.bounded.mode",
    BoundedMode,
    default=BoundedMode.UNBOUNDED,
    since=_SINCE,
    aliases=("endingoffsets", "ending-offsets", "bounded.mode"),
    doc="Where reading ends; makes the source bounded.",
)
BOUNDED_TIMESTAMP: Final = Option(
    "scan.bounded.timestamp-millis",
    int,
    since=_SINCE,
    aliases=("endingtimestamp", "endingoffsetsbytimestamp"),
    doc="For `timestamp`: milliseconds since the epoch.",
)
BOUNDED_OFFSETS: Final = Option(
    "scan.bounded.specific-offsets",
    _OFFSETS,
    since=_SINCE,
    doc="For `specific-offsets`: the first offset of each partition that is not read.",
)
BOUNDED_STREAM: Final = Option(
    "scan.bounded.stream",
    bool,
    default=False,
    since=_SINCE,
    aliases=("setunbounded",),
    doc="With an end: read it as a stream that ends, not as a bounded source.",
)
DISCOVERY_INTERVAL: Final = Option(
    "scan.topic-partition-discovery.interval",
    timedelta,
    default=DEFAULT_DISCOVERY_INTERVAL,
    validator=at_least(timedelta(0)),
    since=_SINCE,
    aliases=("partition.discovery.interval.ms", "partition-discovery.interval"),
    doc="Time between looks for new partitions; 0 looks once. Where reading ends it looks once.",
)
POLL_INTERVAL: Final = Option(
    "scan.poll-interval",
    timedelta,
    default=DEFAULT_POLL_INTERVAL,
    validator=positive,
    since=_SINCE,
    aliases=("kafkaconsumer.polltimeoutms", "poll.interval"),
    doc="Time between looks for new records.",
)
ISOLATION_LEVEL: Final = Option(
    "scan.isolation-level",
    IsolationLevel,
    default=IsolationLevel.READ_UNCOMMITTED,
    since=_SINCE,
    aliases=("isolation.level", "kafka.isolation.level", "properties.isolation.level"),
    doc="With `read-committed`, records of transactions that are open or aborted are not read.",
)
ON_DATA_LOSS: Final = Option(
    "on-data-loss",
    DataLossPolicy,
    default=DataLossPolicy.FAIL,
    since=_SINCE,
    aliases=("failondataloss", "data-loss"),
    doc="Where records are gone that should have been read: stop, or go on at the earliest or "
    "behind the latest that are there. Losses are counted and logged.",
)
COMMIT_OFFSETS: Final = Option(
    "commit.offsets.on.checkpoint",
    bool,
    default=True,
    since=_SINCE,
    aliases=("commit-offsets", "enable.auto.commit"),
    doc="Commit the offsets of `properties.group.id`, where it is set, once an epoch is committed; "
    "for others to see, never to go on from.",
)
SCHEMA: Final = Option(
    "schema",
    SCHEMA_TYPE,
    since=_SINCE,
    doc="Columns that keys and values are decoded into, in the words of Spark SQL.",
)
KEY_FIELDS: Final = Option(
    "key.fields",
    list_of(str),
    default=(),
    since=_SINCE,
    doc="Columns of `schema` that keys hold, with their prefix.",
)
KEY_FIELDS_PREFIX: Final = Option(
    "key.fields-prefix",
    str,
    default="",
    since=_SINCE,
    doc="Prefix of `key.fields` that the fields within keys do not have.",
)
VALUE_FIELDS: Final = Option(
    "value.fields-include",
    ValueFields,
    default=ValueFields.ALL,
    since=_SINCE,
    doc="Whether values hold the columns of keys too: then those of the values are given.",
)
METADATA_COLUMNS: Final = Option(
    "metadata.columns",
    dict,
    since=_SINCE,
    aliases=("includeheaders", "metadata-columns"),
    doc="Columns about the record: a map from "
    + ", ".join(f"`{name}`" for name in METADATA.names)
    + " to a column's name. By default all but the headers where nothing is decoded, none else.",
)
BATCH_ROWS: Final = Option(
    "source.batch-rows",
    int,
    default=DEFAULT_BATCH_ROWS,
    validator=positive,
    since=_SINCE,
    aliases=("max.poll.records", "batch-size"),
    doc="Most rows of a batch.",
)

MAX_RECORD_SIZE: Final = Option(
    "source.max-record-size",
    MEMORY_SIZE,
    default=MAX_RECORD_BYTES,
    validator=positive,
    since="3.0.0",
    doc="Largest record that is decompressed, whatever its batch says. A larger one is an error, "
    "as it may take more memory than a task has.",
)

FETCH_API: Final = Option(
    "source.fetch-api",
    FetchApi,
    default=FetchApi.AUTO,
    since=_SINCE,
    doc="`public` reads by the client's public API, slower by far; `auto` does so only where the "
    "client's inside is not as expected.",
)

KAFKA_SOURCE_OPTIONS: Final = OptionSet(
    BOOTSTRAP_SERVERS,
    TOPIC,
    TOPIC_PATTERN,
    PARTITIONS,
    STARTUP_MODE,
    STARTUP_TIMESTAMP,
    STARTUP_OFFSETS,
    BOUNDED_MODE,
    BOUNDED_TIMESTAMP,
    BOUNDED_OFFSETS,
    BOUNDED_STREAM,
    DISCOVERY_INTERVAL,
    POLL_INTERVAL,
    ISOLATION_LEVEL,
    ON_DATA_LOSS,
    COMMIT_OFFSETS,
    SCHEMA,
    KEY_FIELDS,
    KEY_FIELDS_PREFIX,
    VALUE_FIELDS,
    METADATA_COLUMNS,
    BATCH_ROWS,
    MAX_RECORD_SIZE,
    FETCH_API,
    PROPERTIES,
    *format_options("value."),
    *format_options("key."),
    scope="Kafka source",
)
