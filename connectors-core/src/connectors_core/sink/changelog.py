# SPDX-License-Identifier: Apache-2.0
"""Tells the rows of a changelog apart by their kind of change."""

from __future__ import annotations

import functools
import itertools

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from connectors_core.schema import RowKind

__all__ = ["is_replaced", "is_update_before"]


def is_update_before(kinds: pa.Array) -> pa.Array:
    """Return which rows are the previous version of an update; the next row has the same key."""
    return pc.fill_null(pc.equal(kinds, RowKind.UPDATE_BEFORE.value), False)


def is_replaced(kinds: pa.Array, keys: pa.Array | pa.RecordBatch) -> pa.Array:
    """Return which rows are the previous version of an update that the next row replaces.

    A sink that writes by key can leave out these rows. Any other previous version has no successor
    with its key, for example because a condition excludes it: the row is gone.

    Args:
        kinds: The kinds of the rows of a batch.
        keys: Their keys. A key of several columns is a struct, or a batch with these columns.
    """
    if isinstance(keys, pa.RecordBatch):
        keys = keys.to_struct_array()
    replaced = np.zeros(len(kinds), np.bool_)
    if len(kinds) > 1:
        before = is_update_before(kinds[:-1])
        after = pc.fill_null(pc.equal(kinds[1:], RowKind.UPDATE_AFTER.value), False)
        same = pc.fill_null(_equal(keys[:-1], keys[1:]), False)
        replaced[:-1] = pc.and_(pc.and_(before, after), same).to_numpy(zero_copy_only=False)
    return pa.array(replaced)


def _equal(some: pa.Array, others: pa.Array) -> pa.Array:
    """Compare values, also structs, whose fields must all be equal."""
    if not pa.types.is_struct(some.type):
        return pc.equal(some, others)
    fields = zip(some.flatten(), others.flatten(), strict=True)
    return functools.reduce(pc.and_, itertools.starmap(_equal, fields))
