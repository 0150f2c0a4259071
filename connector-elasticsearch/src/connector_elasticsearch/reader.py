# SPDX-License-Identifier: Apache-2.0
"""The reader: fetches on a thread of its own, gives rows out on the task's. Executor."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

import pyarrow as pa

from connector_elasticsearch.client import Client, encode_rows, fitted
from connector_elasticsearch.options import Connection
from connector_elasticsearch.split import (
    PartitionEnds,
    PartitionSplit,
    PartitionSplitState,
)
from connectors_core.errors import DataLossError
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

__all__ = ["PartitionReader"]

# How long a fetch waits before it asks again for rows that are not there yet.
_POLL_SECONDS: Final = 0.05

_Fetched = RecordsBySplits[PositionedBatch[int]]


class PartitionSplitReader(SplitReader[PositionedBatch[int], PartitionSplit]):
    """Reads partitions in turn. Fetcher's thread.

    Replace what a fetch asks the client for. It gives rows and the position behind them; what the
    rows mean is the emitter's business.

    Args:
        connection: How the server is reached.
        batch_rows: Most rows of a fetch.
    """

    def __init__(self, connection: Connection, batch_rows: int) -> None:
        self._client = Client(connection)
        self._batch_rows = batch_rows
        self._splits: dict[str, PartitionSplit] = {}  # the next to be read comes first
        self._paused: set[str] = set()
        self._woken = threading.Event()

    def fetch(self) -> _Fetched:
        """Read the next rows of the first partition that has any."""
        for split_id in [each for each in self._splits if each not in self._paused]:
            split = self._splits.pop(split_id)
            rows = self._read(split)
            if rows is not None:
                split = replace(split, offset=split.offset + rows.num_rows)
            if not split.is_read:
                self._splits[split_id] = split
            elif rows is None:
                return RecordsBySplits(finished_splits=frozenset([split_id]))
            if rows is not None:
                finished = frozenset([split_id] if split.is_read else [])
                return RecordsBySplits([(split_id, PositionedBatch(rows, split.offset))], finished)
        self._woken.wait(_POLL_SECONDS)
        self._woken.clear()
        return RecordsBySplits()

    def _read(self, split: PartitionSplit) -> pa.RecordBatch | None:
        if split.is_read:
            return None
        left = self._batch_rows if split.end is None else split.end - split.offset
        rows = self._client.read(split.partition, split.offset, min(left, self._batch_rows))
        if rows is None and split.end is not None:
            raise DataLossError(
                f"rows of the split {split.split_id!r} are gone",
                expected=f"rows up to offset {split.end}",
                found=f"none from offset {split.offset} on",
            )
        return rows

    def handle_splits_changes(self, change: SplitsAddition[PartitionSplit]) -> None:
        """Take more partitions."""
        self._splits.update({split.split_id: split for split in change.splits})

    def pause_or_resume_splits(self, pause: Sequence[str], resume: Sequence[str]) -> None:
        """Leave these out, or take them in again."""
        self._paused = (self._paused | set(pause)) - set(resume)

    def wake_up(self) -> None:
        """End the wait for rows; a call to the server is short and ends by itself."""
        self._woken.set()

    def close(self) -> None:
        """Close the client."""
        self._client.close()


class RowEmitter(RecordEmitter[PositionedBatch[int], PartitionSplitState]):
    """Makes rows of the source's schema; hands over those that cannot be. Task's thread.

    Args:
        context: The runtime.
        schema: Columns of the source.
    """

    def __init__(self, context: SourceReaderContext, schema: pa.Schema) -> None:
        self._context = context
        self._schema = schema

    def emit_record(
        self,
        element: PositionedBatch[int],
        output: SourceOutput,
        split_state: PartitionSplitState,
    ) -> None:
        """See `RecordEmitter`."""
        try:
            rows = fitted(element.batch, self._schema)
        except pa.ArrowException:
            rows = self._good_rows(element.batch, split_state.to_split())
        output.collect(rows)
        split_state.move_to(element.position)

    def _good_rows(self, rows: pa.RecordBatch, split: PartitionSplit) -> pa.RecordBatch:
        """Try row by row; the record policy decides about those that do not fit."""
        good = [pa.RecordBatch.from_pylist([], schema=self._schema)]
        for number in range(rows.num_rows):
            row = rows.slice(number, 1)
            try:
                good.append(fitted(row, self._schema))
            except pa.ArrowException as exc:
                record = BadRecord(
                    reason="a value has no place in its column",
                    source_uid="",  # the runtime knows it
                    split_id=split.split_id,
                    position=f"offset {split.offset + number}",
                    raw=encode_rows(row),
                )
                self._context.record_errors.handle(record, cause=exc)
        return pa.concat_batches(good)


class PartitionReader(SourceReaderBase[PositionedBatch[int], PartitionSplit, PartitionSplitState]):
    """Reads all partitions of a task by one thread and one client.

    Where a client reads one split after another choose `SingleThreadSequentialFetcherManager`
    (and `ordered` in the source's `split_traits`), for one thread per split
    `ThreadPerSplitFetcherManager`.

    Args:
        context: The runtime.
        connection: How the server is reached.
        schema: Columns of the source.
        batch_rows: Most rows of a fetch.
    """

    def __init__(
        self,
        context: SourceReaderContext,
        connection: Connection,
        *,
        schema: pa.Schema,
        batch_rows: int,
    ) -> None:
        manager: SingleThreadMultiplexFetcherManager[PositionedBatch[int], PartitionSplit] = (
            SingleThreadMultiplexFetcherManager(
                lambda: PartitionSplitReader(connection, batch_rows), name="partition-reader"
            )
        )
        super().__init__(context, manager, RowEmitter(context, schema))
        self._ends: dict[int, int] = {}

    def initialized_state(self, split: PartitionSplit) -> PartitionSplitState:
        """The moving position of a split."""
        return PartitionSplitState(split)

    def handle_source_events(self, event: SourceEvent) -> None:
        """The enumerator says where splits end that had no end."""
        assert isinstance(event, PartitionEnds)
        self._ends.update(event.ends)

    def add_splits(self, splits: Sequence[PartitionSplit]) -> None:
        """Take splits, with their ends where they are known by now."""
        super().add_splits([self._with_end(split) for split in splits])

    def on_split_finished(self, finished: Mapping[str, PartitionSplitState]) -> None:
        """Tell the enumerator how far the partitions were read."""
        splits = [state.to_split() for state in finished.values()]
        ends = {split.partition: split.offset for split in splits}
        self.context.send_source_event_to_coordinator(PartitionEnds(ends))

    def _with_end(self, split: PartitionSplit) -> PartitionSplit:
        end = self._ends.get(split.partition)
        if split.end is not None or end is None:
            return split
        return replace(split, end=max(end, split.offset))
