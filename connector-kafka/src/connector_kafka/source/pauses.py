# SPDX-License-Identifier: Apache-2.0
"""Partitions that are not read until a later run, or until their topic returns. Driver."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from connector_kafka.source.split import KafkaPartitionSplit

__all__ = ["PausedPartitions"]


@dataclass(frozen=True)
class PausedPartitions:
    """The splits that resume paused partitions. Immutable, because worker threads read it.

    Attributes:
        splits: These splits, one for each ID.
    """

    splits: tuple[KafkaPartitionSplit, ...] = ()

    def having(self, split: KafkaPartitionSplit) -> PausedPartitions:
        """Return the partitions with one more, or with a later position of it."""
        return PausedPartitions((*self.without([split]).splits, split))

    def without(self, splits: Iterable[KafkaPartitionSplit]) -> PausedPartitions:
        """Return the partitions without those of some splits."""
        ids = {each.split_id for each in splits}
        return PausedPartitions(tuple(each for each in self.splits if each.split_id not in ids))

    def others(self, known: Mapping[str, str]) -> dict[str, str]:
        """Return the entries of `topic-partition` that are not paused."""
        paused = {str(each.topic_partition) for each in self.splits}
        return {name: each for name, each in known.items() if name not in paused}

    def returned(self, found: Iterable[KafkaPartitionSplit]) -> Sequence[KafkaPartitionSplit]:
        """Return the splits that resume partitions which were found again.

        Args:
            found: Splits of all found partitions, from their start.

        Returns:
            The paused splits, or those from the start if the topic was recreated.
        """
        paused = {each.split_id: each for each in self.splits}
        return [
            before
            if before.topic_id in ("", each.topic_id)
            else replace(each, resumed=before.resumed)
            for each in found
            if (before := paused.get(each.split_id)) is not None
        ]
