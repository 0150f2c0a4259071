# SPDX-License-Identifier: Apache-2.0
"""A table sorted by the hashes of its keys, which can be searched on disk.

Rows and hashes are two files. All searching processes map them into memory and need no index of
their own.
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

__all__ = ["HashIndex"]

Hashes = npt.NDArray[np.uint64]
Positions = npt.NDArray[np.int64]

_ROWS: Final = "rows.arrow"
_HASHES: Final = "hashes.npy"
_SPREAD: Final = np.uint64(0x9E3779B97F4A7C15)


class HashIndex:
    """Finds rows by key. Immutable; any thread.

    Args:
        rows: The table, sorted by the hashes of its keys.
        hashes: The hashes, one for each row.
        keys: The key columns.
    """

    def __init__(self, rows: pa.Table, hashes: Hashes, keys: Sequence[str]) -> None:
        self._rows = rows
        self._hashes = hashes
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
        return cls(rows, np.load(folder / _HASHES, mmap_mode="r"), keys)

    @staticmethod
    def write(rows: pa.Table, keys: Sequence[str], folder: Path) -> None:
        """Sort a table and write it. This holds the table in memory twice.

        Args:
            rows: The table, without nulls in the keys.
            keys: The key columns.
            folder: The target folder of the files.
        """
        hashes = _hashes_of([rows.column(name) for name in keys])
        order = np.argsort(hashes, kind="stable")
        np.save(folder / _HASHES, hashes[order])
        rows = rows.take(pa.array(order)).combine_chunks()
        with pa.ipc.new_file(str(folder / _ROWS), rows.schema) as writer:
            writer.write_table(rows)

    @property
    def nbytes(self) -> int:
        """Number of mapped bytes."""
        return int(self._rows.nbytes + self._hashes.nbytes)

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
        rows = self._rows.take(pa.array(np.repeat(first, count) + nth))
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


def _hashes_of(columns: Sequence[pa.Array]) -> Hashes:
    """Return one hash for each row, the same in every process with the same pandas."""
    hashes: Hashes | None = None
    for column in columns:
        values = column.to_numpy() if isinstance(column, pa.ChunkedArray) else _numpy(column)
        own: Hashes = pd.util.hash_array(values, categorize=False)
        hashes = own if hashes is None else hashes * _SPREAD + own
    assert hashes is not None
    return hashes


def _numpy(column: pa.Array) -> npt.NDArray[np.generic]:
    values: npt.NDArray[np.generic] = column.to_numpy(zero_copy_only=False)
    return values
