# SPDX-License-Identifier: Apache-2.0
"""Derives columns from the mappings of indices, and mappings from columns.

A mapping contains the type of a field, but not whether it holds several values, because any field
in Elasticsearch can. The user names the fields that do.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, Final

import pyarrow as pa

from connectors_core.errors import ConfigurationError, InvalidOptionError

__all__ = [
    "MOMENT",
    "VECTOR_TYPE",
    "definition_of",
    "fields_of",
    "kind_of",
    "properties_of",
    "pruned",
    "with_own_format",
]

VECTOR_TYPE: Final = "dense_vector"
"""Elasticsearch's type of fields that hold vectors."""
MOMENT: Final = pa.timestamp("us", tz="UTC")
_TYPES: Final[Mapping[str, pa.DataType]] = {
    "binary": pa.binary(),
    "boolean": pa.bool_(),
    "byte": pa.int8(),
    "date": MOMENT,
    "date_nanos": MOMENT,
    VECTOR_TYPE: pa.list_(pa.float32()),
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
_PROPERTIES: Final[Mapping[pa.DataType, str]] = {
    pa.binary(): "binary",
    pa.bool_(): "boolean",
    pa.float32(): "float",
    pa.float64(): "double",
    pa.int8(): "byte",
    pa.int16(): "short",
    pa.int32(): "integer",
    pa.int64(): "long",
    pa.string(): "keyword",
}
# The formats in which a timestamp of a document can be parsed directly. Milliseconds come last,
# after a format that parses four digits as a year.
_ISO: Final = frozenset({"strict_date_optional_time", "strict_date_optional_time_nanos"})
_WITHOUT_NUMBERS: Final = _ISO | {"strict_date", "strict_date_time", "strict_date_time_no_millis"}
_MILLISECONDS: Final = "epoch_millis"
# An alias has no value of its own, and a field of the other type belongs to another document.
_WITHOUT_VALUE: Final = frozenset({"alias", "join", "percolator"})


def fields_of(
    mappings: Mapping[str, Mapping[str, Any]], array_fields: Collection[str] = ()
) -> pa.Schema:
    """Return the columns of the documents of some indices.

    Objects become structs, and nested objects lists of structs. A type without an Arrow counterpart
    becomes its JSON text.

    Args:
        mappings: By index, in the server's form: ``{"properties": {...}}``.
        array_fields: Paths, with dots, of fields that hold several values.

    Raises:
        ConfigurationError: Indices differ in the type of a field, there is no field, or an array
            field does not exist.
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


def properties_of(
    fields: Iterable[pa.Field], vectors: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Return the properties of a mapping for columns, in the server's form.

    Texts are keywords, decimals are doubles in the index, and lists of structs are nested.

    Args:
        fields: The columns.
        vectors: The parameters of the columns that hold vectors, by name.

    Raises:
        ConfigurationError: Elasticsearch has no type for a column, or a column cannot hold vectors.
    """
    left = dict(vectors or {})
    found = {
        each.name: _vectors(each, left.pop(each.name))
        if each.name in left
        else _property(each.name, each.type)
        for each in fields
    }
    for name in left:
        raise _no_vectors(name, found="no column of this name")
    return found


def _vectors(field: pa.Field, parameters: Any) -> dict[str, Any]:
    kind = field.type
    if not (pa.types.is_list(kind) and pa.types.is_floating(kind.value_type)):
        raise _no_vectors(field.name, found=str(kind))
    if not isinstance(parameters, Mapping):
        raise _no_vectors(field.name, found=f"the parameters {parameters!r}")
    return {**parameters, "type": VECTOR_TYPE}


def _no_vectors(name: str, *, found: str) -> InvalidOptionError:
    return InvalidOptionError(
        f"the column {name!r} cannot hold vectors",
        expected='an ARRAY<FLOAT> or ARRAY<DOUBLE>, and parameters such as {"dims": 384}',
        found=found,
        option="vector-fields",
    )


def _property(name: str, kind: pa.DataType) -> dict[str, Any]:
    types = pa.types
    if types.is_list(kind):
        found = _property(name, kind.value_type)
        return {**found, "type": "nested"} if "properties" in found else found
    if types.is_struct(kind):
        return {"properties": properties_of(kind)}
    if types.is_map(kind):
        return {"type": "object"}
    if types.is_timestamp(kind) or types.is_date(kind):
        return {"type": "date"}
    if types.is_decimal(kind):
        return {"type": "double"}
    if kind not in _PROPERTIES:
        raise ConfigurationError(
            f"the column {name!r} cannot be a field of documents",
            expected="a type that Elasticsearch has",
            found=str(kind),
            hint="use another type, such as BIGINT",
        )
    return {"type": _PROPERTIES[kind]}


def with_own_format(mappings: Mapping[str, Mapping[str, Any]]) -> frozenset[str]:
    """Return the paths of timestamps in a custom format, which only the server can parse.

    Args:
        mappings: The mappings by index, in the server's form.
    """
    return frozenset(
        path
        for mapping in mappings.values()
        for path, properties in _leaves(mapping.get("properties", {}), "")
        if properties.get("type") in {"date", "date_nanos"}
        and not _is_understood(properties.get("format"))
    )


def _is_understood(written: str | None) -> bool:
    """Whether the formats of a field can be parsed. The default formats can."""
    if written is None:
        return True
    *formats, last = written.split("||")
    if last == _MILLISECONDS:
        return len(formats) == 1 and formats[0] in _ISO
    return _WITHOUT_NUMBERS.issuperset([*formats, last])


def pruned(schema: pa.Schema, paths: Collection[str]) -> pa.Schema:
    """Return a schema with some of its fields, in its own order.

    Args:
        schema: The schema.
        paths: Names of columns, or paths with dots into them.

    Raises:
        ConfigurationError: A field does not exist.
    """
    left = set(paths)
    found = pa.schema(_pruned(schema, frozenset(paths), left, ""))
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
    """Return the type of a field. All text types count as one."""
    kind = str(field.get("type", "object"))
    if field.get("element_type") == "bit":
        return _BITS
    return kind if kind in _TYPES or kind in {"object", "nested"} else _OTHERS.get(kind, kind)


_BITS: Final = "dense_vector of bits"  # its elements are packed
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
    """Return the properties that are not part of the column's type."""
    plain = kind in _TYPES or kind in {"object", "nested", "text"}
    return None if plain else {"elasticsearch.type": kind}


def _leaves(properties: Mapping[str, Any], above: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Paths of fields."""
    for name, field in properties.items():
        yield f"{above}{name}", field
        yield from _leaves(field.get("properties", {}), f"{above}{name}.")


def _pruned(fields: Any, paths: frozenset[str], left: set[str], above: str) -> Iterator[pa.Field]:
    for field in fields:
        path = f"{above}{field.name}"
        if path in paths:
            left.discard(path)
            yield field
            continue
        inner, wrap = field.type, pa.struct
        if pa.types.is_list(inner):
            inner, wrap = inner.value_type, lambda kept: pa.list_(pa.struct(kept))
        if pa.types.is_struct(inner):
            kept = list(_pruned(inner.fields, paths, left, f"{path}."))
            if kept:
                yield field.with_type(wrap(kept))


def kind_of(mapping: Mapping[str, Any], path: str) -> str | None:
    """Return Elasticsearch's type of a field, or None if the field does not exist."""
    found = definition_of(mapping, path)
    return None if found is None else str(found.get("type", "object"))


def definition_of(mapping: Mapping[str, Any], path: str) -> Mapping[str, Any] | None:
    """Return the definition of a field.

    Args:
        mapping: The mapping of one index, in the server's form.
        path: The path of the field, with dots. It can be one of its sub-fields (`name.keyword`).

    Returns:
        The definition, or None if the field does not exist.
    """
    found: Any = mapping
    for name in path.split("."):
        inner = {**found.get("properties", {}), **found.get("fields", {})}
        if name not in inner:
            return None
        found = inner[name]
    return dict(found)
