# SPDX-License-Identifier: Apache-2.0
"""The reader: a fetcher thread reads rows, and the task's thread emits them. Executor."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

import pyarrow as pa

from connector_redis.client import Client
from connector_redis.options import Connection
from connector_redis.split import (
    PartEnds,
    PartSplit,
    PartSplitState,
    Position,
)
from connectors_core.errors import DataLossError
from connectors_core.formats import JsonFormat
from connectors_core.records import BadRecord
from connectors_core.source import (
    PositionedBatch,
    RecordEmitter,
    RecordsBySplits,
    SingleThreadMultiplexFetcherManager,
    SourceEvent,
    SourceOutput,
    SourceReaderBase,
    SourceReaderContext,
    SplitReader,
    SplitsAddition,
)

__all__ = ["PartReader"]

# How long a fetch waits before it retries when there are no rows yet.
_POLL_SECONDS: Final = 0.05

_Fetched = RecordsBySplits[PositionedBatch[Position]]


class PartSplitReader(SplitReader[PositionedBatch[Position], PartSplit]):
    """Reads splits in turn. Fetcher's thread.

    A fetch returns rows and the position after them, and the emitter interprets the rows.

    Args:
        connection: The connection to the server.
        batch_rows: The maximum number of rows in a fetch.
    """

    def __init__(self, connection: Connection, batch_rows: int) -> None:
        self._client = Client(connection)
        self._batch_rows = batch_rows
        self._splits: dict[str, PartSplit] = {}  # in the order of reading
        self._paused: set[str] = set()
        self._woken = threading.Event()

    def fetch(self) -> _Fetched:
        """Read the next rows of the first split that has any."""
        for split_id in [each for each in self._splits if each not in self._paused]:
            split = self._splits.pop(split_id)
            rows = self._read(split)
            if rows is not None:
                split = replace(split, position=rows.position)
            if not split.is_read:
                self._splits[split_id] = split
            elif rows is None:
                return RecordsBySplits(finished_splits=frozenset([split_id]))
            if rows is not None:
                finished = frozenset([split_id] if split.is_read else [])
                return RecordsBySplits([(split_id, rows)], finished)
        self._woken.wait(_POLL_SECONDS)
        self._woken.clear()
        return RecordsBySplits()

    def _read(self, split: PartSplit) -> PositionedBatch[Position] | None:
        if split.is_read:
            self._check_read(split)
            return None
        rows = self._client.read(split, self._batch_rows)
        if rows is None and split.end is not None:
            raise DataLossError(
                f"rows of the split {split.split_id!r} are gone",
                expected=f"rows up to {split.end}",
                found=f"none from {split.position}",
            )
        return rows

    def _check_read(self, split: PartSplit) -> None:
        """Check a split that is already behind its end: either that is old, or rows are gone."""
        if split.end is not None and split.end < split.position:
            self._client.read(replace(split, end=None), 1)  # raises if entries are gone

    def handle_splits_changes(self, change: SplitsAddition[PartSplit]) -> None:
        """Add splits."""
        self._splits.update({split.split_id: split for split in change.splits})

    def pause_or_resume_splits(self, pause: Sequence[str], resume: Sequence[str]) -> None:
        """Exclude these from the next fetches, or include them again."""
        self._paused = (self._paused | set(pause)) - set(resume)

    def wake_up(self) -> None:
        """Stop waiting for rows. A call to the server is short and ends by itself."""
        self._woken.set()

    def close(self) -> None:
        """Close the client."""
        self._client.close()


class RowEmitter(RecordEmitter[PositionedBatch[Position], PartSplitState]):
    """Decodes the messages of entries, and reports bad ones. Task's thread.

    Args:
        context: The context of the reader.
        schema: The columns of the source.
    """

    def __init__(self, context: SourceReaderContext, schema: pa.Schema) -> None:
        self._context = context
        self._schema = schema

    def emit_record(
        self,
        element: PositionedBatch[Position],
        output: SourceOutput,
        split_state: PartSplitState,
    ) -> None:
        """See `RecordEmitter`."""
        decoded = JsonFormat().decode(element.batch.column("message"), self._schema)
        for bad in decoded.bad:
            entry = element.batch.slice(bad.at, 1).to_pylist()[0]
            record = BadRecord(
                reason=bad.reason,
                source_uid="",  # the runtime knows it
                split_id=split_state.to_split().split_id,
                position=f"entry {entry['id']}",
                raw=entry["message"],
            )
            self._context.record_errors.handle(record, cause=bad.cause)
        output.collect(decoded.rows)
        split_state.move_to(element.position)


class PartReader(SourceReaderBase[PositionedBatch[Position], PartSplit, PartSplitState]):
    """Reads all splits of a task with one thread and one client.

    For a client that reads one split after another, use `SingleThreadSequentialFetcherManager`, and
    set `ordered` in the source's `split_traits`. For a thread per split, use
    `ThreadPerSplitFetcherManager`.

    Args:
        context: The context of the reader.
        connection: The connection to the server.
        schema: The columns of the source.
        batch_rows: The maximum number of rows in a fetch.
    """

    def __init__(
        self,
        context: SourceReaderContext,
        connection: Connection,
        *,
        schema: pa.Schema,
        batch_rows: int,
    ) -> None:
        manager: SingleThreadMultiplexFetcherManager[PositionedBatch[Position], PartSplit] = (
            SingleThreadMultiplexFetcherManager(
                lambda: PartSplitReader(connection, batch_rows), name="part-reader"
            )
        )
        super().__init__(context, manager, RowEmitter(context, schema))
        self._ends: dict[str, Position] = {}

    def initialized_state(self, split: PartSplit) -> PartSplitState:
        """Return the mutable position in a split."""
        return PartSplitState(split)

    def handle_source_events(self, event: SourceEvent) -> None:
        """Set the ends of splits that had no end."""
        assert isinstance(event, PartEnds)
        self._ends.update(event.ends)

    def add_splits(self, splits: Sequence[PartSplit]) -> None:
        """Add splits, with their ends if they are known."""
        super().add_splits([self._with_end(split) for split in splits])

    def on_split_finished(self, finished: Mapping[str, PartSplitState]) -> None:
        """Send the enumerator the final positions in the parts."""
        splits = [state.to_split() for state in finished.values()]
        ends = {split.part: split.position for split in splits}
        self.context.send_source_event_to_coordinator(PartEnds(ends))

    def _with_end(self, split: PartSplit) -> PartSplit:
        end = self._ends.get(split.part)
        if split.end is not None or end is None:
            return split
        return replace(split, end=end)
