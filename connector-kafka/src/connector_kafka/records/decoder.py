# SPDX-License-Identifier: Apache-2.0
"""Converts fetched record batches to Arrow columns, without a Python object per record.

Batches of format 2 (Kafka's KIP-98) are iterated one by one, but their contents are decoded for the
records of many batches at once: numpy locates keys, values, and headers, and Arrow copies them.
Batches of older formats are first converted to format 2.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import pyarrow as pa

from connector_kafka.errors import CorruptRecordsError
from connector_kafka.records import batches
from connector_kafka.records.batches import AbortedTransactions, BatchHeader
from connector_kafka.records.columns import COLUMNS, build
from connector_kafka.records.compression import Decompressor, decompressor
from connector_kafka.records.errors import MalformedError, TooLargeError
from connector_kafka.records.layout import Layout, locate
from connector_kafka.records.legacy_batches import upconvert
from connector_kafka.records.sections import MAX_RECORDS, InMemory, Section, cut
from connector_kafka.records.varints import Bytes

__all__ = ["MAX_RECORD_BYTES", "DecodedRecords", "decode"]

#: The default limit for the size of a decompressed record.
MAX_RECORD_BYTES: Final = 128 * 1024 * 1024
"""The maximum size of a record in bytes."""
# Arrow counts the bytes of an array in 32 bits.
_INT32_MAX: Final = 2**31 - 1
_INT64_MAX: Final = 2**63 - 1
# The maximum number of headers to locate at once.
_MAX_HEADERS: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class DecodedRecords:
    """Records that were decoded together.

    Attributes:
        records: The requested columns. It can be empty.
        next_offset: The next offset to read. It can be more than one after the last row, because
            transaction markers and aborted and compacted records take up offsets.
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
    end_offset: int | None = None,
    columns: Sequence[str] = ("key", "value", "offset", "timestamp", "timestamp_type"),
    aborted: Iterable[tuple[int, int]] | None = None,
    check_crcs: bool = True,
    max_rows: int = 65_536,
    max_bytes: int = 32 * 1024 * 1024,
    max_record_bytes: int = MAX_RECORD_BYTES,
) -> Iterator[DecodedRecords]:
    """Decode the bytes that were fetched from one partition. Executor.

    The function keeps no state between calls: reading again from a `next_offset` returns the same
    records.

    Args:
        raw: The records of one partition in a fetch response: consecutive batches, the last of
            which can be cut off. Any object with the buffer protocol.
        topic: The topic, for errors.
        partition: The partition, for errors.
        start_offset: The first wanted offset, at which the fetch started. The first batch can start
            before it, but does not end before it.
        stop_offset: The first offset to exclude, or None for no end.
        end_offset: The end of the partition's log, which no batch can exceed, or None if it is not
            known.
        columns: The columns of `COLUMNS` to build, in the wanted order.
        aborted: For `read_committed`, the aborted transactions in the response, each as (producer
            ID, first offset). None for `read_uncommitted`.
        check_crcs: Whether to verify the checksum of every batch, like Kafka's `check.crcs`.
        max_rows: The maximum number of rows in an Arrow batch.
        max_bytes: The maximum number of bytes of records in an Arrow batch, unless a single record
            is larger. It also limits the bytes decompressed at a time.
        max_record_bytes: The maximum size of a record from a compressed batch. For a compressed
            batch of format 0 or 1, it limits all records together.

    Yields:
        The records in order, at least one item. The last `next_offset` is where the next fetch
        starts.

    Raises:
        CorruptRecordsError: A batch cannot be read. The records before it were yielded.
    """
    fetch = _Fetch(
        data=batches.as_bytes(raw),
        topic=topic,
        partition=partition,
        start=start_offset,
        stop=_INT64_MAX if stop_offset is None else stop_offset,
        end=_INT64_MAX if end_offset is None else end_offset,
        check_crcs=check_crcs,
        max_record_bytes=min(max_record_bytes, _INT32_MAX),
    )
    output = _Output(
        schema=pa.schema([COLUMNS.field(name) for name in columns]),
        max_rows=max_rows,
        max_bytes=min(max_bytes, _INT32_MAX),
    )
    reached: int | None = None
    position = start_offset
    for group in fetch.groups(output, aborted):
        for part in fetch.build(group, output, reached or 0):
            position = reached = part.next_offset
            yield part
        position = fetch.behind(group, position)
    if reached != position:
        empty = pa.RecordBatch.from_pylist([], schema=output.schema)
        yield DecodedRecords(empty, position)


@dataclass(slots=True)
class _Group:
    """Records in one buffer that are decoded together.

    Attributes:
        buffer: The buffer that contains them.
        sections: The sections that they belong to.
        rows: The number of rows.
        size: The size in bytes.
    """

    buffer: Bytes
    sections: list[Section] = field(default_factory=list)
    rows: int = 0
    size: int = 0

    def add(self, section: Section) -> None:
        """Add records, or a batch without wanted records."""
        self.sections.append(section)
        if section.size:
            self.rows += section.header.record_count
            self.size += section.size


@dataclass(frozen=True, slots=True, kw_only=True)
class _Output:
    """Converts the fetched bytes to Arrow batches."""

    schema: pa.Schema
    max_rows: int
    max_bytes: int

    def is_worth(self, group: _Group) -> bool:
        """Whether a group is large enough to be decoded."""
        return group.rows >= self.max_rows or group.size >= self.max_bytes

    def build(self, data: Bytes, records: Layout) -> list[tuple[pa.RecordBatch, int]]:
        """Copy the wanted columns from a buffer.

        Each batch comes with the offset after its rows.
        """
        headers = np.cumsum(records.header_count) if "headers" in self.schema.names else None
        parts = []
        start = 0
        while start < len(records):
            limit = records.start[start] + self.max_bytes
            stop = max(int(np.searchsorted(records.end, limit, "right")), start + 1)
            if headers is not None:
                most = headers[start] - records.header_count[start] + _MAX_HEADERS
                stop = min(stop, int(np.searchsorted(headers, most, "right")))
                if stop == start:
                    raise MalformedError(f"a record has more than {_MAX_HEADERS} headers")
            rows = records[start : min(stop, start + self.max_rows)]
            parts.append((build(data, rows, self.schema), int(rows.offset[-1]) + 1))
            start += len(rows)
        return parts


class _Collector:
    """Collects batches until there are enough to decode together.

    Args:
        data: The fetched bytes.
        max_bytes: The number of bytes to decompress at a time.
        max_record_bytes: The maximum size of a record in bytes.
    """

    def __init__(self, data: Bytes, max_bytes: int, max_record_bytes: int) -> None:
        self._data = data
        self._arena: Bytes | None = None
        self._max_bytes = max_bytes
        self._max_record_bytes = max_record_bytes
        self.group = _Group(data)

    def flushed(self) -> Iterator[_Group]:
        """Yield the current group and start the next one."""
        yield self.group
        self.group = _Group(self._data)

    def take_plain(self, header: BatchHeader) -> Iterator[_Group]:
        """Add a batch that is not compressed, and yield complete groups."""
        if header.record_count > MAX_RECORDS:
            records = self._data[header.records : header.end]
            yield from self._cut(header, InMemory(records[:0]), records, len(records))
            return
        if self.group.buffer is not self._data:
            yield from self.flushed()
        self.group.add(Section(header, header.records, header.end))

    def take(self, header: BatchHeader, source: Decompressor) -> Iterator[_Group]:
        """Add a batch whose records are in another buffer, and yield complete groups."""
        if self._arena is None:
            self._arena = np.empty(self._max_bytes, np.uint8)
        arena, group = self._arena, self.group
        if group.buffer is not arena:
            if group.size:
                yield from self.flushed()
                group = self.group
            group.buffer = arena
        start = group.size
        end = start + source.read_into(arena[start:])
        if end == len(arena) or header.record_count > MAX_RECORDS:
            yield from self.flushed()
            arena[: end - start] = arena[start:end]
            start, end = 0, end - start
            if end < len(arena):
                end += source.read_into(arena[end:])
            if end == len(arena) or header.record_count > MAX_RECORDS:
                yield from self._cut(header, source, arena, end)
                return
            self.group.buffer = arena
        batches.check_count(header, end - start)
        self.group.add(Section(header, start, end))

    def _cut(
        self, header: BatchHeader, source: Decompressor, buffer: Bytes, filled: int
    ) -> Iterator[_Group]:
        yield from self.flushed()
        limit = self._max_record_bytes
        for where, section in cut(header, source, buffer, filled, max_record_bytes=limit):
            group = _Group(where)
            group.add(section)
            yield group


@dataclass(frozen=True, slots=True, kw_only=True)
class _Fetch:
    """The bytes fetched from one partition, and the wanted range."""

    data: Bytes
    topic: str
    partition: int
    start: int
    stop: int
    end: int
    check_crcs: bool
    max_record_bytes: int

    def groups(
        self, output: _Output, aborted: Iterable[tuple[int, int]] | None
    ) -> Iterator[_Group]:
        """Collect batches.

        The last group can have no records. The next group can reuse its buffer.
        """
        transactions = None if aborted is None else AbortedTransactions(aborted)
        collector = _Collector(self.data, output.max_bytes, self.max_record_bytes)
        try:
            for header, converted in self._walk():
                try:
                    yield from self._collect(header, converted, transactions, collector)
                except MalformedError as error:
                    raise self._corrupt(error, header.base_offset, header.last_offset) from error
                if output.is_worth(collector.group):
                    yield from collector.flushed()
        except CorruptRecordsError:
            yield collector.group
            raise
        yield collector.group

    def behind(self, group: _Group, position: int) -> int:
        """Return the next offset to read after a group, whose rows end before `position`."""
        if not group.sections or not group.sections[-1].is_last:
            return position
        return max(self.start, min(self.stop, group.sections[-1].header.last_offset + 1))

    def build(self, group: _Group, output: _Output, reached: int) -> Iterator[DecodedRecords]:
        """Decode several batches together.

        If that fails, decode them one by one to find the bad one.
        """
        sections = [section for section in group.sections if section.size]
        if not sections:
            return
        try:
            records = locate(
                group.buffer,
                [section.header for section in sections],
                [section.start for section in sections],
                [section.end for section in sections],
            )
            if not sections[0].is_first and records.offset[0] < reached:
                raise MalformedError("the offsets of its records do not ascend")
            first, last = np.searchsorted(records.offset, (self.start, self.stop))
            parts = output.build(group.buffer, records[first:last])
        except MalformedError as error:
            if len(sections) == 1:
                header = sections[0].header
                raise self._corrupt(error, header.base_offset, header.last_offset) from error
            for section in sections:
                yield from self.build(_Group(group.buffer, [section]), output, reached)
            return
        for number, (batch, behind) in enumerate(parts, 1):
            yield DecodedRecords(
                batch, behind if number < len(parts) else self.behind(group, behind)
            )

    def _walk(self) -> Iterator[tuple[BatchHeader, Bytes | None]]:
        """Iterate over batches, and check what no checksum covers.

        Yields:
            The header of a batch, and its records if they had to be converted.
        """
        position = at = 0
        while position < self.stop:
            offset = last = max(position, self.start)
            try:
                header = batches.next_batch(self.data, at)
                if header is None:
                    if not at and len(self.data):
                        raise MalformedError(f"there is no complete one in {len(self.data)} bytes")
                    return
                offset, last, at = header.base_offset, header.last_offset, header.end
                header, converted = self._checked(header)
                if header.base_offset < position:
                    raise MalformedError(f"the batch before it ends at offset {position - 1}")
                position = header.last_offset + 1
                follows = batches.base_offset(self.data, at)
                if follows is not None and follows < position:
                    raise MalformedError(
                        f"it ends at offset {position - 1}, and the next one starts at {follows}"
                    )
            except MalformedError as error:
                raise self._corrupt(error, offset, last) from error
            yield header, converted

    def _checked(self, header: BatchHeader) -> tuple[BatchHeader, Bytes | None]:
        converted = None
        if header.magic < 2:
            header, converted = upconvert(
                self.data, header, check_crcs=self.check_crcs, max_bytes=self.max_record_bytes
            )
        elif self.check_crcs:
            batches.check_crc(self.data, header)
        if header.last_offset < self.start:
            raise MalformedError(
                f"it ends at offset {header.last_offset}, before the requested offset {self.start}"
            )
        if header.last_offset >= self.end:
            raise MalformedError(
                f"it contains the offsets {header.base_offset} to {header.last_offset}, but the "
                f"log ends at offset {self.end}"
            )
        return header, converted

    def _collect(
        self,
        header: BatchHeader,
        converted: Bytes | None,
        transactions: AbortedTransactions | None,
        collector: _Collector,
    ) -> Iterator[_Group]:
        if converted is not None:
            yield from collector.take(header, InMemory(converted))
        elif (
            (transactions is not None and transactions.drop(self.data, header))
            or header.is_control
            or not header.record_count
            or header.base_offset >= self.stop
        ):
            collector.group.add(Section(header))
        elif header.compression:
            content = self.data[header.records : header.end]
            yield from collector.take(header, decompressor(content, header.compression))
        else:
            batches.check_count(header, header.end - header.records)
            yield from collector.take_plain(header)

    def _corrupt(self, error: MalformedError, offset: int, last: int) -> CorruptRecordsError:
        return CorruptRecordsError(
            str(error),
            topic=self.topic,
            partition=self.partition,
            offset=offset,
            last_offset=last,
            is_too_large=isinstance(error, TooLargeError),
        )
