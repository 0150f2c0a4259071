# SPDX-License-Identifier: Apache-2.0
"""Reads only some fields of nested columns, and fills the others with nulls."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from connectors_core.source import FieldPath

__all__ = ["leaf_paths", "narrowed", "widened"]


def narrowed(schema: pa.Schema, fields: Sequence[FieldPath]) -> pa.Schema:
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


def _narrowed_type(kind: pa.DataType, paths: Sequence[FieldPath]) -> pa.DataType:
    if () in paths or not pa.types.is_struct(kind):
        return kind
    if not all(each.nullable for each in kind):
        return kind  # Spark does not expect a null in such a field, even if it is not used
    return pa.struct(list(narrowed(pa.schema(list(kind)), paths)))


def widened(column: pa.Array, kind: pa.DataType) -> pa.Array:
    """Return a struct column with nulls for the fields that were not read.

    Args:
        column: Values of a narrowed type.
        kind: The full type.
    """
    if column.type.equals(kind):
        return column
    found = {each.name: at for at, each in enumerate(column.type)}
    fields = [
        widened(column.field(found[each.name]), each.type)
        if each.name in found
        else pa.nulls(len(column), each.type)
        for each in kind
    ]
    mask = column.is_null() if column.null_count else None
    return pa.StructArray.from_arrays(fields, fields=list(kind), mask=mask)


def leaf_paths(schema: pa.Schema) -> list[str]:
    """Return the dotted paths of the columns, or of the fields of narrowed structs."""

    def paths(name: str, kind: pa.DataType) -> list[str]:
        if not pa.types.is_struct(kind):
            return [name]
        return [path for each in kind for path in paths(f"{name}.{each.name}", each.type)]

    return [path for each in schema for path in paths(each.name, each.type)]
