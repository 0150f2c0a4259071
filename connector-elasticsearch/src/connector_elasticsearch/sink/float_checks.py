# SPDX-License-Identifier: Apache-2.0
"""Finds NaN and infinities, which JSON cannot represent, at any nesting depth."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from connectors_core.schema import map_entries

__all__ = ["not_finite"]

_Mask = npt.NDArray[np.bool_]


def not_finite(column: pa.Array) -> _Mask | None:
    """Return which rows of a column contain one, or None if its type has no floats."""
    kind = column.type
    types = pa.types
    if types.is_floating(kind):
        finite = pc.fill_null(pc.is_finite(column), True)
        return ~np.asarray(finite.to_numpy(zero_copy_only=False), np.bool_)
    if types.is_struct(kind):
        return _any([not_finite(each) for each in column.flatten()])
    if types.is_map(kind):
        return not_finite(map_entries(column))
    if types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        bad = not_finite(pc.list_flatten(column))
        if bad is None:
            return None
        rows = np.zeros(len(column), np.bool_)
        rows[pc.list_parent_indices(column).to_numpy()[bad]] = True
        return rows
    return None


def _any(masks: list[_Mask | None]) -> _Mask | None:
    found = [mask for mask in masks if mask is not None]
    return np.logical_or.reduce(found) if found else None
