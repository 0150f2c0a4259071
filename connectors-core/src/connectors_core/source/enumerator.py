# SPDX-License-Identifier: Apache-2.0
"""The split enumerator and what it may ask of the coordinator (Flink's FLIP-27)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Generic, Protocol, TypeVar, runtime_checkable

from connectors_core.metrics import MetricGroup
from connectors_core.source.events import SourceEvent
from connectors_core.source.split import ReadLimits, SourceSplit, SplitT

T = TypeVar("T")
EnumStateT = TypeVar("EnumStateT")


class SplitEnumeratorContext(ABC, Generic[SplitT]):
    """The coordinator as its enumerator sees it. Driver only.

    Every method is called on the coordinator's own thread, as is every method of the enumerator:
    neither needs a lock. Blocking work goes to :meth:`call_async`.
    """

    @property
    @abstractmethod
    def current_parallelism(self) -> int:
        """Number of readers."""

    @property
    @abstractmethod
    def registered_readers(self) -> frozenset[int]:
        """Readers that can be given splits."""

    @property
    @abstractmethod
    def event_time_order(self) -> bool:
        """Whether splits should be handed out by event time (a watermark strategy is set).

        Otherwise the largest first is best.
        """

    @property
    @abstractmethod
    def metric_group(self) -> MetricGroup:
        """Metrics of this enumerator."""

    @abstractmethod
    def assign_splits(self, assignment: Mapping[int, Sequence[SplitT]]) -> None:
        """Give splits to readers; they travel in the next plan.

        A split whose id was assigned before is passed over, so that discovery may find again after
        a restart what it found before.
        """

    def assign_split(self, split: SplitT, subtask_id: int) -> None:
        """Give one split to one reader."""
        self.assign_splits({subtask_id: [split]})

    def split_found(self, split: SplitT) -> int | None:
        """Announce a split that was found and may have to wait for a reader.

        With a watermark strategy a split that was not read holds the watermark, but not below the
        place that the source had reached when the split was found. So call this when a split is
        found, and again for the splits that a restored enumerator has in its state; each of them
        must be assigned some time. Where an enumerator does not call it, a split counts as found
        after the last time at which the enumerator had none to give: where splits always wait, the
        watermark then stands still. `SplitAssigner` calls it for you.

        Returns:
            The lowest event time with which a row of the split is on time, in microseconds since
            the epoch; None where every row is. Hand out the split of the lowest one first.
        """
        return split.event_time_lower_bound()

    @abstractmethod
    def signal_no_more_splits(self, subtask_id: int) -> None:
        """Tell a reader that it gets no more splits; a source ends when all readers know."""

    @abstractmethod
    def send_event_to_source_reader(self, subtask_id: int, event: SourceEvent) -> None:
        """Send an event with the next plan."""

    @abstractmethod
    def set_reader_limit(self, subtask_id: int, limits: ReadLimits | None) -> None:
        """Limit what one reader reads per plan from now on (custom flow control)."""

    @abstractmethod
    def call_async(
        self,
        call: Callable[[], T],
        handler: Callable[[T | None, BaseException | None], None],
        *,
        initial_delay: timedelta = timedelta(0),
        period: timedelta | None = None,
    ) -> None:
        """Run ``call`` on a worker thread, then ``handler(result, error)`` on the coordinator's.

        Args:
            call: Blocking work. Must not touch the enumerator's state.
            handler: Gets the result or the error. What it raises fails the pipeline.
            initial_delay: Time until the first call.
            period: Time between calls; ``None`` calls once.
        """

    @abstractmethod
    def run_in_coordinator_thread(self, action: Callable[[], None]) -> None:
        """Run ``action`` on the coordinator's thread, soon."""


class SplitEnumerator(ABC, Generic[SplitT, EnumStateT]):
    """Discovers splits and assigns them to readers. Driver only, one thread.

    After a restart it is restored from :meth:`snapshot_state`; what it assigned or was told since
    then is applied again by the coordinator. A failed task is retried by Spark and is not seen
    here: :meth:`add_splits_back` is called when readers go away (lower parallelism).
    """

    def start(self) -> None:
        """Begin, for example discovery by ``context.call_async``."""

    @abstractmethod
    def handle_split_request(self, subtask_id: int) -> None:
        """A reader can take more: assign it a split, or signal that there are no more, or wait."""

    @abstractmethod
    def add_splits_back(self, splits: Sequence[SplitT], subtask_id: int) -> None:
        """Take back splits that a reader did not finish, at the position it reached."""

    def add_reader(self, subtask_id: int) -> None:
        """A reader registered."""

    def handle_source_event(self, subtask_id: int, event: SourceEvent) -> None:
        """An event from a reader.

        After a restart the events since the restored state come again, and may come before an
        asynchronous discovery has found their splits again. Of the splits that were assigned since
        that state, the first assignment of each id is passed over; so assign a split that an event
        brings back only after discovery has assigned that id.

        In a batch run all events come when all is read, right before the rows are decided on: a
        split that is assigned then is refused, and what ``context.call_async`` is given is not run.
        """
        raise NotImplementedError(
            f"{type(self).__name__} received a source event that it does not handle: {event!r}"
        )

    @abstractmethod
    def snapshot_state(self, checkpoint_id: int) -> EnumStateT:
        """State to restore from: what is not assigned yet, and where discovery stands.

        Args:
            checkpoint_id: Number of the plan.
        """

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        """The epoch of this plan is decided and committed: acknowledge to the external system."""

    def close(self) -> None:
        """Release what the enumerator holds."""


class SupportsAvailableNow(ABC):
    """Ability of an enumerator of an unbounded source: a run to what is there now."""

    @abstractmethod
    def freeze_end(self) -> None:
        """Discover once more, then no more; signal no more splits when all are assigned.

        From here on splits are assigned with their end. A split without one that was assigned
        before, by an earlier run, ends when its reader finishes it: tell the reader where by a
        source event.
        """


@runtime_checkable
class SupportsUnassignedSplits(Protocol):
    """Ability of an enumerator that does not hand out its splits by their lower bounds.

    Where it does, the last split that a reader was given stands for all that come after it. Where
    it does not, what waits must hold back the watermark itself, or its rows would come late. An
    enumerator that calls ``SplitEnumeratorContext.split_found`` need not be asked.
    """

    def unassigned_splits(self) -> Iterable[SourceSplit]:
        """Splits that were found and not assigned yet, in any order."""


@dataclass(frozen=True, kw_only=True)
class PlannedRead(Generic[SplitT]):
    """What the next plan reads of a live split.

    Attributes:
        split: The split at its position, with its stop for this plan.
        then: The split to go on from once a reader has finished ``split``. None ends it for good:
            it is read (or, where nothing is left, at least planned) a last time.
        empty: Nothing is there now. The split is not read, and its time to become idle runs.
    """

    split: SplitT
    then: SplitT | None
    empty: bool = False


class SupportsPlannedStops(ABC, Generic[SplitT]):
    """Ability of an enumerator whose splits have no end of their own, but one for each plan.

    The driver knows how far such a split (a partition of a log) reaches when it plans. With the
    stop in the plan, nothing is claimed and spooled: the splits count as splits that end, and
    ``Source.split_traits().end`` is true. Where a source is read as a batch the enumerator is not
    asked: the splits of a bounded source are assigned with their last stops.
    """

    @property
    def plans_stops(self) -> bool:
        """Whether it does at present; an enumerator that wraps others may have to say no."""
        return True

    @abstractmethod
    def plan_reads(
        self, splits: Sequence[SplitT], limits: ReadLimits
    ) -> Mapping[str, PlannedRead[SplitT]]:
        """What the next plan reads of each split.

        Called on the coordinator's thread, often, and more than once for a plan: quick, and without
        effect. What is known of the external system comes from ``context.call_async``; its handler
        is followed by a plan as soon as there is something to read.

        Args:
            splits: The assigned, unfinished splits that may be read now, in the order to read, at
                the positions they reached. One that a limit or alignment cut short has the stop of
                the plan it was read in and is given another; a last stop is a field of its own.
            limits: Most that the plan reads, for all splits together. Rows and splits, also those
                of ``context.set_reader_limit``, are kept here alone; bytes and seconds are kept by
                the readers too.

        Returns:
            By split id. A split left out has rows and is not read now: a limit came before it.
        """


class SupportsCommittedPositions(ABC, Generic[SplitT]):
    """Ability of an enumerator that tells the external system how far its rows were committed.

    For monitoring there (Kafka's group offsets): the positions that a restart goes on from are the
    pipeline's own. A batch run has none.
    """

    @abstractmethod
    def positions_committed(
        self, checkpoint_id: int, splits: Sequence[SplitT], finished: Sequence[SplitT]
    ) -> None:
        """The epoch of a plan is decided and committed by Spark.

        Called on the coordinator's thread, just before
        :meth:`SplitEnumerator.notify_checkpoint_complete`. After a restart, positions that were
        told before may be told again. At the end of a run :meth:`SplitEnumerator.close` follows at
        once: what ``context.call_async`` was given then is not run, and is for ``close`` to do.

        Args:
            checkpoint_id: Number of the plan.
            splits: What this plan, and those before it that were not told of, read and left open:
                at the positions reached. Where a batch was cut, at the start of that batch.
            finished: What they read to the end for good: as it was planned, with its stop.
        """


AnySplitEnumerator = SplitEnumerator[Any, Any]
