# SPDX-License-Identifier: Apache-2.0
"""The enumerator, which discovers streams and assigns them to readers. Driver."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final
from zlib import crc32

from connector_redis.split import Extent, Position, StreamEnds, StreamSplit
from connectors_core.errors import RetryableError
from connectors_core.source import (
    SourceEvent,
    SplitEnumerator,
    SplitEnumeratorContext,
    SupportsAvailableNow,
)

__all__ = ["EnumeratorState", "StreamEnumerator"]

_logger = logging.getLogger(__name__)

# The number of consecutive discoveries that can fail before the pipeline fails.
_MAX_FAILURES: Final = 5


@dataclass(frozen=True, kw_only=True)
class EnumeratorState:
    """The state from which discovery resumes after a restart.

    Attributes:
        assigned: The end of the last split of each stream, or None if that split has no end.
        waiting: Unassigned splits.
        complete: Whether a bounded source has been discovered. Later rows are not read.
    """

    assigned: dict[str, Position | None] = field(default_factory=dict)
    waiting: tuple[StreamSplit, ...] = ()
    complete: bool = False


class StreamEnumerator(SplitEnumerator[StreamSplit, EnumeratorState], SupportsAvailableNow):
    """Assigns each new stream by its key, so that readers get equal shares.

    Args:
        context: The context of the enumerator.
        discover: Returns the streams and their ends. It can block.
        interval: The interval of stream discovery, or None to discover once and end.
        state: The state to resume from.
    """

    def __init__(
        self,
        context: SplitEnumeratorContext[StreamSplit],
        *,
        discover: Callable[[], dict[str, Extent]],
        interval: timedelta | None,
        state: EnumeratorState,
    ) -> None:
        self._context = context
        self._discover = discover
        self._interval = interval
        self._assigned = dict(state.assigned)
        self._waiting = list(state.waiting)
        self._complete = state.complete
        self._freezing = False
        self._ends: dict[str, Position] = {}  # of splits whose readers do not know it yet
        self._told: set[int] = set()
        self._failures = 0

    def start(self) -> None:
        """Start discovering streams."""
        if not self._complete:
            self._context.call_async(self._discover, self._take, period=self._interval)

    def add_reader(self, subtask_id: int) -> None:
        """Assign the reader its discovered splits."""
        self._assign()

    def handle_split_request(self, subtask_id: int) -> None:
        """Do nothing: splits are assigned when they are discovered."""

    def add_splits_back(self, splits: Sequence[StreamSplit], subtask_id: int) -> None:
        """Return the splits of a failed reader for reassignment."""
        self._waiting.extend(splits)
        self._assign()

    def snapshot_state(self, checkpoint_id: int) -> EnumeratorState:
        """See `SplitEnumerator`."""
        return EnumeratorState(
            assigned=dict(self._assigned),
            waiting=tuple(self._waiting),
            complete=self._complete and self._interval is None,
        )

    # --- Discovery ---

    def _take(self, found: dict[str, Extent] | None, error: BaseException | None) -> None:
        if self._complete or self._freezing:
            return
        if error is not None:
            self._failures += 1
            retries = self._interval is not None and self._failures < _MAX_FAILURES
            if not (retries and isinstance(error, RetryableError)):
                raise error
            _logger.warning("stream discovery failed and will be retried", exc_info=error)
            return
        self._failures = 0
        self._complete = self._interval is None
        for key, extent in sorted((found or {}).items()):
            self._add(key, extent, bounded=self._complete)
        self._assign()

    def _add(self, key: str, extent: Extent, *, bounded: bool) -> None:
        """Create a split for the new entries of a stream."""
        start = self._assigned.get(key, extent.start)
        end = extent.end if bounded else None
        if start is None or start == end:
            return
        self._assigned[key] = end
        self._waiting.append(StreamSplit.of(key, start, end))

    # --- The end of a run up to the available rows ---

    def freeze_end(self) -> None:
        """Discover once more, which determines the end of the run."""
        self._freezing = True
        self._context.call_async(self._discover, self._take_end)

    def _take_end(self, found: dict[str, Extent] | None, error: BaseException | None) -> None:
        if error is not None:
            raise error
        self._complete = True
        for key, extent in sorted((found or {}).items()):
            if key in self._assigned and self._assigned[key] is None:
                self._ends[key] = extent.end  # an earlier run assigned it without an end
            else:
                self._add(key, extent, bounded=True)
        self._tell_ends()
        self._assign()

    def _tell_ends(self) -> None:
        if self._ends:
            for subtask in sorted(self._context.registered_readers):
                self._context.send_event_to_source_reader(subtask, StreamEnds(dict(self._ends)))

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        """Send the ends again, because a split that was not in the last plan missed its end."""
        self._tell_ends()

    def handle_source_event(self, subtask_id: int, event: SourceEvent) -> None:
        """Handle a reader at the end of its splits: later rows are new."""
        assert isinstance(event, StreamEnds)
        for key, end in event.ends.items():
            self._assigned[key] = end
            self._ends.pop(key, None)

    # --- Assignment ---

    def _assign(self) -> None:
        readers = sorted(self._context.registered_readers)
        if not readers:
            return
        waiting, self._waiting = self._waiting, []
        for split in waiting:
            self._context.assign_split(split, readers[crc32(split.key.encode()) % len(readers)])
        if self._complete:
            for reader in sorted(set(readers) - self._told):
                self._told.add(reader)
                self._context.signal_no_more_splits(reader)
