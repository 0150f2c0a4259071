# SPDX-License-Identifier: Apache-2.0
"""Discovers partitions, and determines where reading of new ones starts and ends. Driver."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Final

from connector_kafka.client.config import GROUP_ID, ClientConfig
from connector_kafka.client.metadata import Cluster, IsolationLevel, LogOffset, TopicPartition
from connector_kafka.source.offsets import OffsetsInitializer
from connector_kafka.source.split import KafkaPartitionSplit
from connector_kafka.source.subscription import Subscription
from connectors_core.errors import DataLossError, InvalidOptionError
from connectors_core.source import SplitEnumeratorContext

__all__ = ["Discovery", "EnumerationSettings", "FoundPartitions"]

_logger = logging.getLogger(__name__)

# The minimum size of a range, below which a task costs more than it saves.
_SMALLEST_RANGE: Final = 100_000
_RANGES_PER_READER: Final = 4


@dataclass(frozen=True, kw_only=True)
class EnumerationSettings:
    """What to read, and how to discover it.

    Attributes:
        config: Properties of the client.
        subscription: The selection of partitions.
        start: The start offsets of partitions found at the start.
        stop: The end offsets, or None for no end.
        bounded: Whether the source is bounded. Otherwise, a source with an end is a stream that
            ends.
        isolation: The isolation level, which determines where partitions end.
        on_data_loss: `fail`, `earliest`, or `latest`.
        discovery_interval: Interval of partition discovery. None discovers partitions once.
        poll_interval: Interval at which the source checks for new records.
        drains_removed: Whether topics that the source no longer reads are read to their end.
        commit_offsets: Whether to commit the group's offsets.
    """

    config: ClientConfig
    subscription: Subscription
    start: OffsetsInitializer
    stop: OffsetsInitializer | None
    bounded: bool
    isolation: IsolationLevel
    on_data_loss: str
    discovery_interval: timedelta | None
    poll_interval: timedelta
    commit_offsets: bool
    drains_removed: bool = True


@dataclass(frozen=True)
class FoundPartitions:
    """The result of a partition discovery.

    Attributes:
        partitions: All existing partitions, with the IDs of their topics.
        new: Splits of the new partitions.
        recreated: The start offsets of partitions whose topic was recreated.
    """

    partitions: Mapping[TopicPartition, str]
    new: tuple[KafkaPartitionSplit, ...]
    recreated: Mapping[TopicPartition, int]


@dataclass(eq=False, repr=False)
class Discovery:
    """Discovers the partitions of a subscription on worker threads.

    Args:
        context: The coordinator.
        settings: The settings of the source.
        cluster: The client of the cluster.
    """

    context: SplitEnumeratorContext[KafkaPartitionSplit]
    settings: EnumerationSettings
    cluster: Cluster

    def __post_init__(self) -> None:
        self._group = self.settings.config.get(GROUP_ID)

    def look(
        self, subscription: Subscription, known: Mapping[str, str], *, started: bool
    ) -> FoundPartitions:
        """Discover partitions, and the offsets at which to read the new ones.

        Args:
            subscription: The selection of partitions.
            known: The topic ID of every partition found before, by `topic-partition`.
            started: Whether the first partitions were found. New ones are then read from the
                earliest offset.
        """
        settings = self.settings
        partitions = subscription.find(self.cluster)
        if not started:
            subscription.check_complete(partitions)
        new = [each for each in partitions if str(each) not in known]
        recreated = [
            each
            for each, topic_id in partitions.items()
            if topic_id and known.get(str(each), topic_id) not in ("", topic_id)
        ]
        starts = self._resolve(OffsetsInitializer.earliest() if started else settings.start, new)
        stops = {} if settings.stop is None else self._resolve(settings.stop, new)
        # After the stops, so that no record before them has a later leader epoch.
        ends: Mapping[TopicPartition, LogOffset] = {}
        if not started and (settings.start.is_given or settings.bounded):
            ends = self.cluster.ends(new, IsolationLevel.READ_UNCOMMITTED)
            starts = self._within_log(starts, stops, ends)
        self._check_order(starts, stops)
        return FoundPartitions(
            partitions=partitions,
            new=tuple(
                split
                for each in sorted(new)
                for split in self._splits_of(
                    each, partitions[each], starts[each], stops.get(each), ends.get(each)
                )
            ),
            recreated=self._resolve(
                OffsetsInitializer.latest()
                if settings.on_data_loss == "latest"
                else OffsetsInitializer.earliest(),
                recreated,
            ),
        )

    def _within_log(
        self,
        starts: Mapping[TopicPartition, int],
        stops: Mapping[TopicPartition, int],
        logs: Mapping[TopicPartition, LogOffset],
    ) -> dict[TopicPartition, int]:
        """Compare offsets from outside the log with its end, because no records exist beyond it.

        Returns:
            The offsets at which reading starts. A group's offset beyond the end means that records
            are lost, and `on-data-loss` determines the reaction.
        """
        settings = self.settings
        ends = {each: log.offset for each, log in logs.items()}
        if settings.bounded and settings.stop is not None and settings.stop.is_given:
            self._check_ends(stops, ends)
        if not settings.start.is_given:
            return dict(starts)
        beyond = {each: offset for each, offset in starts.items() if offset > ends[each]}
        if not beyond:
            return dict(starts)
        found, expected = _listed(beyond), _listed({each: ends[each] for each in beyond})
        if any(settings.start.stated(each) for each in beyond):
            raise InvalidOptionError(
                "reading cannot start beyond the end of the log",
                expected=f"at most {expected}, where the log ends now",
                found=found,
                option="scan.startup.specific-offsets",
                hint="check the offsets; latest-offset starts at the end of the log",
            )
        if settings.on_data_loss == "fail":
            raise DataLossError(
                f"the group {self._group!r} committed offsets beyond the end of the log",
                expected=f"at most {expected}, where the log ends now",
                found=found,
                option="on-data-loss",
                hint="the topic was recreated or lost its end; set on-data-loss to earliest or "
                "latest, or choose another start",
            )
        _logger.error("offsets of group %r are beyond the end of the log: %s", self._group, found)
        instead = (
            OffsetsInitializer.latest()
            if settings.on_data_loss == "latest"
            else OffsetsInitializer.earliest()
        )
        return {**starts, **self._resolve(instead, list(beyond))}

    def _check_ends(
        self, stops: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]
    ) -> None:
        beyond = {each: offset for each, offset in stops.items() if offset > ends[each]}
        if not beyond:
            return
        stop = self.settings.stop
        assert stop is not None
        stated = any(stop.stated(each) for each in beyond)
        raise InvalidOptionError(
            "a bounded source cannot end beyond the end of the log",
            expected=f"at most {_listed({each: ends[each] for each in beyond})}, where the log "
            "ends now",
            found=_listed(beyond),
            option="scan.bounded.specific-offsets" if stated else "scan.bounded.mode",
            hint="use latest-offset to read the existing records, or a stream that ends "
            "(scan.bounded.stream) to wait for the missing ones",
        )

    def _check_order(
        self, starts: Mapping[TopicPartition, int], stops: Mapping[TopicPartition, int]
    ) -> None:
        behind = {each: at for each, at in starts.items() if at > stops.get(each, at)}
        start, stop = self.settings.start, self.settings.stop
        if not behind or stop is None:
            return
        found, end = _listed(behind), _listed({each: stops[each] for each in behind})
        if any(start.stated(each) and stop.stated(each) for each in behind):
            raise InvalidOptionError(
                "reading cannot start after its end",
                expected=f"at most {end}, where reading ends",
                found=found,
                option="scan.startup.mode",
                hint="check both; an end is the first offset, or the first time, not to read",
            )
        _logger.warning("nothing is read: it would start at %s, and ends at %s", found, end)

    def _resolve(
        self, offsets: OffsetsInitializer, partitions: Sequence[TopicPartition]
    ) -> dict[TopicPartition, int]:
        return offsets.resolve(
            self.cluster, partitions, group=self._group, isolation=self.settings.isolation
        )

    def _splits_of(
        self,
        partition: TopicPartition,
        topic_id: str,
        start: int,
        stop: int | None,
        end: LogOffset | None,
    ) -> Iterable[KafkaPartitionSplit]:
        if stop is not None:
            stop = max(start, stop)
        whole = KafkaPartitionSplit(
            split_id=str(partition),
            topic=partition.topic,
            partition=partition.partition,
            topic_id=topic_id,
            offset=start,
            stop=stop if self.settings.bounded else None,
            last_stop=stop,
            stop_epoch=-1 if end is None else end.leader_epoch,
        )
        if stop is None or not self.settings.bounded or self.context.event_time_order:
            return [whole]
        most = max(
            _SMALLEST_RANGE,
            -(-(stop - start) // (_RANGES_PER_READER * self.context.current_parallelism)),
        )
        if stop - start <= most:
            return [whole]
        bounds = [*range(start, stop, most), stop]
        return [
            replace(
                whole, split_id=f"{partition}@{begin}-{end}", offset=begin, stop=end, last_stop=end
            )
            for begin, end in itertools.pairwise(bounds)
        ]


def _listed(offsets: Mapping[TopicPartition, int]) -> str:
    """Format a few offsets for an error."""
    listed = ", ".join(f"{each}: {offset}" for each, offset in itertools.islice(offsets.items(), 5))
    return listed if len(offsets) <= 5 else f"{listed} and {len(offsets) - 5} more"
