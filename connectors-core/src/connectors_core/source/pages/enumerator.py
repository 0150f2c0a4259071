# SPDX-License-Identifier: Apache-2.0
"""The enumerator of an API: assigns windows of its streams to readers. Driver."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from typing import TypeAlias

from connectors_core.annotations import experimental
from connectors_core.source.enumerator import (
    SplitEnumerator,
    SplitEnumeratorContext,
    SupportsAvailableNow,
)
from connectors_core.source.pages.split import PageSplit

__all__ = ["PageEnumerator", "PageEnumeratorState"]

Discover: TypeAlias = Callable[
    [Mapping[str, datetime | None], threading.Event], Sequence[PageSplit]
]
"""Returns the windows with new records. It blocks until then, or until the event is set.

It gets the end of the last window of each stream.
"""


@experimental
@dataclass(frozen=True, kw_only=True)
class PageEnumeratorState:
    """The state from which discovery resumes after a restart.

    Attributes:
        ends: The end of the last window of each stream.
        waiting: Unassigned splits.
        complete: Whether a bounded source has been discovered.
    """

    ends: dict[str, datetime | None] = field(default_factory=dict)
    waiting: tuple[PageSplit, ...] = ()
    complete: bool = False


class PageEnumerator(SplitEnumerator[PageSplit, PageEnumeratorState], SupportsAvailableNow):
    """Assigns a window to each reader that asks for one.

    Args:
        context: The context of the enumerator.
        discover: Returns the windows with new records.
        interval: The interval of discovery, or None to discover once and end.
        state: The state to resume from.
    """

    def __init__(
        self,
        context: SplitEnumeratorContext[PageSplit],
        *,
        discover: Discover,
        interval: timedelta | None,
        state: PageEnumeratorState,
    ) -> None:
        self._context = context
        self._discover = discover
        self._interval = interval
        self._ends = dict(state.ends)
        self._waiting = list(state.waiting)
        self._complete = state.complete
        self._freezing = False
        self._asking: set[int] = set()
        self._closed = threading.Event()

    def start(self) -> None:
        """Start the discovery."""
        if not self._complete:
            self._look(timedelta(0))

    def handle_split_request(self, subtask_id: int) -> None:
        """Assign a split to a reader that has none."""
        self._asking.add(subtask_id)
        self._serve()

    def add_splits_back(self, splits: Sequence[PageSplit], subtask_id: int) -> None:
        """Take back unfinished splits after a restart with fewer readers."""
        self._waiting = [*splits, *self._waiting]
        self._serve()

    def snapshot_state(self, checkpoint_id: int) -> PageEnumeratorState:
        """See `SplitEnumerator`."""
        return PageEnumeratorState(
            ends=dict(self._ends),
            waiting=tuple(self._waiting),
            complete=self._complete and self._interval is None,
        )

    def freeze_end(self) -> None:
        """Discover once more, which determines the end of the run."""
        self._freezing = True
        self._context.call_async(self._discovery(), self._take_end)

    def close(self) -> None:
        """End a discovery that waits for the API."""
        self._closed.set()

    def _look(self, delay: timedelta) -> None:
        self._context.call_async(self._discovery(), self._take, initial_delay=delay)

    def _discovery(self) -> Callable[[], Sequence[PageSplit]]:
        return partial(self._discover, dict(self._ends), self._closed)

    def _take(self, found: Sequence[PageSplit] | None, error: BaseException | None) -> None:
        if self._complete or self._freezing:
            return
        if error is not None:
            raise error
        self._complete = self._interval is None
        self._add(found or ())
        if self._interval is not None:
            self._look(self._interval)

    def _take_end(self, found: Sequence[PageSplit] | None, error: BaseException | None) -> None:
        if error is not None:
            raise error
        self._complete = True
        self._add(found or ())

    def _add(self, found: Sequence[PageSplit]) -> None:
        for split in found:
            self._ends[split.stream] = split.until
            self._waiting.append(split)
        self._serve()

    def _serve(self) -> None:
        for reader in sorted(self._asking & self._context.registered_readers):
            if self._waiting:
                self._asking.discard(reader)
                self._context.assign_split(self._waiting.pop(0), reader)
            elif self._complete:
                self._asking.discard(reader)
                self._context.signal_no_more_splits(reader)
