# SPDX-License-Identifier: Apache-2.0
"""Converts Arrow columns to record batches, without a Python object per record.

The records of an Arrow batch are encoded together, whatever their partitions: numpy creates the
numbers between keys and values, and Arrow joins them. Python handles each record batch once.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import google_crc32c
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from connector_kafka.records import varints
from connector_kafka.records.batches import HEADER, TRANSACTIONAL
from connector_kafka.records.compression import Compression, compress
from connector_kafka.records.varints import Bytes, Ints, Pieces

__all__ = [
    "SEQUENCES",
    "BatchHead",
    "EncodedBatch",
    "Encoder",
    "measured",
    "refused_rows",
    "seal",
]

_FRONT = struct.Struct(">qiibI")  # base offset, length, leader epoch, magic, CRC
_COVERED = struct.Struct(">hiqqqhii")  # the rest of the header, which the CRC covers
_LENGTH_END = 12  # the bytes that the length counts start here

# The maximum length of the length, the attributes, and the deltas of timestamp and offset.
_MAX_OVERHEAD = 5 + 1 + 10 + 5

_SIZE = "_size"

# The number of bytes to encode together. Arrow counts them in 32 bits, and memory must be bounded.
_RUN_BYTES = 64 * 1024 * 1024

#: Sequence numbers start again after this many.
SEQUENCES = 2**31


@dataclass(frozen=True, slots=True)
class EncodedBatch:
    """A record batch.

    Attributes:
        data: The whole batch in Kafka's format.
        records: The number of records.
    """

    data: bytes
    records: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Encoder:
    """Converts Arrow batches to record batches. Executor.

    The columns of an Arrow batch are `value` and optionally `key` (bytes or text, nullable),
    `timestamp` (of a timestamp type, or milliseconds since 1970), and `headers` (lists of key and
    value). Other columns are ignored.

    Args:
        compression: The codec of batches. A batch that would grow stays uncompressed.
        batch_size: The maximum size of the records in a batch before compression, unless a single
            record is larger.
        producer_id: The ID from a coordinator, or -1 without idempotence.
        producer_epoch: Its epoch.
        transactional: Whether the batches are part of a transaction.
    """

    compression: Compression = Compression.NONE
    batch_size: int = 128 * 1024
    producer_id: int = -1
    producer_epoch: int = -1
    transactional: bool = False

    def encode(
        self,
        records: pa.RecordBatch,
        partitions: npt.NDArray[np.int32],
        *,
        now: int,
        next_sequence: Callable[[int], int] | None = None,
    ) -> dict[int, list[EncodedBatch]]:
        """Encode records. Those of one partition keep their order.

        Args:
            records: The columns, without the rows that `refused_rows` returns.
            partitions: The partition of each row.
            now: The timestamp of rows without one, in milliseconds since 1970.
            next_sequence: Returns the sequence number of a partition's next record. None without
                idempotence.

        Returns:
            The batches of each partition, in order.
        """
        if (partitions[1:] != partitions[:-1]).any():
            order = np.argsort(partitions, kind="stable")
            partitions = partitions[order]
            records = records.take(pa.array(order))
        sequences: dict[int, int] = {}
        batches: dict[int, list[EncodedBatch]] = {}
        first = 0
        for rows in _runs(records, now):
            of_rows = partitions[first : first + len(rows)]
            starts = _cut(rows.size, of_rows, self.batch_size)
            data, bounds = rows.encode(starts)
            stops = np.append(starts[1:], len(rows))
            for start, stop in zip(starts.tolist(), stops.tolist(), strict=True):
                partition = int(of_rows[start])
                sequence = -1
                if next_sequence is not None:
                    sequence = sequences.get(partition, -1)
                    sequence = next_sequence(partition) if sequence < 0 else sequence
                    sequences[partition] = (sequence + stop - start) % SEQUENCES
                times = rows.timestamp[start:stop]
                batch = self._seal(data[bounds[start] : bounds[stop]], times, sequence)
                batches.setdefault(partition, []).append(batch)
            first += len(rows)
        return batches

    def _seal(self, content: Bytes, times: Ints, sequence: int) -> EncodedBatch:
        head = BatchHead(
            base_timestamp=int(times[0]),
            max_timestamp=int(times.max()),
            producer_id=self.producer_id,
            producer_epoch=self.producer_epoch,
            sequence=sequence,
            records=len(times),
            attributes=TRANSACTIONAL if self.transactional else 0,
        )
        return seal(content, head, self.compression)


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchHead:
    """What a batch says of all its records.

    Attributes:
        base_timestamp: The timestamp that the records' deltas refer to.
        max_timestamp: The newest timestamp.
        producer_id: The ID of the producer, or -1.
        producer_epoch: Its epoch.
        sequence: The sequence number of the first record, or -1.
        records: The number of records.
        attributes: The attributes without the codec.
    """

    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    sequence: int
    records: int
    attributes: int


def seal(content: Bytes, head: BatchHead, compression: Compression) -> EncodedBatch:
    """Compress records, unless they would grow, and prepend the header."""
    attributes = head.attributes
    if compression != Compression.NONE:
        compressed = np.frombuffer(compress(content, compression), np.uint8)
        if len(compressed) < len(content):
            attributes |= compression
            content = compressed
    covered = _COVERED.pack(
        attributes,
        head.records - 1,
        head.base_timestamp,
        head.max_timestamp,
        head.producer_id,
        head.producer_epoch,
        head.sequence,
        head.records,
    )
    crc = google_crc32c.extend(google_crc32c.value(covered), content)
    length = HEADER.size - _LENGTH_END + len(content)
    front = _FRONT.pack(0, length, -1, 2, crc)
    return EncodedBatch(b"".join((front, covered, content.data)), head.records)


def measured(records: pa.RecordBatch) -> pa.RecordBatch:
    """Add a column with the maximum encoded size of each record, unless it exists. Executor.

    It stays with rows that are selected later, so that they are measured once.
    """
    if _SIZE in records.schema.names:
        return records
    columns = {name: records.column(name) for name in records.schema.names}
    size = _MAX_OVERHEAD + _written(_lengths(columns["value"]))
    size += _written(_lengths(columns["key"])) if "key" in columns else 1
    if "headers" in columns:
        counts = _counts(columns["headers"])
        items = columns["headers"].flatten()
        item = sum(_written(_lengths(pc.struct_field(items, [part]))) for part in (0, 1))
        behind = np.concatenate([[0], np.cumsum(item)])[np.cumsum(np.append(0, counts))]
        size += varints.size_of(counts) + np.diff(behind)
    else:
        size += 1
    return records.append_column(_SIZE, pa.array(size))


def refused_rows(records: pa.RecordBatch, *, max_request_size: int) -> dict[int, str]:
    """Find the records that Kafka would reject. Executor.

    Args:
        records: The columns that `Encoder.encode` takes.
        max_request_size: Kafka's `max.request.size` in bytes. As in Java's producer, the size of a
            record before compression counts.

    Returns:
        The reason for each such row.
    """
    refused = {}
    if "headers" in records.schema.names:
        headers = records.column("headers")
        names = pc.struct_field(headers.flatten(), [0])
        behind = np.cumsum(_counts(headers))
        for item in np.flatnonzero(names.is_null()).tolist():
            refused[int(np.searchsorted(behind, item, "right"))] = "a header has no key"
    if "timestamp" in records.schema.names:
        time = _times(records.column("timestamp"), 0)
        for row in np.flatnonzero(time < 0).tolist():
            refused[row] = f"the timestamp {time[row]} is before 1970"
    size = measured(records).column(_SIZE).to_numpy() + HEADER.size
    for row in np.flatnonzero(size > max_request_size).tolist():
        refused[row] = f"it can take {size[row]} bytes, more than {max_request_size}"
    return refused


@dataclass(frozen=True, slots=True)
class _Rows:
    """Records that are encoded together.

    Attributes:
        key: The keys, or None if there are none.
        value: The values.
        headers: The encoded headers of each row, after their number, or None if there are none.
        timestamp: The timestamps.
        size: The maximum encoded size of each record.
    """

    key: pa.BinaryArray | None
    value: pa.BinaryArray
    headers: pa.BinaryArray | None
    timestamp: Ints
    size: Ints

    def __len__(self) -> int:
        return len(self.timestamp)

    def encode(self, starts: Ints) -> tuple[Bytes, Ints]:
        """Encode the records.

        Return their bytes, and the start of each record and the end of the last.

        Args:
            starts: The first row of each batch.
        """
        counts = np.diff(starts, append=len(self))
        offset = np.arange(len(self)) - np.repeat(starts, counts)
        time = self.timestamp - np.repeat(self.timestamp[starts], counts)
        attributes = Pieces(np.zeros((len(self), 1), np.uint8), np.ones(len(self), np.int64))
        key_size, value_size = _sizes(self.key, len(self)), _sizes(self.value, len(self))
        ahead = [attributes, *map(varints.write, (time, offset, key_size))]
        between = varints.write(value_size)
        size = sum(piece.sizes for piece in (*ahead, between))
        size = size + np.maximum(key_size, 0) + np.maximum(value_size, 0)
        size += 1 if self.headers is None else _sizes(self.headers, len(self))
        parts = [
            varints.join([varints.write(size), *ahead]),
            self.key,
            varints.join([between]),
            self.value,
            pa.scalar(b"\0", pa.binary()) if self.headers is None else self.headers,
        ]
        return _bytes_of(_joined([part for part in parts if part is not None]))


def _runs(records: pa.RecordBatch, now: int) -> Iterator[_Rows]:
    """Split rows into groups that are encoded together."""
    records = measured(records)
    columns = {name: records.column(name) for name in records.schema.names}
    value, key, headers = columns["value"], columns.get("key"), columns.get("headers")
    size = columns[_SIZE].to_numpy()
    time = np.full(len(size), now)
    if "timestamp" in columns:
        time = _times(columns["timestamp"], now)
    behind = np.cumsum(size)
    start = 0
    while start < len(size):
        limit = behind[start] - size[start] + _RUN_BYTES
        stop = max(int(np.searchsorted(behind, limit, "right")), start + 1)
        of_run = slice(start, stop)
        yield _Rows(
            key[of_run].cast(pa.binary()) if key is not None else None,
            value[of_run].cast(pa.binary()),
            _encoded_headers(headers[of_run]) if headers is not None else None,
            time[of_run],
            size[of_run],
        )
        start = stop


def _cut(size: Ints, partitions: npt.NDArray[np.int32], batch_size: int) -> Ints:
    """Return the first row of each batch, so that no batch has two partitions or too many bytes."""
    ends = np.append(np.flatnonzero(partitions[1:] != partitions[:-1]) + 1, len(size))
    behind = np.cumsum(size)
    starts = []
    start = 0
    for end in ends.tolist():
        while start < end:
            starts.append(start)
            limit = behind[start] - size[start] + batch_size
            start = min(max(int(np.searchsorted(behind, limit, "right")), start + 1), end)
    return np.array(starts, np.int64)


def _encoded_headers(headers: pa.ListArray) -> pa.BinaryArray:
    counts = _counts(headers)
    items = headers.flatten()
    parts = []
    for number in (0, 1):
        text = pc.struct_field(items, [number]).cast(pa.binary())
        parts += [varints.join([varints.write(_lengths(text))]), text]
    data, bounds = _bytes_of(_joined(parts))
    # The headers of a row are already consecutive.
    of_row = np.ascontiguousarray(bounds[np.cumsum(np.append(0, counts))], np.int32)
    rows = pa.Array.from_buffers(
        pa.binary(), len(headers), [None, pa.py_buffer(of_row), pa.py_buffer(data)]
    )
    return _joined([varints.join([varints.write(counts)]), rows])


def _times(column: pa.Array, now: int) -> Ints:
    """Return milliseconds since 1970, with the current time for null."""
    if pa.types.is_timestamp(column.type):
        column = pc.cast(column, pa.timestamp("ms", column.type.tz), safe=False)
    times = column.cast(pa.int64()).fill_null(now)
    return times.to_numpy(zero_copy_only=False)  # type: ignore[no-any-return]


def _joined(parts: list[pa.Array]) -> pa.BinaryArray:
    """Join the byte strings of each row. Null counts as empty."""
    nothing = pa.scalar(b"", pa.binary())
    return pc.binary_join_element_wise(
        *parts, nothing, null_handling="replace", null_replacement=""
    )


def _bytes_of(array: pa.BinaryArray) -> tuple[Bytes, Ints]:
    """Return the bytes of an array as offsets from 0, and the bounds of its elements."""
    _, bounds, data = array.buffers()
    ends = np.frombuffer(bounds, np.int32)[: len(array) + 1].astype(np.int64)
    return np.frombuffer(data or b"", np.uint8), ends


def _lengths(column: pa.Array) -> Ints:
    """Return the number of bytes of each element, or -1 for null."""
    lengths = pc.binary_length(column).cast(pa.int64()).fill_null(-1)
    return lengths.to_numpy(zero_copy_only=False)  # type: ignore[no-any-return]


def _sizes(column: pa.BinaryArray | None, rows: int) -> Ints:
    return np.full(rows, -1) if column is None else _lengths(column)


def _counts(headers: pa.ListArray) -> Ints:
    counts = pc.list_value_length(headers).cast(pa.int64()).fill_null(0)
    return counts.to_numpy(zero_copy_only=False)  # type: ignore[no-any-return]


def _written(lengths: Ints) -> Ints:
    """Return the number of bytes of byte strings, each after its length."""
    return varints.size_of(lengths) + np.maximum(lengths, 0)
