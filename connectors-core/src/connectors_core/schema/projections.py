# SPDX-License-Identifier: Apache-2.0
"""Reads only some fields of nested columns, and fills the others with nulls."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

__all__ = ["narrowed_schema", "widened_column"]


def narrowed_schema(schema: pa.Schema, fields: Sequence[tuple[str, ...]]) -> pa.Schema:
    """Return the columns of a schema with only some of their nested fields.

    Args:
        schema: All columns.
        fields: The columns and nested fields to keep.
    """
    return pa.schema(
        [
            each.with_type(_narrowed_type(each.type, [path[1:] for path in paths]))
            for each in schema
            if (paths := [path for path in fields if path[0] == each.name])
        ]
    )


def _narrowed_type(kind: pa.DataType, paths: Sequence[tuple[str, ...]]) -> pa.DataType:
    if () in paths or not pa.types.is_struct(kind):
        return kind
    if not all(each.nullable for each in kind):
        return kind  # Spark does not expect a null in such a field, even if it is not used
    return pa.struct(list(narrowed_schema(pa.schema(list(kind)), paths)))


def widened_column(column: pa.Array, kind: pa.DataType) -> pa.Array:
    """Return a struct column with nulls for the fields that were not read.

    Args:
        column: Values of a narrowed type.
        kind: The full type.
    """
    if column.type.equals(kind):
        return column
    found = {each.name: at for at, each in enumerate(column.type)}
    fields = [
        widened_column(column.field(found[each.name]), each.type)
        if each.name in found
        else pa.nulls(len(column), each.type)
        for each in kind
    ]
    mask = column.is_null() if column.null_count else None
    return pa.StructArray.from_arrays(fields, fields=list(kind), mask=mask)
