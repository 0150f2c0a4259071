# SPDX-License-Identifier: Apache-2.0
"""Converts rows of Python values to columns without changing a value.

Arrow alone cuts a fraction in an integer, reads a text as a list of its characters and a number as
a date or a time, and turns a number that is too large for a float into infinity.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa

from connectors_core.schema.misfits import MisfitError

__all__ = ["columns_of"]

_Check: TypeAlias = Callable[[Any], bool]
_LARGEST_FLOAT: Final = float(np.finfo(np.float32).max)


def columns_of(rows: Sequence[Mapping[str, Any]], schema: pa.Schema) -> pa.RecordBatch:
    """Convert rows to columns. A missing value is null.

    Raises:
        pa.ArrowInvalid: A value does not fit its column, or is null in a non-nullable column. The
            message names the column, and no value.
    """
    arrays = []
    for field in schema:
        values = [row.get(field.name) for row in rows]
        try:
            array = pa.array(values, field.type)
            fits = all(map(_check_of(field.type), values))
        except (pa.ArrowException, ValueError, TypeError, OverflowError) as exc:
            # The text of the cause holds the value.
            raise _misfit(field) from exc
        if not fits:
            raise _misfit(field)
        if not field.nullable and array.null_count:
            raise MisfitError(f"column {field.name} is null but not nullable")
        arrays.append(array)
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _misfit(field: pa.Field) -> pa.ArrowInvalid:
    return MisfitError(f"column {field.name}: a value is not of type {field.type}")


def _check_of(kind: pa.DataType) -> _Check:
    """Return whether a value that Arrow accepts as a type keeps its meaning."""
    types = pa.types
    if types.is_integer(kind):
        return lambda value: value is None or isinstance(value, int) or int(value) == value
    if types.is_float32(kind):
        return lambda value: (
            value is None or abs(value) <= _LARGEST_FLOAT or not math.isfinite(value)
        )
    if types.is_temporal(kind):
        return lambda value: not isinstance(value, int | float)
    if types.is_struct(kind):
        checks = [(each.name, _check_of(each.type)) for each in kind.fields]
        return lambda value: (
            value is None or all(check(dict(value).get(name)) for name, check in checks)
        )
    if types.is_map(kind):
        check = _check_of(kind.item_type)
        return lambda value: value is None or all(map(check, dict(value).values()))
    if types.is_list(kind) or types.is_large_list(kind):
        check = _check_of(kind.value_type)
        return lambda value: (
            value is None or (not isinstance(value, str | bytes) and all(map(check, value)))
        )
    return lambda _: True
