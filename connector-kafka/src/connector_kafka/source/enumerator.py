# SPDX-License-Identifier: Apache-2.0
"""Discovers partitions, knows their end offsets, and commits the group's offsets. Driver."""

from __future__ import annotations

import itertools
import time
import zlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Final

from connector_kafka.client.config import GROUP_ID
from connector_kafka.client.errors import is_missing
from connector_kafka.client.metadata import Cluster, LogOffset, TopicPartition
from connector_kafka.client.retries import retry_log
from connector_kafka.client.wire import Wire
from connector_kafka.errors import KafkaRetryableError
from connector_kafka.source.discovery import Discovery, EnumerationSettings, FoundPartitions
from connector_kafka.source.group_offsets import GroupOffsets, set_lags
from connector_kafka.source.losses import Losses
from connector_kafka.source.pauses import PausedPartitions
from connector_kafka.source.plans import plan
from connector_kafka.source.removals import RemovedTopics
from connector_kafka.source.run_stops import RunStops
from connector_kafka.source.split import KafkaPartitionSplit, OffsetsLost, PartitionPaused
from connector_kafka.source.truncations import GONE_SECONDS, Truncations
from connectors_core.errors import RetryableError
from connectors_core.metrics import EnumeratorMetric
from connectors_core.serialization import JsonDataclassSerializer
from connectors_core.source import (
    PlannedRead,
    ReadLimits,
    SourceEvent,
    SplitEnumerator,
    SplitEnumeratorContext,
    SupportsAvailableNow,
    SupportsBatchSnapshot,
    SupportsCommittedPositions,
    SupportsPlannedStops,
)

__all__ = [
    "EnumerationSettings",
    "KafkaEnumerator",
    "KafkaEnumeratorState",
    "state_serializer",
]

# The number of consecutive discoveries that can fail before the pipeline fails. Each one retries by
# itself.
_MAX_FAILURES: Final = 5
_LOOK_AGAIN_SECONDS: Final = 1.0
_GAUGE_SECONDS: Final = 0.5


@dataclass(frozen=True, kw_only=True)
class KafkaEnumeratorState:
    """The state of the discovery.

    Attributes:
        known: The topic ID of every partition found, by `topic-partition`.
        waiting: Unassigned splits.
        started: Whether the first partitions were found. Later ones are read from the earliest
            offset.
        paused: Splits that resume partitions: in the next run after one up to the available
            records, or when their removed topic returns.
        resume_at: The next offsets of splits with lost records, until a plan contains them.
    """

    known: dict[str, str] = field(default_factory=dict)
    paused: tuple[KafkaPartitionSplit, ...] = ()
    waiting: tuple[KafkaPartitionSplit, ...] = ()
    started: bool = False
    resume_at: dict[str, int] = field(default_factory=dict)

    @property
    def is_drained(self) -> bool:
        """Whether nothing is left to read before a removed topic returns."""
        paused = PausedPartitions(tuple(each for each in self.paused if each.drained))
        return not (self.waiting or paused.others(self.known))


def state_serializer() -> JsonDataclassSerializer[KafkaEnumeratorState]:
    """The stored form."""
    return JsonDataclassSerializer(KafkaEnumeratorState)


@dataclass(frozen=True)
class _Ends:
    """The end offsets of partitions, and the errors of the others."""

    ends: Mapping[TopicPartition, LogOffset]
    errors: tuple[KafkaRetryableError, ...]


@dataclass(frozen=True)
class _Frozen:
    """The available records that a run reads.

    Attributes:
        found: The partitions.
        ends: Their ends, before open transactions if only committed records are read.
        of_removed: The ends of removed partitions, after open transactions.
    """

    found: FoundPartitions
    ends: Mapping[TopicPartition, LogOffset]
    of_removed: Mapping[TopicPartition, int]


class KafkaEnumerator(
    SplitEnumerator[KafkaPartitionSplit, KafkaEnumeratorState],
    SupportsPlannedStops[KafkaPartitionSplit],
    SupportsCommittedPositions[KafkaPartitionSplit],
    SupportsAvailableNow,
    SupportsBatchSnapshot,
):
    """The enumerator of partitions; see the module.

    Args:
        context: The coordinator.
        settings: The settings of the source.
        state: The state to resume from.
        topics: The topics of the subscription to read; None for all. See `subscribe`.
    """

    def __init__(
        self,
        context: SplitEnumeratorContext[KafkaPartitionSplit],
        settings: EnumerationSettings,
        state: KafkaEnumeratorState,
        *,
        topics: Collection[str] | None = None,
    ) -> None:
        self._context = context
        self._settings = settings
        self._wire = Wire(settings.config)
        self._cluster = Cluster(self._wire)
        self._discovery = Discovery(context, settings, self._cluster)
        self._removed = RemovedTopics(context, self._cluster, settings.drains_removed)
        if topics is not None:
            self._removed.subscribe(topics)
        # Discovery runs on other threads: what it reads of this object is replaced, never changed.
        self._known: Mapping[str, str] = dict(state.known)
        self._waiting = list(state.waiting)
        self._paused = PausedPartitions(state.paused)
        self._resume_at = dict(state.resume_at)
        # The state keeps the earlier IDs of recreated topics until a plan has moved their splits.
        self._former_ids: dict[str, str] = {}
        self._started = state.started
        self._ends: Mapping[TopicPartition, int] = {}
        self._stops = RunStops()
        self._look_again_at = 0.0
        self._gauges_at = 0.0
        self._failures = 0
        self._look_log = retry_log("discovering partitions of", settings.config)
        self._poll_log = retry_log("discovering records of", settings.config)
        self._missing_since: dict[TopicPartition, float] = {}
        self._gone: set[TopicPartition] = set()
        self._recreated: dict[TopicPartition, tuple[str, int]] = {}
        self._positions: dict[TopicPartition, int] = {}
        self._losses = Losses(context, settings.on_data_loss)
        self._truncations = Truncations(
            context, settings, self._cluster, self._losses, self._move_stop
        )
        self._told: set[int] = set()
        self._turn = itertools.count()
        group = settings.config.get(GROUP_ID)
        self._group_offsets = (
            GroupOffsets(context, self._cluster, group)
            if group is not None and settings.commit_offsets
            else None
        )

    def start(self) -> None:
        """Start discovering partitions and records."""
        self._resume([each for each in self._paused.splits if not self._removed.has_read(each)])
        self._note_removed(self._waiting)
        if not self._complete:
            self._context.call_async(
                self._look, self._take_found, period=self._settings.discovery_interval
            )
        if not self._settings.bounded:
            self._context.call_async(
                self._look_for_ends, self._take_ends, period=self._settings.poll_interval
            )

    def close(self) -> None:
        """Commit the group's last offsets and disconnect. Pending calls are dropped."""
        try:
            if self._group_offsets is not None:
                self._group_offsets.close()
        finally:
            self._wire.close()

    def add_reader(self, subtask_id: int) -> None:
        """Assign the reader its discovered splits."""
        self._assign()

    def handle_split_request(self, subtask_id: int) -> None:
        """Do nothing: splits are assigned when they are discovered."""

    def add_splits_back(self, splits: Sequence[KafkaPartitionSplit], subtask_id: int) -> None:
        """Return the splits of a failed reader for reassignment."""
        self._waiting.extend(splits)
        self._assign()

    def snapshot_state(self, checkpoint_id: int) -> KafkaEnumeratorState:
        """See `SplitEnumerator`."""
        return KafkaEnumeratorState(
            known={**self._known, **self._former_ids},
            waiting=tuple(self._waiting),
            started=self._started,
            paused=self._paused.splits,
            resume_at=dict(self._resume_at),
        )

    def handle_source_event(self, subtask_id: int, event: SourceEvent) -> None:
        """Handle a reader that reached a pause, or that skipped lost records."""
        if isinstance(event, PartitionPaused):
            if self._stops or self._removed.has_read(event.split):
                self._paused = self._paused.having(event.split)
            else:  # repeated after a restart: this is a later run, or the topic has returned
                self.add_splits_back([event.split], subtask_id)
            return
        assert isinstance(event, OffsetsLost)
        stop = event.stop
        if event.resume_at is not None and event.resume_at > stop:
            # With limits, a reader skips at most its plan. The next plan starts after all lost
            # records. Otherwise, each part of the gap would need its own plan.
            stop = self._resume_at[event.split_id] = event.resume_at
        partition = TopicPartition(event.topic, event.partition)
        if event.cut_at is not None:
            self._truncations.resume_after(partition, event.cuts + 1, event.cut_at)
        self._losses.count(partition, event.start, stop)

    @property
    def _complete(self) -> bool:
        """Whether partition discovery has ended."""
        follows = self._removed.subscribed is not None and self._settings.stop is None
        return self._started and self._settings.discovery_interval is None and not follows

    # --- topics ----------------------------------------------------------------------------------

    def subscribe(self, topics: Collection[str]) -> None:
        """Read these topics from now on, and the other ones to their end.

        A topic that returns is resumed at the offset at which it paused.
        """
        self._removed.subscribe(topics)
        self._note_removed(self._waiting)
        self._context.call_async(self._look, self._take_found)

    @property
    def has_found_partitions(self) -> bool:
        """Whether the first partitions were found."""
        return self._started

    @property
    def has_ended(self) -> bool:
        """Whether all topics were removed and read to their end."""
        return self._removed.subscribed == frozenset() and self.snapshot_state(0).is_drained

    def _is_removed(self, split: KafkaPartitionSplit) -> bool:
        return self._removed.contains(split.topic_partition)

    def _active(self) -> Mapping[str, str]:
        """Return the topic ID of the known partitions about which the cluster is asked."""
        return self._removed.without_dropped(self._paused.others(self._known))

    def _resume(self, splits: Sequence[KafkaPartitionSplit]) -> None:
        self._paused = self._paused.without(splits)
        self._waiting += splits

    # --- partitions ------------------------------------------------------------------------------

    def _look(self) -> FoundPartitions:
        """Discover partitions. Worker thread."""
        active = self._active()
        subscription = self._removed.narrowed(self._settings.subscription, active)
        if subscription is None:
            return FoundPartitions({}, (), {})
        return self._discovery.look(subscription, active, started=self._started)

    def _take_found(self, found: FoundPartitions | None, error: BaseException | None) -> None:
        if found is None:
            assert error is not None
            self._look_failed(error)
            return
        self._failures = 0
        self._look_log.succeeded()
        self._note_missing(found)
        self._note_recreated(found)
        if self._stops:
            return  # partitions found after the end belong to a later run
        # A discovery that started before another one ended can return the same partitions again.
        # For a partition that has disappeared, it can return more than the existing records.
        new = [
            each
            for each in found.new
            if not self._complete
            and not self._is_removed(each)
            and str(each.topic_partition) not in self._known
        ]
        self._resume_returned(found)
        # These come before the partitions that were found and read earlier; see `_assign`.
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
        if not self._started:  # a restart must not find the first partitions again
            self._started = True
            self._context.request_snapshot()
        if new:
            self._context.metric_group.inc("discoveredPartitions", len(new))
        self._assign()

    def _resume_returned(self, found: FoundPartitions) -> None:
        """Resume the partitions of topics that are read again."""
        returned = self._paused.returned(each for each in found.new if not self._is_removed(each))
        self._resume(returned)
        logs = {each.topic_partition for each in returned}  # they can be new ones
        self._ends = {each: end for each, end in self._ends.items() if each not in logs}
        self._gone -= logs
        for split in returned:
            self._resume_at.pop(split.split_id, None)
            self._former_ids.pop(str(split.topic_partition), None)
            self._positions.pop(split.topic_partition, None)
            self._recreated.pop(split.topic_partition, None)
            self._truncations.forget(split.topic_partition)

    def _look_failed(self, error: BaseException) -> None:
        self._failures += 1
        passing = isinstance(error, RetryableError) and not self._settings.bounded
        if not passing or self._complete or self._failures >= _MAX_FAILURES:
            raise error
        self._context.metric_group.inc("failedDiscoveries")
        self._look_log.failed(error)
        if self._settings.discovery_interval is None:
            self._context.call_async(self._look, self._take_found)

    def _note_missing(self, found: FoundPartitions) -> None:
        """Report lost records of partitions that were deleted."""
        now = time.monotonic()
        # Only an earlier driver may have found the partition of a planned split.
        dropped = self._removed.contains
        planned = {str(each): "" for each in self._truncations.splits if not dropped(each)}
        read = self._active().keys() | self._paused.others(planned).keys()
        missing = {_partition(each) for each in read} - found.partitions.keys() - self._gone
        for each in self._missing_since.keys() - missing:
            del self._missing_since[each]
        for each in sorted(missing):
            since = self._missing_since.setdefault(each, now)
            if now - since >= GONE_SECONDS:
                self._losses.report(each, "the partition was deleted", self._positions.get(each, 0))
                self._gone.add(each)
                del self._missing_since[each]
                self._stops.drop(each)
                self._removed.end_now(each)
                self._ends = {**self._ends, each: self._positions.get(each, 0)}

    def _note_recreated(self, found: FoundPartitions) -> None:
        """Note where to read partitions that were deleted and recreated."""
        for each, offset in found.recreated.items():
            if self._recreated.get(each, ("",))[0] == found.partitions[each]:
                continue
            self._former_ids.setdefault(str(each), self._known[str(each)])
            self._recreated[each] = (found.partitions[each], offset)
            self._gone.discard(each)
            self._move_stop(each, offset)

    # --- records ---------------------------------------------------------------------------------

    def _look_for_ends(self) -> _Ends:
        """Request the end offsets of partitions once. Worker thread."""
        partitions = [
            each for name in self._active() if (each := _partition(name)) not in self._gone
        ]
        found, errors = self._cluster.try_ends(partitions, self._settings.isolation)
        return _Ends(found, tuple(errors.values()))

    def _take_ends(self, found: _Ends | None, error: BaseException | None) -> None:
        if found is None:
            assert error is not None
            raise error
        now = time.monotonic()
        if found.errors:
            # Nothing new is read from these meanwhile, and an unavailable broker can come back.
            self._context.metric_group.inc("failedPolls")
            self._poll_log.failed(found.errors[0])
        else:
            self._poll_log.succeeded()
        missing = [each for each in found.errors if is_missing(each.kafka_code)]
        undecided = any(map(self._is_undecided, self._truncations.splits.values()))
        if (
            (missing or undecided or self._truncations.recreated)
            and self._started
            and now >= self._look_again_at
        ):
            self._look_again_at = now + _LOOK_AGAIN_SECONDS
            self._context.call_async(self._look, self._take_found)
        self._removed.ask_for_ends(self._take_log_ends(found.ends))
        self._truncations.note_short(found.ends, now)
        if now >= self._gauges_at:
            self._gauges_at = now + _GAUGE_SECONDS
            self._set_gauges()

    def _take_log_ends(
        self, found: Mapping[TopicPartition, LogOffset]
    ) -> dict[TopicPartition, int]:
        ends = {each: end.offset for each, end in found.items()}
        self._ends = {**self._ends, **ends}
        self._stops.take_ends(ends)
        self._truncations.take_ends(found)
        return ends

    def _move_stop(self, partition: TopicPartition, resume_at: int) -> None:
        self._stops.move(partition, resume_at, self._ends)

    def _is_undecided(self, split: KafkaPartitionSplit) -> bool:
        """Return whether a run must not end yet, because records of a split can be lost."""
        partition = split.topic_partition
        if not self._stops or partition in self._gone or self._removed.contains(partition):
            return False
        if partition not in self._stops.offsets:
            return True
        return self._ends[partition] < split.offset and not self._truncations.knows(split)

    def plan_reads(
        self, splits: Sequence[KafkaPartitionSplit], limits: ReadLimits
    ) -> Mapping[str, PlannedRead[KafkaPartitionSplit]]:
        """Plan up to the last known end offsets, and divide limits by lag."""
        moved = [self._as_it_is_now(split) for split in splits]
        self._paused = self._paused.without(moved)  # an earlier driver resumed them
        self._note_removed(moved)
        self._truncations.note_positions(moved)
        self._positions |= {split.topic_partition: split.offset for split in moved}
        ends = None if self._settings.bounded else self._ends
        if ends is not None:
            safe = self._truncations.checked(moved, ending=bool(self._stops))
            moved = [each for each in safe if not self._is_undecided(each)]
        pauses = {split.topic_partition: self._pause_of(split) for split in moved}
        known = {each: pause for each, pause in pauses.items() if pause is not None}
        reads = plan(moved, ends, limits, known, self._truncations.leader_epochs)
        return {split_id: self._removed.noted(read) for split_id, read in reads.items()}

    def _note_removed(self, splits: Sequence[KafkaPartitionSplit]) -> None:
        """Remember partitions that only an earlier driver found, before they were removed."""
        removed = filter(self._is_removed, splits)
        found = {str(each.topic_partition): each.topic_id for each in removed}
        if found.keys() - self._known.keys():
            self._known = {**found, **self._known}

    def _pause_of(self, split: KafkaPartitionSplit) -> int | None:
        """Return the offset at which reading of a partition pauses, if it is known."""
        unfound = None if self._is_removed(split) else split.offset
        of_run = None
        if self._stops:
            of_run = self._stops.offsets.get(split.topic_partition, unfound)
        of_topic = self._removed.pause_of(split)
        return min((each for each in (of_run, of_topic) if each is not None), default=None)

    def _as_it_is_now(self, split: KafkaPartitionSplit) -> KafkaPartitionSplit:
        partition = split.topic_partition
        if partition in self._gone and split.last_stop is not None:
            return replace(split, last_stop=split.offset)
        topic_id, offset = self._recreated.get(partition, (split.topic_id, split.offset))
        cut = self._truncations.cut_off.get(partition)
        resume_at = self._resume_at.get(split.split_id)
        if topic_id != split.topic_id:
            self._losses.report_recreated(partition, topic_id, split.offset)
            self._resume_at.pop(split.split_id, None)
            return replace(split.moved_to(offset), topic_id=topic_id)
        self._former_ids.pop(str(partition), None)
        if cut is not None and split.cuts < cut.number:
            self._resume_at.pop(split.split_id, None)
            return replace(split.moved_to(cut.resume_at), cuts=cut.number)
        if resume_at is not None and split.offset < resume_at:
            if split.last_stop is not None:
                resume_at = max(split.offset, min(resume_at, split.last_stop))
            lost = split.lost + resume_at - split.offset
            return replace(split.moved_to(resume_at), lost=lost)
        self._resume_at.pop(split.split_id, None)
        return split

    def _set_gauges(self) -> None:
        set_lags(self._context.metric_group, self._removed.limited(self._ends), self._positions)

    def freeze_end(self) -> None:
        """Request the end offsets once more, which are the end of the run."""

        def look() -> _Frozen:
            found = self._look()
            return _Frozen(
                found,
                self._cluster.ends(found.partitions, self._settings.isolation),
                self._removed.find_ends(found.partitions),
            )

        def take(frozen: _Frozen | None, error: BaseException | None) -> None:
            if frozen is None:
                assert error is not None
                raise error
            self._removed.take_ends(frozen.of_removed)
            self._take_found(frozen.found, None)
            stops = self._take_log_ends(frozen.ends)
            if self._missing_since:  # the end is not known before these return or are lost
                again = timedelta(seconds=_LOOK_AGAIN_SECONDS)
                self._context.call_async(look, take, initial_delay=again)
                return
            self._stops.freeze(stops)
            self._assign()

        self._context.call_async(look, take)

    def positions_committed(
        self,
        checkpoint_id: int,
        splits: Sequence[KafkaPartitionSplit],
        finished: Sequence[KafkaPartitionSplit],
    ) -> None:
        """Commit the offsets of the group for external monitoring.

        Failures do not affect the pipeline.
        """
        left = _by_partition((split, split.offset) for split in splits)
        ended = _by_partition((split, split.stop) for split in finished)
        self._positions |= ended  # no further plan contains them
        self._set_gauges()
        if self._group_offsets is not None:
            self._group_offsets.commit(left | ended)

    def _assign(self) -> None:
        readers = sorted(self._context.registered_readers)
        if readers:
            # A driver can learn of a paused partition from a report before it has rediscovered it.
            # The rediscovery returns the earlier driver's split, which is skipped. After that, the
            # next split of that ID is a new one.
            waiting, self._waiting = self._waiting, []
            assignment: dict[int, list[KafkaPartitionSplit]] = {}
            for split in waiting:
                if str(split.topic_partition) not in self._known:
                    self._waiting.append(split)
                    continue
                reader = readers[_owner(split, self._turn) % len(readers)]
                assignment.setdefault(reader, []).append(split)
            if assignment:
                self._context.assign_splits(assignment)
            if self._complete or self._stops:
                for reader in sorted(set(readers) - self._told):
                    self._told.add(reader)
                    self._context.signal_no_more_splits(reader)
        self._context.metric_group.set(EnumeratorMetric.UNASSIGNED_SPLITS, len(self._waiting))


def _owner(split: KafkaPartitionSplit, turn: Iterator[int]) -> int:
    """Assign partitions round-robin. As in Flink, each topic starts at another reader."""
    if split.split_id != str(split.topic_partition):
        return next(turn)
    return zlib.crc32(split.topic.encode()) + split.partition


def _partition(name: str) -> TopicPartition:
    topic, _, number = name.rpartition("-")
    return TopicPartition(topic, int(number))


def _by_partition(
    positions: Iterable[tuple[KafkaPartitionSplit, int | None]],
) -> dict[TopicPartition, int]:
    """Return positions of whole partitions.

    One of several ranges does not determine the position.
    """
    return {
        split.topic_partition: offset
        for split, offset in positions
        if offset is not None and split.split_id == str(split.topic_partition)
    }
