# SPDX-License-Identifier: Apache-2.0
"""The context of a source's enumerator: its requests to the coordinator. Driver."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, TypeVar, Unpack

from connectors_core.engine.coordinator.found_splits import lower_bound
from connectors_core.engine.coordinator.mailbox import Mailbox
from connectors_core.engine.coordinator.source_settings import SourceSettings
from connectors_core.engine.coordinator.split_ledger import SplitLedger
from connectors_core.errors import ConfigurationError, FatalError
from connectors_core.metrics import MetricGroup
from connectors_core.source.enumerator import (
    AnySplitEnumerator,
    CallHandler,
    CallSchedule,
    SplitEnumeratorContext,
    SupportsIntermediateNoMoreSplits,
)
from connectors_core.source.event_codec import decode_event, encode_event
from connectors_core.source.events import EventDocument, SourceEvent
from connectors_core.source.hybrid.switches import SwitchesSources
from connectors_core.source.split import ReadLimits

T = TypeVar("T")


@dataclass(eq=False, repr=False)
class EnumeratorContext(SplitEnumeratorContext[Any], SupportsIntermediateNoMoreSplits):
    """The enumerator of one source and its assignments and events. Runs on the mailbox's thread.

    Attributes:
        enumerator: The enumerator; None before its creation and after its close.
        metrics: Its metrics.
        answered: Whether it has responded once, with or without splits.
        asynchronous: Whether it discovers splits in an asynchronous call.
        needs_snapshot: Whether the next plan must hold a snapshot.
        assignments: Number of assignments so far.
        registered: Readers that may receive splits.
        reader_limits: Limits of individual readers.
        events: Events for readers, to be sent with the next plan.

    Args:
        settings: The source.
        ledger: The splits of the source.
        mailbox: The coordinator's thread.
        on_change: Called when a new plan may have become possible.
    """

    settings: SourceSettings
    _: KW_ONLY
    ledger: SplitLedger
    mailbox: Mailbox
    on_change: Callable[[], None]

    def __post_init__(self) -> None:
        self.enumerator: AnySplitEnumerator | None = None
        self.metrics = MetricGroup()
        self.answered = False
        self.asynchronous = False
        self.needs_snapshot = False
        self.assignments = 0
        self.registered: set[int] = set()
        self.reader_limits: dict[int, ReadLimits] = {}
        self.events: dict[int, list[EventDocument]] = {}

    # --- state of the source --------------------------------------------------------------------

    @property
    def has_next(self) -> bool:
        """Whether the enumerator combines several sources and has not reached the last one."""
        return isinstance(self.enumerator, SwitchesSources) and self.enumerator.has_next

    @property
    def finished(self) -> bool:
        """Whether all splits are assigned and read, and no other source follows."""
        return (
            self.answered
            and not self.ledger.splits
            and self.ledger.no_more_to_come
            and not self.has_next
        )

    def switch(self) -> None:
        """Reset the state of the previous source, since another one follows."""
        self.answered = self.asynchronous = False
        self.needs_snapshot = True

    def answer(self) -> None:
        """Record that the enumerator has responded.

        The plan of another source can hold a snapshot from before the first response. A restart
        from it would discover the splits again, for example to another end.
        """
        self.needs_snapshot = self.needs_snapshot or not self.answered
        self.answered = True

    # --- called by the enumerator ---------------------------------------------------------------

    @property
    def current_parallelism(self) -> int:
        """See :class:`SplitEnumeratorContext`."""
        return self.settings.parallelism

    @property
    def registered_readers(self) -> frozenset[int]:
        """See :class:`SplitEnumeratorContext`."""
        return frozenset(self.registered)

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
        changed = not self.answered
        for subtask, splits in assignment.items():
            self._check_reader(subtask)
            for split in splits:
                if self.ledger.found_again(split.split_id):
                    self.assignments += 1
                    continue
                if split.split_id in self.ledger.splits:
                    continue
                self.assignments += 1
                changed = True
                self.ledger.assign(split, subtask)
        self.answer()
        if changed:  # else a request without splits would trigger the next one
            self.on_change()

    def split_found(self, split: Any) -> int | None:
        """See :class:`SplitEnumeratorContext`."""
        if self.settings.strategy is None or self.ledger.was_assigned(split.split_id):
            return super().split_found(split)
        restoring = self.enumerator is None
        return lower_bound(self.ledger.found.announced(split, before=restoring))

    def signal_no_more_splits(self, subtask_id: int) -> None:
        """See :class:`SplitEnumeratorContext`."""
        self._no_more_splits(subtask_id, of_this_source=False)

    def signal_intermediate_no_more_splits(self, subtask_id: int) -> None:
        """See :class:`SupportsIntermediateNoMoreSplits`."""
        self._no_more_splits(subtask_id, of_this_source=True)

    def _no_more_splits(self, subtask_id: int, *, of_this_source: bool) -> None:
        self._check_reader(subtask_id)
        if of_this_source is not self.has_next:
            follows = "another source follows" if self.has_next else "no other source follows"
            told = "only the current source has" if of_this_source else "all sources have"
            raise FatalError(
                f"the enumerator of source {self.settings.uid!r} signals that {told} no more "
                f"splits, but {follows}",
                hint="this is a bug in the enumerator: report it",
            )
        changed = not self.answered or subtask_id not in self.ledger.no_more
        self.ledger.no_more.add(subtask_id)
        self.answer()
        if changed:
            self.on_change()

    def send_event_to_source_reader(self, subtask_id: int, event: SourceEvent) -> None:
        """See :class:`SplitEnumeratorContext`."""
        self._check_reader(subtask_id)
        document = encode_event(event)
        decode_event(self.settings.source, document)  # fail here, not on an executor
        self.events.setdefault(subtask_id, []).append(document)
        self.on_change()

    def request_snapshot(self) -> None:
        """See :class:`SplitEnumeratorContext`."""
        self.needs_snapshot = True

    def set_reader_limit(self, subtask_id: int, limits: ReadLimits | None) -> None:
        """See :class:`SplitEnumeratorContext`."""
        self._check_reader(subtask_id)
        changed = self.reader_limits.get(subtask_id) != limits
        if limits is None:
            self.reader_limits.pop(subtask_id, None)
        else:
            self.reader_limits[subtask_id] = limits
        if changed:
            self.on_change()

    def call_async(
        self, call: Callable[[], T], handler: CallHandler[T], **schedule: Unpack[CallSchedule]
    ) -> None:
        """See :class:`SplitEnumeratorContext`."""

        def handle(result: T | None, error: BaseException | None) -> None:
            handler(result, error)
            if error is None:
                self.answer()
            self.on_change()

        self.asynchronous = True
        self.mailbox.call_async(call, handle, **schedule)

    def run_in_coordinator_thread(self, action: Callable[[], None]) -> None:
        """See :class:`SplitEnumeratorContext`."""
        self.mailbox.execute(action)

    def _check_reader(self, subtask: int) -> None:
        if not 0 <= subtask < self.settings.parallelism:
            raise ConfigurationError(
                f"source {self.settings.uid!r} has no reader {subtask}",
                expected=f"0 to {self.settings.parallelism - 1}",
                found=subtask,
            )
