# SPDX-License-Identifier: Apache-2.0
"""The split enumerator and its context (Flink's FLIP-27)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import (
    Any,
    ClassVar,
    Generic,
    Protocol,
    TypeAlias,
    TypedDict,
    TypeVar,
    runtime_checkable,
)

from connectors_core.metrics import MetricGroup
from connectors_core.source.events import SourceEvent
from connectors_core.source.split import ReadLimits, SourceSplit, SplitT

T = TypeVar("T")
EnumStateT = TypeVar("EnumStateT")
CallHandler: TypeAlias = Callable[[T | None, BaseException | None], None]
"""Receives the result or the error of an asynchronous call."""


class CallSchedule(TypedDict, total=False):
    """When an asynchronous call runs; see `SplitEnumeratorContext.call_async`."""

    initial_delay: timedelta
    period: timedelta | None


class SplitEnumeratorContext(ABC, Generic[SplitT]):
    """The context that the coordinator gives to its enumerator. Driver only.

    The coordinator calls all methods of the enumerator on its own thread, and the enumerator calls
    these methods on it, so neither needs a lock. Use :meth:`call_async` for blocking work.
    """

    @property
    @abstractmethod
    def current_parallelism(self) -> int:
        """Number of readers."""

    @property
    @abstractmethod
    def registered_readers(self) -> frozenset[int]:
        """Readers to which splits can be assigned."""

    @property
    @abstractmethod
    def event_time_order(self) -> bool:
        """Whether to assign splits by event time (a watermark strategy is set).

        Otherwise, assign the largest first.
        """

    @property
    @abstractmethod
    def metric_group(self) -> MetricGroup:
        """Metrics of this enumerator."""

    @abstractmethod
    def assign_splits(self, assignment: Mapping[int, Sequence[SplitT]]) -> None:
        """Assign splits to readers in the next plan.

        A split whose id was already assigned is skipped, so discovery may find it again after a
        restart.
        """

    def assign_split(self, split: SplitT, subtask_id: int) -> None:
        """Assign one split to one reader."""
        self.assign_splits({subtask_id: [split]})

    def split_found(self, split: SplitT) -> int | None:
        """Announce a split that was found and may have to wait for a reader.

        With a watermark strategy, an unread split holds back the watermark, but not below its value
        when the split was found. Call this for each new split, and again for the splits in the
        state of a restored enumerator. Each of them must be assigned eventually. If an enumerator
        does not call it, a split counts as found after the enumerator last had no split to assign.
        If splits always wait, the watermark then does not advance. `SplitAssigner` calls this
        method for you.

        Returns:
            The lowest event time for which a row of the split is on time, in microseconds since the
            epoch; None if every row is. Assign the split with the lowest value first.
        """
        return split.event_time_lower_bound()

    @abstractmethod
    def signal_no_more_splits(self, subtask_id: int) -> None:
        """Tell a reader that it gets no more splits; a source ends when all readers know.

        See `SupportsIntermediateNoMoreSplits` for a source that another one follows.
        """

    @abstractmethod
    def send_event_to_source_reader(self, subtask_id: int, event: SourceEvent) -> None:
        """Send an event with the next plan.

        In a batch run, events that are sent before all splits are assigned reach the readers before
        they read. Later events reach no reader.
        """

    def request_snapshot(self) -> None:
        """Store the state of the enumerator with the next plan.

        Most plans hold only the assigned splits, which a restored enumerator does not get. Call
        this when the state changes in a way that a restart must know, such as a fixed end. The
        coordinator always stores the state that follows the first discovery.
        """

    @abstractmethod
    def set_reader_limit(self, subtask_id: int, limits: ReadLimits | None) -> None:
        """Limit what one reader reads per plan from now on (custom flow control)."""

    @abstractmethod
    def call_async(
        self,
        call: Callable[[], T],
        handler: CallHandler[T],
        *,
        initial_delay: timedelta = timedelta(0),
        period: timedelta | None = None,
    ) -> None:
        """Run ``call`` on a worker thread, then ``handler(result, error)`` on the coordinator's.

        Args:
            call: Blocking work. Must not access the enumerator's state.
            handler: Receives the result or the error. An exception in it fails the
                pipeline.
            initial_delay: Time until the first call.
            period: Time between calls; ``None`` calls once.
        """

    @abstractmethod
    def run_in_coordinator_thread(self, action: Callable[[], None]) -> None:
        """Run ``action`` on the coordinator's thread, soon."""


class SupportsIntermediateNoMoreSplits(ABC):
    """Ability of a context: tells a reader that the current source has no more splits.

    An enumerator that represents several sources, such as that of a `HybridSource`, uses it for all
    of them but the last. The reader then gets no split until the next source starts, and is not at
    its end. Named after Flink's interface. Driver only.
    """

    @abstractmethod
    def signal_intermediate_no_more_splits(self, subtask_id: int) -> None:
        """Tell a reader that its next splits are those of another source.

        When all readers know and have read their splits, the coordinator switches to that source.

        Args:
            subtask_id: The reader.

        Raises:
            FatalError: No other source follows.
        """


class SplitEnumerator(ABC, Generic[SplitT, EnumStateT]):
    """Discovers splits and assigns them to readers. Driver only, one thread.

    After a restart, the core restores it from :meth:`snapshot_state`, and the coordinator applies
    later assignments and events again. Spark retries a failed task without notifying the
    enumerator: :meth:`add_splits_back` is called only when readers go away (lower parallelism).
    """

    def start(self) -> None:
        """Start, for example with discovery in ``context.call_async``."""

    @abstractmethod
    def handle_split_request(self, subtask_id: int) -> None:
        """Assign a split to a reader, signal that there are no more, or wait."""

    @abstractmethod
    def add_splits_back(self, splits: Sequence[SplitT], subtask_id: int) -> None:
        """Take back splits that a reader did not finish, at their current positions."""

    def add_reader(self, subtask_id: int) -> None:
        """A reader registered."""

    def handle_source_event(self, subtask_id: int, event: SourceEvent) -> None:
        """Handle an event from a reader.

        After a restart, the events since the restored state are delivered again. They may arrive
        before an asynchronous discovery has found their splits again. For splits assigned since
        that state, the first assignment of each id is skipped. Therefore, assign a split that an
        event returns only after discovery has assigned that id.

        In a batch run, all events arrive after all rows are read, immediately before the decision.
        A split assigned then is rejected, and calls of ``context.call_async`` do not run.
        """
        raise NotImplementedError(
            f"{type(self).__name__} received a source event that it does not handle: {event!r}"
        )

    @abstractmethod
    def snapshot_state(self, checkpoint_id: int) -> EnumStateT:
        """Return the state to restore from: unassigned splits, and the progress of discovery.

        Args:
            checkpoint_id: Number of the plan; see `SupportsBatchSnapshot` for a batch run.
        """

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        """Acknowledge rows to the external system: the epoch is decided and committed."""

    def close(self) -> None:
        """Release resources."""


class SupportsAvailableNow(ABC):
    """Ability of an enumerator of an unbounded source: reads up to the available data."""

    @abstractmethod
    def freeze_end(self) -> None:
        """Discover once more; signal no more splits when all are assigned.

        From now on, assign splits with their end. A split without an end that an earlier run
        assigned ends when its reader finishes it. Send the reader its end in a source event.
        """


class SupportsBatchSnapshot:
    """Ability of an enumerator: the next driver can resume an interrupted batch run.

    Named after Flink's interface (FLIP-383). When the enumerator has assigned all splits, the core
    takes a snapshot and stores it with the splits. The next driver restores the enumerator from it.
    The enumerator must then find no further splits, even if new data has appeared. It receives the
    events of all readers, including those of the former driver. A pipeline with
    ``resume_batch_runs`` refuses a source without this ability.
    """

    BATCH_CHECKPOINT_ID: ClassVar[int] = -1
    """The argument of ``snapshot_state`` in a batch run, which has no plans."""


@runtime_checkable
class SupportsUnassignedSplits(Protocol):
    """Ability of an enumerator that does not assign its splits by their lower bounds.

    If splits are assigned by their bounds, the last split of a reader represents all later ones.
    Otherwise, waiting splits must hold back the watermark themselves, or their rows would be late.
    An enumerator that calls ``SplitEnumeratorContext.split_found`` does not need this.
    """

    def unassigned_splits(self) -> Iterable[SourceSplit]:
        """Return the splits that were found and not assigned yet, in any order."""


@dataclass(frozen=True, kw_only=True)
class PlannedRead(Generic[SplitT]):
    """The read of an active split in the next plan.

    Attributes:
        split: The split at its position, with its stop for this plan.
        then: The split to continue with after a reader has finished ``split``. None ends it
            permanently: it is read (or, without remaining rows, at least planned) a last time.
        empty: The split has no new rows. It is not read, and its idle timer runs.
    """

    split: SplitT
    then: SplitT | None
    empty: bool = False


class SupportsPlannedStops(ABC, Generic[SplitT]):
    """Ability of an enumerator whose unbounded splits get a stop in each plan.

    When the driver plans, it knows the current end of such a split (a partition of a log). With the
    stop in the plan, no claim or spool is needed: the splits count as splits that end, and
    ``Source.split_traits().end`` is true. If a source is read as a batch, this ability is not used:
    a bounded source assigns its splits with their final stops.
    """

    @property
    def plans_stops(self) -> bool:
        """Whether the ability is active; an enumerator that wraps others may return false."""
        return True

    @abstractmethod
    def plan_reads(
        self, splits: Sequence[SplitT], limits: ReadLimits
    ) -> Mapping[str, PlannedRead[SplitT]]:
        """Return the read of each split in the next plan.

        The coordinator calls this often on its thread, and more than once for a plan. It must be
        fast and have no side effects. Query the external system with ``context.call_async``. A plan
        follows its handler as soon as there is something to read.

        Args:
            splits: The assigned, unfinished splits that may be read now, in reading order,
                at their current positions. A split that a limit or alignment cut short has the stop
                of its previous plan and gets a new one; keep a final stop in a separate field.
            limits: Limits of the plan for all splits together. Only this method applies the
                limits on rows and splits, including those of ``context.set_reader_limit``; readers
                also apply the limits on bytes and seconds.

        Returns:
            By split id. Leave out a split that has rows but is not read now because of a
            limit.
        """


class SupportsCommittedPositions(ABC, Generic[SplitT]):
    """Ability of an enumerator that reports committed positions to the external system.

    The system can show them (Kafka's group offsets), or remove the rows before them: a restart uses
    the pipeline's own positions, which are never earlier. A batch run reports none.
    """

    @abstractmethod
    def positions_committed(
        self, checkpoint_id: int, splits: Sequence[SplitT], finished: Sequence[SplitT]
    ) -> None:
        """Report positions: the epoch of a plan is decided and committed by Spark.

        Called on the coordinator's thread, immediately before
        :meth:`SplitEnumerator.notify_checkpoint_complete`. After a restart, earlier positions may
        be reported again. At the end of a run, :meth:`SplitEnumerator.close` follows immediately:
        late calls of ``context.call_async`` do not run, so ``close`` must complete their work.

        Args:
            checkpoint_id: Number of the plan.
            splits: Unfinished splits that this plan, or an earlier unreported plan, read,
                at their current positions. If a batch was cut, at the start of that batch.
            finished: Splits that were read to their permanent end, as planned, with their
                stop.
        """


AnySplitEnumerator = SplitEnumerator[Any, Any]
