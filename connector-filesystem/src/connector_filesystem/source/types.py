# SPDX-License-Identifier: Apache-2.0
"""File types that Spark lacks: the type they are read as, and the conversion."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from connectors_core.formats.text import is_binary, is_string, nearest_spark_type
from connectors_core.schema import is_any_list

__all__ = ["can_become", "cast_values"]

# A decimal with this many digits holds every integer with this many bytes.
_DIGITS_OF_BITS: Final = {8: 3, 16: 5, 32: 10, 64: 20}
_UUID_BYTES: Final = 16
_UUID_TEXT_BYTES: Final = 36
_UUID_HYPHENS: Final = (8, 13, 18, 23)
_FINER_THAN: Final = {"s": ("ms", "us", "ns"), "ms": ("us", "ns"), "us": ("ns",), "ns": ()}
_UNITS: Final = {"s": "second", "ms": "millisecond", "us": "microsecond", "ns": "nanosecond"}


def can_become(found: pa.DataType, wanted: pa.DataType) -> bool:
    """Return whether most or all values of one type fit another.

    It always allows the conversion to the result of `nearest_spark_type`.
    """
    types = pa.types
    if types.is_null(found) or found.equals(wanted):
        return True
    if types.is_dictionary(found):
        return can_become(found.value_type, wanted)
    if _is_uuid(found):
        return is_string(wanted) or is_binary(wanted)
    if isinstance(found, pa.BaseExtensionType):
        return can_become(found.storage_type, wanted)
    if types.is_time(found):
        return is_string(wanted)
    if types.is_struct(found) and types.is_struct(wanted):
        names = [field.name for field in found]
        return all(
            names.count(field.name) == 1 and can_become(found.field(field.name).type, field.type)
            for field in wanted
        )
    if is_any_list(found) and is_any_list(wanted):
        return can_become(found.value_type, wanted.value_type)
    if types.is_map(found) and types.is_map(wanted):
        return can_become(found.key_type, wanted.key_type) and can_become(
            found.item_type, wanted.item_type
        )
    if _kind(found) == "number" and _kind(wanted) == "number":
        # 1.5 must not become 1, nor 0.1 a decimal. Whole numbers can become fractional types.
        if types.is_integer(wanted):
            return bool(types.is_integer(found))
        return not (types.is_decimal(wanted) and types.is_floating(found))
    if types.is_decimal(found) and is_string(wanted):
        return bool(is_string(nearest_spark_type(found)))
    return _kind(found) == _kind(wanted)


def cast_values(column: pa.Array, kind: pa.DataType) -> pa.Array:
    """Cast a column that is not nested to a type that `can_become` allows.

    Raises:
        pa.ArrowInvalid: A value does not fit.
    """
    types = pa.types
    if types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if isinstance(column.type, pa.BaseExtensionType):
        to_text = _is_uuid(column.type) and is_string(kind)
        column = _uuid_texts(column.storage) if to_text else column.storage
    found = column.type
    if types.is_integer(found) and types.is_decimal(kind):
        # Arrow requires a decimal that holds every integer of the type. Here, the values decide.
        digits = _DIGITS_OF_BITS[found.bit_width] + kind.scale
        return column.cast(pa.decimal256(digits, kind.scale)).cast(kind)
    if types.is_timestamp(found) and types.is_timestamp(kind):
        return _moments(column, kind)
    if types.is_duration(found) and types.is_duration(kind):
        return _moments(column.view(pa.int64()).view(pa.timestamp(found.unit)), kind)
    if types.is_time(found) and is_string(kind):
        column = column.cast(pa.string())
    return column.cast(kind)


def _moments(column: pa.Array, kind: pa.DataType) -> pa.Array:
    """Return timestamps in the unit of a type. Like Spark, truncate a finer fraction.

    A zone is a label: the numbers count from the same instant in UTC with or without it.
    """
    unit = column.type.unit
    column = column.view(pa.timestamp(unit))
    if unit in _FINER_THAN[kind.unit]:
        column = pc.floor_temporal(column, unit=_UNITS[kind.unit])
    return column.cast(pa.timestamp(kind.unit)).view(pa.int64()).view(kind)


def _uuid_texts(column: pa.FixedSizeBinaryArray) -> pa.Array:
    """Return each 16-byte value as a text such as `8c9a7b1e-27a0-4d35-9d34-4d7f0a3c2b11`."""
    rows = len(column)
    found: Any = column.buffers()[1]
    data = np.frombuffer(found, np.uint8) if found is not None else np.zeros(0, np.uint8)
    start = column.offset * _UUID_BYTES
    digits = np.frombuffer(data[start : start + rows * _UUID_BYTES].tobytes().hex().encode(), "u1")
    texts = np.full((rows, _UUID_TEXT_BYTES), ord("-"), np.uint8)
    places = [at for at in range(_UUID_TEXT_BYTES) if at not in _UUID_HYPHENS]
    texts[:, places] = digits.reshape(rows, 2 * _UUID_BYTES)
    offsets = np.arange(rows + 1, dtype=np.int32) * _UUID_TEXT_BYTES
    validity = column.is_valid().buffers()[1] if column.null_count else None
    return pa.Array.from_buffers(
        pa.string(), rows, [validity, pa.py_buffer(offsets), pa.py_buffer(texts)]
    )


def _is_uuid(kind: pa.DataType) -> bool:
    return isinstance(kind, pa.UuidType)


def _kind(kind: pa.DataType) -> str:
    types = pa.types
    for name, matches in (
        ("number", (types.is_integer, types.is_floating, types.is_decimal)),
        ("text", (is_string,)),
        ("binary", (is_binary,)),
        ("timestamp", (types.is_timestamp,)),
        ("date", (types.is_date,)),
        ("duration", (types.is_duration,)),
    ):
        if any(match(kind) for match in matches):
            return name
    return str(kind.id)
