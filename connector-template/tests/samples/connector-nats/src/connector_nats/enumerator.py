# SPDX-License-Identifier: Apache-2.0
"""The enumerator, which asks for the ends of streams and acknowledges messages. Driver."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final, Protocol

from connector_nats.acknowledgements import Acknowledgements
from connector_nats.client import StreamState, check_not_cut
from connector_nats.plans import plan
from connector_nats.split import StreamRead, StreamSplit
from connectors_core.errors import DataLossError, RetryableError
from connectors_core.source import (
    PlannedRead,
    ReadLimits,
    SourceEvent,
    SplitEnumerator,
    SplitEnumeratorContext,
    SupportsAvailableNow,
    SupportsCommittedPositions,
    SupportsPlannedStops,
)

__all__ = ["EnumeratorState", "StreamEnumerator", "Streams"]

_logger = logging.getLogger(__name__)

# The number of consecutive requests that can fail before the pipeline fails.
_MAX_FAILURES: Final = 5


@dataclass(frozen=True, kw_only=True)
class EnumeratorState:
    """The state to restart from.

    Attributes:
        next: The sequence at which the next split of each stream starts, or None while a split
            without an end is read.
        waiting: Unassigned splits.
        complete: Whether the ends of a bounded source are known. Later messages are not read.
    """

    next: dict[str, int | None] = field(default_factory=dict)
    waiting: tuple[StreamSplit, ...] = ()
    complete: bool = False


class Streams(Protocol):
    """What the enumerator asks of the streams. Each call can block."""

    @property
    def fails_on_loss(self) -> bool:
        """Whether messages that were removed before they were read fail the pipeline."""

    def states(self) -> dict[str, StreamState]:
        """Return the states of all streams of the source."""

    def acknowledge(self, positions: Mapping[str, int]) -> None:
        """Acknowledge all messages before a position of each stream."""

    def close(self) -> None:
        """Disconnect."""


class StreamEnumerator(
    SplitEnumerator[StreamSplit, EnumeratorState],
    SupportsPlannedStops[StreamSplit],
    SupportsCommittedPositions[StreamSplit],
    SupportsAvailableNow,
):
    """Assigns streams to readers, and plans up to the last known message.

    Args:
        context: The context of the enumerator.
        streams: The streams.
        interval: The interval at which to look for messages, or None to look once and end.
        state: The state to resume from.
    """

    def __init__(
        self,
        context: SplitEnumeratorContext[StreamSplit],
        streams: Streams,
        *,
        interval: timedelta | None,
        state: EnumeratorState,
    ) -> None:
        self._context = context
        self._streams = streams
        self._interval = interval
        self._next = dict(state.next)
        self._waiting = list(state.waiting)
        self._complete = state.complete
        self._found: Mapping[str, StreamState] = {}
        self._last: Mapping[str, int] = {}  # the ends of a run up to the available messages
        self._told: set[int] = set()
        self._turns = itertools.count()
        self._failures = 0
        self._acknowledgements = Acknowledgements(context, streams.acknowledge)

    # --- Lifecycle ---

    def start(self) -> None:
        """Start looking for messages."""
        if not self._complete:
            self._context.call_async(self._streams.states, self._take, period=self._interval)

    def close(self) -> None:
        """Acknowledge the last messages, and disconnect."""
        try:
            self._acknowledgements.close()
        finally:
            self._streams.close()

    def add_reader(self, subtask_id: int) -> None:
        """Assign the reader its streams."""
        self._assign()

    def handle_split_request(self, subtask_id: int) -> None:
        """Do nothing: splits are assigned when they are found."""

    def add_splits_back(self, splits: Sequence[StreamSplit], subtask_id: int) -> None:
        """Take back the splits of a reader that is gone."""
        self._waiting.extend(splits)
        self._assign()

    def snapshot_state(self, checkpoint_id: int) -> EnumeratorState:
        """See `SplitEnumerator`."""
        return EnumeratorState(
            next=dict(self._next),
            waiting=tuple(self._waiting),
            complete=self._complete and self._interval is None,
        )

    # --- Messages ---

    def _take(self, found: dict[str, StreamState] | None, error: BaseException | None) -> None:
        if error is not None:
            self._failures += 1
            retries = self._interval is not None and self._failures < _MAX_FAILURES
            if not (retries and isinstance(error, RetryableError)):
                raise error
            _logger.warning("the streams did not respond; retrying", exc_info=error)
            return
        self._failures = 0
        self._found = found or {}
        if self._complete:
            return
        self._complete = self._interval is None
        for stream, state in self._found.items():
            self._add(stream, state, state.end if self._complete else None)
        self._assign()

    def _add(self, stream: str, state: StreamState, end: int | None) -> None:
        """Create a split of the messages that no split has."""
        start = self._next.get(stream, state.first)
        if start is None:
            return
        check_not_cut(stream, start, state)
        if end is not None and start >= end:
            return
        self._next[stream] = end
        self._waiting.append(StreamSplit.of(stream, start, end))

    def plan_reads(
        self, splits: Sequence[StreamSplit], limits: ReadLimits
    ) -> Mapping[str, PlannedRead[StreamSplit]]:
        """Plan up to the last known messages.

        Raises:
            DataLossError: Messages were removed before they were read.
        """
        for split in splits:
            if split.stream in self._found:
                self._check(split, self._found[split.stream])
        ends = {stream: state.end for stream, state in self._found.items()}
        return plan(splits, ends, self._last, limits)

    def _check(self, split: StreamSplit, state: StreamState) -> None:
        check_not_cut(split.stream, split.position, state)
        if state.first > split.position and self._streams.fails_on_loss:
            raise DataLossError(
                f"messages of the stream {split.stream!r} were removed before they were read",
                expected=f"sequence {split.position}",
                found=f"sequence {state.first}",
                option="source.fail-on-data-loss",
                hint="keep messages longer than the longest pause of the pipeline, or set "
                "source.fail-on-data-loss to false to continue without them",
            )

    # --- The end of a run up to the available messages ---

    def freeze_end(self) -> None:
        """Look once more, which determines the end of the run."""
        self._context.call_async(self._streams.states, self._take_last)

    def _take_last(self, found: dict[str, StreamState] | None, error: BaseException | None) -> None:
        if error is not None:
            raise error
        self._found = found or {}
        self._last = {stream: state.end for stream, state in self._found.items()}
        self._complete = True
        for stream, state in self._found.items():
            self._add(stream, state, state.end)
        self._assign()

    def handle_source_event(self, subtask_id: int, event: SourceEvent) -> None:
        """Handle a reader at the end of a split: later messages are another split."""
        assert isinstance(event, StreamRead)
        self._next[event.stream] = event.position

    # --- Acknowledgements ---

    def positions_committed(
        self,
        checkpoint_id: int,
        splits: Sequence[StreamSplit],
        finished: Sequence[StreamSplit],
    ) -> None:
        """Acknowledge the messages of the committed epochs."""
        ended = {split.stream: split.stop for split in finished if split.stop is not None}
        self._acknowledgements.send(ended | {split.stream: split.position for split in splits})

    # --- Assignment ---

    def _assign(self) -> None:
        readers = sorted(self._context.registered_readers)
        if not readers:
            return
        waiting, self._waiting = self._waiting, []
        for split in waiting:
            self._context.assign_split(split, readers[next(self._turns) % len(readers)])
        if self._complete:
            for reader in sorted(set(readers) - self._told):
                self._told.add(reader)
                self._context.signal_no_more_splits(reader)
