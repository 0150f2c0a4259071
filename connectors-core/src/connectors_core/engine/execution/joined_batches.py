# SPDX-License-Identifier: Apache-2.0
"""Joins small batches, because each batch costs the JVM as much as thousands of rows. Executor."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

import pyarrow as pa

_ENOUGH_ROWS: Final = 8192
_ENOUGH_BYTES: Final = 1 << 20


def joined(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the same rows in the same order, in fewer batches.

    Positions do not depend on it: they count the rows that a reader emitted.

    Args:
        batches: Batches of one schema, such as one for each of many small files.

    Yields:
        Large batches as they are, and consecutive small ones together; none without rows.
    """
    small: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        if not batch.num_rows:
            continue
        if small and rows + batch.num_rows > _ENOUGH_ROWS:
            yield _one_of(small)
            small, rows, size = [], 0, 0
        small.append(batch)
        rows += batch.num_rows
        size += batch.nbytes
        if rows >= _ENOUGH_ROWS or size >= _ENOUGH_BYTES:
            yield _one_of(small)
            small, rows, size = [], 0, 0
    if small:
        yield _one_of(small)


def _one_of(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    if len(batches) == 1:
        return batches[0]
    return pa.Table.from_batches(batches).combine_chunks().to_batches()[0]
