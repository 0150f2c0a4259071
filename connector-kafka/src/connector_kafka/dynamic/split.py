# SPDX-License-Identifier: Apache-2.0
"""A split: a partition of a cluster, and the events of its reader."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Self

from connector_kafka.source.split import KafkaPartitionSplit, OffsetsLost, PartitionPaused
from connectors_core.serialization import JsonDataclassSerializer
from connectors_core.source import SourceEvent, SourceSplit

__all__ = ["ClusterEvent", "DynamicKafkaSplit", "split_serializer"]


@dataclass(frozen=True, kw_only=True)
class DynamicKafkaSplit(SourceSplit):
    """A partition of a cluster, read from an offset on.

    Attributes:
        split_id: `cluster:topic-partition`, with `#n` after the nth pause.
        cluster: The ID of the cluster.
        properties: The properties of the client that the metadata has. They are no secrets.
        split: The partition.
    """

    split_id: str
    cluster: str
    properties: dict[str, str] = field(default_factory=dict)
    split: KafkaPartitionSplit

    @classmethod
    def of(cls, cluster: str, properties: Mapping[str, str], split: KafkaPartitionSplit) -> Self:
        """Return the split of a partition of a cluster."""
        return cls(
            split_id=split.id_in(cluster),
            cluster=cluster,
            properties=dict(properties),
            split=split,
        )

    def weight(self) -> int:
        """The number of remaining offsets, as far as it is known."""
        return self.split.weight()

    def still_to_skip(self, rows: int, behind: Self) -> int:
        """As in the partition."""
        return self.split.still_to_skip(rows, behind.split)


@dataclass(frozen=True)
class ClusterEvent(SourceEvent):
    """The event of a reader of one cluster.

    Attributes:
        cluster: The ID of the cluster.
        properties: Its properties, as in its splits.
        paused: The event, if it is this one.
        lost: The event, if it is this one.
    """

    cluster: str
    properties: dict[str, str] = field(default_factory=dict)
    paused: PartitionPaused | None = None
    lost: OffsetsLost | None = None

    @classmethod
    def of(cls, cluster: str, properties: Mapping[str, str], event: SourceEvent) -> Self:
        """Return the event of a cluster for that of a partition."""
        if isinstance(event, PartitionPaused):
            return cls(cluster, dict(properties), paused=event)
        assert isinstance(event, OffsetsLost)
        return cls(cluster, dict(properties), lost=event)

    @property
    def event(self) -> SourceEvent:
        """The event of the partition."""
        event = self.paused or self.lost
        assert event is not None
        return event


def split_serializer() -> JsonDataclassSerializer[DynamicKafkaSplit]:
    """The stored form of splits."""
    return JsonDataclassSerializer(DynamicKafkaSplit)
