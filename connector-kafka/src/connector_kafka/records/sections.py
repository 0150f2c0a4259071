# SPDX-License-Identifier: Apache-2.0
"""Cuts batches that are too large to decode at once between their records.

A batch can expand to a thousand times its size. It is then decompressed piece by piece. Whole
records in the buffer are decoded before the next ones are decompressed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from connector_kafka.records import varints
from connector_kafka.records.batches import BatchHeader
from connector_kafka.records.compression import Decompressor
from connector_kafka.records.errors import MalformedError, TooLargeError
from connector_kafka.records.varints import Bytes

__all__ = ["MAX_RECORDS", "InMemory", "Section", "cut"]

#: The maximum number of records to locate at once. Each takes a hundred bytes meanwhile.
MAX_RECORDS: Final = 1 << 17


@dataclass(frozen=True, slots=True)
class Section:
    """Records of one batch that are in a buffer.

    Attributes:
        header: The header of the batch, which counts only these records.
        start: The start of the records.
        end: The end of the records. It equals the start for a batch whose records are skipped.
        is_first: Whether these are the batch's first records.
        is_last: Whether these are the batch's last records.
    """

    header: BatchHeader
    start: int = 0
    end: int = 0
    is_first: bool = True
    is_last: bool = True

    @property
    def size(self) -> int:
        """The size in bytes."""
        return self.end - self.start


class InMemory:
    """Uncompressed bytes with the interface of a decompressor."""

    def __init__(self, data: Bytes) -> None:
        self._data = data

    def read_into(self, buffer: Bytes) -> int:
        """See `Decompressor`."""
        taken = min(len(self._data), len(buffer))
        buffer[:taken] = self._data[:taken]
        self._data = self._data[taken:]
        return taken


def cut(
    header: BatchHeader,
    source: Decompressor,
    buffer: Bytes,
    filled: int,
    *,
    max_record_bytes: int,
) -> Iterator[tuple[Bytes, Section]]:
    """Yield the records of a batch section by section. Each is valid until the next one.

    Args:
        header: The header of the batch.
        source: Provides the bytes that are not in the buffer yet.
        buffer: Starts with the bytes read so far, and is overwritten.
        filled: The number of bytes read so far.
        max_record_bytes: The maximum size of a record in bytes.

    Yields:
        A section and its buffer, which is replaced if a record needs more space.

    Raises:
        MalformedError: The bytes are not the records that the header counts.
    """
    at, left = 0, header.record_count
    while left:
        count, end, needed = _whole_records(buffer, at, filled, min(left, MAX_RECORDS))
        if count:
            left -= count
            part = header._replace(record_count=count)
            is_first = left + count == header.record_count
            yield buffer, Section(part, at, end, is_first=is_first, is_last=not left)
            at = end
            continue
        if needed > max_record_bytes:
            raise TooLargeError(
                f"a record claims {needed} bytes, more than the limit of {max_record_bytes}"
            )
        larger = buffer if needed <= len(buffer) else np.empty(needed, np.uint8)
        larger[: filled - at] = buffer[at:filled]
        buffer, filled, at = larger, filled - at, 0
        read = source.read_into(buffer[filled:])
        if not read:
            raise MalformedError("its records do not fill their claimed length")
        filled += read
    if at < filled or source.read_into(np.empty(1, np.uint8)):
        raise MalformedError("its records do not fill their claimed length")


def _whole_records(data: Bytes, start: int, end: int, most: int) -> tuple[int, int, int]:
    """Iterate over the records of a buffer.

    Returns:
        The number of whole records, the end of the last one, and the number of bytes of the next
        one.
    """
    view = data.data
    for count in range(most):
        at, encoded, shift = start, 0, 0
        while True:
            if shift == 7 * varints.INT:
                raise MalformedError(f"a number is longer than {varints.INT} bytes")
            if at == end:
                return count, start, at - start + 1
            byte = view[at]
            at += 1
            encoded |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                break
        if encoded & 1 or encoded >> 32:
            raise MalformedError("a record has a length below 0 or above 2 GiB")
        behind = at + (encoded >> 1)
        if behind > end:
            return count, start, behind - start
        start = behind
    return most, start, 0
