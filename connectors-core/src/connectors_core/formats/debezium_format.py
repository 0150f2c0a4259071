# SPDX-License-Identifier: Apache-2.0
"""Changes of database rows, as Debezium reports them in JSON and in Avro.

They are Flink's `debezium-json` and `debezium-avro-confluent`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from enum import StrEnum
from functools import cached_property, partial
from typing import ClassVar, Final, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from connectors_core.errors import ConfigurationError, ConnectorError
from connectors_core.formats.avro_format import ConfluentAvroFormat
from connectors_core.formats.change_rows import (
    Changes,
    Fault,
    Mask,
    Operation,
    are_valid,
    unfaulted,
)
from connectors_core.formats.changelog_format import (
    CHANGELOGS_SINCE,
    ChangelogFormat,
    Envelopes,
    MetadataField,
    check_row_kind,
)
from connectors_core.formats.json_format import decode_json
from connectors_core.formats.messages import Decoded, Encoded
from connectors_core.formats.schema_registry import (
    HttpSchemaRegistry,
    SchemaRegistry,
    as_registry,
)
from connectors_core.formats.text import JsonReader, is_binary, is_string
from connectors_core.formats.text.decimals import decimals_from_bytes
from connectors_core.options import Setting, option, option_like, part
from connectors_core.schema import rows_with

__all__ = ["DebeziumAvroFormat", "DebeziumJsonFormat"]

_NO_BEFORE: Final = (
    "the change has no row before it: let the database report whole rows, such as with REPLICA "
    "IDENTITY FULL in PostgreSQL"
)
_UNAVAILABLE: Final = (
    "the change has a placeholder for a value that the database did not report, and the row before "
    "does not have the value: let the database report whole rows, such as with REPLICA IDENTITY "
    "FULL in PostgreSQL"
)
_MILLIS: Final = 1000


class Decimals(StrEnum):
    """How messages have decimals."""

    STRING = "string"
    """As a number, or as its text."""
    PRECISE = "precise"
    """As the base64 of the big-endian bytes of its unscaled value."""


class _DebeziumFormat(ChangelogFormat):
    """The base of both formats."""

    placeholder: Setting[str]
    operation_field = "op"
    operations: ClassVar[Mapping[str, Operation]] = {
        "c": Operation.INSERT,
        "r": Operation.INSERT,  # a row of a snapshot
        "u": Operation.UPDATE,
        "d": Operation.DELETE,
    }
    metadata_fields: ClassVar[Mapping[str, MetadataField]] = {
        "ingestion-timestamp": MetadataField(("ts_ms",), pa.int64(), _MILLIS),
        "source.timestamp": MetadataField(("source", "ts_ms"), pa.int64(), _MILLIS),
        "source.database": MetadataField(("source", "db"), pa.string()),
        "source.schema": MetadataField(("source", "schema"), pa.string()),
        "source.table": MetadataField(("source", "table"), pa.string()),
    }

    def envelope(self, row: pa.StructType) -> pa.Schema:
        """See `ChangelogFormat`."""
        return pa.schema([("before", row), ("after", row), ("op", pa.string())])

    def changes(self, envelopes: Envelopes) -> Changes:
        """See `ChangelogFormat`."""
        operation = envelopes.operation
        before, after, is_unavailable = self._with_unchanged_values(
            *(envelopes.fields.column(name) for name in ("before", "after"))
        )
        has_new = (operation == Operation.INSERT) | (operation == Operation.UPDATE)
        has_old = (operation == Operation.UPDATE) | (operation == Operation.DELETE)
        faults: list[Fault] = [
            (operation == Operation.UNKNOWN, "the operation is unknown"),
            (has_new & ~are_valid(after), "the change has no row after it"),
            (has_old & ~are_valid(before), _NO_BEFORE),
            (has_new & is_unavailable, _UNAVAILABLE),
        ]
        good = unfaulted(operation, faults)
        if len(good) < len(operation):
            before, after = (each.take(pa.array(good)) for each in (before, after))
        return Changes(
            message=good,
            operation=operation[good],
            before=before,
            after=after,
            given=None,
            faults=faults,
        )

    def _with_unchanged_values(
        self, before: pa.StructArray, after: pa.StructArray
    ) -> tuple[pa.StructArray, pa.StructArray, Mask]:
        """Replace placeholders: those after a change by the values before it, others by null.

        A database need not report a large value that did not change.

        Returns:
            The rows before and after, and which rows after still lack a value.
        """
        is_unavailable = np.zeros(len(after), np.bool_)
        is_found = partial(_equal, self.placeholder.encode())
        numbers = np.arange(len(after))
        old, new = before.flatten(), after.flatten()
        for at, (old_values, new_values) in enumerate(zip(old, new, strict=True)):
            unknown, lacking = rows_with(old_values, is_found), rows_with(new_values, is_found)
            if unknown is None or lacking is None:
                continue  # no such value is a text
            if lacking.any():
                both = pa.concat_arrays([new_values, old_values])
                new[at] = both.take(pa.array(np.where(lacking, numbers + len(after), numbers)))
                is_unavailable |= lacking & (unknown | ~are_valid(before))
            if unknown.any():
                old[at] = pc.if_else(pa.array(unknown), None, old_values)
        return _with_values(before, old), _with_values(after, new), is_unavailable

    def enveloped(self, rows: pa.StructArray, is_deleted: pa.BooleanArray) -> pa.RecordBatch:
        """See `ChangelogFormat`."""
        nothing = pa.scalar(None, rows.type)
        return pa.RecordBatch.from_pydict(
            {
                "before": pc.if_else(is_deleted, rows, nothing),
                "after": pc.if_else(is_deleted, nothing, rows),
                "op": pc.if_else(is_deleted, "d", "c"),
            }
        )


def _equal(data: bytes, column: pa.Array) -> Mask | None:
    """Return which values are a text; None for values other than texts and bytes."""
    if not (is_string(column.type) or is_binary(column.type)):
        return None
    found = pc.fill_null(pc.equal(column, pa.scalar(data).cast(column.type)), False)
    return np.asarray(found.to_numpy(zero_copy_only=False), np.bool_)


def _with_values(rows: pa.StructArray, values: Sequence[pa.Array]) -> pa.StructArray:
    """Return rows with other values in their fields."""
    return pa.StructArray.from_arrays(values, fields=[*rows.type], mask=rows.is_null())


class DebeziumJsonFormat(_DebeziumFormat):
    """Each message is a change of a row in Debezium's JSON, with the row before and after it.

    The column `_row_kind` has the kind of each change. A created row and a row of a snapshot are
    `+I`, and a deleted one is `-D`. An update is two rows: `-U`, the row before, and `+U`, the row
    after. A tombstone has no row. The other columns are read as by the format `json`.

    Written messages have one row each: `+I` and `+U` are a created row, `-U` and `-D` a deleted
    one. Readers get the same table.
    """

    placeholder: Setting[str] = option(
        "debezium-json.unavailable-value-placeholder",
        str,
        default="__debezium_unavailable_value",
        doc="Debezium's `unavailable.value.placeholder`: stands for a large value that did not "
        "change. The value of the row before replaces it. Without one, the change is a bad record.",
        since="1.2.0",
    )
    decimals: Setting[Decimals, Decimals | Literal["string", "precise"]] = option(
        "debezium-json.decimals",
        Decimals,
        default=Decimals.STRING,
        doc="How messages have decimals: `string`, a number or its text, or `precise`, the base64 "
        "of its bytes, which is the default of Debezium's `decimal.handling.mode`. Messages with "
        "bytes cannot be written.",
        since="1.2.0",
    )
    schema_include: Setting[bool] = option(
        "debezium-json.schema-include",
        bool,
        default=False,
        doc="Whether messages contain their schema, as with Kafka Connect's "
        "`value.converter.schemas.enable`. Such messages cannot be written.",
        since=CHANGELOGS_SINCE,
    )

    def check_writable(self, schema: pa.Schema) -> None:
        """See `EncodingFormat`."""
        if self.schema_include:
            raise ConfigurationError(
                "messages with their schema cannot be written",
                option="debezium-json.schema-include",
                hint="remove it",
            )
        if self.decimals is Decimals.PRECISE:
            raise ConfigurationError(
                "decimals cannot be written as bytes",
                option="debezium-json.decimals",
                hint="remove it",
            )
        super().check_writable(schema)

    def _decode_envelopes(self, messages: pa.Array, schema: pa.Schema) -> Decoded:
        if not self.schema_include:
            return self._decode(messages, schema)
        decoded = self._decode(messages, pa.schema([("payload", pa.struct(schema))]))
        columns = decoded.rows.column(0).flatten()
        return replace(decoded, rows=pa.RecordBatch.from_arrays(columns, schema=schema))

    def _decode(self, messages: pa.Array, schema: pa.Schema) -> Decoded:
        if self.decimals is Decimals.STRING:
            return super()._decode_envelopes(messages, schema)
        read = pa.schema([each.with_type(_with_bytes(each.type)) for each in schema])
        reader = JsonReader(read, ignore_new=True)
        empty = self.record_format.empty_messages
        return decode_json(messages, reader, schema, empty=empty, cast_values=_cast_precise)


def _with_bytes(kind: pa.DataType) -> pa.DataType:
    """Return a type with bytes for decimals, at any depth."""
    types = pa.types
    if types.is_decimal(kind):
        return pa.binary()
    if types.is_struct(kind):
        return pa.struct([each.with_type(_with_bytes(each.type)) for each in kind])
    if types.is_map(kind):
        return pa.map_(kind.key_type, _with_bytes(kind.item_type))
    if types.is_list(kind):
        return pa.list_(_with_bytes(kind.value_type))
    return kind


def _cast_precise(column: pa.Array, kind: pa.DataType) -> pa.Array:
    return decimals_from_bytes(column, kind) if pa.types.is_decimal(kind) else column.cast(kind)


class DebeziumAvroFormat(_DebeziumFormat, since=CHANGELOGS_SINCE):
    """Like `DebeziumJsonFormat`, in Avro. The schema of a message is in a registry.

    Flink's `debezium-avro-confluent`. The fields of rows are read and written as by
    `ConfluentAvroFormat`.
    """

    placeholder: Setting[str] = option_like(
        DebeziumJsonFormat.placeholder, "debezium-avro-confluent.unavailable-value-placeholder"
    )
    registry: Setting[SchemaRegistry] = part(
        HttpSchemaRegistry,
        *(option_like(each, "debezium-" + each.key) for each in HttpSchemaRegistry.OPTIONS),
        build=lambda options: HttpSchemaRegistry.from_parsed(options.below("debezium-")),
        accept=as_registry,
        doc="Registry of the schemas.",
    )
    subject: Setting[str | None] = option_like(
        ConfluentAvroFormat.subject, "debezium-avro-confluent.subject"
    )
    schema: Setting[str | None] = option_like(
        ConfluentAvroFormat.schema,
        "debezium-avro-confluent.schema",
        doc="Schema to write with, as JSON, of a record of `before`, `after`, and `op`; derived "
        "from the columns if not set.",
    )

    @cached_property
    def record_format(self) -> ConfluentAvroFormat:
        """See `ChangelogFormat`. It skips the fields of messages that are not needed."""
        form = ConfluentAvroFormat(registry=self.registry, subject=self.subject, schema=self.schema)
        return form.projected(pa.schema([]))

    def check_writable(self, schema: pa.Schema) -> None:
        """See `EncodingFormat`."""
        check_row_kind(schema, required=False)
        with self._named_as_here():
            self.record_format.check_writable(self.envelope(self._row_type(schema)))

    def encode(self, rows: pa.RecordBatch) -> Encoded:
        """See `EncodingFormat`."""
        with self._named_as_here():
            return super().encode(rows)

    def _decode_envelopes(self, messages: pa.Array, schema: pa.Schema) -> Decoded:
        with self._named_as_here():
            return super()._decode_envelopes(messages, schema)

    @contextmanager
    def _named_as_here(self) -> Iterator[None]:
        try:
            yield
        except ConnectorError as error:
            error.rename_options({each.origin: each.key for each in self.OPTIONS if each.origin})
            raise
