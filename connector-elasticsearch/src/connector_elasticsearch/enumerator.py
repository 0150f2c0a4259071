# SPDX-License-Identifier: Apache-2.0
"""The enumerator: finds the partitions and assigns them to readers. Driver.

Replace what it looks for. The order of events stays: discover on a worker thread (`call_async`),
take what was found on the coordinator's thread, assign it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final

from connector_elasticsearch.split import PartitionEnds, PartitionSplit
from connectors_core.errors import RetryableError
from connectors_core.source import (
    SourceEvent,
    SplitEnumerator,
    SplitEnumeratorContext,
    SupportsAvailableNow,
)

__all__ = ["EnumeratorState", "PartitionEnumerator"]

_logger = logging.getLogger(__name__)

# So many looks for partitions may fail in a row before the pipeline does.
_MAX_FAILURES: Final = 5


@dataclass(frozen=True, kw_only=True)
class EnumeratorState:
    """What discovery goes on from after a restart.

    Attributes:
        assigned: By partition, the offset up to which it was made into splits; None if the last
            of them has no end.
        waiting: Splits that no reader has yet.
        complete: A source that ends was looked at: what comes later is not read.
    """

    assigned: dict[int, int | None] = field(default_factory=dict)
    waiting: tuple[PartitionSplit, ...] = ()
    complete: bool = False


class PartitionEnumerator(SplitEnumerator[PartitionSplit, EnumeratorState], SupportsAvailableNow):
    """Assigns a partition as soon as it is found, by its number, so that readers have like shares.

    Args:
        context: The coordinator.
        topic: The topic.
        discover: Gives the partitions and their ends; may block.
        interval: Time between two looks for partitions; None looks once, and the source ends.
        state: What to go on from.
    """

    def __init__(
        self,
        context: SplitEnumeratorContext[PartitionSplit],
        *,
        topic: str,
        discover: Callable[[], dict[int, int]],
        interval: timedelta | None,
        state: EnumeratorState,
    ) -> None:
        self._context = context
        self._topic = topic
        self._discover = discover
        self._interval = interval
        self._assigned = dict(state.assigned)
        self._waiting = list(state.waiting)
        self._complete = state.complete
        self._freezing = False
        self._ends: dict[int, int] = {}  # of splits whose readers do not know it yet
        self._told: set[int] = set()
        self._failures = 0

    def start(self) -> None:
        """Begin to look for partitions."""
        if not self._complete:
            self._context.call_async(self._discover, self._take, period=self._interval)

    def add_reader(self, subtask_id: int) -> None:
        """Give the reader what was found for it."""
        self._assign()

    def handle_split_request(self, subtask_id: int) -> None:
        """Nothing: splits are assigned when they are found."""

    def add_splits_back(self, splits: Sequence[PartitionSplit], subtask_id: int) -> None:
        """Give the splits of a reader that went away to others."""
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

    def _take(self, found: dict[int, int] | None, error: BaseException | None) -> None:
        if self._complete or self._freezing:
            return
        if error is not None:
            self._failures += 1
            if not isinstance(error, RetryableError) or self._failures >= _MAX_FAILURES:
                raise error
            _logger.warning("looking for partitions failed and is tried again", exc_info=error)
            return
        self._failures = 0
        self._complete = self._interval is None
        for partition, end in sorted((found or {}).items()):
            self._add(partition, end if self._complete else None)
        self._assign()

    def _add(self, partition: int, end: int | None) -> None:
        """Make a split of what is new in a partition."""
        start = self._assigned.get(partition, 0)
        if start is None or start == end:
            return
        self._assigned[partition] = end
        self._waiting.append(PartitionSplit.of(self._topic, partition, start, end))

    # --- The end of a run to what is available now ---

    def freeze_end(self) -> None:
        """Look once more; what is there then is the end."""
        self._freezing = True
        self._context.call_async(self._discover, self._take_end)

    def _take_end(self, found: dict[int, int] | None, error: BaseException | None) -> None:
        if error is not None:
            raise error
        self._complete = True
        for partition, end in sorted((found or {}).items()):
            if partition in self._assigned and self._assigned[partition] is None:
                self._ends[partition] = end  # an earlier run assigned it without an end
            else:
                self._add(partition, end)
        self._tell_ends()
        self._assign()

    def _tell_ends(self) -> None:
        if self._ends:
            for subtask in sorted(self._context.registered_readers):
                self._context.send_event_to_source_reader(subtask, PartitionEnds(dict(self._ends)))

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        """Tell the ends again: a split that was not read in the last plan missed its own."""
        self._tell_ends()

    def handle_source_event(self, subtask_id: int, event: SourceEvent) -> None:
        """A reader came to the end of splits: what is behind it is new."""
        assert isinstance(event, PartitionEnds)
        for partition, end in event.ends.items():
            self._assigned[partition] = end
            self._ends.pop(partition, None)

    # --- Assignment ---

    def _assign(self) -> None:
        readers = sorted(self._context.registered_readers)
        if not readers:
            return
        waiting, self._waiting = self._waiting, []
        for split in waiting:
            self._context.assign_split(split, readers[split.partition % len(readers)])
        if self._complete:
            for reader in sorted(set(readers) - self._told):
                self._told.add(reader)
                self._context.signal_no_more_splits(reader)
