# SPDX-License-Identifier: Apache-2.0
"""The contexts of members: the sources that one enumerator and one reader represent."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Generic, TypeVar

from connectors_core.annotations import experimental
from connectors_core.metrics import MetricGroup
from connectors_core.records import RecordErrorHandler
from connectors_core.source.enumerator import CallHandler, SplitEnumeratorContext
from connectors_core.source.events import SourceEvent
from connectors_core.source.reader import SourceReaderContext
from connectors_core.source.split import ReadLimits, SourceSplit, SplitT

T = TypeVar("T")
MemberSplitT = TypeVar("MemberSplitT", bound=SourceSplit)


@experimental
@dataclass(eq=False, repr=False)
class MemberEnumeratorContext(SplitEnumeratorContext[MemberSplitT], Generic[MemberSplitT, SplitT]):
    """The context of the enumerator of a member, which delegates to that of the whole source.

    Derive from it and say how splits and events become those of the whole source, and what follows
    when the member has no more splits. Driver only.

    Args:
        context: The context of the enumerator of the whole source.

    Attributes:
        is_over: Whether the member has ended. Set it, and the results of its asynchronous calls
            are dropped.
    """

    context: SplitEnumeratorContext[SplitT]
    is_over: bool = field(default=False, init=False)

    @abstractmethod
    def wrapped(self, split: MemberSplitT) -> SplitT:
        """Return a split of the member as a split of the whole source."""

    @property
    def current_parallelism(self) -> int:
        """See `SplitEnumeratorContext`."""
        return self.context.current_parallelism

    @property
    def registered_readers(self) -> frozenset[int]:
        """See `SplitEnumeratorContext`."""
        return self.context.registered_readers

    @property
    def event_time_order(self) -> bool:
        """See `SplitEnumeratorContext`."""
        return self.context.event_time_order

    @property
    def metric_group(self) -> MetricGroup:
        """The metrics of the whole source."""
        return self.context.metric_group

    def assign_splits(self, assignment: Mapping[int, Sequence[MemberSplitT]]) -> None:
        """See `SplitEnumeratorContext`."""
        self.context.assign_splits(
            {reader: [*map(self.wrapped, splits)] for reader, splits in assignment.items()}
        )

    def split_found(self, split: MemberSplitT) -> int | None:
        """See `SplitEnumeratorContext`."""
        return self.context.split_found(self.wrapped(split))

    def request_snapshot(self) -> None:
        """See `SplitEnumeratorContext`."""
        self.context.request_snapshot()

    def set_reader_limit(self, subtask_id: int, limits: ReadLimits | None) -> None:
        """See `SplitEnumeratorContext`."""
        self.context.set_reader_limit(subtask_id, limits)

    def call_async(
        self,
        call: Callable[[], T],
        handler: CallHandler[T],
        *,
        initial_delay: timedelta = timedelta(0),
        period: timedelta | None = None,
    ) -> None:
        """See `SplitEnumeratorContext`. Periodic calls end with the member."""

        def handle(result: T | None, error: BaseException | None) -> None:
            if self.is_over:
                return
            handler(result, error)
            if period is not None and not self.is_over:
                self.call_async(call, handler, initial_delay=period, period=period)

        self.context.call_async(call, handle, initial_delay=initial_delay)

    def run_in_coordinator_thread(self, action: Callable[[], None]) -> None:
        """See `SplitEnumeratorContext`."""
        self.context.run_in_coordinator_thread(action)


@experimental
@dataclass(eq=False, repr=False)
class MemberReaderContext(SourceReaderContext):
    """The context of the reader of a member, which delegates to that of the whole source.

    Derive from it and say how events become those of the whole source. Executor only.

    Args:
        context: The context of the reader of the whole source.
    """

    context: SourceReaderContext

    @abstractmethod
    def wrapped(self, event: SourceEvent) -> SourceEvent:
        """Return an event of the member as an event of the whole source."""

    @property
    def index_of_subtask(self) -> int:
        """See `SourceReaderContext`."""
        return self.context.index_of_subtask

    @property
    def current_parallelism(self) -> int:
        """See `SourceReaderContext`."""
        return self.context.current_parallelism

    @property
    def metric_group(self) -> MetricGroup:
        """The metrics of the whole source."""
        return self.context.metric_group

    @property
    def record_errors(self) -> RecordErrorHandler:
        """See `SourceReaderContext`."""
        return self.context.record_errors

    def send_split_request(self) -> None:
        """See `SourceReaderContext`."""
        self.context.send_split_request()

    def send_source_event_to_coordinator(self, event: SourceEvent) -> None:
        """See `SourceReaderContext`."""
        self.context.send_source_event_to_coordinator(self.wrapped(event))
