# SPDX-License-Identifier: Apache-2.0
"""Batches that are too large to be decoded at once, cut between their records.

A batch may expand to a thousand times its size. It is then decompressed bit by bit, and the records
that lie in the buffer as a whole are decoded before the next ones are decompressed.
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

#: More records are not located at once: each takes a hundred bytes meanwhile.
MAX_RECORDS: Final = 1 << 17


@dataclass(frozen=True, slots=True)
class Section:
    """Records of one batch that lie in a buffer.

    Attributes:
        header: Of the batch; it counts these records alone.
        start: Where they begin.
        end: Where they end; the start for a batch whose records are left out.
        is_first: Whether the batch begins with them.
        is_last: Whether it ends with them.
    """

    header: BatchHeader
    start: int = 0
    end: int = 0
    is_first: bool = True
    is_last: bool = True

    @property
    def size(self) -> int:
        """How many bytes they take."""
        return self.end - self.start


class InMemory:
    """Bytes that are there already, read like those that are decompressed."""

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
    """Give the records of a batch section by section; each is gone when the next one comes.

    Args:
        header: Of the batch.
        source: Gives what is not in the buffer yet.
        buffer: What was read so far is at its beginning; it is written over.
        filled: How many bytes that is.
        max_record_bytes: The most bytes of a record.

    Yields:
        A section, and the buffer it is in: another one where a record needs more room.

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
                f"a record gives {needed} bytes, more than the {max_record_bytes} that are allowed"
            )
        larger = buffer if needed <= len(buffer) else np.empty(needed, np.uint8)
        larger[: filled - at] = buffer[at:filled]
        buffer, filled, at = larger, filled - at, 0
        read = source.read_into(buffer[filled:])
        if not read:
            raise MalformedError("its records do not fill the length that it gives")
        filled += read
    if at < filled or source.read_into(np.empty(1, np.uint8)):
        raise MalformedError("its records do not fill the length that it gives")


def _whole_records(data: Bytes, start: int, end: int, most: int) -> tuple[int, int, int]:
    """Follow the records of a buffer.

    Returns:
        How many of them lie in it as a whole, where the last one ends, and how many bytes the next
        one needs.
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
