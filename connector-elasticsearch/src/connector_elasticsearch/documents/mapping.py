# SPDX-License-Identifier: Apache-2.0
"""Columns from the mappings of indices.

A mapping says what type a field has and not whether it holds one value or several, as in
Elasticsearch each field may: fields that hold several are to be named.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any, Final

import pyarrow as pa

from connectors_core.errors import ConfigurationError

__all__ = ["MOMENT", "fields_of", "kind_of", "pruned", "with_own_format"]

MOMENT: Final = pa.timestamp("us", tz="UTC")
_TYPES: Final[Mapping[str, pa.DataType]] = {
    "binary": pa.binary(),
    "boolean": pa.bool_(),
    "byte": pa.int8(),
    "date": MOMENT,
    "date_nanos": MOMENT,
    "double": pa.float64(),
    "float": pa.float32(),
    "half_float": pa.float32(),
    "integer": pa.int32(),
    "long": pa.int64(),
    "scaled_float": pa.float64(),
    "short": pa.int16(),
    "token_count": pa.int32(),
    "unsigned_long": pa.decimal128(20, 0),
}
# Formats that a moment is understood in as it stands in a document. Milliseconds come last, and
# behind one that takes four digits for a year.
_ISO: Final = frozenset({"strict_date_optional_time", "strict_date_optional_time_nanos"})
_WITHOUT_NUMBERS: Final = _ISO | {"strict_date", "strict_date_time", "strict_date_time_no_millis"}
_MILLISECONDS: Final = "epoch_millis"
# An alias has no value of its own, and a field of this kind lives in another document.
_WITHOUT_VALUE: Final = frozenset({"alias", "join", "percolator"})


def fields_of(
    mappings: Mapping[str, Mapping[str, Any]], array_fields: Collection[str] = ()
) -> pa.Schema:
    """Columns of the documents of some indices.

    Objects are structs, nested ones lists of structs; what has no type in Arrow is the text of its
    JSON.

    Args:
        mappings: By index, as the server gives them: ``{"properties": {...}}``.
        array_fields: Paths of fields, with dots, that hold several values.

    Raises:
        ConfigurationError: Indices differ in the type of a field, there is none, or a field that
            is named as an array is not there.
    """
    arrays = set(array_fields)
    merged: dict[str, Any] = {}
    for index, mapping in mappings.items():
        _merge(merged, mapping.get("properties", {}), index, "")
    if not merged:
        raise ConfigurationError(
            "the index has no fields to derive columns from",
            expected="an index whose mapping has fields",
            found=sorted(mappings) or "no index",
            option="index",
            hint="correct the name, or pass a schema",
        )
    found = pa.schema(_fields(merged, arrays, ""))
    if arrays:
        raise ConfigurationError(
            "no field has this path", found=sorted(arrays), option="array-fields"
        )
    return found


def with_own_format(mappings: Mapping[str, Mapping[str, Any]]) -> frozenset[str]:
    """Paths of moments that are written in a format of their own, which only the server can read.

    Args:
        mappings: By index, as the server gives them.
    """
    return frozenset(
        path
        for mapping in mappings.values()
        for path, properties in _leaves(mapping.get("properties", {}), "")
        if properties.get("type") in {"date", "date_nanos"}
        and not _is_understood(properties.get("format"))
    )


def _is_understood(written: str | None) -> bool:
    """Whether the formats of a field are understood; those that it has by itself are."""
    if written is None:
        return True
    *formats, last = written.split("||")
    if last == _MILLISECONDS:
        return len(formats) == 1 and formats[0] in _ISO
    return _WITHOUT_NUMBERS.issuperset([*formats, last])


def pruned(schema: pa.Schema, paths: Collection[str]) -> pa.Schema:
    """A schema with some of its fields, in its own order.

    Args:
        schema: The schema.
        paths: Names of columns, or paths with dots into them.

    Raises:
        ConfigurationError: There is no such field.
    """
    left = set(paths)
    found = pa.schema(_pruned(schema, left, ""))
    if left:
        raise ConfigurationError(
            "no field has this path",
            expected=schema.names,
            found=sorted(left),
            option="fields",
        )
    return found


def _merge(merged: dict[str, Any], properties: Mapping[str, Any], index: str, above: str) -> None:
    for name, field in properties.items():
        path = f"{above}{name}"
        known = merged.setdefault(name, {"index": index, "type": _kind(field), "properties": {}})
        if _kind(field) != known["type"]:
            raise ConfigurationError(
                f"the field {path!r} has a different type in another index",
                expected=f"{known['type']}, as in {known['index']}",
                found=f"{_kind(field)} in {index}",
                option="index",
                hint="read the indices one by one, or pass a schema",
            )
        _merge(known["properties"], field.get("properties", {}), index, f"{path}.")


def _kind(field: Mapping[str, Any]) -> str:
    """The type of a field; sorts of text are one."""
    kind = str(field.get("type", "object"))
    return kind if kind in _TYPES or kind in {"object", "nested"} else _OTHERS.get(kind, kind)


_OTHERS: Final = dict.fromkeys(
    ("constant_keyword", "ip", "keyword", "match_only_text", "text", "version", "wildcard"), "text"
)


def _fields(merged: Mapping[str, Any], arrays: set[str], above: str) -> Iterator[pa.Field]:
    for name, field in merged.items():
        path, kind = f"{above}{name}", field["type"]
        if kind in _WITHOUT_VALUE:
            continue
        if kind in {"object", "nested"}:
            inner = list(_fields(field["properties"], arrays, f"{path}."))
            if not inner:
                continue
            found = pa.struct(inner)
        else:
            found = _TYPES.get(kind, pa.string())
        if kind == "nested" or path in arrays:
            found = pa.list_(found)
        arrays.discard(path)
        yield pa.field(name, found, metadata=_metadata(kind))


def _metadata(kind: str) -> dict[str, str] | None:
    """What the type of the column does not tell."""
    plain = kind in _TYPES or kind in {"object", "nested", "text"}
    return None if plain else {"elasticsearch.type": kind}


def _leaves(properties: Mapping[str, Any], above: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Paths of fields."""
    for name, field in properties.items():
        yield f"{above}{name}", field
        yield from _leaves(field.get("properties", {}), f"{above}{name}.")


def _pruned(fields: Any, left: set[str], above: str) -> Iterator[pa.Field]:
    for field in fields:
        path = f"{above}{field.name}"
        if path in left:
            left.discard(path)
            yield field
            continue
        inner, wrap = field.type, pa.struct
        if pa.types.is_list(inner):
            inner, wrap = inner.value_type, lambda kept: pa.list_(pa.struct(kept))
        if pa.types.is_struct(inner):
            kept = list(_pruned(inner.fields, left, f"{path}."))
            if kept:
                yield field.with_type(wrap(kept))


def kind_of(mapping: Mapping[str, Any], path: str) -> str | None:
    """Elasticsearch's type of a field.

    Args:
        mapping: Of one index, as the server gives it.
        path: Of the field, with dots; one of its sub-fields (`name.keyword`) will do.

    Returns:
        The type, or None where there is no such field.
    """
    found: Any = mapping
    for name in path.split("."):
        inner = {**found.get("properties", {}), **found.get("fields", {})}
        if name not in inner:
            return None
        found = inner[name]
    return str(found.get("type", "object"))
