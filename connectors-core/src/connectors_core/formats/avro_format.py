# SPDX-License-Identifier: Apache-2.0
"""Messages in Avro's binary encoding, with or without the id of their schema.

Records of plain fields are decoded column by column. Avro's library reads all others, and writes
records. It creates a Python object for each of them.
"""

from __future__ import annotations

import copy
import struct
from collections.abc import Callable
from io import BytesIO
from typing import Any, Final, TypeVar, cast

import numpy as np
import pyarrow as pa

from connectors_core.errors import ConfigurationError
from connectors_core.formats.avro_columns import decoded_columns, same_header
from connectors_core.formats.avro_schemas import (
    avro_schema_of,
    check_avro_installed,
    narrowed_schema,
    parsed_schema,
)
from connectors_core.formats.isolation import (
    SINCE,
    KnownBadError,
    RecordFormat,
    decode_isolating,
)
from connectors_core.formats.messages import BadMessage, Decoded, Encoded
from connectors_core.formats.schema_registry import (
    HttpSchemaRegistry,
    SchemaRegistry,
    UnknownSchemaError,
    as_registry,
)
from connectors_core.formats.text.columns import explained
from connectors_core.options import Setting, option, part
from connectors_core.schema.python_rows import columns_of

__all__ = ["AvroFormat", "ConfluentAvroFormat", "schema_ids_of"]

_HEADER: Final = struct.Struct(">bI")
_SomeAvroFormat = TypeVar("_SomeAvroFormat", bound="_AvroFormat")


class _AvroFormat(RecordFormat):
    """The base of both formats."""

    _narrows = False
    """Whether it skips the fields that are not columns, so that it does not notice bad ones."""


class AvroFormat(_AvroFormat):
    """Each message is one record in Avro's binary encoding; its fields are the columns.

    Fields that are not columns are ignored.
    """

    schema: Setting[str | None] = option(
        "avro.schema",
        str,
        default=None,
        doc="Schema to write messages with, as JSON; derived from the columns if not set.",
        since=SINCE,
        aliases=("avroschema",),
    )

    def check_readable(self, schema: pa.Schema) -> None:
        """See `DecodingFormat`."""
        _check(schema, self.schema, "avro.schema")

    def projected(self, schema: pa.Schema) -> AvroFormat:
        """See `DecodingFormat`."""
        return _narrowing(self.replaced(schema=self.schema or avro_schema_of(schema)))

    def check_writable(self, schema: pa.Schema) -> None:
        """See `EncodingFormat`."""
        _check(schema, self.schema, "avro.schema")

    def decode(self, messages: pa.Array | pa.ChunkedArray, schema: pa.Schema) -> Decoded:
        """See `DecodingFormat`."""
        written = parsed_schema(self.schema or avro_schema_of(schema))
        return _decode(messages, schema, lambda message: (written, message), self, framed=0)

    def encode(self, rows: pa.RecordBatch) -> Encoded:
        """See `EncodingFormat`."""
        return _encode(rows, self.schema or avro_schema_of(rows.schema), b"")


class ConfluentAvroFormat(_AvroFormat, since=SINCE):
    """Like `AvroFormat`, with a prefix: a zero byte and the four bytes of the schema's id."""

    registry: Setting[SchemaRegistry] = part(
        HttpSchemaRegistry, accept=as_registry, doc="Registry of the schemas."
    )
    subject: Setting[str | None] = option(
        "avro-confluent.subject",
        str,
        default=None,
        doc="Subject to register the schema under; required to write.",
    )
    schema: Setting[str | None] = option(
        "avro-confluent.schema",
        str,
        default=None,
        doc="Schema to write with, as JSON; derived from the columns if not set.",
    )

    def check_readable(self, schema: pa.Schema) -> None:
        """See `DecodingFormat`."""
        check_avro_installed()

    def projected(self, schema: pa.Schema) -> ConfluentAvroFormat:
        """See `DecodingFormat`."""
        return _narrowing(copy.copy(self))

    def check_writable(self, schema: pa.Schema) -> None:
        """See `EncodingFormat`."""
        if self.subject is None:
            raise ConfigurationError(
                "writing with a schema registry requires a subject",
                option="avro-confluent.subject",
                hint="set it; usually it is the topic followed by -value or -key",
            )
        _check(schema, self.schema, "avro-confluent.schema")

    def decode(self, messages: pa.Array | pa.ChunkedArray, schema: pa.Schema) -> Decoded:
        """See `DecodingFormat`."""
        return _decode(messages, schema, _Frames(self.registry), self, framed=_HEADER.size)

    def encode(self, rows: pa.RecordBatch) -> Encoded:
        """See `EncodingFormat`."""
        assert self.subject is not None  # check_writable
        schema = self.schema or avro_schema_of(rows.schema)
        schema_id = self.registry.register(self.subject, schema)
        return _encode(rows, schema, _HEADER.pack(0, schema_id))


class _Frames:
    """Returns the schema and the record of messages; asks once for a schema that does not exist."""

    def __init__(self, registry: SchemaRegistry) -> None:
        self._registry = registry
        self._unknown: dict[int, str] = {}

    def __call__(self, message: bytes) -> tuple[Any, bytes]:
        schema_id = _schema_id(message)
        if schema_id is None:
            raise ValueError("the message does not start with a schema id")
        if schema_id in self._unknown:
            raise ValueError(self._unknown[schema_id])
        try:
            return parsed_schema(self._registry.schema_of(schema_id)), message[_HEADER.size :]
        except UnknownSchemaError as exc:
            self._unknown[schema_id] = str(exc)
            raise ValueError(str(exc)) from exc


def schema_ids_of(messages: pa.Array) -> set[int] | None:
    """Return the ids of schemas with which messages begin, or None if one begins otherwise."""
    found = set(map(_schema_id, messages.to_pylist()))
    return None if None in found else cast("set[int]", found)


def _schema_id(message: bytes) -> int | None:
    if len(message) < _HEADER.size:
        return None
    magic, schema_id = _HEADER.unpack_from(message)
    return None if magic != 0 else int(schema_id)


def _narrowing(settings: _SomeAvroFormat) -> _SomeAvroFormat:
    settings._narrows = True
    return settings


def _check(schema: pa.Schema, declared: str | None, option: str) -> None:
    check_avro_installed()
    if declared is None:
        avro_schema_of(schema)
        return
    try:
        parsed = parsed_schema(declared)
    except ValueError as exc:
        raise ConfigurationError(
            "the Avro schema cannot be used", found=str(exc), option=option
        ) from exc
    known = [field["name"] for field in parsed["fields"]]
    missing = [name for name in schema.names if name not in known]
    if missing:
        raise ConfigurationError(
            f"the Avro schema has no field {missing[0]!r}",
            expected="one of " + ", ".join(known),
            found=missing[0],
            option=option,
        )


# --- Reading -------------------------------------------------------------------------------------


def _decode(
    messages: pa.Array | pa.ChunkedArray,
    schema: pa.Schema,
    frame: Callable[[bytes], tuple[Any, bytes]],
    settings: _AvroFormat,
    *,
    framed: int,
) -> Decoded:
    """Decode messages.

    Args:
        messages: See `DecodingFormat.decode`.
        schema: Wanted columns.
        frame: Returns the schema of a message, and its record; raises `ValueError` with the reason
            if the message is bad.
        settings: The format.
        framed: The number of bytes before the record, which determine the schema.
    """

    def parse(part: pa.Array) -> pa.RecordBatch:
        columns = _plain_columns(part, schema, frame, framed, narrow=settings._narrows)
        if columns is not None:
            return columns
        return read_each(part)

    def read_each(part: pa.Array) -> pa.RecordBatch:
        records: list[dict[str, Any]] = []
        reasons: list[str | None] = []
        wanted: dict[int, Any] = {}  # by the identity of the schema of messages
        for message in part.to_pylist():
            try:
                written, record = frame(message)
                if settings._narrows and id(written) not in wanted:
                    wanted[id(written)] = narrowed_schema(written, schema.names)
                records.append(_read(written, wanted.get(id(written)), record))
                reasons.append(None)
            except ValueError as exc:
                reasons.append(str(exc))
        if len(records) < len(part):
            raise KnownBadError(reasons)
        return columns_of(records, schema)

    return decode_isolating(
        messages,
        schema,
        parse=parse,
        explain=lambda _, exc: explained(exc),
        empty=settings.empty_messages,
    )


def _plain_columns(
    messages: pa.Array,
    schema: pa.Schema,
    frame: Callable[[bytes], tuple[Any, bytes]],
    framed: int,
    *,
    narrow: bool,
) -> pa.RecordBatch | None:
    """Decode messages of one schema column by column; None if they have to be read one by one."""
    if len(messages) < 2 or messages.null_count or same_header(messages, framed) is None:
        return None
    try:
        written, _ = frame(messages[0].as_py())
    except ValueError:
        return None
    return decoded_columns(messages, written, schema, skip=framed, narrow=narrow)


def _read(written: Any, wanted: Any | None, message: bytes) -> dict[str, Any]:
    import fastavro

    stream = BytesIO(message)
    try:
        record = fastavro.schemaless_reader(stream, written, wanted)
    except Exception as exc:  # the exception depends on the damage
        raise ValueError("the message does not match its schema") from exc
    if stream.tell() != len(message):
        raise ValueError("the message continues after its record")
    assert isinstance(record, dict)  # the schema is one of a record
    return record


# --- Writing -------------------------------------------------------------------------------------


def _rows(rows: pa.RecordBatch) -> list[dict[str, Any] | None]:
    """Return the rows, and None for one with a value that Python does not have."""
    try:
        return list(rows.to_pylist(maps_as_pydicts="lossy"))
    except (ValueError, OverflowError):
        if rows.num_rows == 1:
            return [None]
        half = rows.num_rows // 2
        return _rows(rows.slice(0, half)) + _rows(rows.slice(half))


def _encode(rows: pa.RecordBatch, schema: str, header: bytes) -> Encoded:
    import fastavro
    from fastavro.validation import validate

    parsed = parsed_schema(schema)
    messages: list[bytes] = []
    bad: list[BadMessage] = []
    for at, row in enumerate(_rows(rows)):
        stream = BytesIO()
        stream.write(header)
        try:
            if not validate(row, parsed, raise_errors=False):
                raise ValueError("the row does not fit the schema")
            fastavro.schemaless_writer(stream, parsed, row)
        except Exception:  # its text holds values
            bad.append(BadMessage(at, "the row does not fit the Avro schema"))
        else:
            messages.append(stream.getvalue())
    is_bad = np.zeros(rows.num_rows, np.bool_)
    is_bad[[each.at for each in bad]] = True
    return Encoded(
        messages=pa.array(messages, pa.binary()),
        kept=np.flatnonzero(~is_bad) if bad else None,
        bad=tuple(bad),
    )
