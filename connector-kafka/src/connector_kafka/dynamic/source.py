# SPDX-License-Identifier: Apache-2.0
"""The source of streams whose topics move between clusters."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, Final

from connector_kafka.client.cluster import check_reachable
from connector_kafka.client.config import (
    BOOTSTRAP_SERVERS,
    ClientConfig,
)
from connector_kafka.dynamic.enumerator import (
    DynamicKafkaEnumerator,
    DynamicKafkaState,
    StreamSettings,
    dynamic_state_serializer,
)
from connector_kafka.dynamic.metadata import ClusterMetadata
from connector_kafka.dynamic.options import DynamicKafkaSourceOptions, RemovedTopicsPolicy
from connector_kafka.dynamic.reader import DynamicKafkaSourceReader
from connector_kafka.dynamic.split import ClusterEvent, DynamicKafkaSplit, split_serializer
from connector_kafka.dynamic.subscription import StreamSubscription
from connector_kafka.source.bounds import Bounds
from connector_kafka.source.discovery import EnumerationSettings
from connector_kafka.source.layout import CLUSTER
from connector_kafka.source.offsets import OffsetsInitializer
from connector_kafka.source.places import parse_position
from connector_kafka.source.reader import KafkaSourceReader
from connector_kafka.source.record_columns import RecordColumns
from connector_kafka.source.split import PartitionPaused, input_version_of
from connector_kafka.source.subscription import Subscription
from connectors_core.clients import SupportsConnectionCheck
from connectors_core.lineage import LineageDataset, LineageVertexProvider, kafka_datasets
from connectors_core.serialization import VersionedSerializer
from connectors_core.source import (
    Boundedness,
    Source,
    SourceEvent,
    SourceReaderContext,
    SplitEnumeratorContext,
    SupportsForetoldEvents,
    SupportsPartitionPushDown,
    SupportsRewinding,
)

__all__ = ["DynamicKafkaSource"]

_EVERY_TOPIC: Final = Subscription(pattern=".*")


class DynamicKafkaSource(
    DynamicKafkaSourceOptions,
    RecordColumns,
    Source[DynamicKafkaSplit, DynamicKafkaState],
    SupportsConnectionCheck,
    SupportsPartitionPushDown,
    SupportsRewinding[DynamicKafkaSplit, DynamicKafkaState],
    SupportsForetoldEvents[DynamicKafkaSplit],
    LineageVertexProvider,
):
    """Reads streams, whose topics are in several clusters and move between them (Flink's FLIP-246).

    Guarantee: exactly once, as with `KafkaSource`, in each cluster. A topic that leaves a cluster
    is read to the end that it has when the source notices the removal. A topic that returns to a
    cluster is resumed where reading ended. A topic that arrives is read from its earliest record,
    unless its cluster is new and has other starting offsets in the metadata. Records that a tool
    copies from one cluster to another are different records.

    Raises:
        ConfigurationError: A setting is not valid, or settings contradict each other.
    """

    event_types: tuple[type[SourceEvent], ...] = (ClusterEvent,)

    def __post_init__(self) -> None:
        self.check_end()
        self._subscription = StreamSubscription(
            stream_ids=self.stream_ids, pattern=self.stream_pattern
        )
        self._layout = self.deserialization.layout
        self._start: OffsetsInitializer | None = None

    def lineage_datasets(self) -> tuple[LineageDataset, ...]:
        """The topics of its streams in each cluster. Asks the metadata service."""
        found = self._subscription.find(self.metadata_service)
        return tuple(
            dataset
            for name, metadata in sorted(found.items())
            for dataset in kafka_datasets(
                self._config(name, metadata.properties).servers, sorted(metadata.topics)
            )
        )

    def boundedness(self) -> Boundedness:
        """Bounded if `bounded` sets an end."""
        bounded = self.bounded is not None and not self.as_stream
        return Boundedness.BOUNDED if bounded else Boundedness.CONTINUOUS_UNBOUNDED

    def create_enumerator(
        self, context: SplitEnumeratorContext[DynamicKafkaSplit]
    ) -> DynamicKafkaEnumerator:
        """Start at the starting offsets."""
        return self.restore_enumerator(context, DynamicKafkaState())

    def check_position(self, position: str) -> None:
        """Refuse a position that `create_enumerator_at` cannot parse.

        Raises:
            InvalidOptionError: See there.
        """
        parse_position(position)

    def create_enumerator_at(
        self, context: SplitEnumeratorContext[DynamicKafkaSplit], position: str
    ) -> DynamicKafkaEnumerator:
        """Start at other offsets in all clusters; see `KafkaSource.create_enumerator_at`.

        They replace the starting offsets in the metadata, except those of clusters that arrive
        later.

        Raises:
            InvalidOptionError: The position has another form.
        """
        moved = copy.copy(self)
        moved._start = parse_position(position)
        return moved.create_enumerator(context)

    def restore_enumerator(
        self, context: SplitEnumeratorContext[DynamicKafkaSplit], state: DynamicKafkaState
    ) -> DynamicKafkaEnumerator:
        """Resume from a snapshot."""
        settings = StreamSettings(
            service=self.metadata_service,
            subscription=self._subscription,
            enumeration=self._enumeration,
            interval=self.metadata_discovery_interval if self.bounded is None else None,
            tolerated_failures=self.tolerated_discovery_failures,
        )
        return DynamicKafkaEnumerator(context, settings, state)

    def create_reader(self, context: SourceReaderContext) -> DynamicKafkaSourceReader:
        """Create a reader for all partitions of a task."""
        return DynamicKafkaSourceReader(context, self._create_reader_of_cluster)

    def input_version(self, splits: Sequence[DynamicKafkaSplit]) -> str | None:
        """Return the topics and their ranges of offsets; None if the brokers have no topic IDs."""
        return input_version_of((each.cluster, each.split) for each in splits)

    def split_serializer(self) -> VersionedSerializer[DynamicKafkaSplit]:
        """JSON."""
        return split_serializer()

    def enumerator_state_serializer(self) -> VersionedSerializer[DynamicKafkaState]:
        """JSON, with the state of each cluster in the layout of its enumerator."""
        return dynamic_state_serializer()

    def partition_of(self, split: Any) -> Mapping[str, Any]:
        """Return the cluster, the topic, and the partition, if they are columns."""
        own = split.split
        if own.pauses:  # only a reader sends the position of a later run
            return {}
        known = {CLUSTER: split.cluster, "topic": own.topic, "partition": own.partition}
        return {name: known[field] for field, name in self._layout.metadata if field in known}

    def events_after(self, splits: Sequence[DynamicKafkaSplit]) -> list[SourceEvent]:
        """Foretell where partitions resume. See `SupportsForetoldEvents`. Driver."""
        return [
            ClusterEvent.of(
                each.cluster, each.properties, PartitionPaused(own.resumed_later(own.stop))
            )
            for each in splits
            if (own := each.split).pauses and own.stop is not None
        ]

    def check_connection(self, timeout: float) -> None:
        """Check that each cluster responds. See `SupportsConnectionCheck`. Driver."""
        found = self._subscription.find(self.metadata_service)
        for name, metadata in found.items():
            check_reachable(self._config(name, metadata.properties), timeout / len(found))

    def _enumeration(
        self, cluster: str, metadata: ClusterMetadata, is_later: bool
    ) -> EnumerationSettings:
        config = self._config(cluster, metadata.properties)
        settings = self.enumeration(config, _EVERY_TOPIC)
        start = metadata.starting_offsets or (
            OffsetsInitializer.earliest() if is_later else settings.start
        )
        if self._start is not None and not is_later:
            start = self._start
        stop = settings.stop
        if stop is not None and metadata.stopping_offsets is not None:
            stop = metadata.stopping_offsets
        return dataclasses.replace(
            settings,
            start=start,
            stop=stop,
            drains_removed=self.removed_topics is RemovedTopicsPolicy.DRAIN,
        )

    def _config(self, cluster: str, properties: Mapping[str, str]) -> ClientConfig:
        """Return the client of a cluster. Driver and executor.

        As in Flink, properties of the source replace those of the metadata.
        """
        common = {
            key: value
            for key, value in self.properties.items()
            if key.lower() != BOOTSTRAP_SERVERS.key
        }
        given: dict[str, Any] = {**properties, **common}
        given |= self.metadata_service.credentials(cluster)
        return self.consumer(given)

    def _create_reader_of_cluster(
        self, context: SourceReaderContext, cluster: str, properties: Mapping[str, str]
    ) -> KafkaSourceReader:
        layout = dataclasses.replace(self._layout, cluster=cluster)
        config = self._config(cluster, properties)
        return KafkaSourceReader(
            context,
            config,
            self.fetching(config, layout),
            layout,
            self.fetch_api,
            Bounds(),
        )

    def __repr__(self) -> str:
        return (
            f"DynamicKafkaSource({self.metadata_service!r}, {self._subscription}, "
            f"{self.boundedness().value})"
        )


DYNAMIC_KAFKA_SOURCE_OPTIONS: Final = DynamicKafkaSource.OPTIONS
"""The options of `DynamicKafkaSource.from_options`."""
