# SPDX-License-Identifier: Apache-2.0
"""A table in the order of the hashes of its keys, so that it can be searched where it lies.

Nothing of it is built in memory by those that search: the rows and the hashes are two files, which
all processes that search it map.
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
        rows: The table, ordered by the hashes of its keys.
        hashes: These, one for each row.
        keys: The columns that rows are found by.
    """

    def __init__(self, rows: pa.Table, hashes: Hashes, keys: Sequence[str]) -> None:
        self._rows = rows
        self._hashes = hashes
        self._keys = tuple(keys)

    @classmethod
    def open(cls, folder: Path, keys: Sequence[str]) -> HashIndex:
        """Map the files that :meth:`write` made.

        Args:
            folder: Where they are.
            keys: The same columns as then.
        """
        with pa.memory_map(str(folder / _ROWS)) as file, pa.ipc.open_file(file) as reader:
            rows = reader.read_all()
        return cls(rows, np.load(folder / _HASHES, mmap_mode="r"), keys)

    @staticmethod
    def write(rows: pa.Table, keys: Sequence[str], folder: Path) -> None:
        """Order a table and write it. It is held twice in memory meanwhile.

        Args:
            rows: The table, without nulls in the keys.
            keys: The columns that rows are found by.
            folder: Takes the files.
        """
        hashes = _hashes_of([rows.column(name) for name in keys])
        order = np.argsort(hashes, kind="stable")
        np.save(folder / _HASHES, hashes[order])
        rows = rows.take(pa.array(order)).combine_chunks()
        with pa.ipc.new_file(str(folder / _ROWS), rows.schema) as writer:
            writer.write_table(rows)

    @property
    def nbytes(self) -> int:
        """Bytes that are mapped."""
        return int(self._rows.nbytes + self._hashes.nbytes)

    @property
    def num_rows(self) -> int:
        """Rows that can be found."""
        return int(self._rows.num_rows)

    def find(self, keys: pa.RecordBatch) -> pa.Table:
        """The rows of some keys, by key and then as they were in the table.

        Args:
            keys: Without nulls.
        """
        hashes = _hashes_of(keys.columns)
        # In order, so that one search finds in the processor's cache what the one before read.
        order = np.argsort(hashes)
        first, count = np.empty((2, len(hashes)), np.int64)
        first[order] = np.searchsorted(self._hashes, hashes[order], side="left")
        count[order] = self._equal(first[order], hashes[order])
        asked = np.repeat(np.arange(keys.num_rows), count)
        nth = np.arange(len(asked)) - np.repeat(np.cumsum(count) - count, count)
        rows = self._rows.take(pa.array(np.repeat(first, count) + nth))
        # Of keys with one hash, those that are equal.
        for name, column in zip(self._keys, keys.columns, strict=True):
            equal = pc.equal(rows.column(name), column.take(pa.array(asked)))
            rows, asked = rows.filter(equal), asked[equal.to_numpy(zero_copy_only=False)]
        return rows

    def _equal(self, first: Positions, hashes: Hashes) -> Positions:
        """How many hashes of the table, from some places on, are these; nearly always one."""
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
    """One hash for each row, the same in every process with the same pandas."""
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
