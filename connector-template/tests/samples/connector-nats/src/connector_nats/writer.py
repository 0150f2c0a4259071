# SPDX-License-Identifier: Apache-2.0
"""The writer, which sends the rows of one task in one epoch as messages. Executor."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b

import pyarrow as pa

from connector_nats.publisher import Message, Outcome, Publisher
from connectors_core.formats import EncodingFormat
from connectors_core.records import BadRecord
from connectors_core.sink import (
    AsyncSinkWriter,
    AsyncSinkWriterConfiguration,
    ElementConverter,
    WriterInitContext,
)

__all__ = ["MessageColumns", "MessageWriter"]


@dataclass(frozen=True, kw_only=True)
class MessageColumns:
    """The parts of a message that are columns. The others are encoded as its data.

    Attributes:
        format: The format of the data.
        subject: The subject of all messages, or None if it is a column.
        subject_column: The column of the subject, or None.
        id_column: The column of the ID, or None.
    """

    format: EncodingFormat
    subject: str | None
    subject_column: str | None
    id_column: str | None

    def encoded(self, schema: pa.Schema) -> pa.Schema:
        """Return the columns that are encoded."""
        apart = {self.subject_column, self.id_column}
        return pa.schema([each for each in schema if each.name not in apart])

    def converter(self, context: WriterInitContext) -> ElementConverter[Message]:
        """Return what makes messages of the rows of one attempt."""
        return _Messages(self, context)


class _Messages(ElementConverter[Message]):
    """Makes a message of each row.

    A row without an ID gets one of its epoch, its task, its number there, and its data. An attempt
    that sends the same rows in the same order again repeats these IDs, and different rows never
    share one.
    """

    def __init__(self, columns: MessageColumns, context: WriterInitContext) -> None:
        self._columns = columns
        origin = (
            context.pipeline_id,
            context.sink_uid,
            str(context.checkpoint_id),
            str(context.subtask_id),
        )
        self._origin = blake2b("\0".join(origin).encode(), digest_size=16).digest()
        self._number = 0

    def apply(self, batch: pa.RecordBatch, context: WriterInitContext) -> Iterable[Message]:
        columns = self._columns
        encoded = columns.format.encode(batch.select(columns.encoded(batch.schema).names))
        for bad in encoded.bad:
            record = BadRecord(reason=bad.reason, source_uid=context.sink_uid)
            context.record_errors.handle(record, cause=bad.cause)
        subjects: Iterator[str | None] = iter([columns.subject] * len(encoded.messages))
        if columns.subject_column is not None:
            subjects = iter(encoded.lined_up(batch.column(columns.subject_column)).to_pylist())
        ids: Iterator[str | None] = iter([None] * len(encoded.messages))
        if columns.id_column is not None:
            ids = iter(
                encoded.lined_up(batch.column(columns.id_column)).cast(pa.string()).to_pylist()
            )
        for subject, id_, body in zip(subjects, ids, encoded.messages.to_pylist(), strict=True):
            yield Message(subject or "", id_ or self._next_id(subject or "", body), body)

    def _next_id(self, subject: str, body: bytes) -> str:
        self._number += 1
        digest = blake2b(self._origin, digest_size=16)
        digest.update(f"{self._number}\0{subject}\0".encode())
        digest.update(body)
        return digest.hexdigest()


class MessageWriter(AsyncSinkWriter[Message]):
    """Publishes messages. It retries temporary rejections and reports permanent ones.

    Args:
        columns: The columns of the rows.
        publisher: The connection.
        context: The context of the writer.
        configuration: The limits of the requests.
    """

    def __init__(
        self,
        columns: MessageColumns,
        publisher: Publisher,
        context: WriterInitContext,
        configuration: AsyncSinkWriterConfiguration | None,
    ) -> None:
        super().__init__(columns.converter(context), context, configuration)
        self._publisher = publisher

    async def submit_request_entries(self, entries: Sequence[Message]) -> Sequence[Message]:
        """Publish messages, and return those to publish again. Event loop's thread."""
        outcomes = await self._publisher.publish(entries)
        again = []
        for entry, outcome in zip(entries, outcomes, strict=True):
            if outcome is Outcome.REFUSED:
                self.reject(entry, "the server does not accept the message")
            elif outcome is Outcome.BUSY:
                again.append(entry)
        return again

    def get_size_in_bytes(self, entry: Message) -> int:
        """Return the size of the message, without the protocol."""
        return len(entry.subject) + len(entry.id) + len(entry.body)

    def raw(self, entry: Message) -> bytes:
        """Return the data."""
        return entry.body

    async def close_client(self) -> None:
        """Disconnect. Event loop's thread."""
        await self._publisher.close()
