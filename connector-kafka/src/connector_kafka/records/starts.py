# SPDX-License-Identifier: Apache-2.0
"""Where the records of batches begin and end.

A record begins where the one before it ends, so they would have to be looked for one after the
other. But the attributes of a record are always 0 and stand behind its length. So every zero byte
is taken for attributes, what stands before it for a length, and whoever is not where another one
ends is dropped, until as many are left as there are records. Then they must be the chain from the
start to the end of each batch. Where they are not (a record ends with a byte like the first one of
a length), or where zeros are too many or too far between, the chain is followed after all.
"""

from __future__ import annotations

import numpy as np

from connector_kafka.records import varints
from connector_kafka.records.errors import MalformedError
from connector_kafka.records.varints import Bytes, Ints

__all__ = ["find_records"]

# From so many batches on, it costs less to follow all their chains at once.
_MANY = 128

# With larger records it costs less to follow the chain than to look at all bytes.
_MAX_MEAN_SIZE = 512

# With more zeros for each record than this, most are data.
_MAX_ZEROS = 16

# The length of a record without key, value and headers, as it is encoded.
_SHORTEST = 2 * 6

# What is taken for attributes but is data seldom leads to another such byte.
_MAX_ROUNDS = 12


def find_records(data: Bytes, starts: Ints, ends: Ints, counts: Ints) -> tuple[Ints, Ints]:
    """Find the records of batches.

    Args:
        data: Decompressed records.
        starts: Where those of each batch begin.
        ends: Where those of each batch end.
        counts: How many records each batch has; at least one.

    Returns:
        Where the attributes of each record are, which stand behind its length, and where it ends.
        Records follow one another from the start of their batch to its end.

    Raises:
        MalformedError: The bytes are not so many records.
    """
    if len(starts) < _MANY:
        found = _guess(data[: int(ends[-1])], starts, ends, counts)
        if found is not None:
            return found
    start = varints.chain(data, starts, ends, counts)
    length, at = varints.read(data, start)
    if ((length & 1) | (length >> 32)).any():
        raise MalformedError("a record has a length below 0 or above 2 GiB")
    return at, at + (length >> 1)


def _guess(data: Bytes, starts: Ints, ends: Ints, counts: Ints) -> tuple[Ints, Ints] | None:
    first, total = int(starts[0]), int(counts.sum())
    if len(data) - first > _MAX_MEAN_SIZE * total:
        return None
    zeros = data[first + 1 :] == 0
    if not total <= np.count_nonzero(zeros) <= _MAX_ZEROS * total:
        return None
    at = np.flatnonzero(zeros) + first + 1
    length, start = _read_back(data, at)
    # What stands before the first record of a batch is no part of a length.
    of_batch = np.minimum(np.searchsorted(at, starts, "right"), len(at) - 1)
    over = np.maximum(starts - start[of_batch], 0)
    length[of_batch] >>= 7 * over
    start[of_batch] += over
    end = at + (length >> 1)
    likely = (length >= _SHORTEST) & (length & 1 == 0) & (end <= len(data))
    at, start, end = at[likely], start[likely], end[likely]
    begun = np.zeros(len(data) + 1, np.bool_)
    for _ in range(_MAX_ROUNDS):
        if len(at) <= total:
            break
        begun[end] = True
        begun[starts] = True
        likely = begun[start]
        begun[end] = False
        at, start, end = at[likely], start[likely], end[likely]
    if len(at) != total:
        return None
    # A chain from the start to the end of each batch?
    behind = np.cumsum(counts)
    follows = np.empty(total, np.int64)
    follows[:-1] = start[1:]
    follows[behind - 1] = ends
    if (start[behind - counts] != starts).any() or (end != follows).any():
        return None
    return at, end


def _read_back(data: Bytes, behind: Ints) -> tuple[Ints, Ints]:
    """Read the numbers that end before some positions; return also where they begin."""
    at = behind - 1
    byte = data.take(at)
    value = byte.astype(np.int64)
    more = byte < 0x80  # else it is no last byte; the length, from 128 on, leads nowhere
    for _ in range(varints.INT - 1):
        byte = data.take(at - 1, mode="clip")
        more &= byte > 0x7F
        if not more.any():
            break
        value = np.where(more, value << 7 | byte & 0x7F, value)
        at -= more
    return value, at
