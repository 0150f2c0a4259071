# SPDX-License-Identifier: Apache-2.0
"""Divides a batch that a broker refused because of its size, as Java's producer does (KIP-126).

It runs only after a refusal, so it may handle single records.
"""

from __future__ import annotations

import numpy as np

from connector_kafka.records.batches import COMPRESSION, HEADER, TRANSACTIONAL
from connector_kafka.records.compression import Compression, decompress
from connector_kafka.records.encoder import SEQUENCES, BatchHead, EncodedBatch, seal

__all__ = ["halves"]

_LIMIT = 2**31 - 1


def halves(batch: EncodedBatch) -> tuple[EncodedBatch, EncodedBatch]:
    """Divide a batch of several records into two. Executor.

    Args:
        batch: The batch. Its sequence number was not used.

    Returns:
        The batches, whose sequence numbers follow one another.
    """
    fields = HEADER.unpack_from(batch.data)
    attributes, _, base_time, _, producer_id, epoch, sequence, count = fields[5:]
    content = memoryview(batch.data)[HEADER.size :]
    compression = Compression(attributes & COMPRESSION)
    if compression:
        content = decompress(content, compression, limit=_LIMIT).data
    middle = count // 2
    made = []
    at = 0
    for first, stop in ((0, middle), (middle, count)):
        records = bytearray()
        newest = base_time
        for number in range(stop - first):
            size, start = _read(content, at)
            at = start + size
            delta, after_time = _read(content, start + 1)  # after the attributes
            _, rest = _read(content, after_time)  # the former offset delta
            body = bytes(content[start:after_time]) + _written(number) + content[rest:at]
            records += _written(len(body)) + body
            newest = max(newest, base_time + delta)
        head = BatchHead(
            base_timestamp=base_time,
            max_timestamp=newest,
            producer_id=producer_id,
            producer_epoch=epoch,
            sequence=sequence if sequence < 0 else (sequence + first) % SEQUENCES,
            records=stop - first,
            attributes=attributes & TRANSACTIONAL,
        )
        made.append(seal(np.frombuffer(records, np.uint8), head, compression))
    return made[0], made[1]


def _read(data: memoryview, at: int) -> tuple[int, int]:
    """Return a zigzag varint and the position after it."""
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), at


def _written(value: int) -> bytes:
    """Return a number that is not negative as a zigzag varint."""
    value <<= 1
    written = bytearray()
    while value > 0x7F:
        written.append(value & 0x7F | 0x80)
        value >>= 7
    written.append(value)
    return bytes(written)
