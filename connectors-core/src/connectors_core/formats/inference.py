# SPDX-License-Identifier: Apache-2.0
"""Recognizes the format of messages, and infers their columns.

A format is recognized if it reads all messages with the columns that they show.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from connectors_core.formats.avro_format import ConfluentAvroFormat, schema_ids_of
from connectors_core.formats.avro_schemas import check_avro_installed, parsed_schema
from connectors_core.formats.avro_types import columns_of_records
from connectors_core.formats.csv_format import CsvFormat
from connectors_core.formats.json_format import JsonFormat, look_like_objects
from connectors_core.formats.json_schemas import columns_of_json_schema
from connectors_core.formats.messages import DecodingFormat
from connectors_core.formats.options import FormatName
from connectors_core.formats.schema_registry import (
    AVRO,
    JSON,
    RegisteredSchema,
    SchemaRegistry,
    UnknownSchemaError,
)
from connectors_core.formats.text import (
    CsvDialect,
    data_of,
    explained,
    infer_csv,
    nearest_spark_schema,
)
from connectors_core.formats.text.json_conflicts import TypeConflict, infer_mixed_json

__all__ = ["InferredMessages", "columns_of_avro", "columns_of_registered", "infer_messages"]

_SPACE: Final = " \t\r\n"
_CONTROL: Final = sorted(set(range(0x20)) - set(_SPACE.encode()))
_FEWEST_FIELDS: Final = 2
_FEWEST_RECORDS: Final = 3


@dataclass(frozen=True, kw_only=True)
class InferredMessages:
    """The format of messages, and their columns.

    Attributes:
        format: The format. In `string` and `raw`, a message is one value.
        schema: The columns; none if a message is one value.
        conflicts: The fields of JSON that have different types.
        omitted: The fields that no column of Spark can have.
        reason: Why a format that the messages resemble does not read them.
    """

    format: FormatName
    schema: pa.Schema = field(default_factory=lambda: pa.schema([]))
    conflicts: tuple[TypeConflict, ...] = ()
    omitted: tuple[str, ...] = ()
    reason: str | None = None


_Attempt: TypeAlias = InferredMessages | str
"""What an attempt has found, or why the messages have another format, although they resemble this
one. The reason is empty if they do not."""


def infer_messages(
    messages: pa.Array, *, registry: SchemaRegistry | None = None, csv: bool = True
) -> InferredMessages:
    """Recognize the format of a sample of messages; driver.

    Binary messages are Avro with ids of schemas, or raw. Texts are JSON objects, CSV, or strings.
    CSV has at least three messages of at least two fields, and none begins as JSON does.

    Args:
        messages: Binary column; at least one message, and none is null or empty.
        registry: The registry of schemas. Without one, Avro is not recognized.
        csv: Whether texts can be CSV.

    Raises:
        MissingDependencyError: The messages can be Avro, and its library is not installed.
        RetryableError: The registry is temporarily unreachable.
        ConfigurationError: The registry rejects the request.
    """
    attempts: list[Callable[[pa.Array], _Attempt]]
    if _are_texts(messages):
        attempts, otherwise = [_json, _csv] if csv else [_json], FormatName.STRING
    else:
        attempts, otherwise = [partial(_avro, registry=registry)], FormatName.RAW
    for attempt in attempts:
        found = attempt(messages)
        if isinstance(found, InferredMessages):
            return found
        if found:
            return InferredMessages(format=otherwise, reason=found)
    return InferredMessages(format=otherwise)


def columns_of_avro(schema: str) -> InferredMessages:
    """Return the columns of messages with the id of an Avro schema; driver.

    Raises:
        MissingDependencyError: The library for Avro is not installed.
        ValueError: It is not the schema of a record, or it is not allowed.
    """
    check_avro_installed()
    columns, omitted = _columns(*columns_of_records(parsed_schema(schema)))
    return InferredMessages(format=FormatName.AVRO_CONFLUENT, schema=columns, omitted=omitted)


def columns_of_registered(schema: RegisteredSchema) -> InferredMessages:
    """Return the columns of messages with the id of a schema; driver.

    Raises:
        MissingDependencyError: The library for Avro is not installed.
        ValueError: No format reads its messages, or they have no columns.
    """
    if schema.kind == AVRO:
        return columns_of_avro(schema.text)
    if schema.kind != JSON:
        raise ValueError(f"no format reads messages with a schema of {schema.kind}")
    columns, omitted = _columns(columns_of_json_schema(schema.text), ())
    return InferredMessages(format=FormatName.JSON_CONFLUENT, schema=columns, omitted=omitted)


def _are_texts(messages: pa.Array) -> bool:
    try:
        messages.cast(pa.string())
    except pa.ArrowInvalid:
        return False
    return not np.isin(np.frombuffer(data_of(messages), np.uint8), _CONTROL).any()


def _json(messages: pa.Array) -> _Attempt:
    trimmed = pc.ascii_trim(messages.cast(pa.string()), _SPACE).cast(pa.binary())
    objects = int(look_like_objects(trimmed).sum())
    if objects < len(messages):
        return f"{objects} of {len(messages)} messages are JSON objects" if objects else ""
    try:
        schema, conflicts = infer_mixed_json(b"\n".join(messages.to_pylist()))
    except pa.ArrowInvalid as error:
        return explained(error)
    found = InferredMessages(format=FormatName.JSON, schema=schema, conflicts=conflicts)
    return _checked(found, JsonFormat(), messages)


def _csv(messages: pa.Array) -> _Attempt:
    lines = pc.ascii_rtrim(messages.cast(pa.string()), "\r\n").to_pylist()
    text = "".join(f"{line}\n" for line in lines)
    try:
        schema = infer_csv(text.encode(), (), CsvDialect(), newlines_in_values=True)
    except pa.ArrowInvalid:
        return ""
    if len(schema) < _FEWEST_FIELDS:
        return ""
    if any(line.lstrip().startswith(("[", "{")) for line in lines):
        return "the messages look like CSV, and some begin as JSON does"
    if len(lines) < _FEWEST_RECORDS:
        return f"the messages look like CSV, which needs at least {_FEWEST_RECORDS} of them"
    found = InferredMessages(format=FormatName.CSV, schema=schema)
    return _checked(found, CsvFormat(), messages)


def _avro(messages: pa.Array, registry: SchemaRegistry | None) -> _Attempt:
    ids = schema_ids_of(messages)
    if ids is None:
        return ""
    if registry is None:
        return "the messages look like Avro with IDs of schemas, and no registry is named"
    try:
        parts = [columns_of_avro(registry.schema_of(each)) for each in sorted(ids)]
        schema = pa.unify_schemas([each.schema for each in parts], promote_options="permissive")
    except (UnknownSchemaError, ValueError, pa.ArrowTypeError) as error:
        return str(error)
    omitted = tuple(dict.fromkeys(name for each in parts for name in each.omitted))
    found = InferredMessages(format=FormatName.AVRO_CONFLUENT, schema=schema, omitted=omitted)
    return _checked(found, ConfluentAvroFormat(registry=registry), messages)


def _checked(found: InferredMessages, format: DecodingFormat, messages: pa.Array) -> _Attempt:
    """Return what was found, with columns that Spark can have, if it reads all messages."""
    schema, omitted = _columns(found.schema, found.omitted)
    if not schema.names:
        return f"the {found.format.value} messages have no fields"
    bad = format.decode(messages, schema).bad
    if bad:
        reason = bad[0].reason
        return f"{len(bad)} of {len(messages)} messages are not {found.format.value}: {reason}"
    return replace(found, schema=schema, omitted=omitted)


def _columns(schema: pa.Schema, omitted: Sequence[str]) -> tuple[pa.Schema, tuple[str, ...]]:
    """Return columns that Spark can have, and the fields that have none."""
    without = list(omitted)
    distinct = pa.schema(_distinct(schema, without, ""))
    return nearest_spark_schema(distinct), tuple(without)


def _distinct(fields: Iterable[pa.Field], omitted: list[str], above: str) -> list[pa.Field]:
    """Leave out fields without a name, and those whose names Spark takes for an earlier one's."""
    kept: dict[str, pa.Field] = {}
    for each in fields:
        path = f"{above}{each.name}"
        if not each.name or each.name.lower() in kept:
            omitted.append(path)
        else:
            kept[each.name.lower()] = each.with_type(_distinct_type(each.type, omitted, path))
    return list(kept.values())


def _distinct_type(kind: pa.DataType, omitted: list[str], path: str) -> pa.DataType:
    if pa.types.is_struct(kind):
        return pa.struct(_distinct(kind, omitted, f"{path}."))
    if pa.types.is_list(kind):
        return pa.list_(_distinct_type(kind.value_type, omitted, f"{path}[]"))
    return kind
