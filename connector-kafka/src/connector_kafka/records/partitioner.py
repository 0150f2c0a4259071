# SPDX-License-Identifier: Apache-2.0
"""Assigns a record to the partition in its column, that of its key as in Java, or the next one."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from connector_kafka.records.varints import Bytes, Ints

__all__ = ["Partitioner", "murmur2", "wrong_partitions"]

_SEED = 0x9747B28C
_M = 0x5BD1E995

# The approximate size of a record in addition to its value.
_OVERHEAD = 16

# With fewer remaining keys than this, a plain loop is faster.
_NARROW = 16


class Partitioner:
    """Assigns partitions as Java's producer does. Executor, one thread.

    A record with a key goes to partition `murmur2(key)`. Records without a key fill one partition
    up to `sticky_bytes`, and then the next one (Kafka's KIP-480 and KIP-794), so that batches are
    large. The same rows in the same calls get the same partitions.

    Args:
        sticky_bytes: The number of bytes without a key per partition, about Kafka's `batch.size`.
        first: The first partition, which should differ between subtasks.
    """

    def __init__(self, *, sticky_bytes: int = 128 * 1024, first: int = 0) -> None:
        self._sticky_bytes = sticky_bytes
        self._bytes = first * sticky_bytes

    def assign(self, records: pa.RecordBatch, partition_count: int) -> npt.NDArray[np.int32]:
        """Return the partition of each row.

        Args:
            records: Rows with a column `value` and optionally `key` (both bytes or text) and
                `partition` (whole numbers, where null leaves the choice to the key).
            partition_count: The number of partitions of the topic.

        Returns:
            Numbers from 0 up to, but not including, `partition_count`. Those of the column
            `partition` are unchanged; see `wrong_partitions`.
        """
        assigned = np.zeros(records.num_rows, np.int32)
        rest = np.ones(records.num_rows, np.bool_)
        names = records.schema.names
        if "partition" in names:
            chosen = records.column("partition")
            rest = chosen.is_null().to_numpy(zero_copy_only=False)
            assigned[:] = chosen.fill_null(0).to_numpy(zero_copy_only=False)
        if "key" in names:
            key = records.column("key")
            with_key = rest & key.is_valid().to_numpy(zero_copy_only=False)
            if with_key.any():
                hashes = murmur2(key.filter(pa.array(with_key))) & 0x7FFFFFFF
                assigned[with_key] = hashes % partition_count
            rest &= ~with_key
        if rest.any():
            sizes = pc.binary_length(records.column("value").filter(pa.array(rest)))
            sizes = sizes.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
            behind = self._bytes + np.cumsum(sizes + _OVERHEAD)
            assigned[rest] = (behind // self._sticky_bytes) % partition_count
            self._bytes = int(behind[-1])
        return assigned


def wrong_partitions(column: pa.Array, partition_count: int) -> Ints:
    """Return the rows whose explicit partition does not exist in the topic."""
    wrong = pc.or_(pc.less(column, 0), pc.greater_equal(column, partition_count)).fill_null(False)
    return np.flatnonzero(wrong.to_numpy(zero_copy_only=False))


def murmur2(keys: pa.Array) -> npt.NDArray[np.uint32]:
    """Return the hash of each key as Kafka's Java client computes it (murmur2, its seed).

    Args:
        keys: Bytes or text, without nulls.
    """
    keys = keys.cast(pa.large_binary())
    _, bounds, data = keys.buffers()
    offsets = np.frombuffer(bounds, np.int64)[keys.offset : keys.offset + len(keys) + 1]
    sizes = np.diff(offsets)
    # Longest first, so that the keys with remaining bytes are always at the front.
    order = np.argsort(-sizes, kind="stable")
    start, size = offsets[:-1][order], sizes[order]
    words = size >> 2
    hashes = size.astype(np.uint32) ^ np.uint32(_SEED)
    contents = np.frombuffer(data or b"", np.uint8)
    every_word = np.ndarray(max(len(contents) - 3, 0), "<u4", contents, strides=(1,))
    step = 0
    while (lanes := int(np.searchsorted(-words, -step))) >= _NARROW:
        hashes[:lanes] *= np.uint32(_M)
        hashes[:lanes] ^= _mixed(every_word[start[:lanes] + 4 * step])
        step += 1
    for lane in range(lanes):
        first = int(start[lane]) + 4 * step
        rest = contents[first : int(start[lane]) + 4 * int(words[lane])].copy().view("<u4")
        value = int(hashes[lane])
        for word in _mixed(rest).tolist():
            value = (value * _M & 0xFFFFFFFF) ^ word
        hashes[lane] = value
    _finish(hashes, contents, start + 4 * words, size & 3)
    unsorted = np.empty_like(hashes)
    unsorted[order] = hashes
    return unsorted


def _mixed(words: npt.NDArray[np.uint32]) -> npt.NDArray[np.uint32]:
    words = words * np.uint32(_M)
    words ^= words >> np.uint32(24)
    words *= np.uint32(_M)
    return words


def _finish(hashes: npt.NDArray[np.uint32], contents: Bytes, at: Ints, left: Ints) -> None:
    """Hash the last `left` bytes, which are fewer than a word."""
    for number in (2, 1, 0):
        more = left > number
        if more.any():
            byte = contents.take(at[more] + number).astype(np.uint32)
            hashes[more] ^= byte << np.uint32(8 * number)
    hashes[left > 0] *= np.uint32(_M)
    hashes ^= hashes >> np.uint32(13)
    hashes *= np.uint32(_M)
    hashes ^= hashes >> np.uint32(15)
