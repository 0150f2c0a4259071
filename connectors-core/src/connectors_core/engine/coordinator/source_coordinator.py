# SPDX-License-Identifier: Apache-2.0
"""The coordinator of one source: its enumerator, its splits, its part of every plan. Driver.

Its state follows from a snapshot, the plans after it and their reports, and the same two steps
(:meth:`SourceCoordinator.plan` and :meth:`SourceCoordinator.apply`) run live and on a restart.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, TypeVar

from connectors_core.engine.coordinator.committed_positions import CommittedPositions
from connectors_core.engine.coordinator.found_splits import FoundSplits, lower_bound
from connectors_core.engine.coordinator.mailbox import Mailbox
from connectors_core.engine.coordinator.planned_stops import (
    plan_reads,
    planned_split,
    position_after,
    to_be_read,
)
from connectors_core.engine.protocol import (
    AssignedSplit,
    Entry,
    Plan,
    PlannedSplit,
    Report,
    SourcePlan,
    SourceSnapshot,
    SplitRecord,
    SplitReport,
    Versioned,
)
from connectors_core.errors import ConfigurationError, UnsupportedError
from connectors_core.metrics import Meter, MetricGroup, SourceMetric
from connectors_core.records import RecordPolicy
from connectors_core.secrets import mask_text
from connectors_core.source.alignment import (
    CoordinatorStore,
    IdlenessClock,
    MaxWatermark,
    SplitProgress,
    source_watermark,
)
from connectors_core.source.enumerator import (
    AnySplitEnumerator,
    PlannedRead,
    SplitEnumeratorContext,
    SupportsAvailableNow,
    SupportsCommittedPositions,
    SupportsPlannedStops,
    SupportsUnassignedSplits,
)
from connectors_core.source.evaluator import RecordEvaluator
from connectors_core.source.event_codec import decode_event, encode_event
from connectors_core.source.events import EventDocument, SourceEvent
from connectors_core.source.hybrid.switches import SwitchesSources
from connectors_core.source.rate_limiter import RateLimiterStrategy
from connectors_core.source.source import AnySource, Boundedness, SupportsRewinding
from connectors_core.source.split import PlanLimits, SourceSplit
from connectors_core.source.watermarks import (
    END_OF_TIME,
    MIN_WATERMARK,
    WatermarkStrategy,
    heartbeat_event_time,
)

T = TypeVar("T")

QUEUE_SPLITS = 256
# Stands for the source in its idleness clock while there is no split.
_NO_SPLIT = ""
# What the core counts of a report by itself, more exactly than a reader can.
_COUNTED_HERE = {SourceMetric.NUM_RECORDS_IN, SourceMetric.NUM_RECORDS_IN_ERRORS}
_ADDED_UP = {SourceMetric.PENDING_RECORDS, SourceMetric.PENDING_BYTES}
_WORST = {SourceMetric.CURRENT_FETCH_EVENT_TIME_LAG, SourceMetric.CURRENT_EMIT_EVENT_TIME_LAG}


@dataclass(frozen=True, kw_only=True)
class SourceSettings:
    """A source and how a pipeline reads it.

    Attributes:
        uid: Its name, for all restarts.
        source: The source.
        parallelism: Number of readers.
        strategy: Event times and watermarks.
        limits: Most that one plan reads.
        rate_limiter: Rows over time, for the whole source.
        evaluator: Ends a split after a row.
        policy: What to do with records that cannot be read.
    """

    uid: str
    source: AnySource
    parallelism: int
    strategy: WatermarkStrategy | None = None
    limits: PlanLimits = field(default_factory=PlanLimits)
    rate_limiter: RateLimiterStrategy = field(default_factory=RateLimiterStrategy.none)
    evaluator: RecordEvaluator | None = None
    policy: RecordPolicy = field(default_factory=RecordPolicy.fail)


@dataclass(frozen=True, kw_only=True)
class SplitStatus:
    """An assigned, unfinished split at one moment; times are microseconds since the epoch.

    Attributes:
        split_id: The split.
        subtask: The reader it belongs to.
        read: Whether it was ever read.
        idle: Whether it holds nobody back because it has nothing.
        rows: Rows taken from it since the driver started.
        watermark: Its watermark.
        head: Where the first row that alignment holds would bring its watermark.
    """

    split_id: str
    subtask: int
    read: bool
    idle: bool
    rows: int
    watermark: int | None
    head: int | None


@dataclass(frozen=True, kw_only=True)
class SourceObservation:
    """A source at one moment, for status and metrics; counts begin with this driver.

    Attributes:
        splits: The assigned, unfinished splits.
        splits_finished: Splits read to their end.
        watermark: The source's watermark in microseconds.
        finished: All is read.
        rows_per_second: Over the last half minute.
        idle_seconds: Time since a plan gave a row.
        metrics: Counters, and gauges of the source as a whole.
        reader_gauges: The connector's own gauges by reader.
        replayable: Its splits can be read again (see :class:`SplitTraits`).
    """

    splits: tuple[SplitStatus, ...]
    splits_finished: int
    watermark: int | None
    finished: bool
    rows_per_second: float
    idle_seconds: float
    metrics: MetricGroup
    reader_gauges: dict[int, dict[str, float]]
    replayable: bool = True


@dataclass
class _Split:
    """An assigned, unfinished split; ``served`` is the last turn in which it was read."""

    split: SourceSplit
    planned: PlannedSplit
    subtask: int
    order: int
    read: bool = False
    watermark: int | None = None
    head: int | None = None
    found_at: int | None = None
    rows: int = 0
    served: int = 0


class SourceCoordinator(SplitEnumeratorContext[Any]):
    """Runs the enumerator of one source and keeps the positions of its splits.

    All methods run on the mailbox's thread.

    Args:
        settings: The source.
        mailbox: The coordinator's thread.
        store: Alignment groups, shared by the sources of the pipeline.
        on_change: Called when something may have made a new plan possible.
        available_now: Read what is there at the start, then end.
        drain: An end by ``available_now`` is the end of time for the watermark too.
        only_windows: Windows are all that looks at Spark's watermark.
    """

    def __init__(
        self,
        settings: SourceSettings,
        *,
        mailbox: Mailbox,
        store: CoordinatorStore,
        on_change: Callable[[], None],
        available_now: bool = False,
        drain: bool = True,
        only_windows: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.settings = settings
        self.metrics = MetricGroup()
        self._source = settings.source
        self._traits = settings.source.split_traits()
        self._split_serializer = settings.source.split_serializer()
        self._state_serializer = settings.source.enumerator_state_serializer()
        self._mailbox = mailbox
        self._store = store
        self._on_change = on_change
        self._available_now = available_now
        self._drain = drain
        self._only_windows = only_windows
        self._bounded = settings.source.boundedness() is Boundedness.BOUNDED
        self._clock = clock
        self._rate_limiter = settings.rate_limiter.create()
        self._idleness = IdlenessClock(
            settings.strategy.idleness if settings.strategy is not None else None, clock
        )
        self._enumerator: AnySplitEnumerator | None = None
        self._committed_positions: CommittedPositions[Any] | None = None
        self._idle = False
        self._splits: dict[str, _Split] = {}
        self._found = FoundSplits()
        self._told: set[str] = set()  # splits that the enumerator said to wait when it was asked
        self._suppressed: set[str] = set()
        self._no_more: set[int] = set()
        self._registered: set[int] = set()
        self._reader_limits: dict[int, PlanLimits] = {}
        self._assigned: list[AssignedSplit] = []
        self._assign_calls = 0
        self._events: dict[int, list[EventDocument]] = {}
        self._highest_finished: int | None = None
        self._answered = False
        self._asynchronous = False  # whether what it found is to come from a call
        self._watermark: int | None = None
        self._planned_watermark: int | None = None
        self._planned_finished = False
        self._planned_ids: set[str] = set()
        self._orders = 0
        self._turn = 0
        #: Size of the last snapshot and of the deltas since.
        self.snapshot_bytes = 0
        self.delta_bytes = 0
        if settings.strategy is not None and settings.strategy.alignment is not None:
            store.group(settings.strategy.alignment).join(settings.uid)
        self._switched = False
        self._splits_finished = 0
        self._rows = Meter(clock=clock)
        self._last_rows_at = clock()
        self._reader_gauges: dict[int, dict[str, float]] = {}

    # --- life ---------------------------------------------------------------------------------

    def start(
        self,
        history: Sequence[tuple[SourcePlan, Sequence[Report] | None]] = (),
        *,
        at: str | None = None,
    ) -> None:
        """Create or restore the enumerator and start it.

        Args:
            history: This source's part of the plans since the last snapshot, with their reports;
                those of the newest plan may be missing (None): it is being read, or will be.
            at: Without a history, where the source begins in its own terms; None for where its
                options say.

        Raises:
            UnsupportedError: The source cannot begin at a position that a person names.
        """
        if history:
            snapshot = history[0][0].snapshot
            assert snapshot is not None
            self._restore(snapshot, [plan for plan, _ in history[1:]])
            self._found.restore(snapshot, [plan for plan, _ in history])
            for plan, reports in history:
                self._watermark = self._planned_watermark = plan.watermark
                self._planned_finished = plan.finished
                self._planned_ids = set(plan.planned_splits())
                if reports is not None:
                    self._apply_positions(plan, reports)
            state = self._state_serializer.deserialize(
                snapshot.enumerator.version, snapshot.enumerator.data
            )
            self._enumerator = self._source.restore_enumerator(self, state)
            self._ask_what_waits(before=True)
        elif at is not None:
            self._enumerator = self._enumerator_at(at)
        else:
            self._enumerator = self._source.create_enumerator(self)
        if isinstance(self._enumerator, SupportsCommittedPositions):
            self._committed_positions = CommittedPositions(self._enumerator, self._split_serializer)
            for plan, reports in history:
                self._committed_positions.reported(plan, reports or ())
        if self._was_drained():
            return
        if not self._bounded and not self._has_next:
            self._no_more.clear()  # the end of an earlier run to what was available then
        self._enumerator.start()
        self._give_back_of_missing_readers()
        for subtask in range(self.settings.parallelism):
            self._registered.add(subtask)
            self._enumerator.add_reader(subtask)
        for _, reports in history:
            for report in reports or ():
                self.deliver_events(report)
        if self._available_now and not self._bounded:
            if not isinstance(self._enumerator, SupportsAvailableNow):
                raise UnsupportedError(
                    f"source {self.settings.uid!r} cannot be read to what is available now",
                    expected="a bounded source, or an enumerator with SupportsAvailableNow",
                    found=type(self._enumerator).__name__,
                    hint="use Pipeline.start()",
                )
            self._enumerator.freeze_end()

    def _was_drained(self) -> bool:
        """Whether an unbounded source was ended for good; what is left of that is finished."""
        self.check_not_drained(self._watermark)
        if self._bounded or self._watermark != END_OF_TIME:
            return False
        self._answered = True
        self._no_more.update(range(self.settings.parallelism))
        return True

    def check_not_drained(self, watermark: int | None) -> None:
        """Refuse to continue an unbounded source that was ended for good.

        Args:
            watermark: Its watermark in the newest plan.

        Raises:
            ConfigurationError: It was, and the pipeline is to go on.
        """
        ended = not self._bounded and watermark == END_OF_TIME
        if ended and not (self._available_now and self._drain):
            raise ConfigurationError(
                f"source {self.settings.uid!r} was drained: its watermark is at the end of time, "
                "and all later rows would be late",
                hint="start anew with another checkpoint location; to go on after a run to what is "
                "available, use run(available_now=True, drain=False)",
            )

    def check_position(self, position: str) -> None:
        """Refuse to begin at a position that the source does not take.

        Args:
            position: What `connectors state rewind` was told.

        Raises:
            UnsupportedError: The source takes no positions.
            ConfigurationError: It does not understand this one.
        """
        with self._naming_the_way_out():
            self._rewindable(position).check_position(position)

    def _enumerator_at(self, position: str) -> AnySplitEnumerator:
        with self._naming_the_way_out():
            return self._rewindable(position).create_enumerator_at(self, position)

    def _rewindable(self, position: str) -> SupportsRewinding[Any, Any]:
        if isinstance(self._source, SupportsRewinding):
            return self._source
        raise UnsupportedError(
            f"source {self.settings.uid!r} cannot begin at {position!r}, where `connectors state "
            "rewind --at` took it: it has no terms for positions",
            expected="a source with SupportsRewinding",
            found=type(self._source).__name__,
            hint="take the pipeline back again without --at: `connectors state rewind LOCATION "
            "--to-start`; the source then begins where its options say",
        )

    @contextmanager
    def _naming_the_way_out(self) -> Iterator[None]:
        try:
            yield
        except ConfigurationError as error:
            error.hint = error.hint or (
                "take the pipeline back again: `connectors state rewind LOCATION --to-start`, with "
                f"`--at {self.settings.uid}=POSITION` as expected, or without --at"
            )
            raise

    def _restore(self, snapshot: SourceSnapshot, later: Sequence[SourcePlan]) -> None:
        for record in snapshot.splits:
            self._add(record)
        self._suppressed.update(snapshot.suppressed)
        self._no_more.update(snapshot.no_more_splits)
        self._highest_finished = snapshot.highest_finished
        for plan in later:
            for assigned in plan.assigned:
                self._add(
                    SplitRecord(
                        split=assigned.split, subtask=assigned.subtask, found_at=assigned.found_at
                    )
                )
                self._suppressed.add(assigned.split.split_id)
            self._no_more.update(plan.no_more_splits)
        # What it found before, it has answered before; it may have nothing to say any more.
        self._answered = bool(self._splits or self._no_more)

    def _add(self, record: SplitRecord) -> None:
        state = record.split.state
        self._orders += 1
        self._splits[record.split.split_id] = _Split(
            split=self._split_serializer.deserialize(state.version, state.data),
            planned=record.split,
            subtask=record.subtask,
            order=self._orders,
            read=record.read,
            watermark=record.watermark,
            head=record.head,
            found_at=record.found_at,
        )

    def _give_back_of_missing_readers(self) -> None:
        """After a restart with fewer readers: what was not begun goes back, the rest moves.

        A split that was assigned after the enumerator's state was taken moves too: the enumerator
        has it, or finds it again, and would have it twice.
        """
        assert self._enumerator is not None
        parallelism = self.settings.parallelism
        self._no_more = {subtask for subtask in self._no_more if subtask < parallelism}
        orphans: dict[int, list[_Split]] = {}
        for split in self._splits.values():
            if split.subtask >= parallelism and split.planned.split_id not in self._planned_ids:
                orphans.setdefault(split.subtask, []).append(split)
        for subtask, splits in sorted(orphans.items()):
            untouched = [
                split
                for split in splits
                if not split.read and split.planned.split_id not in self._suppressed
            ]
            for split in untouched:
                del self._splits[split.planned.split_id]
                self._found.given_back(split.planned.split_id, split.found_at)
            if untouched:
                self._no_more.clear()
                self._enumerator.add_splits_back([split.split for split in untouched], subtask)
        for split in self._splits.values():
            if split.subtask >= parallelism:
                split.subtask %= parallelism

    def close(self) -> None:
        """Close the enumerator and leave the alignment group."""
        if self.settings.strategy is not None and self.settings.strategy.alignment is not None:
            self._store.group(self.settings.strategy.alignment).leave(self.settings.uid)
        if self._enumerator is not None:
            enumerator, self._enumerator = self._enumerator, None
            enumerator.close()

    # --- what the enumerator may ask ------------------------------------------------------------

    @property
    def current_parallelism(self) -> int:
        """See :class:`SplitEnumeratorContext`."""
        return self.settings.parallelism

    @property
    def registered_readers(self) -> frozenset[int]:
        """See :class:`SplitEnumeratorContext`."""
        return frozenset(self._registered)

    @property
    def event_time_order(self) -> bool:
        """See :class:`SplitEnumeratorContext`."""
        return self.settings.strategy is not None

    @property
    def metric_group(self) -> MetricGroup:
        """See :class:`SplitEnumeratorContext`."""
        return self.metrics

    def assign_splits(self, assignment: Mapping[int, Sequence[Any]]) -> None:
        """See :class:`SplitEnumeratorContext`."""
        changed = not self._answered
        for subtask, splits in assignment.items():
            self._check_reader(subtask)
            for split in splits:
                if split.split_id in self._suppressed:
                    self._suppressed.discard(split.split_id)
                    self._assign_calls += 1
                    continue
                if split.split_id in self._splits:
                    continue
                self._assign_calls += 1
                changed = True
                planned = PlannedSplit(
                    split_id=split.split_id,
                    state=Versioned(
                        version=self._split_serializer.version,
                        data=self._split_serializer.serialize(split),
                    ),
                )
                found_at = self._found.assigned(split.split_id)
                self._add(SplitRecord(split=planned, subtask=subtask, found_at=found_at))
                self._assigned.append(
                    AssignedSplit(subtask=subtask, split=planned, found_at=found_at)
                )
        self._answered = True
        if changed:  # or an enumerator that answers a request in vain would be asked again at once
            self._on_change()

    def split_found(self, split: Any) -> int | None:
        """See :class:`SplitEnumeratorContext`."""
        if self.settings.strategy is None or self._was_assigned(split.split_id):
            return super().split_found(split)
        restoring = self._enumerator is None
        return lower_bound(self._found.announced(split, before=restoring))

    def _was_assigned(self, split_id: str) -> bool:
        return split_id in self._splits or split_id in self._suppressed

    def signal_no_more_splits(self, subtask_id: int) -> None:
        """See :class:`SplitEnumeratorContext`."""
        self._check_reader(subtask_id)
        changed = not self._answered or subtask_id not in self._no_more
        self._no_more.add(subtask_id)
        self._answered = True
        if changed:
            self._on_change()

    def send_event_to_source_reader(self, subtask_id: int, event: SourceEvent) -> None:
        """See :class:`SplitEnumeratorContext`."""
        self._check_reader(subtask_id)
        document = encode_event(event)
        decode_event(self._source, document)  # refused here, not on an executor
        self._events.setdefault(subtask_id, []).append(document)
        self._on_change()

    def set_reader_limit(self, subtask_id: int, limits: PlanLimits | None) -> None:
        """See :class:`SplitEnumeratorContext`."""
        self._check_reader(subtask_id)
        changed = self._reader_limits.get(subtask_id) != limits
        if limits is None:
            self._reader_limits.pop(subtask_id, None)
        else:
            self._reader_limits[subtask_id] = limits
        if changed:
            self._on_change()

    def call_async(
        self,
        call: Callable[[], T],
        handler: Callable[[T | None, BaseException | None], None],
        *,
        initial_delay: timedelta = timedelta(0),
        period: timedelta | None = None,
    ) -> None:
        """See :class:`SplitEnumeratorContext`."""

        def handle(result: T | None, error: BaseException | None) -> None:
            handler(result, error)
            if error is None:
                self._answered = True
            self._on_change()

        self._asynchronous = True
        self._mailbox.call_async(call, handle, initial_delay=initial_delay, period=period)

    def run_in_coordinator_thread(self, action: Callable[[], None]) -> None:
        """See :class:`SplitEnumeratorContext`."""
        self._mailbox.execute(action)

    def _check_reader(self, subtask: int) -> None:
        if not 0 <= subtask < self.settings.parallelism:
            raise ConfigurationError(
                f"source {self.settings.uid!r} has no reader {subtask}",
                expected=f"0 to {self.settings.parallelism - 1}",
                found=subtask,
            )

    # --- planning -------------------------------------------------------------------------------

    @property
    def finished(self) -> bool:
        """Whether all is assigned and read, and no other source follows."""
        return self._answered and not self._splits and self._no_more_to_come and not self._has_next

    @property
    def _no_more_to_come(self) -> bool:
        return len(self._no_more) == self.settings.parallelism

    @property
    def _has_next(self) -> bool:
        """Whether the enumerator stands for several sources, and is not at the last one."""
        return isinstance(self._enumerator, SwitchesSources) and self._enumerator.has_next

    @property
    def needs_snapshot(self) -> bool:
        """Whether the next plan must hold one: the record of a switch and of what came with it."""
        return self._switched

    @property
    def live(self) -> bool:
        """Whether splits must be asked to know if they have rows."""
        return not self._traits.end and bool(self._splits)

    @property
    def watermark(self) -> int | None:
        """The source's watermark in microseconds."""
        return self._watermark

    def align(self) -> None:
        """Tell the alignment group what the last reports changed.

        All sources do so before the first asks for splits, which it does up to the group's
        maximum: by that of the plan before, every other plan would find next to none to read.
        """
        strategy = self.settings.strategy
        if strategy is None or strategy.alignment is None:
            return
        progress = list(self._progress())
        if progress:  # without any, the splits to come are not known yet
            self._tell_group(progress)

    def prepare(self) -> None:
        """Ask the enumerator for splits, move the watermark, tell the alignment group."""
        none_waits = self._request_splits()
        while self._answered and not self._splits and self._no_more_to_come and self._has_next:
            self._switch(self._max_event_time)
            none_waits = self._request_splits()
        if none_waits and not self._asynchronous:
            self._answered = True  # that it has none
        self._note_empty_splits()
        strategy = self.settings.strategy
        if strategy is None:
            return
        progress = list(self._progress())
        self._found.advance(
            progress,
            self._highest_finished,
            discovered=self._answered,
            none_waits=none_waits,
        )
        self._watermark = source_watermark(
            self._watermark,
            progress,
            self._highest_finished,
            finished=self.finished and (self._bounded or self._drain),
            discovered=self._answered,
        )
        self._note_idleness(progress)
        self._tell_group(progress)

    def _note_idleness(self, progress: Sequence[SplitProgress]) -> None:
        if progress or not self._answered:
            self._idleness.forget(_NO_SPLIT)
            self._idle = bool(progress) and not any(split.counts for split in progress)
        else:
            self._idleness.observe(_NO_SPLIT, True, 0)
            self._idle = self._idleness.idle(_NO_SPLIT)

    @property
    def idle(self) -> bool:
        """Whether it has no rows, and no splits that may have some, for the time of its strategy.

        It then holds no watermark but its own.
        """
        return self._idle and not self.finished

    def follow(self, watermark: int) -> None:
        """Go along with the watermark of other sources, while this one is idle."""
        own = self._watermark
        self._watermark = watermark if own is None else max(own, watermark)

    def _tell_group(self, progress: Sequence[SplitProgress]) -> None:
        strategy = self.settings.strategy
        if strategy is not None and strategy.alignment is not None:
            self._store.group(strategy.alignment).update(
                self.settings.uid, progress, finished=self.finished, discovered=self._answered
            )

    def _progress(self) -> Iterator[SplitProgress]:
        yield from (self._progress_of(split) for split in self._splits.values())
        yield from self._waiting()

    def _waiting(self) -> Iterator[SplitProgress]:
        """What waits in the enumerator, as far as it tells; the lowest stands for all."""
        self._ask_what_waits()
        lowest = self._found.lowest()
        if lowest is not None:
            yield lowest

    def _ask_what_waits(self, *, before: bool = False) -> None:
        if self.settings.strategy is None or not isinstance(
            self._enumerator, SupportsUnassignedSplits
        ):
            return
        told, self._told = self._told, set()
        for split in self._enumerator.unassigned_splits():
            if not self._was_assigned(split.split_id):
                self._found.announced(split, before=before)
                self._told.add(split.split_id)
        for split_id in told - self._told:
            self._found.withdrawn(split_id)

    def _progress_of(self, split: _Split) -> SplitProgress:
        return SplitProgress(
            split_id=split.planned.split_id,
            watermark=split.watermark,
            head=split.head,
            lower_bound=split.split.event_time_lower_bound(),
            found_at=split.found_at,
            read=split.read,
            idle=self._idleness.idle(split.planned.split_id),
        )

    def _request_splits(self) -> bool:
        """Ask for splits as long as readers want some; whether all of them asked in vain."""
        assert self._enumerator is not None
        hungry = [s for s in range(self.settings.parallelism) if s not in self._no_more]
        unanswered, readers = 0, len(hungry)
        while hungry:
            still_hungry = []
            for subtask in hungry:
                before = self._assign_calls
                if self._wants_split(subtask):
                    self._enumerator.handle_split_request(subtask)
                    if self._assign_calls == before:
                        unanswered += 1
                    elif subtask not in self._no_more:
                        still_hungry.append(subtask)
            hungry = still_hungry
        return unanswered == readers

    def take_all_splits(self) -> bool:
        """Ask for splits without limit; True when there are no more (batch mode)."""
        assert self._enumerator is not None
        for subtask in range(self.settings.parallelism):
            before = -1
            while subtask not in self._no_more and before != self._assign_calls:
                before = self._assign_calls
                self._enumerator.handle_split_request(subtask)
        if self._no_more_to_come and self._has_next:
            self._switch(None)  # all are planned before anything is read
            return self.take_all_splits()
        return self._no_more_to_come

    def _switch(self, max_event_time: int | None) -> None:
        """Go on to the next source; what was said of the last one is over."""
        assert isinstance(self._enumerator, SwitchesSources)
        self._no_more.clear()
        self._suppressed.clear()
        self._events.clear()
        self._found.switch(self._watermark)
        self._told.clear()
        self._answered = self._asynchronous = False
        self._switched = True
        self._enumerator.switch(max_event_time)

    @property
    def _max_event_time(self) -> int | None:
        """Highest event time of the finished splits in microseconds, where watermarks tell."""
        strategy = self.settings.strategy
        if strategy is None or self._highest_finished is None:
            return None
        return strategy.max_event_time(self._highest_finished)

    def _wants_split(self, subtask: int) -> bool:
        """A reader is given one split more than it reads, whose lower bound holds the watermark.

        Splits that alignment holds do not count, as the slowest one may not be assigned yet; but
        where a new split is known to be too far ahead, so are all that would come after it.
        """
        limits = self._limits_of(subtask)
        allowed = self._max_watermark()
        queue = [split for split in self._splits.values() if split.subtask == subtask]
        if allowed is not None:
            held = [split for split in queue if not allowed.admits(self._mark(split))]
            if any(not split.read for split in held) and not any(
                allowed.admits(split.mark) for split in self._waiting()
            ):
                return False
            queue = [split for split in queue if split not in held]
        if len(queue) < 2 or self._splits_stay:
            return True  # a split without an end makes no room for another
        if self.settings.strategy is not None and all(split.read for split in queue):
            return True  # only one that was not read stands for those that come after it
        if len(queue) > (QUEUE_SPLITS if limits.splits is None else limits.splits):
            return False
        return limits.bytes is None or sum(s.split.weight() for s in queue[:-1]) < limits.bytes

    def _limits_of(self, subtask: int) -> PlanLimits:
        limits = self.settings.limits.per_reader(subtask, self.settings.parallelism)
        return limits.tightened_by(self._reader_limits.get(subtask))

    def _max_watermark(self) -> MaxWatermark | None:
        strategy = self.settings.strategy
        if strategy is None or strategy.alignment is None:
            return None
        return self._store.group(strategy.alignment).max_allowed_watermark()

    @property
    def _planner(self) -> SupportsPlannedStops[Any] | None:
        """The enumerator, where it gives its splits a stop in every plan."""
        enumerator = self._enumerator
        if isinstance(enumerator, SupportsPlannedStops) and enumerator.plans_stops:
            return enumerator
        return None

    @property
    def _splits_stay(self) -> bool:
        """Whether splits have no end of their own."""
        return not self._traits.end or self._planner is not None

    def _readable(self) -> list[_Split]:
        """What neither alignment nor its reader's limit holds, in the order to read."""
        allowed = self._max_watermark()
        return [
            split
            for split in sorted(self._splits.values(), key=self._reading_order)
            if (allowed is None or allowed.admits(self._mark(split)))
            and _allows(self._reader_limits.get(split.subtask))
        ]

    def _total(self) -> PlanLimits:
        """The limits of a plan made now."""
        permits = self._rate_limiter.permits(self._clock())
        return self.settings.limits.tightened_by(PlanLimits(rows=permits))

    def _reads(
        self, planner: SupportsPlannedStops[Any], splits: Sequence[_Split], limits: PlanLimits
    ) -> Mapping[str, PlannedRead[Any]]:
        """What is read of these splits in the next plan, and what there is nothing to read of."""
        if not _allows(limits):
            return {}
        return plan_reads(planner, [split.split for split in splits], limits)

    def _note_empty_splits(self) -> None:
        """A split that is known to have nothing counts as asked in vain, without being read."""
        planner, limits = self._planner, self._total()
        if planner is None:
            return
        splits = self._readable() if _allows(limits) else []
        reads = self._reads(planner, splits, limits)
        for split in splits:
            split_id = split.planned.split_id
            read = reads.get(split_id)
            if read is None or to_be_read(read):
                self._idleness.forget(split_id)
            else:
                split.read = True
                self._idleness.observe(split_id, True, 0)
        for split_id in self._splits.keys() - {split.planned.split_id for split in splits}:
            self._idleness.observe(split_id, False, 0)  # not asked: its time stands still

    def _queues(self) -> dict[int, tuple[list[PlannedSplit], PlanLimits]]:
        """What each reader reads in the next plan, and its limits."""
        splits, total = self._readable(), self._total()
        planner = self._planner
        reads = None if planner is None else self._reads(planner, splits, total)
        queues: dict[int, list[PlannedSplit]] = {}
        for split in splits:
            planned = split.planned
            if reads is not None:
                read = reads.get(planned.split_id)
                if read is None or not to_be_read(read):
                    continue
                planned = planned_split(planned, split.split, read, self._split_serializer)
            queues.setdefault(split.subtask, []).append(planned)
        kept = total if reads is None else _without_planned(total)
        readers = sorted(queues)
        result = {}
        for index, subtask in enumerate(readers):
            # In turn, because where a limit is below the number of readers some get nothing.
            share = kept.per_reader((index + self._turn) % len(readers), len(readers))
            limits = share.tightened_by(self._reader_limits.get(subtask))
            if reads is not None:
                limits = _without_planned(limits)
            if _allows(limits):
                result[subtask] = (queues[subtask][: limits.splits], limits)
        return result

    def _mark(self, split: _Split) -> int | None:
        """The watermark up to which the split was read; None where nothing is known."""
        mark = self._progress_of(split).mark
        return None if mark == MIN_WATERMARK else mark

    def _reading_order(self, split: _Split) -> tuple[int, bool, int]:
        """By event time where that matters; what was begun before what was not.

        Splits without an end take turns, or those behind a limit would never be read.
        """
        if self._splits_stay:
            return (split.served, False, split.order)
        mark = self._mark(split) if self.settings.strategy is not None else None
        return (MIN_WATERMARK if mark is None else mark, not split.read, split.order)

    def has_work(self) -> bool:
        """Whether a plan made now would read something or move something."""
        if self._queues() or self._events:
            return True
        if self.settings.strategy is None:
            return False
        return self._watermark != self._planned_watermark

    def needs_time(self) -> bool:
        """Whether work may come by the mere passing of time (rate limit, idleness)."""
        strategy = self.settings.strategy
        may_become_idle = strategy is not None and strategy.idleness is not None and not self._idle
        return bool(self._splits) or (may_become_idle and not self.finished)

    def plan(
        self, number: int, nonce: str, pipeline_id: str, query: str, *, snapshot: bool
    ) -> SourcePlan:
        """This source's part of plan ``number``; :meth:`prepare` was called for all sources."""
        queues = self._queues()
        max_watermark = self._max_watermark()
        limit = max_watermark.micros if max_watermark is not None else None
        heartbeat = None
        if self.settings.strategy is not None and self._watermark is not None:
            heartbeat = heartbeat_event_time(self._watermark, only_windows=self._only_windows)
        entries = []
        for subtask in sorted({0} | queues.keys() | self._events.keys()):
            queue, limits = queues.get(subtask, ([], PlanLimits()))
            entries.append(
                Entry(
                    pipeline_id=pipeline_id,
                    query=query,
                    plan=number,
                    nonce=nonce,
                    source=self.settings.uid,
                    subtask=subtask,
                    parallelism=self.settings.parallelism,
                    splits=tuple(queue),
                    events=tuple(self._events.get(subtask, ())),
                    limits=limits,
                    heartbeat=heartbeat if subtask == 0 else None,
                    max_watermark=limit,
                    claim=self._must_claim(limits) and bool(queue),
                )
            )
        plan = SourcePlan(
            entries=tuple(entries),
            assigned=tuple(self._assigned),
            no_more_splits=tuple(sorted(self._no_more)),
            watermark=self._watermark,
            finished=self.finished,
            discovery=self._found.planned(snapshot=snapshot),
            snapshot=self._snapshot(number) if snapshot else None,
        )
        self._after_plan(plan)
        return plan

    def _must_claim(self, limits: PlanLimits) -> bool:
        """Whether the end of a read does not follow from plan and data alone."""
        if not self._traits.end or limits.seconds is not None:
            return True
        strategy = self.settings.strategy
        if strategy is not None and strategy.alignment is not None and not strategy.per_record:
            return True  # whole batches are held, and how rows are cut into them is the reader's
        return not self._traits.ordered and (limits.rows is not None or limits.bytes is not None)

    def _after_plan(self, plan: SourcePlan) -> None:
        self._planned_watermark = plan.watermark
        self._planned_finished = plan.finished
        self._planned_ids = set(plan.planned_splits())
        self._assigned = []
        self._events = {}
        self._turn += 1
        if plan.snapshot is not None:
            self._switched = False
            self.delta_bytes = 0
            self.snapshot_bytes = len(plan.snapshot.enumerator.data) + sum(
                len(record.split.state.data) for record in plan.snapshot.splits
            )
        else:
            self.delta_bytes += sum(len(a.split.state.data) for a in plan.assigned)

    def _snapshot(self, number: int) -> SourceSnapshot:
        assert self._enumerator is not None
        state = self._enumerator.snapshot_state(number)
        return SourceSnapshot(
            enumerator=Versioned(
                version=self._state_serializer.version, data=self._state_serializer.serialize(state)
            ),
            splits=tuple(
                SplitRecord(
                    split=split.planned,
                    subtask=split.subtask,
                    read=split.read,
                    watermark=split.watermark,
                    head=split.head,
                    found_at=split.found_at,
                )
                for split in sorted(self._splits.values(), key=lambda split: split.order)
            ),
            suppressed=tuple(sorted(self._suppressed)),
            no_more_splits=tuple(sorted(self._no_more)),
            highest_finished=self._highest_finished,
            found=self._found.snapshot(),
        )

    # --- reports --------------------------------------------------------------------------------

    def apply(self, plan: SourcePlan, reports: Sequence[Report]) -> None:
        """Take over what the readers of the newest plan did."""
        splits_before = len(self._splits)
        for report in reports:
            self._rate_limiter.consumed(report.rows)
            self._count(report)
        self._apply_positions(plan, reports)
        self._splits_finished += splits_before - len(self._splits)
        if self._committed_positions is not None:
            self._committed_positions.reported(plan, reports)
        self._planned_ids = set()
        if self._planner is None:
            read = {split.split_id for report in reports for split in report.splits}
            for split_id in self._splits.keys() - read:
                self._idleness.observe(split_id, False, 0)  # not asked: its time stands still
        for report in reports:
            self.deliver_events(report)

    def _apply_positions(self, plan: SourcePlan, reports: Sequence[Report]) -> None:
        planned = plan.planned_splits()
        for report in reports:
            for split in report.splits:
                self._apply_split(planned[split.split_id], split)

    def _count(self, report: Report) -> None:
        """Count a report: once in the life of a driver, and never those of an earlier one."""
        count_report(self.metrics, report)
        gauges = self._reader_gauges.setdefault(report.subtask, {})
        if report.rows:
            self._rows.mark(report.rows)
            self._last_rows_at = self._clock()
            newest = self._newest_event_time(report)
            if newest is not None:
                lag = time.time() * 1e3 - newest / 1e3
                gauges[SourceMetric.CURRENT_EMIT_EVENT_TIME_LAG.value] = lag
        gauges.update(report.gauges)
        for read in report.splits:
            split = self._splits.get(read.split_id)
            if split is not None:
                split.rows += read.rows

    def _newest_event_time(self, report: Report) -> int | None:
        strategy = self.settings.strategy
        if strategy is None:
            return None
        marks = [split.watermark for split in report.splits if split.watermark is not None]
        return strategy.max_event_time(max(marks)) if marks else None

    def _apply_split(self, planned: PlannedSplit, report: SplitReport) -> None:
        split = self._splits.get(report.split_id)
        if split is None:
            return
        after = position_after(planned, report)
        if after is None:
            del self._splits[report.split_id]
            self._idleness.forget(report.split_id)
            if report.watermark is not None:
                highest = self._highest_finished
                self._highest_finished = (
                    report.watermark if highest is None else max(report.watermark, highest)
                )
            return
        split.planned = after
        split.split = self._split_serializer.deserialize(after.state.version, after.state.data)
        split.read = True
        split.served = self._turn
        split.watermark = report.watermark
        split.head = report.head
        self._idleness.observe(
            report.split_id,
            report.asked and report.head is None,
            report.rows,
        )

    def deliver_events(self, report: Report) -> None:
        """Hand on to the enumerator what a reader has to say."""
        assert self._enumerator is not None
        for event in report.events:
            self._enumerator.handle_source_event(report.subtask, decode_event(self._source, event))
        if (
            report.wants_splits
            and report.subtask in self._registered - self._no_more
            and self._wants_split(report.subtask)
        ):
            self._enumerator.handle_split_request(report.subtask)

    def notify_complete(self, plan: int) -> None:
        """The epoch of a plan is decided and committed by Spark."""
        if self._committed_positions is not None:
            self._committed_positions.committed(plan)
        if self._enumerator is not None:
            self._enumerator.notify_checkpoint_complete(plan)

    def observe(self) -> SourceObservation:
        """How the source stands now, for status and metrics."""
        metrics = self.metrics.copy()
        readers: dict[int, dict[str, float]] = {}
        for subtask, gauges in self._reader_gauges.items():
            for name, value in gauges.items():
                if name in _ADDED_UP:
                    metrics.gauges[name] = metrics.gauges.get(name, 0) + value
                elif name in _WORST:
                    metrics.gauges[name] = max(metrics.gauges.get(name, value), value)
                else:
                    readers.setdefault(subtask, {})[name] = value
        return SourceObservation(
            splits=tuple(
                SplitStatus(
                    split_id=mask_text(split_id),
                    subtask=split.subtask,
                    read=split.read,
                    idle=split.read and split.head is None and self._idleness.idle(split_id),
                    rows=split.rows,
                    watermark=split.watermark,
                    head=split.head,
                )
                for split_id, split in self._splits.items()
            ),
            splits_finished=self._splits_finished,
            watermark=self._watermark,
            finished=self.finished,
            rows_per_second=self._rows.rate(),
            idle_seconds=self._clock() - self._last_rows_at,
            metrics=metrics,
            reader_gauges=readers,
            replayable=self._traits.replayable,
        )

    def positions(self) -> list[SplitRecord]:
        """The unfinished splits, as they stand in a snapshot."""
        return [
            SplitRecord(
                split=dataclasses.replace(split.planned),
                subtask=split.subtask,
                read=split.read,
                watermark=split.watermark,
                head=split.head,
            )
            for split in self._splits.values()
        ]


def count_report(metrics: MetricGroup, report: Report) -> None:
    """Add the counters of a report; a reader's own bytes are nearer to the truth than ours."""
    counted = {
        SourceMetric.NUM_RECORDS_IN.value: report.rows,
        SourceMetric.NUM_BYTES_IN.value: report.bytes,
        SourceMetric.NUM_RECORDS_IN_ERRORS.value: report.skipped + report.dead_letters,
        SourceMetric.NUM_RECORDS_SKIPPED.value: report.skipped,
        SourceMetric.NUM_DEAD_LETTERS.value: report.dead_letters,
    }
    own = {name: number for name, number in report.counters.items() if name not in _COUNTED_HERE}
    for name, number in (counted | own).items():
        metrics.inc(name, number)


def _allows(limits: PlanLimits | None) -> bool:
    """Whether anything may be read within these limits."""
    return limits is None or 0 not in (limits.rows, limits.bytes, limits.splits)


def _without_planned(limits: PlanLimits) -> PlanLimits:
    """What is left to the readers to keep, where the enumerator plans their stops."""
    return dataclasses.replace(limits, rows=None, splits=None)


def source_history(
    uid: str, plans: Sequence[Plan], reports: Sequence[Mapping[str, Sequence[Report]] | None]
) -> list[tuple[SourcePlan, Sequence[Report] | None]]:
    """One source's part of plans and their reports."""
    return [
        (plan.sources[uid], own[uid] if own is not None else None)
        for plan, own in zip(plans, reports, strict=True)
    ]
