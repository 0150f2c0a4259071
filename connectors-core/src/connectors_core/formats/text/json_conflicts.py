# SPDX-License-Identifier: Apache-2.0
"""Infers the fields of JSON objects although values of one field have different types."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import pyarrow as pa

from connectors_core.formats.text.json import infer_json
from connectors_core.formats.text.json_rewriter import rewritten_json

__all__ = ["TypeConflict", "infer_mixed_json"]

# Arrow's error, whose path has a part for each field and `[]` for the elements of an array.
_CONFLICT: Final = re.compile(r"Column\((/.*)\) changed from (\w+) to (\w+)")
_ELEMENTS: Final = "[]"

_Path: TypeAlias = tuple[str, ...]


@dataclass(frozen=True)
class TypeConflict:
    """A field whose values have different types in JSON, so that it is read as text.

    Attributes:
        field: Its path, such as `user.name`, or `items[].price` in a list.
        found: The first two types, such as `number` and `string`.
    """

    field: str
    found: tuple[str, str]

    def __str__(self) -> str:
        return f"{self.field} is {' or '.join(self.found)}, read as string"


def infer_mixed_json(data: bytes) -> tuple[pa.Schema, tuple[TypeConflict, ...]]:
    """Infer the fields of objects as `infer_json` does, and read conflicting ones as text.

    Raises:
        pa.ArrowInvalid: It is not JSON.
    """
    conflicts: dict[_Path, TypeConflict] = {}
    while True:
        texts = _tree(conflicts)
        try:
            found = infer_json(rewritten_json(data, _schema(texts)).to_pybytes())
        except pa.ArrowInvalid as error:
            path, kinds = _conflict(error)
            if path in conflicts:  # such as a name with a slash
                raise
            conflicts = {each: known for each, known in conflicts.items() if not _is_in(each, path)}
            conflicts[path] = TypeConflict(_shown(path), kinds)
        else:
            return pa.schema(_with_texts(found, texts)), tuple(conflicts.values())


def _conflict(error: pa.ArrowInvalid) -> tuple[_Path, tuple[str, str]]:
    found = _CONFLICT.search(str(error))
    if found is None:
        raise error
    return tuple(found[1].split("/")[1:]), (found[2], found[3])


def _is_in(path: _Path, outer: _Path) -> bool:
    return path[: len(outer)] == outer


def _shown(path: _Path) -> str:
    return ".".join(path).replace(f".{_ELEMENTS}", _ELEMENTS)


def _tree(paths: Iterable[_Path]) -> dict[str, Any]:
    """Return the fields on the way to paths, nested; the last ones are empty."""
    root: dict[str, Any] = {}
    for path in paths:
        inner = root
        for part in path:
            inner = inner.setdefault(part, {})
    return root


def _schema(texts: dict[str, Any]) -> pa.Schema:
    return pa.schema([(name, _type(inner)) for name, inner in texts.items()])


def _type(texts: dict[str, Any]) -> pa.DataType:
    if not texts:
        return pa.string()
    if _ELEMENTS in texts:
        return pa.list_(_type(texts[_ELEMENTS]))
    return pa.struct([(name, _type(inner)) for name, inner in texts.items()])


def _with_texts(fields: Iterable[pa.Field], texts: dict[str, Any]) -> list[pa.Field]:
    return [
        each.with_type(_as_text(each.type, texts[each.name])) if each.name in texts else each
        for each in fields
    ]


def _as_text(kind: pa.DataType, texts: dict[str, Any]) -> pa.DataType:
    """Return a type with strings in place of dates and times that are a part of other texts."""
    if pa.types.is_struct(kind):
        return pa.struct(_with_texts(kind, texts))
    if pa.types.is_list(kind):
        return pa.list_(_as_text(kind.value_type, texts[_ELEMENTS]))
    return pa.string()
