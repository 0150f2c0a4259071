# SPDX-License-Identifier: Apache-2.0
"""The source of topics."""

from __future__ import annotations

import dataclasses
from typing import Final

import pyarrow as pa

from connector_kafka.client.cluster import check_reachable
from connector_kafka.client.config import CONSUMER_PROPERTIES, GROUP_ID, ClientConfig
from connector_kafka.client.fetcher import FetchSettings
from connector_kafka.source.enumerator import (
    EnumerationSettings,
    KafkaEnumerator,
    KafkaEnumeratorState,
    state_serializer,
)
from connector_kafka.source.options import KafkaSourceOptions
from connector_kafka.source.places import parse_position
from connector_kafka.source.reader import KafkaSourceReader
from connector_kafka.source.split import (
    KafkaPartitionSplit,
    OffsetsLost,
    PartitionPaused,
    split_serializer,
)
from connector_kafka.source.subscription import Subscription
from connectors_core.clients import SupportsConnectionCheck
from connectors_core.errors import InvalidOptionError
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

__all__ = ["KafkaSource"]

_BATCH_BYTES: Final = 32 << 20


class KafkaSource(
    KafkaSourceOptions,
    Source[KafkaPartitionSplit, KafkaEnumeratorState],
    SupportsConnectionCheck,
    SupportsRewinding[KafkaPartitionSplit, KafkaEnumeratorState],
):
    """Reads topics of Apache Kafka, batch and streaming.

    Guarantee: exactly once; with `read_committed` also of what is written in transactions. A split
    is a partition, its position the offset of the next record; where a plan ends stands in the
    plan. Records that are gone before they were read are an error, or an event where that is
    allowed (`on_data_loss`).

    Raises:
        ConfigurationError: Something given cannot be used, or does not fit together.
    """

    event_types: tuple[type[SourceEvent], ...] = (OffsetsLost, PartitionPaused)

    def __post_init__(self) -> None:
        if self.as_stream and self.bounded is None:
            raise InvalidOptionError(
                "a stream that ends needs its end",
                expected="scan.bounded.mode with scan.bounded.stream",
                found="no end",
                option="scan.bounded.stream",
            )
        given = {**self.properties, "bootstrap.servers": self.bootstrap_servers}
        if self.group_id is not None:
            given[GROUP_ID.key] = self.group_id
        fetch, policy = self.fetch, self.on_data_loss.value
        self._layout = self.deserialization.layout
        self._enumeration = EnumerationSettings(
            config=ClientConfig.of(given, CONSUMER_PROPERTIES),
            subscription=Subscription(
                topics=self.topics, pattern=self.topic_pattern, partitions=self.partitions
            ),
            start=self.starting_offsets,
            stop=self.bounded,
            bounded=self.bounded is not None and not self.as_stream,
            isolation=self.isolation_level,
            on_data_loss=policy,
            discovery_interval=self.discovery_interval if self.bounded is None else None,
            poll_interval=fetch.poll_interval,
            commit_offsets=self.commit_offsets_on_checkpoint,
        )
        self._fetching = FetchSettings(
            isolation=self.isolation_level,
            on_data_loss=policy,
            columns=self._layout.fetched_columns,
            batch_rows=fetch.batch_rows,
            batch_bytes=_BATCH_BYTES,
            max_record_bytes=fetch.max_record_size,
        )

    def boundedness(self) -> Boundedness:
        """Bounded where `bounded` gives an end."""
        return (
            Boundedness.BOUNDED if self._enumeration.bounded else Boundedness.CONTINUOUS_UNBOUNDED
        )

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
            context, self._enumeration.config, self._fetching, self._layout, self.fetch.api
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


KAFKA_SOURCE_OPTIONS: Final = KafkaSource.OPTIONS
"""The options of `KafkaSource.from_options`."""
