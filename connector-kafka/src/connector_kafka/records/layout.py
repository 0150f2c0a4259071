# SPDX-License-Identifier: Apache-2.0
"""Locates keys, values, and headers in the records of many batches at once.

A record consists of: length, attributes (one byte), timestamp delta, offset delta, key length, key,
value length, value, number of headers, headers. All numbers except the attributes have a variable
length.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from connector_kafka.records import varints
from connector_kafka.records.batches import LOG_APPEND_TIME, BatchHeader
from connector_kafka.records.errors import MalformedError
from connector_kafka.records.starts import find_records
from connector_kafka.records.varints import Bytes, Ints

__all__ = ["Layout", "Texts", "locate", "locate_headers"]


@dataclass(frozen=True, slots=True)
class Texts:
    """The positions and lengths of byte strings in a buffer. The length of null is -1."""

    start: Ints
    size: Ints

    @property
    def end(self) -> Ints:
        """The positions after them."""
        return self.start + np.maximum(self.size, 0)

    def __getitem__(self, rows: slice) -> Texts:
        return Texts(self.start[rows], self.size[rows])


@dataclass(frozen=True, slots=True)
class Layout:
    """Records in a buffer. Every array has one element per record.

    Attributes:
        start: The start of the record, after its length.
        end: The end of the record.
        offset: Its offset.
        timestamp: Its timestamp in milliseconds since 1970.
        timestamp_type: 0 if the producer set it, 1 if the broker did.
        key: Its key.
        value: Its value.
        headers: The start of its headers.
        header_count: The number of its headers.
    """

    start: Ints
    end: Ints
    offset: Ints
    timestamp: Ints
    timestamp_type: npt.NDArray[np.int32]
    key: Texts
    value: Texts
    headers: Ints
    header_count: Ints

    def __len__(self) -> int:
        return len(self.offset)

    def __getitem__(self, rows: slice) -> Layout:
        return Layout(*(getattr(self, name)[rows] for name in self.__slots__))


def locate(
    data: Bytes, batches: Sequence[BatchHeader], starts: npt.ArrayLike, ends: npt.ArrayLike
) -> Layout:
    """Locate the parts of all records of some batches.

    Args:
        data: Decompressed records.
        batches: The headers of the batches, in order.
        starts: The start of each batch's records in `data`.
        ends: The end of each batch's records.

    Returns:
        The records of all batches. All parts lie inside their record, every record inside its
        batch, and offsets ascend.

    Raises:
        MalformedError: The bytes are not valid records.
    """
    counts = np.array([batch.record_count for batch in batches], np.int64)
    start, end = find_records(
        data, np.asarray(starts, np.int64), np.asarray(ends, np.int64), counts
    )

    def each(values: Sequence[int]) -> Ints:
        return np.repeat(np.array(values, np.int64), counts)

    # A wrong length leads to a position after the end of its record, so checking the last position
    # checks all of them.
    timestamp, at = varints.read(data, start + 1, varints.LONG)
    offset, at = varints.read(data, at)
    key, at = _text(data, at)
    value, at = _text(data, at)
    header_count, at = varints.read(data, at)
    count = varints.zigzag(header_count)
    # A header takes at least two bytes. Without headers, the record ends here.
    if ((count < 0) | (at + 2 * count > end) | ((count == 0) & (at != end))).any():
        raise MalformedError("the parts of a record do not fill its length")

    delta = varints.zigzag(offset)
    offset = each([batch.base_offset for batch in batches]) + delta
    if (
        (delta < 0).any()
        or (offset > each([batch.last_offset for batch in batches])).any()
        or (offset[1:] <= offset[:-1]).any()
    ):
        raise MalformedError("the offsets of its records do not ascend within its own")

    kind = [int(bool(batch.attributes & LOG_APPEND_TIME)) for batch in batches]
    time = varints.zigzag(timestamp)
    if any(kind):
        time *= each([1 - appended for appended in kind])
    time += each(
        [
            batch.max_timestamp if appended else batch.base_timestamp
            for batch, appended in zip(batches, kind, strict=True)
        ]
    )
    kinds = np.repeat(np.array(kind, np.int32), counts)
    return Layout(start, end, offset, time, kinds, key, value, at, count)


def locate_headers(data: Bytes, records: Layout) -> tuple[Texts, Texts]:
    """Locate keys and values in the headers of some records.

    Args:
        data: The buffer that contains the records.
        records: The records.

    Returns:
        The keys and the values of all headers, record by record.

    Raises:
        MalformedError: The bytes are not valid headers.
    """
    # Keys and values follow one another like records, each after its length.
    start = varints.chain(data, records.headers, records.end, 2 * records.header_count)
    encoded, at = varints.read(data, start)
    texts = Texts(at, varints.zigzag(encoded))
    keys, values = texts[0::2], texts[1::2]
    if (keys.size < 0).any():
        raise MalformedError("the key of a header has a negative length")
    if (values.size < -1).any():
        raise MalformedError("the value of a header has a negative length")
    return keys, values


def _text(data: Bytes, at: Ints) -> tuple[Texts, Ints]:
    encoded, start = varints.read(data, at)
    text = Texts(start, varints.zigzag(encoded))
    return text, text.end
