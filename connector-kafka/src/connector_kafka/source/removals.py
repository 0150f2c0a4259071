# SPDX-License-Identifier: Apache-2.0
"""Topics that a source no longer reads. Driver."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace

from connector_kafka.client.metadata import LATEST, Cluster, TopicPartition
from connector_kafka.source.split import KafkaPartitionSplit
from connector_kafka.source.subscription import Subscription
from connectors_core.errors import RetryableError
from connectors_core.source import PlannedRead, SplitEnumeratorContext

__all__ = ["RemovedTopics"]

_logger = logging.getLogger(__name__)


@dataclass(eq=False, repr=False)
class RemovedTopics:
    """The offsets at which reading of removed topics ends.

    The end of a partition is that of its log after the removal, with the records of open
    transactions. Nothing that was written before the removal is lost.

    Args:
        context: The coordinator.
        cluster: The client of the cluster.
        drains: Whether removed topics are read to their end. Otherwise, reading ends at once.
    """

    context: SplitEnumeratorContext[KafkaPartitionSplit]
    cluster: Cluster
    drains: bool = True
    _subscribed: frozenset[str] | None = field(default=None, init=False)
    _returned: frozenset[str] = field(default=frozenset(), init=False)
    # Discovery reads it on other threads: it is replaced, never changed.
    _ends: Mapping[TopicPartition, int] = field(default_factory=dict, init=False)
    _asked: set[TopicPartition] | None = field(default=None, init=False)

    @property
    def subscribed(self) -> frozenset[str] | None:
        """The topics to read, or None for all that a source finds."""
        return self._subscribed

    def subscribe(self, topics: Collection[str]) -> None:
        """Take over the topics to read."""
        if self._subscribed is not None:
            self._returned |= frozenset(topics) - self._subscribed
        self._subscribed = frozenset(topics)
        self._ends = {each: end for each, end in self._ends.items() if self.contains(each)}
        if self._asked is not None:  # a topic that is removed again later has a later end
            self._asked -= {each for each in self._asked if not self.contains(each)}

    def contains(self, partition: TopicPartition) -> bool:
        """Return whether the topic of a partition was removed."""
        return self._subscribed is not None and partition.topic not in self._subscribed

    def narrowed(self, subscription: Subscription, active: Iterable[str]) -> Subscription | None:
        """Return the part of a subscription to look for, or None if it is nothing.

        Args:
            subscription: The subscription of the source.
            active: The partitions that are read, as `topic-partition`.
        """
        if self._subscribed is None:
            return subscription
        topics = self._subscribed | {name.rpartition("-")[0] for name in active}
        return Subscription(topics=tuple(sorted(topics))) if topics else None

    def without_dropped(self, known: Mapping[str, str]) -> Mapping[str, str]:
        """Return the entries of `topic-partition` whose ends matter."""
        subscribed = self._subscribed
        if self.drains or subscribed is None:
            return known
        return {name: each for name, each in known.items() if name.rpartition("-")[0] in subscribed}

    def end_now(self, partition: TopicPartition) -> None:
        """End a partition that no longer exists at its position, if its topic was removed."""
        if self.contains(partition):
            self._ends = {**self._ends, partition: 0}

    def end_of(self, partition: TopicPartition) -> int | None:
        """Return the end of a removed partition, or None if it is not known yet."""
        if self.contains(partition) and not self.drains:
            return 0
        return self._ends.get(partition)

    def has_read(self, split: KafkaPartitionSplit) -> bool:
        """Return whether a split is at the end of a removed partition.

        A run up to the available records can pause before it, because open transactions end later.
        """
        if not self.contains(split.topic_partition):
            return False
        end = self.end_of(split.topic_partition)
        if end is None:  # an earlier driver knew it, unless the topic was read again since
            return split.drained and split.topic not in self._returned
        return split.offset >= end

    def pause_of(self, split: KafkaPartitionSplit) -> int | None:
        """Return the offset at which a removed split pauses, or None if it is not known yet."""
        end = self.end_of(split.topic_partition)
        return split.offset if end is None and self.has_read(split) else end

    def noted(self, read: PlannedRead[KafkaPartitionSplit]) -> PlannedRead[KafkaPartitionSplit]:
        """Return a read whose split says whether it pauses at the end of a removed topic."""
        split, stop = read.split, read.split.stop
        if stop is None or not split.pauses:
            return read
        drained = self.has_read(split.resumed_later(stop))
        return replace(read, split=replace(split, drained=drained))

    def limited(self, ends: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Return the ends up to which partitions are read, from those of their logs."""
        known = {each: self.end_of(each) for each in ends}
        return {
            each: end if (last := known[each]) is None else min(end, last)
            for each, end in ends.items()
        }

    def ask_for_ends(self, partitions: Iterable[TopicPartition]) -> None:
        """Request the ends of those that were removed, unless they are known or requested.

        Args:
            partitions: All partitions that are read.
        """
        if self._subscribed is None:
            return
        removed = {each for each in partitions if self.contains(each)}
        self.context.metric_group.set("drainingPartitions", len(removed))
        wanted = removed - self._ends.keys()
        if not wanted or self._asked is not None or not self.drains:
            return
        self._asked = set(wanted)

        def take(found: Mapping[TopicPartition, int] | None, error: BaseException | None) -> None:
            asked, self._asked = self._asked, None
            if found is not None:
                assert asked is not None
                self.take_ends({each: end for each, end in found.items() if each in asked})
            elif isinstance(error, RetryableError):
                _logger.warning("the ends of removed topics are not known yet", exc_info=error)
            else:
                assert error is not None
                raise error

        self.context.call_async(lambda: self.find_ends(wanted), take)

    def find_ends(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the ends of those that were removed and whose ends are not known. Worker thread.

        Raises:
            KafkaRetryableError: The cluster does not respond.
        """
        removed = {each for each in partitions if self.contains(each)}
        return self.cluster.offsets(removed - self._ends.keys(), LATEST) if self.drains else {}

    def take_ends(self, found: Mapping[TopicPartition, int]) -> None:
        """Take over ends that `find_ends` has returned. The first ones count."""
        of_removed = {each: end for each, end in found.items() if self.contains(each)}
        self._ends = {**of_removed, **self._ends}
