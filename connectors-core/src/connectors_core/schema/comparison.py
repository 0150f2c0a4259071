# SPDX-License-Identifier: Apache-2.0
"""The differences between two schemas."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from connectors_core.schema.ddl import type_text
from connectors_core.schema.nested_columns import is_any_list

__all__ = ["FieldChange", "schema_changes"]


@dataclass(frozen=True)
class FieldChange:
    """A field that differs between two schemas.

    Attributes:
        field: Its path, such as `user.name`, or `items[].price` in a list.
        before: The text of its type, or None if it is added.
        after: The text of its new type, or None if it is removed.
    """

    field: str
    before: str | None
    after: str | None

    def __str__(self) -> str:
        if self.before is None:
            return f"{self.field} is added: {self.after}"
        if self.after is None:
            return f"{self.field} is removed: {self.before}"
        return f"{self.field} changes from {self.before} to {self.after}"


def schema_changes(before: pa.Schema, after: pa.Schema) -> tuple[FieldChange, ...]:
    """Return the added, removed, and changed fields, also those in structs and lists.

    The order of fields does not count, nor whether they can be null.
    """
    return tuple(_of_fields(list(before), list(after), ""))


def _of_fields(before: list[pa.Field], after: list[pa.Field], above: str) -> Iterator[FieldChange]:
    old, new = ({each.name: each.type for each in fields} for fields in (before, after))
    for name in old | new:
        path = f"{above}{name}"
        if name not in new:
            yield FieldChange(path, type_text(old[name]), None)
        elif name not in old:
            yield FieldChange(path, None, type_text(new[name]))
        else:
            yield from _of_types(old[name], new[name], path)


def _of_types(before: pa.DataType, after: pa.DataType, path: str) -> Iterator[FieldChange]:
    if pa.types.is_struct(before) and pa.types.is_struct(after):
        yield from _of_fields(list(before), list(after), f"{path}.")
    elif is_any_list(before) and is_any_list(after):
        yield from _of_types(before.value_type, after.value_type, f"{path}[]")
    elif type_text(before) != type_text(after):
        yield FieldChange(path, type_text(before), type_text(after))
