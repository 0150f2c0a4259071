# SPDX-License-Identifier: Apache-2.0
"""An enumerator and its coordinator without threads. The test triggers every step."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar, Unpack

from connectors_core.metrics import MetricGroup
from connectors_core.source import (
    Boundedness,
    ReadLimits,
    SourceEvent,
    SplitEnumeratorContext,
    SupportsIntermediateNoMoreSplits,
    SupportsPlannedStops,
)
from connectors_core.source.enumerator import AnySplitEnumerator, CallHandler, CallSchedule
from connectors_core.source.hybrid.switches import SwitchesSources
from connectors_core.source.source import AnySource
from connectors_core.testing.manual_mailbox import ManualClock, ManualMailbox

T = TypeVar("T")

_MOST_ROUNDS = 1000


class ManualEnumeratorContext(SplitEnumeratorContext[Any], SupportsIntermediateNoMoreSplits):
    """A coordinator that records its enumerator's actions, like Flink's mock.

    Args:
        parallelism: The number of readers. Initially, none is registered.
        event_time_order: See `SplitEnumeratorContext`.
        passed_over: The IDs of splits assigned after the snapshot from which the enumerator was
            restored. Assigning them again has no effect.

    Attributes:
        passed_over: Those of them that are not reassigned yet.
        assigned: The assigned splits in order, as (reader, split).
        assignments: The number of assigned splits, including skipped ones.
        no_more: The readers with the signal that no more splits follow.
        no_more_of_source: The readers with the signal that only splits of another source follow.
        sent: The sent events, as (reader, event).
        limits: The limits of the readers.
        errors: The errors on the coordinator's thread. The first one stops it.
        calls: The number of asynchronous calls.
        failure: The error that asynchronous calls raise instead of running.
    """

    def __init__(
        self,
        parallelism: int = 1,
        *,
        event_time_order: bool = False,
        passed_over: Iterable[str] = (),
    ) -> None:
        self._parallelism = parallelism
        self._event_time_order = event_time_order
        self.passed_over = set(passed_over)
        self._registered: set[int] = set()
        self._metrics = MetricGroup()
        self.assigned: list[tuple[int, Any]] = []
        self.assignments = 0
        self.no_more: set[int] = set()
        self.no_more_of_source: set[int] = set()
        self.sent: list[tuple[int, SourceEvent]] = []
        self.limits: dict[int, ReadLimits | None] = {}
        self.errors: list[BaseException] = []
        self.calls = 0
        self.failure: BaseException | None = None
        self.mailbox = ManualMailbox("enumerator", self.errors.append, ManualClock())

    @property
    def current_parallelism(self) -> int:
        """See :class:`SplitEnumeratorContext`."""
        return self._parallelism

    @property
    def registered_readers(self) -> frozenset[int]:
        """See :class:`SplitEnumeratorContext`."""
        return frozenset(self._registered)

    @property
    def event_time_order(self) -> bool:
        """See :class:`SplitEnumeratorContext`."""
        return self._event_time_order

    @property
    def metric_group(self) -> MetricGroup:
        """See :class:`SplitEnumeratorContext`."""
        return self._metrics

    def assign_splits(self, assignment: Mapping[int, Sequence[Any]]) -> None:
        """See :class:`SplitEnumeratorContext`."""
        for subtask, splits in assignment.items():
            self._check_reader(subtask)
            for split in splits:
                self.assignments += 1
                if split.split_id in self.passed_over:
                    self.passed_over.discard(split.split_id)
                else:
                    self.assigned.append((subtask, split))

    def signal_no_more_splits(self, subtask_id: int) -> None:
        """See :class:`SplitEnumeratorContext`."""
        self._check_reader(subtask_id)
        self.no_more.add(subtask_id)

    def signal_intermediate_no_more_splits(self, subtask_id: int) -> None:
        """See :class:`SupportsIntermediateNoMoreSplits`."""
        self._check_reader(subtask_id)
        self.no_more_of_source.add(subtask_id)

    def send_event_to_source_reader(self, subtask_id: int, event: SourceEvent) -> None:
        """See :class:`SplitEnumeratorContext`."""
        self._check_reader(subtask_id)
        self.sent.append((subtask_id, event))

    def set_reader_limit(self, subtask_id: int, limits: ReadLimits | None) -> None:
        """See :class:`SplitEnumeratorContext`."""
        self._check_reader(subtask_id)
        self.limits[subtask_id] = limits

    def call_async(
        self, call: Callable[[], T], handler: CallHandler[T], **schedule: Unpack[CallSchedule]
    ) -> None:
        """See :class:`SplitEnumeratorContext`. The call runs in :meth:`work`."""

        def counted() -> T:
            self.calls += 1
            if self.failure is not None:
                raise self.failure
            return call()

        self.mailbox.call_async(counted, handler, **schedule)

    def run_in_coordinator_thread(self, action: Callable[[], None]) -> None:
        """See :class:`SplitEnumeratorContext`. The action runs in :meth:`work`."""
        self.mailbox.execute(action)

    # --- Actions of the test ---

    def register(self, subtask: int) -> None:
        """Register a reader, which can then receive splits."""
        self._registered.add(subtask)

    def unregister(self, subtask: int) -> None:
        """Remove a reader."""
        self._registered.discard(subtask)

    def work(self) -> None:
        """Run waiting actions, and asynchronous calls with their handlers.

        Raises:
            BaseException: The enumerator's error in one of them.
        """
        self.mailbox.run()
        self.mailbox.run_calls()
        if self.errors:
            raise self.errors[0]

    def let_time_pass(self) -> None:
        """Advance to the next timer and run waiting actions."""
        self.mailbox.to_next_timer()
        self.work()

    def _check_reader(self, subtask: int) -> None:
        if subtask not in self._registered:
            raise AssertionError(f"the enumerator calls reader {subtask}, which is not registered")


class Enumeration:
    """One run of an enumerator, started as the coordinator starts it.

    Args:
        source: The source of the enumerator.
        parallelism: The number of readers.
        state: The serialized state to resume from, with its layout version, or None for a new
            start.
        returned: The splits of lost readers, by reader. They are returned before other readers
            register.
        passed_over: See `ManualEnumeratorContext`.
    """

    def __init__(
        self,
        source: AnySource,
        parallelism: int = 1,
        *,
        state: tuple[int, bytes] | None = None,
        returned: Mapping[int, Sequence[Any]] | None = None,
        passed_over: Iterable[str] = (),
    ) -> None:
        self._serializer = source.enumerator_state_serializer()
        self.context = ManualEnumeratorContext(parallelism, passed_over=passed_over)
        self.enumerator: AnySplitEnumerator
        if state is None:
            self.enumerator = source.create_enumerator(self.context)
        else:
            restored = self._serializer.deserialize(*state)
            self.enumerator = source.restore_enumerator(self.context, restored)
        self._returned = dict(returned or {})

    def start(self) -> Enumeration:
        """Start the enumerator, register the readers, and run its discovery."""
        self.begin()
        self.context.work()
        return self

    def begin(self) -> Enumeration:
        """Start the enumerator and register the readers. Asynchronous calls wait."""
        self.enumerator.start()
        for subtask, splits in sorted(self._returned.items()):
            self.enumerator.add_splits_back(splits, subtask)
        for subtask in range(self.context.current_parallelism):
            self.context.register(subtask)
            self.enumerator.add_reader(subtask)
        return self

    @property
    def splits(self) -> list[Any]:
        """The assigned splits in order."""
        return [split for _, split in self.context.assigned]

    def request(self, subtask: int = 0) -> None:
        """Let a reader request a split."""
        self.enumerator.handle_split_request(subtask)
        self.context.work()

    def ask_on(self) -> None:
        """Let all readers request splits until no more arrive, including discovery."""
        for _ in range(_MOST_ROUNDS):
            before = self.context.assignments
            context = self.context
            told = context.no_more | context.no_more_of_source
            for subtask in sorted(context.registered_readers - told):
                self.request(subtask)
            if self.context.assignments == before:
                self.context.let_time_pass()
                if self.context.assignments == before:
                    return
        raise AssertionError(
            f"the enumerator never stops assigning: {len(self.context.assigned)} splits so far"
        )

    def switch(self) -> None:
        """Switch to the next source of an enumerator of several, and run its discovery."""
        assert isinstance(self.enumerator, SwitchesSources)
        self.context.no_more_of_source.clear()
        self.enumerator.switch(None)
        self.context.work()

    def snapshot(self, checkpoint_id: int = 0) -> tuple[int, bytes]:
        """Return the serialized state with its layout version."""
        state = self.enumerator.snapshot_state(checkpoint_id)
        return self._serializer.version, self._serializer.serialize(state)

    def planned(self, splits: Sequence[Any]) -> list[Any]:
        """Return the splits as a plan made now would read them, with any planned stops."""
        enumerator = self.enumerator
        if not (isinstance(enumerator, SupportsPlannedStops) and enumerator.plans_stops):
            return list(splits)
        reads = enumerator.plan_reads(splits, ReadLimits())
        return [
            reads[split.split_id].split if split.split_id in reads else split for split in splits
        ]

    def lose_reader(self, subtask: int) -> list[Any]:
        """Remove a reader and return its splits to the enumerator.

        Returns the splits of the other readers.
        """
        lost = [split for reader, split in self.context.assigned if reader == subtask]
        kept = [split for reader, split in self.context.assigned if reader != subtask]
        self.context.assigned.clear()
        self.context.unregister(subtask)
        self.context.no_more.clear()
        self.enumerator.add_splits_back(lost, subtask)
        self.context.work()
        return kept


def all_splits(source: AnySource) -> list[Any]:
    """Return all current splits of a source, as a single reader gets them.

    Splits of a bounded source are returned as assigned, because no stops are planned in a batch
    run.
    """
    enumeration = Enumeration(source).start()
    try:
        enumeration.ask_on()
        if source.boundedness() is Boundedness.BOUNDED:
            return enumeration.splits
        return enumeration.planned(enumeration.splits)
    finally:
        enumeration.enumerator.close()
