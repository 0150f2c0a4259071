# SPDX-License-Identifier: Apache-2.0
"""The reader side of a source (Flink's FLIP-27). Executor only."""

from __future__ import annotations

import enum
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Generic, Protocol

import pyarrow as pa

from connectors_core.metrics import MetricGroup
from connectors_core.records import RecordErrorHandler
from connectors_core.source.events import SourceEvent
from connectors_core.source.split import SplitT


class InputStatus(enum.Enum):
    """What a reader knows after a poll."""

    MORE_AVAILABLE = "more available"
    NOTHING_AVAILABLE = "nothing available"
    END_OF_INPUT = "end of input"


class SourceOutput(Protocol):
    """Takes the rows of one split."""

    def collect(self, batch: pa.RecordBatch) -> None:
        """Take a batch of the source's schema. The runtime may keep only its first rows."""


class ReaderOutput(Protocol):
    """Takes the rows of all splits of a reader."""

    def create_output_for_split(self, split_id: str) -> SourceOutput:
        """The output of a split; the same object for the same split."""


class SourceReaderContext(Protocol):
    """The runtime as a reader sees it."""

    @property
    def index_of_subtask(self) -> int:
        """Number of this reader, from 0."""

    @property
    def current_parallelism(self) -> int:
        """Number of readers."""

    @property
    def metric_group(self) -> MetricGroup:
        """Metrics of this reader; they travel in its report."""

    @property
    def record_errors(self) -> RecordErrorHandler:
        """What to do with a record that cannot be read (the source's record policy)."""

    def send_split_request(self) -> None:
        """Ask the enumerator for another split, by the report."""

    def send_source_event_to_coordinator(self, event: SourceEvent) -> None:
        """Send an event to the enumerator, by the report."""


class SourceReader(ABC, Generic[SplitT]):
    """Reads splits within one plan. Made for every plan entry, in a Spark task.

    All methods are called from one thread. A replayed entry gets the same splits at the same
    positions. Derive from ``SourceReaderBase`` unless there is a reason not to.
    """

    def start(self) -> None:
        """Begin. Opens nothing that :meth:`close` does not close."""

    @abstractmethod
    def poll_next(self, output: ReaderOutput) -> InputStatus:
        """Emit at most one batch; never block.

        Positions move with the poll: :meth:`snapshot_state` after it must not include the rows
        that were emitted, whether the output kept all of them or not.
        """

    @abstractmethod
    def snapshot_state(self) -> list[SplitT]:
        """The unfinished splits at the position behind the last emitted batch; cheap.

        A split that was added and is not in this list any more is finished.
        """

    @abstractmethod
    def wait_available(self, timeout: float) -> bool:
        """Block until a poll can give something, for ``timeout`` seconds at most."""

    @abstractmethod
    def add_splits(self, splits: Sequence[SplitT]) -> None:
        """Take more splits."""

    @abstractmethod
    def notify_no_more_splits(self) -> None:
        """No further splits come in this entry: report ``END_OF_INPUT`` once all are finished."""

    def handle_source_events(self, event: SourceEvent) -> None:
        """An event from the enumerator."""
        raise NotImplementedError(
            f"{type(self).__name__} received a source event that it does not handle: {event!r}"
        )

    def pause_or_resume_splits(
        self, splits_to_pause: Sequence[str], splits_to_resume: Sequence[str]
    ) -> None:
        """Stop or go on reading these splits (ids). A paused split is not finished.

        Raises:
            NotImplementedError: The reader cannot pause a single split.
        """
        raise NotImplementedError(f"{type(self).__name__} cannot pause splits")

    @abstractmethod
    def close(self) -> None:
        """Stop threads, close clients. Called once, whatever happened before."""
