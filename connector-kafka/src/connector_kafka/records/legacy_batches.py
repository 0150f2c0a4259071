# SPDX-License-Identifier: Apache-2.0
"""Converts batches of the formats 0 and 1, from before Kafka 0.11, to format 2.

They are rare today, so this module processes record by record. A batch is one message. If it is
compressed, its value contains the actual messages.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from connector_kafka.records.batches import COMPRESSION, LOG_APPEND_TIME, BatchHeader
from connector_kafka.records.compression import decompress
from connector_kafka.records.errors import MalformedError
from connector_kafka.records.varints import Bytes

__all__ = ["upconvert"]

_FRONT = struct.Struct(">qiIbb")  # offset, length, CRC, magic, attributes
_LENGTH_END = 12  # the bytes that the length counts start here
_CRC_END = 16  # the bytes that the CRC covers start here
_TIMESTAMP = struct.Struct(">q")
_SIZE = struct.Struct(">i")

_NO_TIMESTAMP = -1
_LAST_OFFSET = 2**63 - 1


class _Message(NamedTuple):
    offset: int
    magic: int
    attributes: int
    timestamp: int
    key: bytes | None
    value: bytes | None


def upconvert(
    data: Bytes, batch: BatchHeader, *, max_bytes: int, check_crcs: bool = True
) -> tuple[BatchHeader, Bytes]:
    """Convert a batch of format 0 or 1 to format 2.

    Args:
        data: The fetched bytes.
        batch: The position of the batch in them.
        max_bytes: The maximum size of decompressed messages.
        check_crcs: Whether to verify the checksums of messages.

    Returns:
        The equivalent header, and the records.

    Raises:
        MalformedError: The batch cannot be read.
    """
    try:
        (wrapper,) = _messages(data[batch.start : batch.end].data, check_crcs)
        content = bytearray()
        first = last = None
        count = 0
        for record in _unwrapped(wrapper, check_crcs, max_bytes):
            last, count = record.offset, count + 1
            if first is None:
                first = last
            content += _converted(record, first)
    except struct.error:
        raise MalformedError("a message is cut off") from None
    if first is None or last is None:
        raise MalformedError("a compressed message contains no messages")
    if not 0 <= first <= last < _LAST_OFFSET:
        raise MalformedError(f"its messages have the impossible offsets {first} to {last}")
    header = batch._replace(
        base_offset=first,
        last_offset_delta=last - first,
        attributes=wrapper.attributes & LOG_APPEND_TIME,
        base_timestamp=0,
        max_timestamp=wrapper.timestamp,
        record_count=count,
    )
    return header, np.frombuffer(content, np.uint8)


def _converted(record: _Message, first: int) -> bytearray:
    body = bytearray(1)
    body += _varint(record.timestamp)
    body += _varint(record.offset - first)
    for text in (record.key, record.value):
        body += _varint(-1 if text is None else len(text))
        body += text or b""
    body += _varint(0)
    return _varint(len(body)) + body


def _unwrapped(wrapper: _Message, check_crcs: bool, max_bytes: int) -> Iterator[_Message]:
    """Yield the messages inside a message, or the message itself if it has none."""
    compression = wrapper.attributes & COMPRESSION
    if not compression:
        yield wrapper
        return
    if wrapper.value is None:
        raise MalformedError("a compressed message is null")
    inner = decompress(wrapper.value, compression, limit=max_bytes).data
    # In format 1, the inner offsets count from 0, and the outer message has the offset of the last
    # one. Some producers set 0 instead, which means that the inner offsets are absolute.
    base = 0
    if wrapper.magic:
        last = 0
        for message in _messages(inner, check_crcs=False):
            last = message.offset
        base = max(wrapper.offset - last, 0)
    appended = wrapper.attributes & LOG_APPEND_TIME
    for message in _messages(inner, check_crcs):
        if message.attributes & COMPRESSION or message.magic != wrapper.magic:
            raise MalformedError("a message inside a compressed one is not valid")
        yield message._replace(
            offset=message.offset + base,
            timestamp=wrapper.timestamp if appended else message.timestamp,
        )


def _messages(view: memoryview, check_crcs: bool) -> Iterator[_Message]:
    at = 0
    while at < len(view):
        offset, length, crc, magic, attributes = _FRONT.unpack_from(view, at)
        end = at + _LENGTH_END + length
        if length < _FRONT.size - _LENGTH_END or end > len(view) or magic not in {0, 1}:
            raise MalformedError(f"a message claims the format {magic} and {length} bytes")
        message = view[at:end]
        if check_crcs and (found := zlib.crc32(message[_CRC_END:])) != crc:
            raise MalformedError(f"a checksum is {crc:#010x}, but the bytes have {found:#010x}")
        at = end
        behind = _FRONT.size
        timestamp = _NO_TIMESTAMP
        if magic:
            (timestamp,) = _TIMESTAMP.unpack_from(message, behind)
            behind += _TIMESTAMP.size
        key, behind = _text(message, behind)
        value, behind = _text(message, behind)
        if behind != len(message):
            raise MalformedError("the parts of a message do not fill its length")
        yield _Message(offset, magic, attributes, timestamp, key, value)


def _text(message: memoryview, at: int) -> tuple[bytes | None, int]:
    (size,) = _SIZE.unpack_from(message, at)
    at += _SIZE.size
    if size < 0:
        return None, at
    if size > len(message) - at:
        raise MalformedError("a key or a value is longer than its message")
    return bytes(message[at : at + size]), at + size


def _varint(number: int) -> bytearray:
    encoded = number << 1 if number >= 0 else ~(number << 1)
    out = bytearray()
    while encoded > 0x7F:
        out.append(encoded & 0x7F | 0x80)
        encoded >>= 7
    out.append(encoded)
    return out
