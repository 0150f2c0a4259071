# SPDX-License-Identifier: Apache-2.0
"""Locates the starts and ends of the records of batches.

A record starts at the end of the one before, so a plain search is sequential. But the attributes of
a record are always 0 and follow its length. So the search treats every zero byte as attributes and
the bytes before it as a length. It drops each candidate whose start is not the end of another one,
until only as many as there are records remain. These must form the chain from the start to the end
of each batch. If they do not (a record ends with a byte that looks like the start of a length), or
if zeros are too frequent or too rare, the search follows the chain.
"""

from __future__ import annotations

import numpy as np

from connector_kafka.records import varints
from connector_kafka.records.errors import MalformedError
from connector_kafka.records.varints import Bytes, Ints

__all__ = ["find_records"]

# With this many batches or more, following all their chains at once is faster.
_MANY = 128

# With larger records, following the chain is faster than checking all bytes.
_MAX_MEAN_SIZE = 512

# With more zeros per record than this, most are data.
_MAX_ZEROS = 16

# The encoded length of a record without key, value, and headers.
_SHORTEST = 2 * 6

# Data that looks like attributes seldom leads to another such byte.
_MAX_ROUNDS = 12


def find_records(data: Bytes, starts: Ints, ends: Ints, counts: Ints) -> tuple[Ints, Ints]:
    """Locate the records of batches.

    Args:
        data: Decompressed records.
        starts: The start of each batch's records.
        ends: The end of each batch's records.
        counts: The number of records in each batch, at least one.

    Returns:
        The position of each record's attributes, which follow its length, and the end of the
        record. Records follow one another from the start of their batch to its end.

    Raises:
        MalformedError: The bytes do not contain that many records.
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
    # The bytes before the first record of a batch are not part of a length.
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
    # Check for a chain from the start to the end of each batch.
    behind = np.cumsum(counts)
    follows = np.empty(total, np.int64)
    follows[:-1] = start[1:]
    follows[behind - 1] = ends
    if (start[behind - counts] != starts).any() or (end != follows).any():
        return None
    return at, end


def _read_back(data: Bytes, behind: Ints) -> tuple[Ints, Ints]:
    """Read the numbers that end at some positions, and return their start positions too."""
    at = behind - 1
    byte = data.take(at)
    value = byte.astype(np.int64)
    more = byte < 0x80  # otherwise it is not a last byte; a length of 128 or more leads nowhere
    for _ in range(varints.INT - 1):
        byte = data.take(at - 1, mode="clip")
        more &= byte > 0x7F
        if not more.any():
            break
        value = np.where(more, value << 7 | byte & 0x7F, value)
        at -= more
    return value, at
