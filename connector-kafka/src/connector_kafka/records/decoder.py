# SPDX-License-Identifier: Apache-2.0
"""Fetched record batches as Arrow columns, without a Python object per record.

Batches of format 2 (Kafka's KIP-98) are walked one by one; what is inside of them is done for the
records of many batches at once: numpy finds where keys, values and headers lie, Arrow copies them.
Batches of older formats are brought into format 2 first.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from connector_kafka.errors import CorruptRecordsError
from connector_kafka.records import batches
from connector_kafka.records.batches import AbortedTransactions, BatchHeader
from connector_kafka.records.columns import COLUMNS, build
from connector_kafka.records.compression import decompress
from connector_kafka.records.errors import MalformedError
from connector_kafka.records.layout import Layout, locate
from connector_kafka.records.legacy import upconvert
from connector_kafka.records.varints import Bytes

__all__ = ["Decoded", "decode"]

# Arrow counts the bytes of an array in 32 bits.
_INT32_MAX = 2**31 - 1
_INT64_MAX = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Decoded:
    """Records that were decoded together.

    Attributes:
        records: The columns asked for; it may have no rows.
        next_offset: Where to read on. It may lie behind the last row: markers of transactions,
            aborted and compacted records take up offsets.
    """

    records: pa.RecordBatch
    next_offset: int


def decode(
    raw: Any,
    *,
    topic: str,
    partition: int,
    start_offset: int,
    stop_offset: int | None = None,
    columns: Sequence[str] = ("key", "value", "offset", "timestamp", "timestamp_type"),
    aborted: Iterable[tuple[int, int]] | None = None,
    check_crcs: bool = True,
    max_rows: int = 65_536,
    max_bytes: int = 32 * 1024 * 1024,
) -> Iterator[Decoded]:
    """Decode what was fetched from one partition; executor.

    Nothing is kept between calls: whoever reads again from a `next_offset` gets the same records.

    Args:
        raw: The records of one partition in the answer to a fetch: batches behind one another, the
            last of which may be cut off. Anything with the buffer protocol.
        topic: The topic, for errors.
        partition: The partition, for errors.
        start_offset: The first offset that is wanted. The first batch may begin before it.
        stop_offset: The first offset that is no longer wanted; None for all.
        columns: Which columns of `COLUMNS` to build, in the order wanted.
        aborted: For `read_committed`, the aborted transactions that the answer names, each as
            (producer id, first offset); None for `read_uncommitted`.
        check_crcs: Whether to compare every batch with its checksum, as Kafka's `check.crcs`.
        max_rows: The most rows of one Arrow batch.
        max_bytes: The most bytes of records in one Arrow batch, unless a single record is larger.
            About as much is decompressed together.

    Yields:
        The records in their order, at least once; the last `next_offset` is where to fetch on.

    Raises:
        CorruptRecordsError: A batch cannot be read. What stands before it was yielded.
    """
    fetch = _Fetch(
        data=batches.as_bytes(raw),
        topic=topic,
        partition=partition,
        start=start_offset,
        stop=_INT64_MAX if stop_offset is None else stop_offset,
    )
    output = _Output(
        schema=pa.schema([COLUMNS.field(name) for name in columns]),
        max_rows=max_rows,
        max_bytes=min(max_bytes, _INT32_MAX),
    )
    reached = None
    position = start_offset
    for group in output.groups(fetch.walk(aborted, check_crcs)):
        for part in fetch.build(group, output):
            reached = part.next_offset
            yield part
        if group:
            position = fetch.behind(group)
    if reached != position:
        empty = pa.RecordBatch.from_pylist([], schema=output.schema)
        yield Decoded(empty, position)


@dataclass(frozen=True, slots=True)
class _Batch:
    """A batch of the broker.

    Attributes:
        header: Its header.
        content: Its records as they are before compression; None if none of them is wanted.
        plain: Whether `content` is a part of what was fetched.
    """

    header: BatchHeader
    content: Bytes | None = None
    plain: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class _Output:
    """The Arrow batches that were asked for."""

    schema: pa.Schema
    max_rows: int
    max_bytes: int

    def groups(self, walk: Iterable[_Batch]) -> Iterator[list[_Batch]]:
        """Collect batches until they are worth decoding; the last group may have no records."""
        group: list[_Batch] = []
        rows = size = 0
        try:
            for batch in walk:
                group.append(batch)
                if batch.content is not None:
                    rows += batch.header.record_count
                    size += len(batch.content)
                if rows >= self.max_rows or size >= self.max_bytes:
                    yield group
                    group, rows, size = [], 0, 0
        except CorruptRecordsError:
            yield group
            raise
        yield group

    def build(self, data: Bytes, records: Layout) -> list[tuple[pa.RecordBatch, int]]:
        """Copy the wanted columns out of a buffer; each batch with the offset behind its rows."""
        parts = []
        start = 0
        while start < len(records):
            limit = records.start[start] + self.max_bytes
            stop = max(int(np.searchsorted(records.end, limit, "right")), start + 1)
            rows = records[start : min(stop, start + self.max_rows)]
            parts.append((build(data, rows, self.schema), int(rows.offset[-1]) + 1))
            start += len(rows)
        return parts


@dataclass(frozen=True, slots=True, kw_only=True)
class _Fetch:
    """What was fetched from one partition."""

    data: Bytes
    topic: str
    partition: int
    start: int
    stop: int

    def walk(self, aborted: Iterable[tuple[int, int]] | None, check_crcs: bool) -> Iterator[_Batch]:
        """Go from batch to batch."""
        transactions = None if aborted is None else AbortedTransactions(aborted)
        position = at = 0
        while position < self.stop:
            offset = max(position, self.start)
            try:
                header = batches.next_batch(self.data, at)
                if header is None:
                    if not at and len(self.data):
                        raise MalformedError(f"there is no complete one in {len(self.data)} bytes")
                    return
                offset, at = header.base_offset, header.end
                if header.magic < 2:
                    batch = _Batch(*upconvert(self.data, header, check_crcs=check_crcs))
                else:
                    if check_crcs:
                        batches.check_crc(self.data, header)
                    batch = self._open(header, transactions)
                if batch.header.base_offset < position:
                    raise MalformedError(f"the batch before it ends at offset {position - 1}")
            except MalformedError as error:
                raise self._corrupt(error, offset) from error
            position = batch.header.last_offset + 1
            yield batch

    def behind(self, group: Sequence[_Batch]) -> int:
        """Return where to read on when some batches are done."""
        return max(self.start, min(self.stop, group[-1].header.last_offset + 1))

    def build(self, group: Sequence[_Batch], output: _Output) -> Iterator[Decoded]:
        """Decode some batches together; one by one if that fails, to name the one at fault."""
        if all(batch.content is None for batch in group):
            return
        try:
            data, records = self._locate(group)
            first, last = np.searchsorted(records.offset, (self.start, self.stop))
            parts = output.build(data, records[first:last])
        except MalformedError as error:
            if len(group) == 1:
                raise self._corrupt(error, group[0].header.base_offset) from error
            for batch in group:
                yield from self.build([batch], output)
            return
        for number, (batch, position) in enumerate(parts, 1):
            yield Decoded(batch, position if number < len(parts) else self.behind(group))

    def _locate(self, group: Sequence[_Batch]) -> tuple[Bytes, Layout]:
        """Find the records of some batches; return also the buffer they are in."""
        headers = [batch.header for batch in group if batch.content is not None]
        contents = [batch.content for batch in group if batch.content is not None]
        if all(batch.plain for batch in group if batch.content is not None):
            starts = [header.records for header in headers]
            return self.data, locate(self.data, headers, starts, [header.end for header in headers])
        sizes = np.array([len(content) for content in contents])
        ends = np.cumsum(sizes)
        data = contents[0] if len(contents) == 1 else np.concatenate(contents)
        return data, locate(data, headers, ends - sizes, ends)

    def _open(self, header: BatchHeader, transactions: AbortedTransactions | None) -> _Batch:
        if (
            (transactions is not None and transactions.drop(self.data, header))
            or header.is_control
            or not header.record_count
            or header.last_offset < self.start
            or header.base_offset >= self.stop
        ):
            return _Batch(header)
        content = self.data[header.records : header.end]
        plain = not header.compression
        if not plain:
            content = batches.as_bytes(decompress(content, header.compression))
        batches.check_count(header, len(content))
        return _Batch(header, content, plain)

    def _corrupt(self, error: MalformedError, offset: int) -> CorruptRecordsError:
        return CorruptRecordsError(
            str(error), topic=self.topic, partition=self.partition, offset=offset
        )
