# SPDX-License-Identifier: Apache-2.0
"""A split: a partition, or a range of one, with the position in it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

from connector_kafka.client.metadata import TopicPartition
from connectors_core.serialization import JsonDataclassSerializer
from connectors_core.source import SourceEvent, SourceSplit, SplitState

__all__ = [
    "KafkaPartitionSplit",
    "KafkaSplitState",
    "OffsetsLost",
    "PartitionPaused",
    "split_serializer",
]


@dataclass(frozen=True, kw_only=True)
class KafkaPartitionSplit(SourceSplit):
    """A partition from an offset on.

    Attributes:
        split_id: `topic-partition`, or `topic-partition@start-stop` for a range of a partition.
        topic: The topic.
        partition: The partition.
        topic_id: Tells the topic from a later one of the same name; empty where it is not known.
        offset: The next offset to read.
        stop: The first offset that is not read now; None where that is not planned yet.
        last_stop: The first offset that is never read; None for a partition without an end.
        lost: How many offsets readers passed over because their records were gone.
        cuts: How often the partition lost its end behind what was read.
        pauses: At its stop ends a run to what is available; a later run goes on behind it.
    """

    split_id: str
    topic: str
    partition: int
    topic_id: str = ""
    offset: int
    stop: int | None = None
    last_stop: int | None = None
    lost: int = 0
    cuts: int = 0
    pauses: bool = False

    @property
    def topic_partition(self) -> TopicPartition:
        """The partition."""
        return TopicPartition(self.topic, self.partition)

    def weight(self) -> int:
        """Offsets that are left, as far as that is known."""
        stop = self.last_stop if self.stop is None else self.stop
        return 1 if stop is None else max(1, stop - self.offset)

    def still_to_skip(self, rows: int, behind: Self) -> int:
        """Rows of records that are gone do not come, and none after the log was cut or made anew.

        Where compaction left gaps among the lost offsets, fewer rows were lost: some come again.
        """
        if (self.topic_id, self.cuts) != (behind.topic_id, behind.cuts):
            return 0
        return max(0, rows - (self.lost - behind.lost))


class KafkaSplitState(SplitState[KafkaPartitionSplit]):
    """The moving position of a split."""

    def __init__(self, split: KafkaPartitionSplit) -> None:
        self._split = split
        self._offset = split.offset
        self._lost = split.lost

    @property
    def split(self) -> KafkaPartitionSplit:
        """The split as it was given to the reader."""
        return self._split

    def move_to(self, offset: int) -> None:
        """What stands before this offset was emitted."""
        self._offset = offset

    def pass_over(self, offsets: int) -> None:
        """The records of so many offsets are gone."""
        self._lost += offsets

    def to_split(self) -> KafkaPartitionSplit:
        """The split to go on from."""
        return replace(self._split, offset=self._offset, lost=self._lost)


@dataclass(frozen=True)
class OffsetsLost(SourceEvent):
    """A reader found records gone and went on behind them, as `on-data-loss` allows.

    Attributes:
        topic: The topic.
        partition: The partition.
        start: The first offset that was to be read.
        stop: The offset where reading went on.
        split_id: The split.
        resume_at: Where records are to be read again, which may lie far behind the plan: the next
            one begins there. None where that is not known.
    """

    topic: str
    partition: int
    start: int
    stop: int
    split_id: str = ""
    resume_at: int | None = None


@dataclass(frozen=True)
class PartitionPaused(SourceEvent):
    """A reader came to where a run to what was available ends.

    Attributes:
        split: What a later run goes on with.
    """

    split: KafkaPartitionSplit


def split_serializer() -> JsonDataclassSerializer[KafkaPartitionSplit]:
    """How splits are stored."""
    return JsonDataclassSerializer(KafkaPartitionSplit)
