# SPDX-License-Identifier: Apache-2.0
"""A slow, simple reference decoder that follows the record format byte by byte."""

from __future__ import annotations

from typing import Any

from connector_kafka.records.batches import HEADER


class RefusedError(ValueError):
    """The bytes are not a valid record batch."""


class _Cursor:
    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0

    def take(self, size: int) -> bytes:
        if size < 0 or self.at + size > len(self.data):
            raise RefusedError("after the end")
        self.at += size
        return self.data[self.at - size : self.at]

    def varint(self, longest: int) -> int:
        value = 0
        for number in range(longest):
            (byte,) = self.take(1)
            value |= (byte & 0x7F) << (7 * number)
            if byte < 0x80:
                value &= 2**64 - 1
                return value >> 1 ^ -(value & 1)
        raise RefusedError("too long a number")

    def text(self) -> bytes | None:
        size = self.varint(5)
        return None if size < 0 else self.take(size)


def reference_rows(raw: bytes, attributes_seen: list[int]) -> list[dict[str, Any]]:
    """Return the rows of one uncompressed batch, and append the attributes of each record."""
    base, _, _, _, _, attributes, last, first_time, max_time, *_, count = HEADER.unpack_from(raw)
    batch = _Cursor(raw[HEADER.size :])
    rows: list[dict[str, Any]] = []
    previous = -1
    for _ in range(count):
        size = batch.varint(5)
        record = _Cursor(batch.take(size))
        attributes_seen += record.take(1)
        time, delta = record.varint(10), record.varint(5)
        if not previous < delta <= last:
            raise RefusedError("offsets do not ascend")
        previous = delta
        key, value = record.text(), record.text()
        headers = []
        number = record.varint(5)
        if number < 0:
            raise RefusedError("a negative number of headers")
        for _ in range(number):
            name, content_size = record.text(), record.varint(5)
            if name is None or content_size < -1:
                raise RefusedError("a header of a negative length")
            content = None if content_size < 0 else record.take(content_size)
            headers.append({"key": name.decode(errors="replace"), "value": content})
        if record.at != len(record.data):
            raise RefusedError("bytes are left in a record")
        rows.append(
            {
                "key": key,
                "value": value,
                "offset": base + delta,
                "timestamp": max_time
                if attributes & 8
                else (first_time + time + 2**63) % 2**64 - 2**63,
                "timestamp_type": int(bool(attributes & 8)),
                "headers": headers,
            }
        )
    if batch.at != len(batch.data):
        raise RefusedError("bytes are left in a batch")
    return rows
