# SPDX-License-Identifier: Apache-2.0
"""Avro schemas: derived from columns, and parsed from JSON."""

from __future__ import annotations

import re
from collections.abc import Collection
from functools import lru_cache
from typing import Any, Final

import orjson
import pyarrow as pa

from connectors_core.errors import ConfigurationError, MissingDependencyError

__all__ = ["avro_schema_of", "check_avro_installed", "narrowed_schema", "parsed_schema"]

_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_RECORD: Final = "record"
_PRIMITIVES: Final = frozenset(
    ("null", "boolean", "int", "long", "float", "double", "bytes", "string")
)


def check_avro_installed() -> None:
    """Check that the library of the Avro formats is installed.

    Raises:
        MissingDependencyError: It is not installed.
    """
    try:
        import fastavro  # noqa: F401
    except ImportError as exc:
        raise MissingDependencyError(
            "fastavro", install="pip install 'connectors-core[avro]'", feature="the format avro"
        ) from exc


def avro_schema_of(schema: pa.Schema) -> str:
    """Return the schema of a record of these columns, as JSON.

    Timestamps have microseconds (or milliseconds, if the column does), and decimals are bytes.

    Raises:
        ConfigurationError: Avro does not support a type or a name.
    """
    return orjson.dumps(_record(_RECORD, list(schema))).decode()


def _record(name: str, fields: list[pa.Field]) -> dict[str, Any]:
    return {
        "type": "record",
        "name": name,
        "fields": [{"name": field.name, "type": _field_type(field, name)} for field in fields],
    }


def _field_type(field: pa.Field, parent: str) -> Any:
    if not _NAME.fullmatch(field.name):
        raise ConfigurationError(
            f"the column {field.name!r} cannot be an Avro field",
            expected="letters, digits, and _, not starting with a digit",
            found=field.name,
            option="format",
            hint="rename the column",
        )
    kind = _avro_type(field.type, f"{parent}_{field.name}")
    if kind is None:
        raise ConfigurationError(
            f"the column {field.name!r} cannot be an Avro field",
            expected="a type that Avro supports",
            found=str(field.type),
            option="format",
            hint="convert it or drop it",
        )
    return ["null", kind] if field.nullable and kind != "null" else kind


def _avro_type(kind: pa.DataType, name: str) -> Any:
    types = pa.types
    if types.is_dictionary(kind):
        return _avro_type(kind.value_type, name)
    if types.is_integer(kind) and kind != pa.uint64():
        return "int" if kind.bit_width < 32 or kind == pa.int32() else "long"
    if types.is_timestamp(kind):
        precision = "timestamp-millis" if kind.unit in ("s", "ms") else "timestamp-micros"
        return {"type": "long", "logicalType": precision if kind.tz else "local-" + precision}
    if types.is_decimal(kind):
        return {
            "type": "bytes",
            "logicalType": "decimal",
            "precision": kind.precision,
            "scale": kind.scale,
        }
    if types.is_struct(kind):
        return _record(name, list(kind))
    if types.is_list(kind) or types.is_large_list(kind):
        return {"type": "array", "items": _field_type(kind.value_field.with_name("item"), name)}
    if types.is_map(kind) and types.is_string(kind.key_type):
        return {"type": "map", "values": _field_type(kind.item_field.with_name("value"), name)}
    simple = (
        (types.is_null, "null"),
        (types.is_boolean, "boolean"),
        (lambda each: types.is_floating(each) and each.bit_width < 64, "float"),
        (types.is_float64, "double"),
        (types.is_string, "string"),
        (types.is_large_string, "string"),
        (types.is_binary, "bytes"),
        (types.is_large_binary, "bytes"),
        (types.is_date32, {"type": "int", "logicalType": "date"}),
        (types.is_time32, {"type": "int", "logicalType": "time-millis"}),
        (types.is_time64, {"type": "long", "logicalType": "time-micros"}),
    )
    return next((avro for matches, avro in simple if matches(kind)), None)


@lru_cache(maxsize=256)
def parsed_schema(text: str) -> Any:
    """Return a schema in the form that the library uses.

    Recursive types are not allowed: a small message could cause a recursion so deep that it ends
    the process. Arrays whose items use no bytes are not allowed either: a small message could claim
    any number of items.

    Raises:
        ValueError: It is not a record schema, or it is not allowed.
    """
    import fastavro

    try:
        schema = orjson.loads(text)
        if not isinstance(schema, dict) or schema.get("type") != "record":
            raise ValueError("it is not a record schema")
        _takes_nothing(schema, {}, "")
        return fastavro.parse_schema(_with_texts(schema))
    except fastavro.schema.SchemaParseException as exc:
        raise ValueError(f"the Avro schema cannot be used: {exc}") from exc
    except (ValueError, LookupError, TypeError, RecursionError) as exc:
        raise ValueError(f"the Avro schema cannot be used: {exc}") from exc


def narrowed_schema(written: Any, names: Collection[str]) -> Any | None:
    """Return the schema to read only some fields of records with.

    The library resolves the two schemas as Avro specifies. To get the same values as without
    resolution, all wanted fields must have a primitive type, or one in a union with null.

    Args:
        written: The schema of the records, from `parsed_schema`.
        names: The wanted fields.

    Returns:
        The schema; None if whole records must be read.
    """
    import fastavro

    fields = [
        {"name": each["name"], "type": each["type"]}
        for each in written["fields"]
        if each["name"] in names
    ]
    if len(fields) == len(written["fields"]) or not all(_is_plain(each["type"]) for each in fields):
        return None
    return fastavro.parse_schema({"type": _RECORD, "name": written["name"], "fields": fields})


def _is_plain(kind: Any) -> bool:
    if isinstance(kind, list):
        values = [each for each in kind if each != "null"]
        return len(values) == 1 and _is_plain(values[0])
    return (kind["type"] if isinstance(kind, dict) else kind) in _PRIMITIVES


def _takes_nothing(schema: Any, known: dict[str, bool | None], namespace: str) -> bool:
    """Return whether values use no bytes.

    Args:
        schema: A schema, or a part of one.
        known: The answers for the named types so far; None for the enclosing types.
        namespace: The enclosing namespace.
    """
    if isinstance(schema, list):
        for each in schema:
            _takes_nothing(each, known, namespace)
        return False
    if isinstance(schema, str):
        if schema in _PRIMITIVES:
            return schema == "null"
        known_name = schema if "." in schema or not namespace else f"{namespace}.{schema}"
        answer = known[known_name]
        if answer is None:
            raise ValueError(f"the type {schema} is recursive")
        return answer
    kind = schema["type"]
    if kind == "array" or kind == "map":
        empty = _takes_nothing(schema["items" if kind == "array" else "values"], known, namespace)
        if empty and kind == "array":
            raise ValueError("it has an array whose items use no bytes")
        return False
    if kind not in ("record", "error", "enum", "fixed"):
        return _takes_nothing(kind, known, namespace)
    name = schema["name"]
    if "." not in name and (given := schema.get("namespace", namespace)):
        name = f"{given}.{name}"
    known[name] = None
    if kind in ("record", "error"):
        inner = name.rpartition(".")[0]
        answers = [_takes_nothing(each["type"], known, inner) for each in schema["fields"]]
        empty = all(answers)
    else:
        empty = kind == "fixed" and schema["size"] == 0
    known[name] = empty
    return empty


def _with_texts(schema: Any) -> Any:
    """Keep a UUID as text."""
    if isinstance(schema, list):
        return [_with_texts(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    kept = {key: value for key, value in schema.items() if (key, value) != ("logicalType", "uuid")}
    for key in ("type", "items", "values"):
        if key in kept:
            kept[key] = _with_texts(kept[key])
    if "fields" in kept:
        kept["fields"] = [{**each, "type": _with_texts(each["type"])} for each in kept["fields"]]
    return kept
