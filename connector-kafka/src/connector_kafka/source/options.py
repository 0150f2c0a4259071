# SPDX-License-Identifier: Apache-2.0
"""The settings of the source. The keys are Flink's."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Any, Final, Literal

from connector_kafka.client.config import (
    AUTO_OFFSET_RESET,
    CONSUMER_PROPERTIES,
    GROUP_ID,
    ISOLATION_LEVEL,
    ClientConfig,
)
from connector_kafka.client.fetch_api import FetchApi
from connector_kafka.client.fetcher import FetchSettings
from connector_kafka.client.metadata import IsolationLevel, TopicPartition
from connector_kafka.client.options import ClientOptions
from connector_kafka.records import MAX_RECORD_BYTES
from connector_kafka.source.deserialization import KafkaRecordDeserializationSchema
from connector_kafka.source.discovery import EnumerationSettings
from connector_kafka.source.layout import RecordLayout
from connector_kafka.source.offsets import OffsetsInitializer
from connector_kafka.source.places import OFFSETS, PARTITIONS, Edge, offsets_of
from connector_kafka.source.subscription import Subscription
from connectors_core.errors import InvalidOptionError
from connectors_core.formats import FORMAT_OPTIONS
from connectors_core.options import (
    DURATION,
    MEMORY_SIZE,
    Configured,
    Option,
    Setting,
    at_least,
    list_of,
    option,
    option_like,
    optional,
    part,
    positive,
)
from connectors_core.source import SOURCE_BATCH_ROWS

__all__ = ["TOPICS", "DataLossPolicy", "KafkaSourceOptions", "ReadingOptions"]

_SINCE: Final = "2.0.0"
_BATCH_BYTES: Final = 32 << 20
TOPICS: Final = list_of(str, separator=",;")
"""The names of topics."""


class DataLossPolicy(enum.Enum):
    """The reaction to lost records that should have been read."""

    FAIL = "fail"
    """The pipeline stops with a `DataLossError`."""
    EARLIEST = "earliest"
    """Reading continues at the oldest available record."""
    LATEST = "latest"
    """Reading continues after the newest available record."""


_STARTUP_MODE: Final = Option(
    "scan.startup.mode",
    Edge,
    default=Edge.EARLIEST,
    choices=(Edge.EARLIEST, Edge.LATEST, Edge.GROUP, Edge.TIMESTAMP, Edge.SPECIFIC),
    since=_SINCE,
    aliases=("startingoffsets", "starting-offsets", "startup.mode", "auto.offset.reset"),
    doc="Where reading starts in the partitions that exist at the start. Later partitions are "
    "read from the earliest offset.",
)
_STARTUP_TIMESTAMP: Final = Option(
    "scan.startup.timestamp-millis",
    int,
    unit="ms",
    since=_SINCE,
    aliases=("startingtimestamp",),
    doc="For `timestamp`: milliseconds since the epoch.",
)
_STARTUP_OFFSETS: Final = Option(
    "scan.startup.specific-offsets",
    OFFSETS,
    since=_SINCE,
    aliases=("specific-offsets",),
    doc="For `specific-offsets`: `topic:0=42; topic:1=latest`. Other partitions start at the "
    "earliest offset.",
)
_BOUNDED_MODE: Final = Option(
    "scan.bounded.mode",
    Edge,
    default=Edge.UNBOUNDED,
    choices=(Edge.UNBOUNDED, Edge.LATEST, Edge.GROUP, Edge.TIMESTAMP, Edge.SPECIFIC),
    since=_SINCE,
    aliases=("endingoffsets", "ending-offsets", "bounded.mode"),
    doc="Where reading ends. Setting it makes the source bounded.",
)
_BOUNDED_TIMESTAMP: Final = Option(
    "scan.bounded.timestamp-millis",
    int,
    unit="ms",
    since=_SINCE,
    aliases=("endingtimestamp",),
    doc="For `timestamp`: milliseconds since the epoch.",
)
_BOUNDED_OFFSETS: Final = Option(
    "scan.bounded.specific-offsets",
    OFFSETS,
    since=_SINCE,
    doc="For `specific-offsets`: for each partition, the first offset not to read.",
)
_LIMITS: Final = "limit a micro-batch by `Pipeline.from_source(..., limits=ReadLimits({}))`"
_PER_PARTITION: Final = (
    "'scan.{}.mode' timestamp with 'scan.{}.timestamp-millis' sets one time for all partitions; "
    "for different offsets, set 'scan.{}.specific-offsets'"
)


def _isolation_level(value: IsolationLevel | str) -> IsolationLevel:
    text = value.value if isinstance(value, IsolationLevel) else value
    return IsolationLevel(ISOLATION_LEVEL.accept(text))


_OF_SCHEMA: Final = "use deserialization=KafkaRecordDeserializationSchema({}=...)"
#: Keywords of 2.x.
_FORMER: Final = {
    "unbounded": "use bounded=..., as_stream=True",
    **{
        name: _OF_SCHEMA.format(name)
        for name in (
            "key_fields",
            "key_fields_prefix",
            "key_format",
            "metadata_columns",
            "schema",
            "value_fields",
            "value_format",
        )
    },
}


class TopicOptions(Configured, since=_SINCE):
    """The topics of one cluster."""

    topics: Setting[tuple[str, ...], str | Sequence[str]] = option(
        "topic",
        TOPICS,
        default=(),
        aliases=("topics", "subscribe"),
        doc="Topics to read. Set exactly one of `topic`, `topic-pattern`, and `partitions`.",
    )
    topic_pattern: Setting[str | None] = option(
        "topic-pattern",
        str,
        default=None,
        aliases=("subscribepattern", "topics-pattern", "topic.pattern"),
        doc="Regular expression that must match the whole topic name. It never matches internal "
        "topics.",
    )
    partitions: Setting[tuple[TopicPartition, ...], str | Iterable[tuple[str, int]]] = option(
        "partitions",
        PARTITIONS,
        default=(),
        aliases=("assign", "topic-partitions"),
        doc="Single partitions, as `topic:0, topic:1`.",
    )


class ReadingOptions(
    Configured,
    since=_SINCE,
    elsewhere={
        "maxoffsetspertrigger": _LIMITS.format("rows=..."),
        "minoffsetspertrigger": "the trigger of the pipeline determines how long rows are "
        "collected; remove it",
        "maxtriggerdelay": "the trigger of the pipeline determines how long rows are collected; "
        "remove it",
        "minpartitions": "the parallelism of the pipeline determines the number of readers, and "
        "the source splits partitions into ranges for them; remove it",
        "maxrecordsperpartition": "the parallelism of the pipeline determines the number of "
        "readers, and the source splits partitions into ranges for them; remove it",
        "startingoffsetsbytimestamp": _PER_PARTITION.format(*["startup"] * 3),
        "endingoffsetsbytimestamp": _PER_PARTITION.format(*["bounded"] * 3),
        "startingoffsetsbytimestampstrategy": "without a record of that time, reading starts at "
        "the latest offset; remove it",
        "failondataloss": "use 'on-data-loss': fail for true; earliest or latest for false",
        "includeheaders": "name the headers in 'metadata.columns'",
        "kafkaconsumer.polltimeoutms": "use 'properties.request.timeout.ms'",
        "fetchoffset.numretries": "use 'properties.default.api.timeout.ms', the deadline of "
        "retries",
        "fetchoffset.retryintervalms": "use 'properties.retry.backoff.ms'",
        "groupidprefix": "use 'properties.group.id'; without it, there is no group",
        "scan.parallelism": "the number of readers is `Pipeline.from_source(..., parallelism=...)`"
        "; in SQL, 'parallelism.default' of the session",
        "isolation.level": "use 'properties.isolation.level'",
        "scan.isolation-level": "use 'properties.isolation.level'",
        "scan.poll-interval": "use 'source.poll-interval'",
        **FORMAT_OPTIONS.elsewhere,
    },
    former=_FORMER,
):
    """How to read topics, wherever they are."""

    starting_offsets: Setting[OffsetsInitializer, OffsetsInitializer | None] = part(
        OffsetsInitializer,
        _STARTUP_MODE,
        _STARTUP_TIMESTAMP,
        _STARTUP_OFFSETS,
        build=lambda options: offsets_of(
            options, _STARTUP_MODE, _STARTUP_TIMESTAMP, _STARTUP_OFFSETS
        ),
        default=OffsetsInitializer.earliest,
        doc="Where reading starts in the partitions that exist at the start. Later partitions are "
        "read from the earliest offset.",
    )
    bounded: Setting[OffsetsInitializer | None] = part(
        OffsetsInitializer,
        _BOUNDED_MODE,
        _BOUNDED_TIMESTAMP,
        _BOUNDED_OFFSETS,
        build=lambda options: offsets_of(
            options, _BOUNDED_MODE, _BOUNDED_TIMESTAMP, _BOUNDED_OFFSETS
        ),
        default=None,
        doc="Where reading ends. Setting it makes the source bounded. By default, the source is "
        "unbounded.",
    )
    as_stream: Setting[bool] = option(
        "scan.bounded.stream",
        bool,
        default=False,
        aliases=("setunbounded", "unbounded"),
        doc="With an end, read the source as a stream that ends instead of as a bounded source.",
    )
    group_id: Setting[str | None] = part(
        str,
        default=None,
        doc="Consumer group of committed offsets. It sets the property `group.id`.",
    )
    commit_offsets_on_checkpoint: Setting[bool] = option(
        "commit.offsets.on.checkpoint",
        bool,
        default=True,
        aliases=("commit-offsets", "enable.auto.commit"),
        doc="Commit the offsets of `properties.group.id`, if it is set, after each commit of an "
        "epoch. They are for monitoring only: the source never resumes from them.",
    )
    discovery_interval: Setting[timedelta | None, timedelta | str | None] = option(
        "scan.topic-partition-discovery.interval",
        optional(DURATION, off="0 s"),
        default=timedelta(minutes=5),
        validator=at_least(timedelta(0)),
        aliases=("partition.discovery.interval.ms", "partition-discovery.interval"),
        doc="Interval at which the source discovers new partitions. If it is 0, or if reading has "
        "an end, the source discovers partitions only once, at the start.",
    )
    isolation_level: Setting[
        IsolationLevel | None,
        IsolationLevel | Literal["read_committed", "read_uncommitted"] | None,
    ] = part(
        IsolationLevel,
        accept=_isolation_level,
        default=None,
        doc="With `read_committed`, the source skips records of open and aborted transactions. It "
        "sets the property `isolation.level`.",
    )
    on_data_loss: Setting[
        DataLossPolicy, DataLossPolicy | Literal["fail", "earliest", "latest"]
    ] = option(
        "on-data-loss",
        DataLossPolicy,
        default=DataLossPolicy.FAIL,
        aliases=("data-loss",),
        doc="Reaction to lost records that should have been read: fail, or continue at the "
        "earliest or latest offset. The source counts and logs lost records.",
    )
    deserialization: Setting[
        KafkaRecordDeserializationSchema, KafkaRecordDeserializationSchema | None
    ] = part(
        KafkaRecordDeserializationSchema,
        default=KafkaRecordDeserializationSchema,
        doc="Columns for keys, values, and metadata of a record. By default, keys and values are "
        "not decoded.",
    )
    batch_rows: Setting[int] = option_like(
        SOURCE_BATCH_ROWS, aliases=("max.poll.records", "batch-size")
    )
    max_record_size: Setting[int, int | str] = option(
        "source.max-record-size",
        MEMORY_SIZE,
        default=MAX_RECORD_BYTES,
        validator=positive,
        since="3.0.0",
        doc="Maximum size of a decompressed record. A larger record is an error, because it can "
        "take more memory than a task has.",
    )
    poll_interval: Setting[timedelta, timedelta | str] = option(
        "source.poll-interval",
        DURATION,
        default=timedelta(milliseconds=50),
        validator=positive,
        since="3.0.0",
        aliases=("poll.interval",),
        doc="Interval at which the source checks for new records.",
    )
    fetch_api: Setting[FetchApi, FetchApi | Literal["auto", "public"]] = option(
        "source.fetch-api",
        FetchApi,
        default=FetchApi.AUTO,
        doc="Client API for reading. `public` is far slower, and `auto` uses it only if the "
        "client's internals are not as expected.",
    )

    def consumer(self, properties: Mapping[str, Any]) -> ClientConfig:
        """Return the client of a cluster.

        Args:
            properties: Properties of Kafka. Settings with keywords replace them.

        Raises:
            OptionError: A property is not valid.
        """
        given = dict(properties)
        if self.group_id is not None:
            given[GROUP_ID.key] = self.group_id
        if self.isolation_level is not None:
            given[ISOLATION_LEVEL.key] = self.isolation_level.value
        return ClientConfig.of(given, CONSUMER_PROPERTIES)

    def enumeration(self, config: ClientConfig, subscription: Subscription) -> EnumerationSettings:
        """Return the settings for the partitions of a cluster.

        Args:
            config: The client of the cluster.
            subscription: Its topics or partitions.

        Raises:
            InvalidOptionError: A property has no effect.
        """
        return EnumerationSettings(
            config=config,
            subscription=subscription,
            start=_start(self.starting_offsets, config),
            stop=self.bounded,
            bounded=self.bounded is not None and not self.as_stream,
            isolation=IsolationLevel(config[ISOLATION_LEVEL]),
            on_data_loss=self.on_data_loss.value,
            discovery_interval=self.discovery_interval if self.bounded is None else None,
            poll_interval=self.poll_interval,
            commit_offsets=self.commit_offsets_on_checkpoint,
        )

    def fetching(self, config: ClientConfig, layout: RecordLayout) -> FetchSettings:
        """Return the settings for fetching the columns of a layout."""
        return FetchSettings(
            isolation=IsolationLevel(config[ISOLATION_LEVEL]),
            on_data_loss=self.on_data_loss.value,
            columns=layout.fetched_columns,
            batch_rows=self.batch_rows,
            batch_bytes=_BATCH_BYTES,
            max_record_bytes=self.max_record_size,
        )

    def check_end(self) -> None:
        """Check that a stream that ends has an end.

        Raises:
            InvalidOptionError: It has none.
        """
        if self.as_stream and self.bounded is None:
            raise InvalidOptionError(
                "a stream that ends needs an end",
                expected="scan.bounded.mode with scan.bounded.stream",
                found="no end",
                option="scan.bounded.stream",
            )


def _start(given: OffsetsInitializer, config: ClientConfig) -> OffsetsInitializer:
    """Return the starting offsets, with the fallback that Kafka's own property sets."""
    if not config.options.is_given(AUTO_OFFSET_RESET):
        return given
    if not given.is_committed:
        raise InvalidOptionError(
            f"the property {AUTO_OFFSET_RESET.key!r} has no effect",
            expected="the offsets of a group as the start",
            found=str(given),
            option=f"properties.{AUTO_OFFSET_RESET.key}",
            hint="remove it, or set 'scan.startup.mode' to group-offsets",
        )
    fallbacks = {"earliest": OffsetsInitializer.earliest, "latest": OffsetsInitializer.latest}
    fallback = fallbacks.get(config[AUTO_OFFSET_RESET])
    return OffsetsInitializer.committed(fallback and fallback())


class KafkaSourceOptions(
    ReadingOptions, TopicOptions, ClientOptions, scope="Kafka source", since=_SINCE
):
    """What to read and how: the settings of `KafkaSource`."""
