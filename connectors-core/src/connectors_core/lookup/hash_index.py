# SPDX-License-Identifier: Apache-2.0
"""A table with the sorted hashes of its keys, which can be searched on disk.

Rows, hashes, and the row of each hash are three files. All searching processes map them into memory
and need no index of their own.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

__all__ = ["LAYOUT", "HashIndex"]

Hashes = npt.NDArray[np.uint64]
Positions = npt.NDArray[np.int64]

_ROWS: Final = "rows.arrow"
_HASHES: Final = "hashes.npy"
_PLACES: Final = "places.npy"
LAYOUT: Final = 2
"""The number of the current layout of these files."""

_SPREAD: Final = np.uint64(0x9E3779B97F4A7C15)
_HASHED_BYTES: Final = 256
_FIRST_BYTES: Final = np.array([(1 << 8 * count) - 1 for count in range(9)], np.uint64)
_OFFSETS: Final = {
    pa.string(): np.int32,
    pa.binary(): np.int32,
    pa.large_string(): np.int64,
    pa.large_binary(): np.int64,
}


class HashIndex:
    """Finds rows by key. Immutable; any thread.

    Args:
        rows: The table.
        hashes: The hashes of its keys, one for each row, in ascending order.
        places: The row of each hash. The rows of equal hashes are in the order of the table.
        keys: The key columns.
    """

    def __init__(
        self, rows: pa.Table, hashes: Hashes, places: Positions, keys: Sequence[str]
    ) -> None:
        self._rows = rows
        self._hashes = hashes
        self._places = places
        self._keys = tuple(keys)

    @classmethod
    def open(cls, folder: Path, keys: Sequence[str]) -> HashIndex:
        """Map the files of :meth:`write`.

        Args:
            folder: The folder of the files.
            keys: The same key columns as in :meth:`write`.
        """
        with pa.memory_map(str(folder / _ROWS)) as file, pa.ipc.open_file(file) as reader:
            rows = reader.read_all()
        hashes, places = (np.load(folder / name, mmap_mode="r") for name in (_HASHES, _PLACES))
        return cls(rows, hashes, places, keys)

    @staticmethod
    def write(rows: pa.Table, keys: Sequence[str], folder: Path) -> None:
        """Write a table and the sorted hashes of its keys. This may hold the table twice in memory.

        Args:
            rows: The table, without nulls in the keys.
            keys: The key columns.
            folder: The target folder of the files.
        """
        hashes = _hashes_of([rows.column(name) for name in keys])
        order = np.argsort(hashes, kind="stable")
        np.save(folder / _HASHES, hashes[order])
        np.save(folder / _PLACES, order)
        rows = rows.combine_chunks()
        with pa.ipc.new_file(str(folder / _ROWS), rows.schema) as writer:
            writer.write_table(rows)

    @property
    def nbytes(self) -> int:
        """Number of mapped bytes."""
        return int(self._rows.nbytes + self._hashes.nbytes + self._places.nbytes)

    @property
    def num_rows(self) -> int:
        """Number of rows."""
        return int(self._rows.num_rows)

    def find(self, keys: pa.RecordBatch) -> pa.Table:
        """Return the rows of some keys, by key and then in the order of the table.

        Args:
            keys: Keys without nulls.
        """
        hashes = _hashes_of(keys.columns)
        # Sorted, so that each search reuses the processor's cache of the previous one.
        order = np.argsort(hashes)
        first, count = np.empty((2, len(hashes)), np.int64)
        first[order] = np.searchsorted(self._hashes, hashes[order], side="left")
        count[order] = self._equal(first[order], hashes[order])
        asked = np.repeat(np.arange(keys.num_rows), count)
        nth = np.arange(len(asked)) - np.repeat(np.cumsum(count) - count, count)
        rows = self._rows.take(pa.array(self._places[np.repeat(first, count) + nth]))
        # Keep the equal keys among those with the same hash.
        for name, column in zip(self._keys, keys.columns, strict=True):
            equal = pc.equal(rows.column(name), column.take(pa.array(asked)))
            rows, asked = rows.filter(equal), asked[equal.to_numpy(zero_copy_only=False)]
        return rows

    def _equal(self, first: Positions, hashes: Hashes) -> Positions:
        """Count the equal hashes in the table from given positions; nearly always one."""
        count = self._is_at(first, hashes).astype(np.int64)
        more = np.flatnonzero(self._is_at(first + 1, hashes) & (count > 0))
        ends = np.searchsorted(self._hashes, hashes[more], side="right")
        count[more] = ends - first[more]
        return count

    def _is_at(self, places: Positions, hashes: Hashes) -> npt.NDArray[np.bool_]:
        inside = places < len(self._hashes)
        found: npt.NDArray[np.bool_] = np.zeros(len(places), np.bool_)
        found[inside] = self._hashes[places[inside]] == hashes[inside]
        return found


def _hashes_of(columns: Sequence[pa.Array | pa.ChunkedArray]) -> Hashes:
    """Return one hash for each row, the same in every process with the same pandas."""
    hashes: Hashes | None = None
    for column in columns:
        chunks = column.chunks if isinstance(column, pa.ChunkedArray) else [column]
        own = np.concatenate([np.empty(0, np.uint64), *map(_hashes, chunks)])
        hashes = own if hashes is None else hashes * _SPREAD + own
    assert hashes is not None
    return hashes


def _hashes(column: pa.Array) -> Hashes:
    if len(column) and column.type in _OFFSETS:
        return _hashes_of_texts(column)
    if pa.types.is_integer(column.type):
        return _mixed(column.to_numpy(zero_copy_only=False).astype(np.uint64))
    values = column.to_numpy(zero_copy_only=False)
    if pa.types.is_floating(column.type):
        values = values + 0.0  # -0.0 is equal to 0.0
    hashes: Hashes = pd.util.hash_array(values, categorize=False)
    return hashes


def _hashes_of_texts(column: pa.Array) -> Hashes:
    """Hash the bytes of texts in words of 8, without a Python object for each text.

    A hash covers the length and at most the first 256 bytes, since equal hashes are only a hint.
    """
    _, offsets, data = column.buffers()
    width = _OFFSETS[column.type]
    ends = np.frombuffer(offsets, width)[column.offset : column.offset + len(column) + 1]
    starts, lengths = ends[:-1].astype(np.int64), np.diff(ends).astype(np.int64)
    hashes = _mixed(lengths.astype(np.uint64))
    most = int(lengths.max(initial=0))
    if most == 0:
        return hashes
    text = np.frombuffer(data, np.uint8)[starts[0] : ends[-1]]
    padded = np.concatenate([text, np.zeros(8, np.uint8)])
    words = np.ndarray((len(text) + 1,), np.uint64, buffer=padded, strides=(1,))
    starts = starts - starts[0]
    for done in range(0, min(most, _HASHED_BYTES), 8):
        rows = np.flatnonzero(lengths > done)
        left = np.minimum(lengths[rows] - done, 8)
        hashes[rows] = _mixed(hashes[rows] ^ (words[starts[rows] + done] & _FIRST_BYTES[left]))
    return hashes


def _mixed(values: Hashes) -> Hashes:
    """Spread all bits of each value over all bits (the finalizer of MurmurHash3)."""
    values = (values ^ (values >> np.uint64(33))) * np.uint64(0xFF51AFD7ED558CCD)
    values = (values ^ (values >> np.uint64(33))) * np.uint64(0xC4CEB9FE1A85EC53)
    return values ^ (values >> np.uint64(33))
