# SPDX-License-Identifier: Apache-2.0
"""The reader: a fetcher thread reads messages, and the task's thread decodes them. Executor."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc

from connector_nats.client import Client, Cursor, check_not_cut
from connector_nats.layout import Layout
from connector_nats.options import Connection
from connector_nats.split import StreamRead, StreamSplit, StreamSplitState
from connectors_core.records import BadRecord
from connectors_core.source import (
    PositionedBatch,
    RecordEmitter,
    RecordsBySplits,
    SingleThreadSequentialFetcherManager,
    SourceOutput,
    SourceReaderBase,
    SourceReaderContext,
    SplitReader,
    SplitsAddition,
)

__all__ = ["StreamReader"]

_Fetched = RecordsBySplits[PositionedBatch[int]]


class StreamSplitReader(SplitReader[PositionedBatch[int], StreamSplit]):
    """Reads one stream up to its stop, then the next. Fetcher's thread.

    Args:
        connection: The connection settings.
        subjects: The subjects to read.
        batch_rows: The maximum number of messages in a fetch.
    """

    def __init__(self, connection: Connection, subjects: Sequence[str], batch_rows: int) -> None:
        self._client = Client(connection)
        self._subjects = subjects
        self._batch_rows = batch_rows
        self._split: StreamSplit
        self._cursor: Cursor | None = None

    def handle_splits_changes(self, change: SplitsAddition[StreamSplit]) -> None:
        """Take the next split. The previous one is finished."""
        (self._split,) = change.splits

    def fetch(self) -> _Fetched:
        """Read the next messages."""
        split = self._split
        assert split.stop is not None, "every plan has a stop"
        if split.position >= split.stop:
            return self._finished()
        if self._cursor is None:
            self._cursor = self._client.open_cursor(split.stream, self._subjects, split.position)
        limit = min(self._batch_rows, split.stop - split.position)
        found = self._client.fetch(self._cursor, limit)
        messages = found.filter(pc.less(found.column("sequence"), split.stop))
        if len(messages):
            self._split = replace(split, position=messages.column("sequence")[-1].as_py() + 1)
        is_last = len(messages) < len(found) or not self._cursor.pending
        if is_last or self._split.position == split.stop:
            if len(messages) == len(found) and self._split.position < split.stop:
                state = self._client.state(split.stream, self._subjects)
                check_not_cut(split.stream, split.stop, state)
            return self._finished(messages)
        return RecordsBySplits([(split.split_id, PositionedBatch(messages, self._split.position))])

    def _finished(self, messages: pa.RecordBatch | None = None) -> _Fetched:
        """Return the last messages of the split. Its position moves to the stop, past any gap."""
        if self._cursor is not None:
            self._client.close_cursor(self._cursor)
            self._cursor = None
        split = self._split
        assert split.stop is not None
        last = [] if messages is None else [(split.split_id, PositionedBatch(messages, split.stop))]
        return RecordsBySplits(last, frozenset([split.split_id]))

    def wake_up(self) -> None:
        """Do nothing: a fetch never waits for new messages."""

    def close(self) -> None:
        """Disconnect."""
        if self._cursor is not None:
            self._client.close_cursor(self._cursor)
        self._client.close()


class MessageEmitter(RecordEmitter[PositionedBatch[int], StreamSplitState]):
    """Decodes messages, and reports bad ones. Task's thread.

    Args:
        context: The context of the reader.
        layout: The columns of the source.
    """

    def __init__(self, context: SourceReaderContext, layout: Layout) -> None:
        self._context = context
        self._layout = layout

    def emit_record(
        self,
        element: PositionedBatch[int],
        output: SourceOutput,
        split_state: StreamSplitState,
    ) -> None:
        """See `RecordEmitter`."""
        messages = element.batch
        rows, bad = self._layout.rows(messages)
        for each in bad:
            record = BadRecord(
                reason=each.reason,
                source_uid="",  # the runtime knows it
                split_id=split_state.to_split().split_id,
                position=f"sequence {messages.column('sequence')[each.at]}",
                raw=messages.column("data")[each.at].as_py(),
            )
            self._context.record_errors.handle(record, cause=each.cause)
        output.collect(rows)
        split_state.move_to(element.position)


class StreamReader(SourceReaderBase[PositionedBatch[int], StreamSplit, StreamSplitState]):
    """Reads the streams of a task one after another, with one client.

    Args:
        context: The context of the reader.
        connection: The connection settings.
        subjects: The subjects to read.
        layout: The columns of the source.
        batch_rows: The maximum number of messages in a fetch.
    """

    def __init__(
        self,
        context: SourceReaderContext,
        connection: Connection,
        *,
        subjects: Sequence[str],
        layout: Layout,
        batch_rows: int,
    ) -> None:
        manager: SingleThreadSequentialFetcherManager[PositionedBatch[int], StreamSplit] = (
            SingleThreadSequentialFetcherManager(
                lambda: StreamSplitReader(connection, subjects, batch_rows), name="stream-reader"
            )
        )
        super().__init__(context, manager, MessageEmitter(context, layout))

    def initialized_state(self, split: StreamSplit) -> StreamSplitState:
        """Return the mutable position in a split."""
        return StreamSplitState(split)

    def on_split_finished(self, finished: Mapping[str, StreamSplitState]) -> None:
        """Tell the enumerator which streams were read to their permanent end."""
        for state in finished.values():
            split = state.to_split()
            if split.end is not None and split.stop == split.end:
                event = StreamRead(split.stream, split.end)
                self.context.send_source_event_to_coordinator(event)
