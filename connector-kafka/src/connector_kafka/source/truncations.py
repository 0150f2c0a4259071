# SPDX-License-Identifier: Apache-2.0
"""Checks that the records before a position are still those that were read (KIP-320). Driver."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from connector_kafka.client.metadata import (
    EARLIEST,
    LATEST,
    Cluster,
    IsolationLevel,
    LogOffset,
    TopicPartition,
)
from connector_kafka.source.split import KafkaPartitionSplit

__all__ = ["CheckedPosition", "Truncations"]


@dataclass(frozen=True, kw_only=True)
class CheckedPosition:
    """The result of a check.

    Attributes:
        split: The split at the position.
        leader_epoch: The epoch of the leader whose log was compared.
        cut_at: The offset at which the log was cut before the position, -1 if the broker does not
            know it, or None if the log was not cut.
        resume_at: The offset at which to continue after a cut.
    """

    split: KafkaPartitionSplit
    leader_epoch: int
    cut_at: int | None = None
    resume_at: int = 0


@dataclass(eq=False, repr=False)
class Truncations:
    """Compares positions with logs when their leaders change.

    An unclean leader election cuts the end of a log. The end alone does not show it if the log has
    grown again. The epochs of its leaders do.

    Args:
        cluster: The client of the cluster.
        isolation: The isolation level, which determines where partitions end.
        on_data_loss: `fail`, `earliest`, or `latest`.

    Attributes:
        leader_epochs: The epochs of the leaders that returned the last ends.
    """

    cluster: Cluster
    isolation: IsolationLevel
    on_data_loss: str
    leader_epochs: dict[TopicPartition, int] = field(default_factory=dict, init=False)
    _ends: dict[TopicPartition, int] = field(default_factory=dict, init=False)
    _checked: dict[TopicPartition, int] = field(default_factory=dict, init=False)

    def take_ends(self, ends: Mapping[TopicPartition, LogOffset]) -> None:
        """Take over the current ends of partitions, with the epochs of their leaders."""
        for each, end in ends.items():
            self._ends[each], self.leader_epochs[each] = end

    def knows(self, split: KafkaPartitionSplit) -> bool:
        """Return whether epochs show if the log of a split was cut."""
        return min(split.leader_epoch, self.leader_epochs.get(split.topic_partition, -1)) >= 0

    def must_check(self, split: KafkaPartitionSplit) -> bool:
        """Return whether the log of a split may have been cut before its position."""
        partition = split.topic_partition
        if not self.knows(split):
            return False
        leader_epoch = self.leader_epochs[partition]
        if split.leader_epoch == leader_epoch and self._ends[partition] >= split.offset:
            return False
        return self._checked.get(partition) != leader_epoch

    def forget(self, partition: TopicPartition) -> None:
        """Check a partition again."""
        self._checked.pop(partition, None)

    def check(
        self, splits: Mapping[TopicPartition, tuple[KafkaPartitionSplit, int]]
    ) -> list[CheckedPosition]:
        """Ask the leaders of partitions. Worker thread.

        Args:
            splits: The splits, with the epochs of the current leaders.

        Raises:
            KafkaRetryableError: The cluster does not respond.
        """
        asked = {each: split.leader_epoch for each, (split, _) in splits.items()}
        ends = self.cluster.epoch_ends(asked)
        cut = {each: at for each, (at, _) in ends.items() if at < splits[each][0].offset}
        resume_at = dict(cut)
        if self.on_data_loss == "latest":
            resume_at = self.cluster.offsets(cut, LATEST, self.isolation)
        elif self.on_data_loss == "earliest":
            unknown = [each for each, offset in cut.items() if offset < 0]
            resume_at |= self.cluster.offsets(unknown, EARLIEST)
        return [
            CheckedPosition(
                split=split,
                leader_epoch=leader_epoch,
                cut_at=cut.get(each),
                resume_at=resume_at.get(each, 0),
            )
            for each, (split, leader_epoch) in splits.items()
        ]

    def checked(self, position: CheckedPosition) -> None:
        """Take over that the log was not cut."""
        self._checked[position.split.topic_partition] = position.leader_epoch
