# SPDX-License-Identifier: Apache-2.0
"""Record batches in the broker's format: headers, bounds, and aborted transactions."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import NamedTuple

import google_crc32c
import numpy as np

from connector_kafka.records.errors import MalformedError
from connector_kafka.records.varints import Bytes

__all__ = [
    "COMPRESSION",
    "CONTROL",
    "HEADER",
    "LOG_APPEND_TIME",
    "TRANSACTIONAL",
    "AbortedTransactions",
    "BatchHeader",
    "as_bytes",
    "base_offset",
    "check_count",
    "check_crc",
    "crc32c",
    "next_batch",
]

# Base offset, length; leader epoch, magic, CRC; attributes, last offset delta, base timestamp,
# maximum timestamp, producer ID, producer epoch, base sequence, number of records.
HEADER = struct.Struct(">qiibIhiqqqhii")
_FRONT = struct.Struct(">qi4xb")
_LENGTH_END = 12  # the bytes that the length counts start here
_CRC_END = 21  # the bytes that the CRC covers start here
_MIN_LEGACY = 14  # the smallest message of the old formats, after its length
_MIN_RECORD = 7  # a record without key, value, and headers
_LAST_OFFSET = 2**63 - 2  # the offset after it must be a valid number, too

COMPRESSION = 0x07
LOG_APPEND_TIME = 0x08
TRANSACTIONAL = 0x10
CONTROL = 0x20

# Version, then 0 for an abort and 1 for a commit.
_MARKER = struct.Struct(">hh")
_ABORT = 0


class BatchHeader(NamedTuple):
    """The header of a record batch, and the position of the batch in the fetched bytes.

    For the old formats (`magic` 0 and 1), only `start`, `end`, `magic`, and `base_offset` are set.
    """

    start: int
    end: int
    magic: int
    base_offset: int
    crc: int = 0
    attributes: int = 0
    last_offset_delta: int = 0
    base_timestamp: int = 0
    max_timestamp: int = 0
    producer_id: int = -1
    record_count: int = 0

    @property
    def records(self) -> int:
        """The position of the records, compressed or not."""
        return self.start + HEADER.size

    @property
    def last_offset(self) -> int:
        """The last offset of the batch, even if compaction removed that record."""
        return self.base_offset + self.last_offset_delta

    @property
    def compression(self) -> int:
        """The number of its codec."""
        return self.attributes & COMPRESSION

    @property
    def is_control(self) -> bool:
        """Whether it contains a transaction marker and no user records."""
        return bool(self.attributes & CONTROL)


def next_batch(data: Bytes, at: int) -> BatchHeader | None:
    """Return the batch that starts at a position.

    Args:
        data: The fetched bytes.
        at: The end of the previous batch.

    Returns:
        Its header, or None if the batch is cut off, as the last one of a fetch can be.

    Raises:
        MalformedError: The header is not valid.
    """
    if len(data) - at < _FRONT.size:
        return None
    base_offset, length, magic = _FRONT.unpack_from(data.data, at)
    if length < _MIN_LEGACY:
        raise MalformedError(f"its length of {length} bytes is impossible")
    end = at + _LENGTH_END + length
    if end > len(data):
        return None
    if base_offset < 0:
        raise MalformedError(f"its base offset of {base_offset} is impossible")
    if magic in {0, 1}:
        return BatchHeader(at, end, magic, base_offset)
    if magic != 2:
        raise MalformedError(f"its format has the unknown number {magic}")
    if end < at + HEADER.size:
        raise MalformedError(f"its length of {length} bytes is impossible")
    _, _, _, _, crc, attributes, delta, base, maximum, producer, _, _, count = HEADER.unpack_from(
        data.data, at
    )
    if delta < 0 or count < 0 or base_offset > _LAST_OFFSET - delta:
        raise MalformedError(f"it claims {count} records up to offset {base_offset} + {delta}")
    return BatchHeader(
        at, end, magic, base_offset, crc, attributes, delta, base, maximum, producer, count
    )


def base_offset(data: Bytes, at: int) -> int | None:
    """Return the first offset of the batch at a position, or None if it is cut off."""
    if len(data) - at < _FRONT.size:
        return None
    return int(_FRONT.unpack_from(data.data, at)[0])


def crc32c(data: Bytes) -> int:
    """Return the CRC-32C (Castagnoli) of some bytes, without a copy."""
    return google_crc32c.value(data)  # type: ignore[no-any-return]


def check_crc(data: Bytes, batch: BatchHeader) -> None:
    """Compare the checksum of a batch with its bytes.

    Raises:
        MalformedError: They differ.
    """
    found = crc32c(data[batch.start + _CRC_END : batch.end])
    if found != batch.crc:
        raise MalformedError(f"its checksum is {batch.crc:#010x}, but its bytes have {found:#010x}")


def check_count(batch: BatchHeader, size: int) -> None:
    """Refuse a record count that does not fit the size, before memory is allocated.

    Raises:
        MalformedError: There are too few bytes.
    """
    if batch.record_count * _MIN_RECORD > size:
        raise MalformedError(f"it claims {batch.record_count} records in {size} bytes")


class AbortedTransactions:
    """Finds the batches of a fetch that belong to aborted transactions, like Java's consumer.

    Args:
        aborted: Producer ID and first offset of every aborted transaction in the broker's response.
    """

    def __init__(self, aborted: Iterable[tuple[int, int]]) -> None:
        self._pending = sorted(((first, producer) for producer, first in aborted), reverse=True)
        self._open: set[int] = set()

    def drop(self, data: Bytes, batch: BatchHeader) -> bool:
        """Return whether a batch was aborted. Call it for all batches in order.

        Raises:
            MalformedError: The batch is a transaction marker that cannot be read.
        """
        if batch.producer_id < 0:
            return False
        while self._pending and self._pending[-1][0] <= batch.last_offset:
            self._open.add(self._pending.pop()[1])
        if batch.is_control:
            if batch.record_count and _is_abort(data[batch.records : batch.end]):
                self._open.discard(batch.producer_id)
            return False
        return bool(batch.attributes & TRANSACTIONAL) and batch.producer_id in self._open


def _is_abort(record: Bytes) -> bool:
    """Return whether the record of a control batch is an abort. It is never compressed."""
    view = record.data
    try:
        at = _skip(view, 0) + 1  # the length, and the attributes
        at = _skip(view, _skip(view, at))  # the deltas of timestamp and offset
        size, at = view[at] >> 1, at + 1
        if size < _MARKER.size or at + size > len(view):
            raise MalformedError("the marker of a transaction has no key")
        return bool(_MARKER.unpack_from(view, at)[1] == _ABORT)
    except IndexError:
        raise MalformedError("the marker of a transaction is cut off") from None


def _skip(view: memoryview, at: int) -> int:
    while view[at] > 0x7F:
        at += 1
    return at + 1


def as_bytes(raw: object) -> Bytes:
    """Return a view of an object with the buffer protocol."""
    return np.frombuffer(raw, np.uint8)  # type: ignore[call-overload,no-any-return]
