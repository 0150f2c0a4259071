# SPDX-License-Identifier: Apache-2.0
"""The source of topics."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final

import pyarrow as pa

from connector_kafka.client.choosing import FetchApi
from connector_kafka.client.cluster import check_reachable
from connector_kafka.client.config import BOOTSTRAP_SERVERS_OF_TABLE as BOOTSTRAP_SERVERS
from connector_kafka.client.config import CONSUMER_PROPERTIES, GROUP_ID, ClientConfig
from connector_kafka.client.fetching import FetchSettings
from connector_kafka.client.metadata import IsolationLevel
from connector_kafka.fields import ValueFields
from connector_kafka.records import MAX_RECORD_BYTES
from connector_kafka.source.enumerator import (
    EnumerationSettings,
    KafkaEnumerator,
    KafkaEnumeratorState,
    state_serializer,
)
from connector_kafka.source.layout import RecordLayout
from connector_kafka.source.offsets import OffsetsInitializer
from connector_kafka.source.options import (
    BATCH_ROWS,
    BOUNDED_MODE,
    BOUNDED_OFFSETS,
    BOUNDED_STREAM,
    BOUNDED_TIMESTAMP,
    COMMIT_OFFSETS,
    DEFAULT_BATCH_ROWS,
    DEFAULT_DISCOVERY_INTERVAL,
    DEFAULT_POLL_INTERVAL,
    DISCOVERY_INTERVAL,
    FETCH_API,
    ISOLATION_LEVEL,
    KAFKA_SOURCE_OPTIONS,
    KEY_FIELDS,
    KEY_FIELDS_PREFIX,
    MAX_RECORD_SIZE,
    METADATA_COLUMNS,
    ON_DATA_LOSS,
    PARTITIONS,
    POLL_INTERVAL,
    PROPERTIES,
    SCHEMA,
    STARTUP_MODE,
    STARTUP_OFFSETS,
    STARTUP_TIMESTAMP,
    TOPIC,
    TOPIC_PATTERN,
    VALUE_FIELDS,
    BoundedMode,
    DataLossPolicy,
    StartupMode,
    parse_partitions,
)
from connector_kafka.source.reader import KafkaSourceReader
from connector_kafka.source.split import (
    KafkaPartitionSplit,
    OffsetsLost,
    PartitionPaused,
    split_serializer,
)
from connector_kafka.source.subscription import Subscription
from connectors_core.annotations import public
from connectors_core.clients.connection_check import SupportsConnectionCheck
from connectors_core.errors import InvalidOptionError
from connectors_core.formats import DecodingFormat, as_format, format_of
from connectors_core.serialization import VersionedSerializer
from connectors_core.source import (
    Boundedness,
    Source,
    SourceEvent,
    SourceReaderContext,
    SplitEnumeratorContext,
    SplitTraits,
    SupportsRewinding,
)
from connectors_core.spelling import spelled_in_python

__all__ = ["KafkaSource"]

_BATCH_BYTES: Final = 32 << 20
# Modes that say by themselves where reading begins.
_PLACES: Final = {
    each.value for each in (StartupMode.EARLIEST, StartupMode.LATEST, StartupMode.GROUP)
}


@public
@spelled_in_python(
    {
        "topic": "topics",
        "value.fields-include": "value_fields",
        "scan.startup.mode": "starting_offsets",
        "scan.startup.specific-offsets": "starting_offsets",
        "scan.startup.timestamp-millis": "starting_offsets",
        "scan.bounded.mode": "bounded",
        "scan.bounded.specific-offsets": "bounded",
        "scan.bounded.timestamp-millis": "bounded",
    }
)
class KafkaSource(
    Source[KafkaPartitionSplit, KafkaEnumeratorState],
    SupportsConnectionCheck,
    SupportsRewinding[KafkaPartitionSplit, KafkaEnumeratorState],
):
    """Reads topics of Apache Kafka, batch and streaming.

    Guarantee: exactly once; with `read_committed` also of what is written in transactions. A split
    is a partition, its position the offset of the next record; where a plan ends stands in the
    plan. Records that are gone before they were read are an error, or an event where that is
    allowed (`on_data_loss`).

    Args:
        bootstrap_servers: Brokers to begin with, as `host:port, host:port` or a list.
        topics: Topics to read; or
        topic_pattern: Regular expression for whole names of topics; or
        partitions: Pairs of a topic and a partition.
        starting_offsets: Where reading starts in partitions that are there at the start.
        bounded: Where reading ends, as a bounded source.
        unbounded: Where reading ends, as a stream that ends. Neither: it does not end.
        group_id: Consumer group of committed offsets.
        commit_offsets_on_checkpoint: Commit the group's offsets, for others to see.
        isolation_level: Whether records of open and aborted transactions are read.
        discovery_interval: Time between looks for new partitions; None looks once.
        poll_interval: Time between looks for new records.
        on_data_loss: What happens where records are gone.
        value_format: How values are decoded; None gives keys and values as they are.
        schema: Columns of keys and values together, also in the words of Spark SQL.
        key_format: How keys are decoded.
        key_fields: Columns of `schema` that keys hold.
        key_fields_prefix: Prefix of these that the fields within keys do not have.
        value_fields: Whether values hold these columns too.
        metadata_columns: Columns about the record, or a map from them to columns' names.
        batch_rows: Most rows of a batch.
        max_record_size: Largest record that is decompressed, in bytes or as `128mb`.
        fetch_api: How records are asked for; `public` is slower by far.
        properties: Further properties of Kafka's client, by their own names; passwords may be a
            `Secret`.

    Raises:
        ConfigurationError: Something given cannot be used, or does not fit together.
    """

    event_types: tuple[type[SourceEvent], ...] = (OffsetsLost, PartitionPaused)

    def __init__(
        self,
        bootstrap_servers: str | Sequence[str],
        *,
        topics: str | Sequence[str] = (),
        topic_pattern: str | None = None,
        partitions: Iterable[tuple[str, int]] = (),
        starting_offsets: OffsetsInitializer | None = None,
        bounded: OffsetsInitializer | None = None,
        unbounded: OffsetsInitializer | None = None,
        group_id: str | None = None,
        commit_offsets_on_checkpoint: bool = True,
        isolation_level: IsolationLevel | str = IsolationLevel.READ_UNCOMMITTED,
        discovery_interval: timedelta | None = DEFAULT_DISCOVERY_INTERVAL,
        poll_interval: timedelta = DEFAULT_POLL_INTERVAL,
        on_data_loss: DataLossPolicy | str = DataLossPolicy.FAIL,
        value_format: DecodingFormat | str | None = None,
        schema: pa.Schema | str | None = None,
        key_format: DecodingFormat | str | None = None,
        key_fields: Sequence[str] = (),
        key_fields_prefix: str = "",
        value_fields: ValueFields | str = ValueFields.ALL,
        metadata_columns: Mapping[str, str] | Sequence[str] | None = None,
        batch_rows: int = DEFAULT_BATCH_ROWS,
        max_record_size: int | str = MAX_RECORD_BYTES,
        fetch_api: FetchApi | str = FetchApi.AUTO,
        properties: Mapping[str, Any] | None = None,
    ) -> None:
        if bounded is not None and unbounded is not None:
            raise InvalidOptionError(
                "the end of the source is given twice",
                expected="bounded, or unbounded for a stream that ends",
                option=BOUNDED_MODE.key,
            )
        self._bounded = bounded is not None
        stop = bounded or unbounded
        given = dict(properties or {})
        given["bootstrap.servers"] = BOOTSTRAP_SERVERS.parse(bootstrap_servers)
        if group_id is not None:
            given[GROUP_ID.key] = group_id
        config = ClientConfig.of(given, CONSUMER_PROPERTIES)
        isolation = ISOLATION_LEVEL.parse(isolation_level)
        policy = ON_DATA_LOSS.parse(on_data_loss)
        self._layout = RecordLayout.of(
            value_format=as_format(value_format),
            schema=None if schema is None else SCHEMA.parse(schema),
            key_format=as_format(key_format),
            key_fields=key_fields,
            key_fields_prefix=key_fields_prefix,
            value_fields=VALUE_FIELDS.parse(value_fields),
            metadata_columns=metadata_columns,
        )
        self._layout.check()
        self._enumeration = EnumerationSettings(
            config=config,
            subscription=Subscription(
                topics=(topics,) if isinstance(topics, str) else tuple(topics),
                pattern=topic_pattern,
                partitions=parse_partitions(tuple(partitions)),
            ),
            start=starting_offsets or OffsetsInitializer.earliest(),
            stop=stop,
            bounded=self._bounded,
            isolation=isolation,
            on_data_loss=policy.value,
            discovery_interval=(discovery_interval or None) if stop is None else None,
            poll_interval=POLL_INTERVAL.parse(poll_interval),
            commit_offsets=commit_offsets_on_checkpoint,
        )
        self._fetch_api = FETCH_API.parse(fetch_api)
        self._fetching = FetchSettings(
            isolation=isolation,
            on_data_loss=policy.value,
            columns=self._layout.fetched_columns,
            batch_rows=BATCH_ROWS.parse(batch_rows),
            batch_bytes=_BATCH_BYTES,
            max_record_bytes=MAX_RECORD_SIZE.parse(max_record_size),
        )

    @classmethod
    def from_options(cls, mapping: Mapping[str, Any]) -> KafkaSource:
        """Make a source from options by key, as Spark and SQL give them.

        Args:
            mapping: Values by key of `KAFKA_SOURCE_OPTIONS`, strings or Python values.

        Raises:
            OptionError: A key is not known, is missing or has a value that cannot be used.
        """
        options = KAFKA_SOURCE_OPTIONS.parse(mapping)
        startup, ending = options[STARTUP_MODE], options[BOUNDED_MODE]
        stop = None
        if ending is not BoundedMode.UNBOUNDED:
            time, offsets = options.get(BOUNDED_TIMESTAMP), options.get(BOUNDED_OFFSETS)
            stop = _offsets("bounded", ending.value, time, offsets)
        stream = options[BOUNDED_STREAM]
        if stream and stop is None:
            raise InvalidOptionError(
                "a stream that ends needs its end",
                expected=f"{BOUNDED_MODE.key} with {BOUNDED_STREAM.key}",
                found=ending.value,
                option=BOUNDED_STREAM.key,
            )
        interval = options.values[DISCOVERY_INTERVAL.key]
        return cls(
            options.values[BOOTSTRAP_SERVERS.key],
            topics=options.values[TOPIC.key] or (),
            topic_pattern=options.get(TOPIC_PATTERN),
            partitions=[(each.topic, each.partition) for each in options.get(PARTITIONS) or ()],
            starting_offsets=_offsets(
                "startup",
                startup.value,
                options.get(STARTUP_TIMESTAMP),
                options.get(STARTUP_OFFSETS),
            ),
            bounded=None if stream else stop,
            unbounded=stop if stream else None,
            commit_offsets_on_checkpoint=options[COMMIT_OFFSETS],
            isolation_level=options[ISOLATION_LEVEL],
            discovery_interval=interval or None,
            poll_interval=options[POLL_INTERVAL],
            on_data_loss=options[ON_DATA_LOSS],
            value_format=format_of(options, "value."),
            schema=options.get(SCHEMA),
            key_format=format_of(options, "key."),
            key_fields=options.values[KEY_FIELDS.key],
            key_fields_prefix=options.values[KEY_FIELDS_PREFIX.key],
            value_fields=options[VALUE_FIELDS],
            metadata_columns=options.values[METADATA_COLUMNS.key] or None,
            batch_rows=options[BATCH_ROWS],
            max_record_size=options[MAX_RECORD_SIZE],
            fetch_api=options[FETCH_API],
            properties=options.values[PROPERTIES.key],
        )

    def boundedness(self) -> Boundedness:
        """Bounded where `bounded` gives an end."""
        return Boundedness.BOUNDED if self._bounded else Boundedness.CONTINUOUS_UNBOUNDED

    def schema(self) -> pa.Schema:
        """Columns of keys, then of values, then about the record."""
        return self._layout.schema

    def create_enumerator(
        self, context: SplitEnumeratorContext[KafkaPartitionSplit]
    ) -> KafkaEnumerator:
        """Begin at the starting offsets."""
        return KafkaEnumerator(context, self._enumeration, KafkaEnumeratorState())

    def check_position(self, position: str) -> None:
        """Refuse a position that `create_enumerator_at` does not understand.

        Raises:
            InvalidOptionError: See there.
        """
        parse_position(position)

    def create_enumerator_at(
        self, context: SplitEnumeratorContext[KafkaPartitionSplit], position: str
    ) -> KafkaEnumerator:
        """Begin at other offsets.

        Args:
            context: What the enumerator works with.
            position: `earliest-offset`, `latest-offset`, `group-offsets`, `timestamp:` with
                milliseconds since the epoch or a time such as `2026-01-31T00:00:00Z`, or offsets
                such as `flights:0=42; flights:1=latest`.

        Raises:
            InvalidOptionError: It is none of these.
        """
        settings = dataclasses.replace(self._enumeration, start=parse_position(position))
        return KafkaEnumerator(context, settings, KafkaEnumeratorState())

    def restore_enumerator(
        self, context: SplitEnumeratorContext[KafkaPartitionSplit], state: KafkaEnumeratorState
    ) -> KafkaEnumerator:
        """Go on from a snapshot."""
        return KafkaEnumerator(context, self._enumeration, state)

    def create_reader(self, context: SourceReaderContext) -> KafkaSourceReader:
        """A reader of all partitions of a task."""
        return KafkaSourceReader(
            context, self._enumeration.config, self._fetching, self._layout, self._fetch_api
        )

    def split_serializer(self) -> VersionedSerializer[KafkaPartitionSplit]:
        """JSON."""
        return split_serializer()

    def enumerator_state_serializer(self) -> VersionedSerializer[KafkaEnumeratorState]:
        """JSON."""
        return state_serializer()

    def split_traits(self) -> SplitTraits:
        """Splits end where the plan says, and can be read again; they are read side by side."""
        return SplitTraits(end=True, ordered=False, replayable=True)

    def check_connection(self, timeout: float) -> None:
        """Ask the brokers for an answer; see `SupportsConnectionCheck`. Driver."""
        check_reachable(self._enumeration.config, timeout)

    def __repr__(self) -> str:
        servers = ", ".join(self._enumeration.config.servers)
        subscription = self._enumeration.subscription
        return f"KafkaSource({servers!r}, {subscription}, {self.boundedness().value})"


def _offsets(
    which: str,
    mode: str,
    timestamp: int | None,
    offsets: Mapping[tuple[str, int], int | OffsetsInitializer] | None,
) -> OffsetsInitializer:
    for value, wanted, name in (
        (timestamp, "timestamp", "timestamp-millis"),
        (offsets, "specific-offsets", "specific-offsets"),
    ):
        if (value is not None) != (mode == wanted):
            raise InvalidOptionError(
                f"scan.{which}.{name} and scan.{which}.mode do not fit together",
                expected=f"scan.{which}.{name} with scan.{which}.mode {wanted}, and only then",
                found=f"scan.{which}.mode {mode}",
                option=f"scan.{which}.{name}",
            )
    if timestamp is not None:
        return OffsetsInitializer.timestamp(timestamp)
    if offsets is not None:
        # Flink's rule for stops: a partition without one is not read.
        return OffsetsInitializer.offsets(offsets)
    if mode == "group-offsets":
        return OffsetsInitializer.committed(fallback=OffsetsInitializer.earliest())
    return OffsetsInitializer.latest() if mode == "latest-offset" else OffsetsInitializer.earliest()


def parse_position(position: str) -> OffsetsInitializer:
    """Where reading begins, as a person writes it; see `KafkaSource.create_enumerator_at`.

    Raises:
        InvalidOptionError: It is not understood.
    """
    mode, _, time = position.strip().partition(":")
    try:
        if mode == StartupMode.TIMESTAMP.value:
            when = int(time) if time.isdigit() else datetime.fromisoformat(time)
            return OffsetsInitializer.timestamp(when)
        if position.strip() in _PLACES:
            return _offsets("startup", position.strip(), None, None)
        if not position.strip():
            raise ValueError("nothing")
        return OffsetsInitializer.offsets(STARTUP_OFFSETS.parse(position))
    except ValueError as error:
        raise InvalidOptionError(
            f"{position!r} is no place in topics",
            expected="earliest-offset, latest-offset, group-offsets, "
            "timestamp:2026-01-31T00:00:00Z or offsets such as flights:0=42; flights:1=latest",
            found=str(error),
            option="at",
        ) from error
