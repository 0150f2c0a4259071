# SPDX-License-Identifier: Apache-2.0
"""Finds partitions, knows how far they reach, and commits offsets for others to see. Driver."""

from __future__ import annotations

import itertools
import logging
import threading
import time
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Final

from connector_kafka.client.config import GROUP_ID, ClientConfig
from connector_kafka.client.errors import is_missing
from connector_kafka.client.metadata import LATEST, Cluster, IsolationLevel, TopicPartition
from connector_kafka.client.wire import Wire
from connector_kafka.errors import KafkaRetryableError
from connector_kafka.source.offsets import OffsetsInitializer
from connector_kafka.source.planning import plan
from connector_kafka.source.split import KafkaPartitionSplit, OffsetsLost, PartitionPaused
from connector_kafka.source.subscription import Subscription
from connectors_core.errors import ConnectorError, DataLossError, RetryableError
from connectors_core.metrics import EnumeratorMetric, SourceMetric
from connectors_core.serialization import JsonDataclassSerializer
from connectors_core.source import (
    PlanLimits,
    PlannedRead,
    SourceEvent,
    SplitEnumerator,
    SplitEnumeratorContext,
    SupportsAvailableNow,
    SupportsCommittedPositions,
    SupportsPlannedStops,
)

__all__ = [
    "EnumerationSettings",
    "KafkaEnumerator",
    "KafkaEnumeratorState",
    "state_serializer",
]

_logger = logging.getLogger(__name__)

# So many looks may fail in a row before the pipeline does; each was tried again by itself.
_MAX_FAILURES: Final = 5
# A broker that has just started may not know of a topic that is there.
_GONE_SECONDS: Final = 10.0
_LOOK_AGAIN_SECONDS: Final = 1.0
_GAUGE_SECONDS: Final = 0.5
_LAST_COMMIT_SECONDS: Final = 5.0
# Ranges are not made smaller than this: a task costs more than it saves.
_SMALLEST_RANGE: Final = 100_000
_RANGES_PER_READER: Final = 4


@dataclass(frozen=True, kw_only=True)
class EnumerationSettings:
    """What is read, and how it is found.

    Attributes:
        config: Properties of the client.
        subscription: Which partitions.
        start: Where reading begins in partitions found at the start.
        stop: Where it ends; None for never.
        bounded: The source is bounded; else one with an end is a stream that ends.
        isolation: What is read decides where partitions end.
        on_data_loss: `fail`, `earliest` or `latest`.
        discovery_interval: Time between looks for partitions; None looks once.
        poll_interval: Time between looks for new records.
        commit_offsets: Commit the group's offsets.
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


@dataclass(frozen=True, kw_only=True)
class KafkaEnumeratorState:
    """What discovery goes on from.

    Attributes:
        known: The topic id of every partition that was found, by `topic-partition`.
        waiting: Splits that no reader has yet.
        started: The partitions of the start were found; what comes later is read from the earliest.
        paused: What a run to what was available has not read to its end.
    """

    known: dict[str, str] = field(default_factory=dict)
    paused: tuple[KafkaPartitionSplit, ...] = ()
    waiting: tuple[KafkaPartitionSplit, ...] = ()
    started: bool = False


def state_serializer() -> JsonDataclassSerializer[KafkaEnumeratorState]:
    """How the state is stored."""
    return JsonDataclassSerializer(KafkaEnumeratorState)


@dataclass(frozen=True)
class _Found:
    """What a look for partitions gave.

    Attributes:
        partitions: All that are there, with the ids of their topics.
        new: Splits of those that were not known.
        made_anew: Where reading starts in partitions whose topic was made anew.
    """

    partitions: Mapping[TopicPartition, str]
    new: tuple[KafkaPartitionSplit, ...]
    made_anew: Mapping[TopicPartition, int]


@dataclass(frozen=True)
class _Ends:
    """How far partitions reach, and why that is not known of others."""

    ends: Mapping[TopicPartition, int]
    errors: tuple[KafkaRetryableError, ...]


@dataclass(frozen=True, kw_only=True)
class _Cut:
    """Where a partition ended when it was found to be shorter than it was read.

    Attributes:
        number: How often that has happened; a split that knows of fewer goes on at `end`.
        end: The offset.
    """

    number: int
    end: int


class KafkaEnumerator(
    SplitEnumerator[KafkaPartitionSplit, KafkaEnumeratorState],
    SupportsPlannedStops[KafkaPartitionSplit],
    SupportsCommittedPositions[KafkaPartitionSplit],
    SupportsAvailableNow,
):
    """See the module.

    Args:
        context: The coordinator.
        settings: What is read.
        state: What to go on from.
    """

    def __init__(
        self,
        context: SplitEnumeratorContext[KafkaPartitionSplit],
        settings: EnumerationSettings,
        state: KafkaEnumeratorState,
    ) -> None:
        self._context = context
        self._settings = settings
        self._wire = Wire(settings.config)
        self._cluster = Cluster(self._wire)
        # Looks run on other threads: what they read of this object is replaced, never changed.
        self._known: Mapping[str, str] = dict(state.known)
        self._waiting = list(state.waiting)
        self._paused = list(state.paused)
        # Of topics made anew: the state has the ids that splits had before, so that a restart finds
        # out again.
        self._former_ids: dict[str, str] = {}
        self._started = state.started
        self._ends: Mapping[TopicPartition, int] = {}
        self._last_stops: Mapping[TopicPartition, int] | None = None
        self._look_again_at = 0.0
        self._gauges_at = 0.0
        self._failures = 0
        self._missing_since: dict[TopicPartition, float] = {}
        self._gone: set[TopicPartition] = set()
        self._made_anew: dict[TopicPartition, tuple[str, int]] = {}
        self._short_since: dict[TopicPartition, float] = {}
        self._cut_off: dict[TopicPartition, _Cut] = {}
        self._positions: dict[TopicPartition, int] = {}
        self._cuts: dict[TopicPartition, int] = {}
        self._uncommitted: dict[TopicPartition, int] = {}
        self._committing = False
        self._commits_in_order = threading.Lock()
        self._told: set[int] = set()
        self._turn = itertools.count()
        self._group = settings.config.get(GROUP_ID)

    # --- life ------------------------------------------------------------------------------------

    def start(self) -> None:
        """Begin to look for partitions and for records."""
        self._waiting += self._paused
        self._paused.clear()
        if not self._complete:
            self._context.call_async(
                self._look, self._take_found, period=self._settings.discovery_interval
            )
        if not self._settings.bounded:
            self._context.call_async(
                self._look_for_ends, self._take_ends, period=self._settings.poll_interval
            )

    def close(self) -> None:
        """Commit the group's last offsets, as calls under way are dropped now, and disconnect."""
        # A commit that is still under way has older offsets: it must not come last.
        ended = self._commits_in_order.acquire(timeout=_LAST_COMMIT_SECONDS)
        try:
            if self._group is not None and self._uncommitted and ended:
                self._cluster.commit(self._group, self._uncommitted, timeout=_LAST_COMMIT_SECONDS)
        except ConnectorError as error:
            self._not_committed(error)
        finally:
            self._wire.close()
            if ended:
                self._commits_in_order.release()

    def add_reader(self, subtask_id: int) -> None:
        """Give the reader what was found for it."""
        self._assign()

    def handle_split_request(self, subtask_id: int) -> None:
        """Nothing: splits are assigned when they are found."""

    def add_splits_back(self, splits: Sequence[KafkaPartitionSplit], subtask_id: int) -> None:
        """Give the splits of a reader that went away to others."""
        self._waiting.extend(splits)
        self._assign()

    def snapshot_state(self, checkpoint_id: int) -> KafkaEnumeratorState:
        """See `SplitEnumerator`."""
        return KafkaEnumeratorState(
            known={**self._known, **self._former_ids},
            waiting=tuple(self._waiting),
            started=self._started,
            paused=tuple(self._paused),
        )

    def handle_source_event(self, subtask_id: int, event: SourceEvent) -> None:
        """A reader came to the end of this run, or went on behind records that are gone."""
        if isinstance(event, PartitionPaused):
            if self._last_stops is not None:
                self._paused.append(event.split)
            else:  # told again after a restart: this is a later run
                self.add_splits_back([event.split], subtask_id)
            return
        assert isinstance(event, OffsetsLost)
        self._count_lost(TopicPartition(event.topic, event.partition), event.start, event.stop)

    @property
    def _complete(self) -> bool:
        """Whether no further partitions are looked for."""
        return self._started and self._settings.discovery_interval is None

    # --- partitions ------------------------------------------------------------------------------

    def _look(self) -> _Found:
        """Find partitions and where to read the new ones. Worker thread."""
        settings, known, started = self._settings, self._known, self._started
        partitions = settings.subscription.find(self._cluster)
        if not started:
            settings.subscription.check_complete(partitions)
        new = [each for each in partitions if str(each) not in known]
        made_anew = [
            each
            for each, topic_id in partitions.items()
            if topic_id and known.get(str(each), topic_id) not in ("", topic_id)
        ]
        starts = self._resolve(OffsetsInitializer.earliest() if started else settings.start, new)
        stops = {} if settings.stop is None else self._resolve(settings.stop, new)
        return _Found(
            partitions=partitions,
            new=tuple(
                split
                for each in sorted(new)
                for split in self._splits_of(each, partitions[each], starts[each], stops.get(each))
            ),
            made_anew=self._resolve(
                OffsetsInitializer.latest()
                if settings.on_data_loss == "latest"
                else OffsetsInitializer.earliest(),
                made_anew,
            ),
        )

    def _resolve(
        self, offsets: OffsetsInitializer, partitions: Sequence[TopicPartition]
    ) -> dict[TopicPartition, int]:
        return offsets.resolve(
            self._cluster, partitions, group=self._group, isolation=self._settings.isolation
        )

    def _splits_of(
        self, partition: TopicPartition, topic_id: str, start: int, stop: int | None
    ) -> Iterable[KafkaPartitionSplit]:
        if stop is not None:
            stop = max(start, stop)
        whole = KafkaPartitionSplit(
            split_id=str(partition),
            topic=partition.topic,
            partition=partition.partition,
            topic_id=topic_id,
            offset=start,
            stop=stop if self._settings.bounded else None,
            last_stop=stop,
        )
        if stop is None or not self._settings.bounded or self._context.event_time_order:
            return [whole]
        most = max(
            _SMALLEST_RANGE,
            -(-(stop - start) // (_RANGES_PER_READER * self._context.current_parallelism)),
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

    def _take_found(self, found: _Found | None, error: BaseException | None) -> None:
        if found is None:
            assert error is not None
            self._look_failed(error)
            return
        self._failures = 0
        if self._last_stops is not None:
            return  # what appears after the end belongs to a later run
        self._note_vanished(found)
        # A look that began before another one ended may find the same again; one for what has
        # vanished may find more than is to be read.
        new = [
            each
            for each in found.new
            if not self._complete and str(each.topic_partition) not in self._known
        ]
        # Before the splits that were found and read earlier; see `_assign`.
        self._waiting[:0] = new
        read = {split.topic_partition for split in new}
        self._known = {
            **self._known,
            **{
                str(each): topic_id
                for each, topic_id in found.partitions.items()
                if each in read or str(each) in self._known
            },
        }
        self._started = True
        if new:
            self._context.metric_group.inc("discoveredPartitions", len(new))
        self._assign()

    def _look_failed(self, error: BaseException) -> None:
        self._failures += 1
        passing = isinstance(error, RetryableError) and not self._settings.bounded
        if not passing or self._complete or self._failures >= _MAX_FAILURES:
            raise error
        self._context.metric_group.inc("failedDiscoveries")
        _logger.warning("looking for partitions failed and is tried again", exc_info=error)
        if self._settings.discovery_interval is None:
            self._context.call_async(self._look, self._take_found)

    def _note_vanished(self, found: _Found) -> None:
        """Partitions that were deleted, or deleted and made anew, have lost their records."""
        now = time.monotonic()
        there = {str(each) for each in found.partitions}
        missing = {_partition(name) for name in self._known if name not in there} - self._gone
        for each in self._missing_since.keys() - missing:
            del self._missing_since[each]
        for each in sorted(missing):
            since = self._missing_since.setdefault(each, now)
            if now - since >= _GONE_SECONDS:
                self._lost(each, "the partition was deleted")
                self._gone.add(each)
                self._ends = {**self._ends, each: self._positions.get(each, 0)}
        for each, offset in found.made_anew.items():
            self._lost(each, "the topic was deleted and made anew")
            self._former_ids.setdefault(str(each), self._known[str(each)])
            self._made_anew[each] = (found.partitions[each], offset)
            self._gone.discard(each)

    def _lost(self, partition: TopicPartition, what: str) -> None:
        if self._settings.on_data_loss == "fail":
            raise DataLossError(
                f"records of {partition} are lost: {what}",
                expected="the partition that was read before",
                option="on-data-loss",
                hint="set on-data-loss to earliest or latest to go on without them, or begin with "
                "a new pipeline",
            )
        position = self._positions.get(partition, 0)
        self._count_lost(partition, position, position)

    def _count_lost(self, partition: TopicPartition, start: int, stop: int) -> None:
        self._context.metric_group.inc("dataLosses")
        self._context.metric_group.inc("offsetsLost", stop - start)
        _logger.error(
            "records of %s are lost (offsets %d to %d); reading goes on", partition, start, stop
        )

    # --- records ---------------------------------------------------------------------------------

    def _look_for_ends(self) -> _Ends:
        """Ask once how far partitions reach. Worker thread."""
        partitions = [each for name in self._known if (each := _partition(name)) not in self._gone]
        found, errors = self._cluster.try_offsets(partitions, LATEST, self._settings.isolation)
        return _Ends(found, tuple(errors.values()))

    def _take_ends(self, found: _Ends | None, error: BaseException | None) -> None:
        if found is None:
            assert error is not None
            raise error
        now = time.monotonic()
        if found.errors:
            # Nothing new is read of these meanwhile; a broker that is gone may come back.
            self._context.metric_group.inc("failedPolls")
            missing = any(is_missing(each.kafka_code) for each in found.errors)
            if missing and self._started and now >= self._look_again_at:
                self._look_again_at = now + _LOOK_AGAIN_SECONDS
                self._context.call_async(self._look, self._take_found)
        self._ends = {**self._ends, **found.ends}
        self._note_cut_off(found.ends, now)
        if now >= self._gauges_at:
            self._gauges_at = now + _GAUGE_SECONDS
            self._set_gauges()

    def _note_cut_off(self, ends: Mapping[TopicPartition, int], now: float) -> None:
        """A partition that stays shorter than it was read has lost its end."""
        for partition, end in ends.items():
            position = self._positions.get(partition)
            if position is None or end >= position:
                self._short_since.pop(partition, None)
            elif now - self._short_since.setdefault(partition, now) >= _GONE_SECONDS:
                del self._short_since[partition]
                self._lost(partition, f"it ends at offset {end} and was read to offset {position}")
                self._cut_off[partition] = _Cut(number=self._cuts[partition] + 1, end=end)

    def plan_reads(
        self, splits: Sequence[KafkaPartitionSplit], limits: PlanLimits
    ) -> Mapping[str, PlannedRead[KafkaPartitionSplit]]:
        """Up to where partitions reach, by the last look; limits are spread by lag."""
        moved = [self._as_it_is_now(split) for split in splits]
        for split in moved:
            self._positions[split.topic_partition] = split.offset
            self._cuts[split.topic_partition] = split.cuts
        ends = None if self._settings.bounded else self._ends
        return plan(moved, ends, limits, self._last_stops)

    def _as_it_is_now(self, split: KafkaPartitionSplit) -> KafkaPartitionSplit:
        partition = split.topic_partition
        if partition in self._gone and split.last_stop is not None:
            return replace(split, last_stop=split.offset)
        topic_id, offset = self._made_anew.get(partition, (split.topic_id, split.offset))
        cut = self._cut_off.get(partition)
        if topic_id != split.topic_id:
            return replace(split, topic_id=topic_id, offset=offset)
        if cut is not None and split.cuts < cut.number:
            return replace(split, offset=cut.end, cuts=cut.number)
        return split

    def _set_gauges(self) -> None:
        metrics = self._context.metric_group
        pending = 0
        for partition, end in self._ends.items():
            position = self._positions.get(partition)
            if position is None:
                continue
            lag = max(0, end - position)
            pending += lag
            metrics.set(_gauge(partition, "currentOffset"), position)
            metrics.set(_gauge(partition, "recordsLag"), lag)
        metrics.set(SourceMetric.PENDING_RECORDS, pending)

    # --- the end of a run to what is available now -----------------------------------------------

    def freeze_end(self) -> None:
        """Look once more; what is there then is the end."""

        def look() -> tuple[_Found, dict[TopicPartition, int]]:
            found = self._look()
            ends = self._cluster.offsets(found.partitions, LATEST, self._settings.isolation)
            return found, ends

        def take(
            result: tuple[_Found, dict[TopicPartition, int]] | None, error: BaseException | None
        ) -> None:
            if result is None:
                assert error is not None
                raise error
            found, ends = result
            self._take_found(found, None)
            self._ends = {**self._ends, **ends}
            self._last_stops = ends
            self._assign()

        self._context.call_async(look, take)

    # --- offsets of the group --------------------------------------------------------------------

    def positions_committed(
        self,
        checkpoint_id: int,
        splits: Sequence[KafkaPartitionSplit],
        finished: Sequence[KafkaPartitionSplit],
    ) -> None:
        """Commit the offsets of the group, for others to see; a failure does not stop anything."""
        left = _by_partition((split, split.offset) for split in splits)
        ended = _by_partition((split, split.stop) for split in finished)
        self._positions |= ended  # no plan comes to them any more
        self._set_gauges()
        if self._group is not None and self._settings.commit_offsets:
            self._uncommitted |= left | ended
            self._commit()

    def _commit(self) -> None:
        group, offsets = self._group, dict(self._uncommitted)
        if self._committing or not offsets or group is None:
            return
        self._committing = True

        def done(_: None, error: BaseException | None) -> None:
            self._committing = False
            for partition, offset in offsets.items():
                if self._uncommitted[partition] == offset:
                    del self._uncommitted[partition]
            metrics = self._context.metric_group
            if error is None:
                metrics.inc("commitsSucceeded")
                for partition, offset in offsets.items():
                    metrics.set(_gauge(partition, "committedOffset"), offset)
            else:
                metrics.inc("commitsFailed")
                self._not_committed(error)
            self._commit()

        def commit() -> None:
            with self._commits_in_order:
                self._cluster.commit(group, offsets)

        self._context.call_async(commit, done)

    def _not_committed(self, error: BaseException) -> None:
        _logger.warning(
            "the offsets of group %r were not committed; positions of the pipeline are not touched "
            "by that",
            self._group,
            exc_info=error,
        )

    # --- assignment ------------------------------------------------------------------------------

    def _assign(self) -> None:
        readers = sorted(self._context.registered_readers)
        if readers:
            # After a restart, the report of a paused partition can arrive before discovery finds
            # it again. Discovery then assigns the split of the earlier driver, which the
            # coordinator skips. The paused split must come after it.
            waiting, self._waiting = self._waiting, []
            assignment: dict[int, list[KafkaPartitionSplit]] = {}
            for split in waiting:
                if str(split.topic_partition) not in self._known:
                    self._waiting.append(split)
                    continue
                assignment.setdefault(readers[self._owner(split, len(readers))], []).append(split)
            if assignment:
                self._context.assign_splits(assignment)
            if self._complete or self._last_stops is not None:
                for reader in sorted(set(readers) - self._told):
                    self._told.add(reader)
                    self._context.signal_no_more_splits(reader)
        self._context.metric_group.set(EnumeratorMetric.UNASSIGNED_SPLITS, len(self._waiting))

    def _owner(self, split: KafkaPartitionSplit, readers: int) -> int:
        """Partitions of a topic go round, each topic from another reader on, as in Flink."""
        if split.split_id != str(split.topic_partition):
            return next(self._turn) % readers
        return (zlib.crc32(split.topic.encode()) + split.partition) % readers


def _partition(name: str) -> TopicPartition:
    topic, _, number = name.rpartition("-")
    return TopicPartition(topic, int(number))


def _by_partition(
    positions: Iterable[tuple[KafkaPartitionSplit, int | None]],
) -> dict[TopicPartition, int]:
    """Positions of whole partitions; one of several ranges says nothing of the others."""
    return {
        split.topic_partition: offset
        for split, offset in positions
        if offset is not None and split.split_id == str(split.topic_partition)
    }


def _gauge(partition: TopicPartition, name: str) -> str:
    """Name of a gauge of a partition, as Flink's reader calls it."""
    return f"topic.{partition.topic}.partition.{partition.partition}.{name}"
