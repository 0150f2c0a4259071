# SPDX-License-Identifier: Apache-2.0
"""The reader side of a source (Flink's FLIP-27). Executor only."""

from __future__ import annotations

import enum
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Generic, Protocol

import pyarrow as pa

from connectors_core.metrics import MetricGroup
from connectors_core.records import RecordErrorHandler
from connectors_core.source.events import SourceEvent
from connectors_core.source.split import SplitT


class InputStatus(enum.Enum):
    """Status of a reader after a poll."""

    MORE_AVAILABLE = "more available"
    NOTHING_AVAILABLE = "nothing available"
    END_OF_INPUT = "end of input"


class SourceOutput(Protocol):
    """Output for the rows of one split."""

    def collect(self, batch: pa.RecordBatch) -> None:
        """Emit a batch with the source's schema. The runtime may keep only its first rows."""

    def pass_over(self, rows: int) -> None:
        """Count rows that the source left out, at this place in the split's order.

        Only a source with pushed conditions calls this; see `SupportsFilterPushDown`. The rows
        count in positions and limits like emitted ones. A source returned by `without_counts` need
        not call it.

        Args:
            rows: How many rows.
        """


class ReaderOutput(Protocol):
    """Output for the rows of all splits of a reader."""

    def create_output_for_split(self, split_id: str) -> SourceOutput:
        """Return the output of a split; always the same object for the same split."""


class SourceReaderContext(Protocol):
    """The context that the runtime gives to a reader."""

    @property
    def index_of_subtask(self) -> int:
        """Number of this reader, from 0."""

    @property
    def current_parallelism(self) -> int:
        """Number of readers."""

    @property
    def metric_group(self) -> MetricGroup:
        """Metrics of this reader, sent with its report."""

    @property
    def record_errors(self) -> RecordErrorHandler:
        """Handles a record that cannot be read (the source's record policy)."""

    def send_split_request(self) -> None:
        """Ask the enumerator for another split, through the report."""

    def send_source_event_to_coordinator(self, event: SourceEvent) -> None:
        """Send an event to the enumerator, through the report."""


class SourceReader(ABC, Generic[SplitT]):
    """Reads splits within one plan. Created for every plan entry, in a Spark task.

    All methods are called from one thread. A replayed entry gets the same splits at the same
    positions. Derive from ``SourceReaderBase`` unless you have a reason not to.
    """

    def start(self) -> None:
        """Start. :meth:`close` must close everything that this opens."""

    @abstractmethod
    def poll_next(self, output: ReaderOutput) -> InputStatus:
        """Emit at most one batch; never block.

        Positions advance with the poll: :meth:`snapshot_state` must then exclude the emitted rows,
        even if the output did not keep all of them.
        """

    @abstractmethod
    def snapshot_state(self) -> list[SplitT]:
        """Return the unfinished splits at the position after the last emitted batch; cheap.

        A split that was added and is no longer in this list is finished.
        """

    def moved_splits(self) -> Mapping[str, SplitT | None] | None:
        """Return the splits that moved since the last call, by id; None for a finished one.

        The runtime calls it after every poll. An added split has moved. With the default, None,
        the runtime asks :meth:`snapshot_state` instead, so each poll costs time for every split.
        Implement it in a reader of many splits.
        """
        return None

    @abstractmethod
    def wait_available(self, timeout: float) -> bool:
        """Block until a poll can return something, for at most ``timeout`` seconds."""

    def has_fetched(self) -> bool:
        """Return whether the external system has responded for the splits that are being read.

        Until then, the first connection, login, and query may still take their time, so the runtime
        does not count the splits as idle. The default suits readers that respond at once.
        """
        return True

    @abstractmethod
    def add_splits(self, splits: Sequence[SplitT]) -> None:
        """Add more splits."""

    @abstractmethod
    def notify_no_more_splits(self) -> None:
        """No more splits follow in this entry: report ``END_OF_INPUT`` when all are finished."""

    def handle_source_events(self, event: SourceEvent) -> None:
        """Handle an event from the enumerator."""
        raise NotImplementedError(
            f"{type(self).__name__} received a source event that it does not handle: {event!r}"
        )

    def pause_or_resume_splits(
        self, splits_to_pause: Sequence[str], splits_to_resume: Sequence[str]
    ) -> None:
        """Pause or resume these splits (ids). A paused split is not finished.

        Raises:
            NotImplementedError: The reader cannot pause a single split.
        """
        raise NotImplementedError(f"{type(self).__name__} cannot pause splits")

    @abstractmethod
    def close(self) -> None:
        """Stop threads and close clients. Always called exactly once."""
