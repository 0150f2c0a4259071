# SPDX-License-Identifier: Apache-2.0
"""Variable-length integers of the record format (zig-zag, base 128), for whole columns at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from connector_kafka.records.errors import MalformedError

__all__ = [
    "INT",
    "LONG",
    "Bytes",
    "Ints",
    "Pieces",
    "chain",
    "join",
    "read",
    "size_of",
    "write",
    "zigzag",
]

Bytes = npt.NDArray[np.uint8]
Ints = npt.NDArray[np.int64]

# The longest encodings of 32 and 64 bits, in bytes.
INT = 5
LONG = 10

# With fewer lanes than this, a plain loop is faster than array operations.
_NARROW = 48


@dataclass(frozen=True, slots=True)
class Pieces:
    """Short byte strings, one per row.

    Attributes:
        bytes: One row per string. Its first `sizes` bytes are the string.
        sizes: The number of bytes in each string.
    """

    bytes: npt.NDArray[np.uint8]
    sizes: Ints


def read(data: Bytes, at: Ints, longest: int = INT) -> tuple[Ints, Ints]:
    """Read one number at every position.

    A position after the end reads the last byte. Callers check the final positions, so checks
    before each read are unnecessary.

    Args:
        data: The bytes, at least one.
        at: The positions of the numbers, none of them negative.
        longest: The maximum number of bytes per number.

    Returns:
        The encoded numbers, before `zigzag`, and the positions after them.

    Raises:
        MalformedError: A number is longer.
    """
    byte = data.take(at, mode="clip")
    value = (byte & 0x7F).astype(np.int64)
    at = at + 1
    more = byte > 0x7F
    shift = 7
    while more.any():
        if shift == 7 * longest:
            raise MalformedError(f"a number is longer than {longest} bytes")
        byte = data.take(at, mode="clip")
        byte *= more
        value |= (byte & 0x7F).astype(np.int64) << shift
        at += more
        more = byte > 0x7F
        shift += 7
    return value, at


def zigzag(value: Ints) -> Ints:
    """Return the signed numbers of zig-zag encodings."""
    half = (value.view(np.uint64) >> np.uint64(1)).view(np.int64)
    return half ^ -(value & 1)


def chain(data: Bytes, starts: Ints, ends: Ints, counts: Ints) -> Ints:
    """Locate the items of lanes. In each lane, items follow one another, each after its length.

    The start of an item is known only from the one before it, but lanes are independent: all lanes
    advance together, one item per step.

    Args:
        data: The bytes.
        starts: The start of each lane.
        ends: The required end of each lane.
        counts: The number of items in each lane. The caller limits the memory for them.

    Returns:
        The positions of the lengths of all items, lane by lane. Every item whose length is at least
        -1 lies within its lane.

    Raises:
        MalformedError: A lane does not end at its required end.
    """
    items = np.empty(int(counts.sum()), np.int64)
    order = np.argsort(-counts, kind="stable")
    at = starts[order]
    slots = (np.cumsum(counts) - counts)[order]
    counts = counts[order]
    ends = ends[order]
    fewer = -counts
    step = 0
    while True:
        lanes = int(np.searchsorted(fewer, -step))
        if lanes < _NARROW:
            break
        here = at[:lanes]
        items[slots[:lanes] + step] = here
        length, behind = read(data, here)
        at[:lanes] = behind + (length >> 1)
        step += 1
    for lane in range(lanes):
        at[lane] = _walk(
            data, int(at[lane]), int(ends[lane]), items[slots[lane] + step :][: counts[lane] - step]
        )
    if (at != ends).any():
        raise MalformedError("its records do not fill their claimed length")
    return items


def _walk(data: Bytes, start: int, end: int, items: Ints) -> int:
    """Locate the items of one lane from `start` on, and return the end of the last one."""
    if start > end:
        raise MalformedError("a record is longer than its batch")
    lane = data[start:end].tobytes()
    found = []
    at = 0
    try:
        for _ in range(len(items)):
            found.append(at)
            byte = lane[at]
            at += 1
            if byte < 0x80:
                at += byte >> 1
                continue
            length = byte & 0x7F
            shift = 7
            while byte > 0x7F:
                if shift == 7 * INT:
                    raise MalformedError(f"a number is longer than {INT} bytes")
                byte = lane[at]
                at += 1
                length |= (byte & 0x7F) << shift
                shift += 7
            at += length >> 1
    except IndexError:
        raise MalformedError("a record is longer than its batch") from None
    items[:] = found
    items += start
    return start + at


def write(values: Ints) -> Pieces:
    """Encode numbers as zig-zag, each in as few bytes as possible."""
    left = ((values << 1) ^ (values >> 63)).view(np.uint64)
    sizes = np.ones(len(left), np.int64)
    columns = []
    while True:
        more = left > 0x7F
        columns.append((left & np.uint64(0x7F)).astype(np.uint8) | (more.view(np.uint8) << 7))
        if not more.any():
            return Pieces(np.stack(columns, axis=1), sizes)
        sizes += more
        left >>= np.uint64(7)


def size_of(values: Ints) -> Ints:
    """Return the number of bytes that `write` needs for each number."""
    left = ((values << 1) ^ (values >> 63)).view(np.uint64)
    sizes = np.ones(len(left), np.int64)
    while (more := (left := left >> np.uint64(7)) > 0).any():
        sizes += more
    return sizes


def join(pieces: Sequence[Pieces]) -> pa.Array:
    """Concatenate the pieces of each row, as an Arrow array of bytes."""
    table = np.concatenate([each.bytes for each in pieces], axis=1)
    counts = np.concatenate(
        [np.arange(each.bytes.shape[1]) < each.sizes[:, None] for each in pieces], axis=1
    )
    sizes = np.sum([each.sizes for each in pieces], axis=0)
    bounds = np.zeros(len(sizes) + 1, np.int32)
    np.cumsum(sizes, out=bounds[1:])
    return pa.Array.from_buffers(
        pa.binary(), len(sizes), [None, pa.py_buffer(bounds), pa.py_buffer(table[counts])]
    )
