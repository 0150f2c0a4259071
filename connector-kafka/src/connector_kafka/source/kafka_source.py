# SPDX-License-Identifier: Apache-2.0
"""The Kafka source."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, Final, Self

from connector_kafka.client.cluster import check_reachable
from connector_kafka.source.bounds import Bounds
from connector_kafka.source.enumerator import (
    KafkaEnumerator,
    KafkaEnumeratorState,
    state_serializer,
)
from connector_kafka.source.layout import CLUSTER
from connector_kafka.source.options import DataLossPolicy, KafkaSourceOptions
from connector_kafka.source.places import parse_position
from connector_kafka.source.reader import KafkaSourceReader
from connector_kafka.source.record_columns import RecordColumns
from connector_kafka.source.split import (
    KafkaPartitionSplit,
    OffsetsLost,
    PartitionPaused,
    input_version_of,
    split_serializer,
)
from connector_kafka.source.subscription import Subscription
from connectors_core.clients import SupportsConnectionCheck
from connectors_core.errors import InvalidOptionError
from connectors_core.lineage import LineageDataset, LineageVertexProvider, kafka_datasets
from connectors_core.serialization import VersionedSerializer
from connectors_core.source import (
    Boundedness,
    DynamicParallelismInference,
    ParallelismInferenceContext,
    Source,
    SourceEvent,
    SourceReaderContext,
    SplitEnumeratorContext,
    SupportsForetoldEvents,
    SupportsPartitionPushDown,
    SupportsRewinding,
    ValueRange,
)

__all__ = ["KafkaSource"]

# Brokers do not tell the size of a range of offsets.
_ASSUMED_RECORD_BYTES: Final = 1 << 10


class KafkaSource(
    KafkaSourceOptions,
    RecordColumns,
    Source[KafkaPartitionSplit, KafkaEnumeratorState],
    SupportsConnectionCheck,
    SupportsPartitionPushDown,
    SupportsRewinding[KafkaPartitionSplit, KafkaEnumeratorState],
    SupportsForetoldEvents[KafkaPartitionSplit],
    DynamicParallelismInference[KafkaPartitionSplit],
    LineageVertexProvider,
):
    """Reads topics of Apache Kafka, in batch and streaming.

    Guarantee: exactly once. With `read_committed`, this includes records written in transactions. A
    split is a partition, and its position is the offset of the next record. Each plan contains its
    own end. Records that are lost before they are read are an error, or an event if `on_data_loss`
    allows it.

    Raises:
        ConfigurationError: A setting is not valid, or settings contradict each other.
    """

    event_types: tuple[type[SourceEvent], ...] = (OffsetsLost, PartitionPaused)

    def __post_init__(self) -> None:
        self.check_end()
        self._layout = self.deserialization.layout
        if CLUSTER in dict(self._layout.metadata):
            raise InvalidOptionError(
                f"a source of one cluster has no metadata {CLUSTER!r}",
                expected="another metadata column, or DynamicKafkaSource",
                option="metadata.columns",
            )
        config = self.consumer({**self.properties, "bootstrap.servers": self.bootstrap_servers})
        self._bounds = Bounds()
        subscription = Subscription(
            topics=self.topics, pattern=self.topic_pattern, partitions=self.partitions
        )
        self._enumeration = self.enumeration(config, subscription)

    def lineage_datasets(self) -> tuple[LineageDataset, ...]:
        """Its topics, or their pattern."""
        topics = [*self.topics, *(each.topic for each in self.partitions)]
        return kafka_datasets(self.bootstrap_servers, topics or [str(self.topic_pattern)])

    def boundedness(self) -> Boundedness:
        """Bounded if `bounded` sets an end."""
        return (
            Boundedness.BOUNDED if self._enumeration.bounded else Boundedness.CONTINUOUS_UNBOUNDED
        )

    def infer_parallelism(self, context: ParallelismInferenceContext[KafkaPartitionSplit]) -> int:
        """Partitions with few records share a task. A record counts as 1 KiB. Driver."""
        records = sum(split.weight() for split in context.splits)
        return context.tasks_for(records * _ASSUMED_RECORD_BYTES)

    def create_enumerator(
        self, context: SplitEnumeratorContext[KafkaPartitionSplit]
    ) -> KafkaEnumerator:
        """Start at the starting offsets."""
        return KafkaEnumerator(context, self._enumeration, KafkaEnumeratorState())

    def check_position(self, position: str) -> None:
        """Refuse a position that `create_enumerator_at` cannot parse.

        Raises:
            InvalidOptionError: See there.
        """
        parse_position(position)

    def create_enumerator_at(
        self, context: SplitEnumeratorContext[KafkaPartitionSplit], position: str
    ) -> KafkaEnumerator:
        """Start at other offsets.

        Args:
            context: The context of the enumerator.
            position: `earliest-offset`, `latest-offset`, `group-offsets`, `timestamp:` with
                milliseconds since the epoch or a time such as `2026-01-31T00:00:00Z`, or offsets
                such as `flights:0=42; flights:1=latest`.

        Raises:
            InvalidOptionError: The position has another form.
        """
        settings = dataclasses.replace(self._enumeration, start=parse_position(position))
        return KafkaEnumerator(context, settings, KafkaEnumeratorState())

    def restore_enumerator(
        self, context: SplitEnumeratorContext[KafkaPartitionSplit], state: KafkaEnumeratorState
    ) -> KafkaEnumerator:
        """Resume from a snapshot."""
        return KafkaEnumerator(context, self._enumeration, state)

    def create_reader(self, context: SourceReaderContext) -> KafkaSourceReader:
        """Create a reader for all partitions of a task."""
        config = self._enumeration.config
        return KafkaSourceReader(
            context,
            config,
            self.fetching(config, self._layout),
            self._layout,
            self.fetch_api,
            self._bounds,
        )

    def input_version(self, splits: Sequence[KafkaPartitionSplit]) -> str | None:
        """Return the topics and their ranges of offsets; None if the brokers have no topic IDs."""
        return input_version_of(("", each) for each in splits)

    def split_serializer(self) -> VersionedSerializer[KafkaPartitionSplit]:
        """JSON."""
        return split_serializer()

    def enumerator_state_serializer(self) -> VersionedSerializer[KafkaEnumeratorState]:
        """JSON."""
        return state_serializer()

    def without_counts(self) -> Self | None:
        """Let the reader seek to the wanted offsets, and stop after them.

        Not after a loss of records that the source tolerates, because the reader reports it.
        """
        bounds = self._layout.bounds
        if bounds == Bounds() or self.on_data_loss is not DataLossPolicy.FAIL:
            return None
        made = copy.copy(self)
        made._bounds = bounds
        return made

    def partition_of(self, split: Any) -> Mapping[str, Any]:
        """Return the topic, the partition, and the range of offsets, if they are columns."""
        if split.pauses:  # only a reader sends the position of a later run
            return {}
        known = {"topic": split.topic, "partition": split.partition}
        if split.stop is not None:
            # After a loss of records, the reader may continue at an earlier offset.
            low = split.offset if self.on_data_loss is DataLossPolicy.FAIL else None
            known["offset"] = ValueRange(low=low, high=split.stop - 1, has_nulls=False)
        return {name: known[field] for field, name in self._layout.metadata if field in known}

    def events_after(self, splits: Sequence[KafkaPartitionSplit]) -> list[SourceEvent]:
        """Foretell where a later run resumes. See `SupportsForetoldEvents`. Driver."""
        return [
            PartitionPaused(split.resumed_later(split.stop))
            for split in splits
            if split.pauses and split.stop is not None
        ]

    def check_connection(self, timeout: float) -> None:
        """Check that the brokers respond. See `SupportsConnectionCheck`. Driver."""
        check_reachable(self._enumeration.config, timeout)

    def __repr__(self) -> str:
        servers = ", ".join(self._enumeration.config.servers)
        subscription = self._enumeration.subscription
        return f"KafkaSource({servers!r}, {subscription}, {self.boundedness().value})"


KAFKA_SOURCE_OPTIONS: Final = KafkaSource.OPTIONS
"""The options of `KafkaSource.from_options`."""
