# SPDX-License-Identifier: Apache-2.0
"""A split: a partition or a range of one, with the position in it."""

from __future__ import annotations

import json
from collections.abc import Iterable
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
    "input_version_of",
    "split_serializer",
]


@dataclass(frozen=True, kw_only=True)
class KafkaPartitionSplit(SourceSplit):
    """A partition, read from an offset on.

    Attributes:
        split_id: `topic-partition`, or `topic-partition@start-stop` for a range of a partition.
        topic: The topic.
        partition: The partition.
        topic_id: Distinguishes the topic from a later one of the same name. Empty if not known.
        offset: The next offset to read.
        stop: The first offset not to read now, or None if it is not planned yet.
        last_stop: The first offset never to read, or None for a partition without an end.
        lost: The number of offsets that readers skipped because their records were lost.
        cuts: How often the partition lost its end after it had been read.
        pauses: Whether reading pauses at the stop, because a run up to the available records ends
            or because the topic was removed. The next split of the partition resumes there.
        resumed: How often reading was paused before.
        drained: Whether the stop, or after a pause the offset, is the end of a removed topic.
        leader_epoch: The epoch of a leader (KIP-320) whose log had the records before the offset.
            None of them has a later epoch. -1 if it is not known.
        stop_epoch: The same for the records before the stop.
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
    resumed: int = 0
    drained: bool = False
    leader_epoch: int = -1
    stop_epoch: int = -1

    @property
    def topic_partition(self) -> TopicPartition:
        """The partition."""
        return TopicPartition(self.topic, self.partition)

    def id_in(self, cluster: str) -> str:
        """Return the ID of the split in a source of several clusters.

        A partition that resumes is another split, because the ID of a split is never used again.

        Args:
            cluster: The ID of the cluster. Empty in a source of one cluster.
        """
        if not cluster:
            return self.split_id
        pauses = f"#{self.resumed}" if self.resumed else ""
        return f"{cluster}:{self.split_id}{pauses}"

    def resumed_later(self, offset: int) -> KafkaPartitionSplit:
        """Return the split that resumes after a pause at an offset."""
        return replace(
            self,
            offset=offset,
            stop=None,
            pauses=False,
            resumed=self.resumed + 1,
            leader_epoch=self.stop_epoch if offset == self.stop else self.leader_epoch,
        )

    def moved_to(self, offset: int, leader_epoch: int = -1) -> KafkaPartitionSplit:
        """Return the split at another offset."""
        return replace(self, offset=offset, leader_epoch=leader_epoch)

    def weight(self) -> int:
        """The number of remaining offsets, as far as it is known."""
        stop = self.last_stop if self.stop is None else self.stop
        return 1 if stop is None else max(1, stop - self.offset)

    def still_to_skip(self, rows: int, behind: Self) -> int:
        """Lost records produce no rows.

        Neither do records after the log was cut or the topic recreated.

        If compaction left gaps among the lost offsets, fewer rows were lost, so some rows are
        repeated.
        """
        if (self.topic_id, self.cuts) != (behind.topic_id, behind.cuts):
            return 0
        return max(0, rows - (self.lost - behind.lost))


class KafkaSplitState(SplitState[KafkaPartitionSplit]):
    """The mutable position in a split."""

    def __init__(self, split: KafkaPartitionSplit) -> None:
        self._split = split
        self._offset = split.offset
        self._leader_epoch = split.leader_epoch
        self._lost = split.lost

    @property
    def split(self) -> KafkaPartitionSplit:
        """The split that the reader received."""
        return self._split

    def move_to(self, offset: int, leader_epoch: int = -1) -> None:
        """Advance to this offset, before which everything was emitted.

        Args:
            offset: The offset.
            leader_epoch: The leader epoch of the records before it, or -1 if it is not known.
        """
        self._offset = offset
        self._leader_epoch = leader_epoch

    def pass_over(self, offsets: int) -> None:
        """Count this number of offsets as lost."""
        self._lost += offsets

    def to_split(self) -> KafkaPartitionSplit:
        """Return the split to resume from."""
        moved = self._split.moved_to(self._offset, self._leader_epoch)
        return replace(moved, lost=self._lost)


@dataclass(frozen=True)
class OffsetsLost(SourceEvent):
    """A reader found lost records and skipped them, as `on-data-loss` allows.

    Attributes:
        topic: The topic.
        partition: The partition.
        start: The first lost offset.
        stop: The offset at which reading continued.
        split_id: The split.
        resume_at: The next available offset, which can be far beyond the plan. The next plan starts
            there. None if that is not known.
        cut_at: The offset at which the log was cut and written again, although the records after it
            had been read. The next plan starts there. None for any other loss.
        cuts: The number of earlier cuts that the split knows.
    """

    topic: str
    partition: int
    start: int
    stop: int
    split_id: str = ""
    resume_at: int | None = None
    cut_at: int | None = None
    cuts: int = 0


@dataclass(frozen=True)
class PartitionPaused(SourceEvent):
    """A reader reached the offset at which reading of a partition pauses.

    Attributes:
        split: The split that resumes there.
    """

    split: KafkaPartitionSplit


def input_version_of(splits: Iterable[tuple[str, KafkaPartitionSplit]]) -> str | None:
    """Return the topics and the ranges of offsets of a batch run, however they are divided.

    Args:
        splits: The splits, with their clusters.

    Returns:
        None if a topic cannot be told from a later one of the same name.
    """
    ranges: dict[tuple[str, str, int, str], tuple[int, int]] = {}
    for cluster, split in splits:
        if split.stop is None or not split.topic_id:
            return None
        if split.offset < split.stop:
            key = (cluster, split.topic, split.partition, split.topic_id)
            start, stop = ranges.get(key, (split.offset, split.stop))
            ranges[key] = min(start, split.offset), max(stop, split.stop)
    return json.dumps(sorted(ranges.items()))


def split_serializer() -> JsonDataclassSerializer[KafkaPartitionSplit]:
    """The stored form of splits."""
    return JsonDataclassSerializer(KafkaPartitionSplit)
