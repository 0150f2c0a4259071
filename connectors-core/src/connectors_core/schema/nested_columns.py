# SPDX-License-Identifier: Apache-2.0
"""Casts of nested columns, and the nullability of their fields.

Arrow's own casts refuse a null in a non-nullable field, even if the enclosing struct is null
itself. Spark passes such columns: below a null struct, every field is null.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from connectors_core.schema.misfits import MisfitError

__all__ = [
    "CastValues",
    "cast_column",
    "is_any_list",
    "map_entries",
    "nullable_column",
    "nullable_type",
    "rows_with",
]

CastValues: TypeAlias = Callable[[pa.Array, pa.DataType], pa.Array]
"""Casts a flat column; raises `pa.ArrowInvalid` if a value does not fit."""

Mask: TypeAlias = npt.NDArray[np.bool_]

_MOST_ELEMENTS: Final = 2**31 - 1


def nullable_type(kind: pa.DataType) -> pa.DataType:
    """Return a type in which every nested field except a map's key is nullable."""
    types = pa.types
    if types.is_struct(kind):
        return pa.struct([_nullable_field(field) for field in kind])
    if types.is_map(kind):
        return pa.map_(nullable_type(kind.key_type), _nullable_field(kind.item_field))
    if types.is_fixed_size_list(kind):
        return pa.list_(_nullable_field(kind.value_field), kind.list_size)
    if types.is_list(kind):
        return pa.list_(_nullable_field(kind.value_field))
    if types.is_large_list(kind):
        return pa.large_list(_nullable_field(kind.value_field))
    return kind


def nullable_column(column: pa.Array) -> pa.Array:
    """Return a column in its `nullable_type`, without copying buffers."""
    kind = nullable_type(column.type)
    if kind.equals(column.type):
        return column
    types = pa.types
    if types.is_struct(kind):
        fields = [nullable_column(column.field(at)) for at in range(kind.num_fields)]
        return pa.StructArray.from_arrays(
            fields, fields=list(kind), mask=column.is_null() if column.null_count else None
        )
    if types.is_map(kind):
        entries = column.values
        children = [nullable_column(entries.field(at)) for at in (0, 1)]
        values = pa.StructArray.from_arrays(children, fields=[kind.key_field, kind.item_field])
    else:
        values = nullable_column(column.values)
    buffers = column.buffers()[: 1 if types.is_fixed_size_list(kind) else 2]
    return pa.Array.from_buffers(
        kind, len(column), buffers, offset=column.offset, children=[values]
    )


def map_entries(maps: pa.MapArray) -> pa.ListArray:
    """Return maps as lists of key-value structs, without copying buffers."""
    maps = nullable_column(maps)
    entries = pa.list_(pa.struct([maps.type.key_field, maps.type.item_field]))
    return pa.Array.from_buffers(
        entries, len(maps), maps.buffers()[:2], offset=maps.offset, children=[maps.values]
    )


def cast_column(
    column: pa.Array, field: pa.Field, cast_values: CastValues = pa.Array.cast
) -> pa.Array:
    """Cast a column, nested columns field by field; missing struct fields become null.

    A list of structs of `key` and `value` also counts as a map.

    Args:
        column: The values.
        field: The wanted name, type, and nullability.
        cast_values: Casts flat columns.

    Returns:
        Values of the field's type. Below a null, a non-nullable field can be null.

    Raises:
        pa.ArrowInvalid: A value does not fit, or is null in a non-nullable field.
    """
    return _cast(column, field, field.name, 0, cast_values)


def _nullable_field(field: pa.Field) -> pa.Field:
    return pa.field(field.name, nullable_type(field.type))


def _cast(
    column: pa.Array, field: pa.Field, path: str, nulls_above: int, cast_values: CastValues
) -> pa.Array:
    """Cast a column in which some values are null because their parent is null."""
    if not field.nullable and column.null_count > nulls_above:
        raise MisfitError(f"column {path} is null but not nullable")
    kind, found = field.type, column.type
    if found.equals(kind):
        return column
    types = pa.types
    if isinstance(found, pa.BaseExtensionType) and types.is_nested(found.storage_type):
        return _cast(column.storage, field, path, nulls_above, cast_values)
    if types.is_null(found):
        return pa.nulls(len(column), kind)
    if types.is_struct(kind) and types.is_struct(found):
        return _cast_struct(column, kind, path, cast_values)
    if types.is_map(kind) and (types.is_map(found) or _is_entries(found)):
        return _cast_map(column, kind, path, cast_values)
    if is_any_list(kind) and is_any_list(found):
        return _cast_list(column, kind, path, cast_values)
    try:
        return cast_values(column, kind)
    except pa.ArrowInvalid as exc:
        reason = exc if isinstance(exc, MisfitError) else f"a value is not of type {kind}"
        raise MisfitError(f"column {path}: {reason}") from exc


def _cast_struct(
    column: pa.Array, kind: pa.DataType, path: str, cast_values: CastValues
) -> pa.Array:
    found = column.type
    # `flatten` returns nulls below a null, whatever the buffers contain.
    values = column.flatten()
    fields = []
    for field in kind:
        at = found.get_field_index(field.name)
        value = pa.nulls(len(column), field.type) if at < 0 else values[at]
        fields.append(_cast(value, field, f"{path}.{field.name}", column.null_count, cast_values))
    return pa.Array.from_buffers(kind, len(column), [_validity(column)], children=fields)


def _cast_list(column: pa.Array, kind: pa.DataType, path: str, cast_values: CastValues) -> pa.Array:
    if pa.types.is_fixed_size_list(kind):
        return column.cast(kind)
    values = _cast(pc.list_flatten(column), kind.value_field, f"{path}[]", 0, cast_values)
    wide = pa.types.is_large_list(kind)
    return pa.Array.from_buffers(
        kind, len(column), [_validity(column), _offsets(column, wide)], children=[values]
    )


def _cast_map(column: pa.Array, kind: pa.DataType, path: str, cast_values: CastValues) -> pa.Array:
    lists = map_entries(column) if pa.types.is_map(column.type) else column
    entries = pc.list_flatten(lists)
    key_field, item_field = kind.key_field, kind.item_field
    keys = _cast(entries.field(0), key_field, f"{path}.key", 0, cast_values)
    items = _cast(entries.field(1), item_field, f"{path}.value", 0, cast_values)
    struct = pa.struct([key_field, item_field])
    values = pa.Array.from_buffers(struct, len(entries), [None], children=[keys, items])
    buffers = [_validity(lists), _offsets(lists, False)]
    return pa.Array.from_buffers(kind, len(column), buffers, children=[values])


def _is_entries(kind: pa.DataType) -> bool:
    """Return whether a type is a list of key-value structs."""
    return bool(
        pa.types.is_list(kind)
        and pa.types.is_struct(kind.value_type)
        and [field.name for field in kind.value_type] == ["key", "value"]
    )


def is_any_list(kind: pa.DataType) -> bool:
    """Return whether a type is any of Arrow's list types."""
    types = pa.types
    return bool(
        types.is_list(kind)
        or types.is_large_list(kind)
        or types.is_fixed_size_list(kind)
        or types.is_list_view(kind)
        or types.is_large_list_view(kind)
    )


def _validity(column: pa.Array) -> pa.Buffer | None:
    return column.is_valid().buffers()[1] if column.null_count else None


def _offsets(lists: pa.Array, wide: bool) -> pa.Buffer:
    """Return the start of each list among all elements, without those below nulls."""
    lengths = pc.fill_null(pc.list_value_length(lists), 0).to_numpy(zero_copy_only=False)
    offsets = np.zeros(len(lists) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    if wide:
        return pa.py_buffer(offsets)
    if offsets[-1] > _MOST_ELEMENTS:
        raise MisfitError(f"{offsets[-1]} elements are too many for one list column")
    return pa.py_buffer(offsets.astype(np.int32))


def rows_with(column: pa.Array, found: Callable[[pa.Array], Mask | None]) -> Mask | None:
    """Return which rows of a column contain certain values at any depth.

    Args:
        column: A column.
        found: Takes a flat column. It returns a mask of its values, or None if there are none.

    Returns:
        A mask of the rows, or None if there are none.
    """
    kind = column.type
    if pa.types.is_dictionary(kind):
        return rows_with(column.dictionary_decode(), found)
    if pa.types.is_struct(kind):
        masks = [rows_with(each, found) for each in column.flatten()]
        present = [mask for mask in masks if mask is not None]
        return np.logical_or.reduce(present) if present else None
    if pa.types.is_map(kind):
        return rows_with(map_entries(column), found)
    if not is_any_list(kind):
        return found(column)
    elements = rows_with(pc.list_flatten(column), found)
    if elements is None:
        return None
    rows = np.zeros(len(column), np.bool_)
    rows[pc.list_parent_indices(column).to_numpy()[elements]] = True
    return rows
