# SPDX-License-Identifier: Apache-2.0
"""The runtime as a reader of an entry sees it: its context, outputs, and bad records. Executor."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TypeAlias

import pyarrow as pa

from connectors_core.engine.execution.dead_letter_spools import DeadLetterSpool
from connectors_core.metrics import MetricGroup
from connectors_core.records import (
    BadRecord,
    RecordErrorHandler,
    RecordPolicy,
    RecordPolicyMode,
)
from connectors_core.source.events import SourceEvent
from connectors_core.source.reader import SourceOutput

Rows: TypeAlias = "pa.RecordBatch | int"
"""Rows, or the number of rows that the source left out because of a condition."""


class PollOutput:
    """Collects the batches of a poll."""

    def __init__(self) -> None:
        self._collected: list[tuple[str, Rows]] = []
        self._outputs: dict[str, SourceOutput] = {}

    def create_output_for_split(self, split_id: str) -> SourceOutput:
        """See `ReaderOutput`."""
        output = self._outputs.get(split_id)
        if output is None:
            output = self._outputs[split_id] = _SplitOutput(split_id, self._collected)
        return output

    def take(self) -> list[tuple[str, Rows]]:
        """Return what the poll emitted, in order, by split."""
        collected, self._collected[:] = list(self._collected), []
        return collected


@dataclass(frozen=True)
class _SplitOutput:
    split_id: str
    collected: list[tuple[str, Rows]]

    def collect(self, batch: pa.RecordBatch) -> None:
        if batch.num_rows:
            self.collected.append((self.split_id, batch))

    def pass_over(self, rows: int) -> None:
        if rows:
            self.collected.append((self.split_id, rows))


class PollErrors(RecordErrorHandler):
    """Counts the bad records of a batch only in the entry that takes its first rows.

    If a batch is cut, a later entry reads it again and meets its bad records again. The bad records
    of a poll therefore wait here until it is known which entry counts them.
    """

    def __init__(
        self, source: str, policy: RecordPolicy, open_spool: Callable[[], DeadLetterSpool]
    ) -> None:
        super().__init__(policy, open_spool)
        self._source = source
        self._waits = policy.mode is not RecordPolicyMode.FAIL
        self._met: list[tuple[BadRecord, BaseException | None]] = []

    def handle(self, record: BadRecord, *, cause: BaseException | None = None) -> None:
        """See `RecordErrorHandler`."""
        record = replace(record, source_uid=self._source)  # a reader does not know its own uid
        if self._waits:
            self._met.append((record, cause))
        else:
            super().handle(record, cause=cause)

    def count(self, record: BadRecord) -> None:
        """Handle a record that certainly belongs to this entry."""
        super().handle(record)

    def settle(self, counted: bool = True) -> None:
        """Handle the records of the poll, or leave them to a later entry."""
        met, self._met = self._met, []
        if counted:
            for record, cause in met:
                super().handle(record, cause=cause)


@dataclass
class ReaderContext:
    """The reader's view of the runtime."""

    index_of_subtask: int
    current_parallelism: int
    record_errors: PollErrors
    metric_group: MetricGroup = field(default_factory=MetricGroup)
    events: list[SourceEvent] = field(default_factory=list)
    wants_splits: bool = False

    def send_split_request(self) -> None:
        """See `SourceReaderContext`."""
        self.wants_splits = True

    def send_source_event_to_coordinator(self, event: SourceEvent) -> None:
        """See `SourceReaderContext`."""
        self.events.append(event)
