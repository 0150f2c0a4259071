# SPDX-License-Identifier: Apache-2.0
"""Finds NaN and infinities, which JSON cannot represent, at any nesting depth."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from connectors_core.schema import rows_with

__all__ = ["not_finite"]


def not_finite(column: pa.Array) -> npt.NDArray[np.bool_] | None:
    """Return which rows of a column contain one, or None if its type has no floats."""
    return rows_with(column, _not_finite)


def _not_finite(column: pa.Array) -> npt.NDArray[np.bool_] | None:
    if not pa.types.is_floating(column.type):
        return None
    finite = pc.fill_null(pc.is_finite(column), True)
    return ~np.asarray(finite.to_numpy(zero_copy_only=False), np.bool_)
