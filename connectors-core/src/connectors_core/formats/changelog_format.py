# SPDX-License-Identifier: Apache-2.0
"""The base of formats whose messages report changes of rows."""

from __future__ import annotations

import copy
from abc import abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import ClassVar, Final, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from connectors_core.errors import ConfigurationError
from connectors_core.formats.change_rows import (
    Changes,
    Mask,
    Operation,
    changelog_rows,
    operations_of,
)
from connectors_core.formats.isolation import RecordFormat, message_bytes
from connectors_core.formats.json_format import JsonFormat
from connectors_core.formats.messages import (
    BadMessage,
    Decoded,
    DecodingFormat,
    Encoded,
    EncodingFormat,
)
from connectors_core.options import Configured
from connectors_core.schema.row_kinds import (
    ROW_KIND_COLUMN,
    RowKind,
    is_deletion,
    is_unknown_row_kind,
)

__all__ = [
    "CHANGELOGS_SINCE",
    "ChangelogFormat",
    "Envelopes",
    "MetadataField",
    "check_row_kind",
]

CHANGELOGS_SINCE: Final = "1.1.0"
"""Version that introduced the options of the formats of changelogs."""

_MOMENT: Final = pa.timestamp("us", "UTC")


@dataclass(frozen=True)
class MetadataField:
    """A value that a message has besides its rows.

    Attributes:
        path: The fields of the message that lead to it, one or two.
        type: Its type in the message.
        micros: The number of microseconds of its unit, if it is the number of a moment.
    """

    path: tuple[str, ...]
    type: pa.DataType
    micros: int | None = None

    @property
    def column_type(self) -> pa.DataType:
        """The type of its column."""
        return self.type if self.micros is None else _MOMENT

    def column(self, messages: pa.RecordBatch) -> tuple[pa.Array, Mask]:
        """Return its column, and which values are out of range."""
        column = messages.column(self.path[0])
        for name in self.path[1:]:
            column = column.flatten()[column.type.get_field_index(name)]
        if self.micros is None:
            return column, np.zeros(len(column), np.bool_)
        most = (2**63 - 1) // self.micros
        inside = pc.and_(pc.greater_equal(column, -most), pc.less_equal(column, most))
        is_outside = pc.fill_null(pc.invert(inside), False).to_numpy(zero_copy_only=False)
        micros = pc.multiply(pc.if_else(inside, column, 0), self.micros)
        return pc.if_else(column.is_valid(), micros, None).view(_MOMENT), is_outside


@dataclass(frozen=True, kw_only=True, eq=False)
class Envelopes:
    """Decoded messages, with their rows still inside.

    Attributes:
        fields: The fields of each message. Those of an empty message are null.
        operation: The `Operation` of each message.
        at: The place of each message among all.
        messages: All messages.
    """

    fields: pa.RecordBatch
    operation: npt.NDArray[np.int64]
    at: npt.NDArray[np.int64]
    messages: pa.Array

    def texts(self, chosen: npt.NDArray[np.int64]) -> pa.Array:
        """Return the bytes of some of the decoded messages."""
        return self.messages.take(pa.array(self.at[chosen]))


class ChangelogFormat(Configured, DecodingFormat, EncodingFormat, scope="format"):
    """The base of formats whose messages report changes of rows.

    Attributes:
        operation_field: The field of a message that names its operation.
        operations: The operations, by name.
        metadata_fields: The metadata of a message, by key.
    """

    one_row_per_message = False
    is_changelog = True
    operation_field: ClassVar[str]
    operations: ClassVar[Mapping[str, Operation]]
    metadata_fields: ClassVar[Mapping[str, MetadataField]]

    _metadata: Mapping[str, str] = MappingProxyType({})
    """The key of the metadata in each column of metadata."""

    @property
    def record_format(self) -> RecordFormat:
        """The format of whole messages, without a notion of changes."""
        return JsonFormat()

    @abstractmethod
    def envelope(self, row: pa.StructType) -> pa.Schema:
        """Return the fields of messages with changes of such rows, without metadata."""

    @abstractmethod
    def changes(self, envelopes: Envelopes) -> Changes:
        """Return the changes that messages report."""

    @abstractmethod
    def enveloped(self, rows: pa.StructArray, is_deleted: pa.BooleanArray) -> pa.RecordBatch:
        """Return the fields of messages, each of which inserts or deletes a row."""

    # --- Reading ---------------------------------------------------------------------------------

    @property
    def readable_metadata(self) -> Mapping[str, pa.DataType]:
        """See `DecodingFormat`."""
        return {key: each.column_type for key, each in self.metadata_fields.items()}

    def reading_metadata(self, columns: Mapping[str, str]) -> Self:
        """See `DecodingFormat`."""
        made = copy.copy(self)
        made._metadata = dict(columns)
        return made

    def check_readable(self, schema: pa.Schema) -> None:
        """See `DecodingFormat`."""
        check_row_kind(schema, required=True)
        self.record_format.check_readable(self._row_fields(schema))

    def projected(self, schema: pa.Schema) -> Self:
        """See `DecodingFormat`."""
        return self

    def decode(self, messages: pa.Array | pa.ChunkedArray, schema: pa.Schema) -> Decoded:
        """See `DecodingFormat`. The rows of a message are in a sequence."""
        messages = message_bytes(messages)
        wanted = {
            column: self.metadata_fields[key]
            for column, key in self._metadata.items()
            if column in schema.names
        }
        decoded = self._decode_envelopes(
            messages,
            pa.schema([*self.envelope(self._row_type(schema)), *_fields_of(wanted.values())]),
        )
        fields, at = decoded.rows, decoded.kept
        if at is None:
            at = np.arange(fields.num_rows)
        operation = operations_of(fields.column(self.operation_field), self.operations)
        is_empty = pc.fill_null(pc.equal(pc.binary_length(messages), 0), True)
        operation[is_empty.to_numpy(zero_copy_only=False)[at]] = Operation.NOTHING
        envelopes = Envelopes(fields=fields, operation=operation, at=at, messages=messages)
        metadata = {column: field.column(fields) for column, field in wanted.items()}
        return changelog_rows(decoded, self.changes(envelopes), metadata, schema)

    def _decode_envelopes(self, messages: pa.Array, schema: pa.Schema) -> Decoded:
        return self.record_format.decode(messages, schema)

    # --- Writing ---------------------------------------------------------------------------------

    def check_writable(self, schema: pa.Schema) -> None:
        """See `EncodingFormat`. Without a column for their kind, rows are inserted."""
        check_row_kind(schema, required=False)
        self.record_format.check_writable(self._row_fields(schema))

    def encode(self, rows: pa.RecordBatch) -> Encoded:
        """See `EncodingFormat`."""
        kinds = pa.repeat(RowKind.INSERT.value, rows.num_rows)
        if ROW_KIND_COLUMN in rows.schema.names:
            kinds = rows.column(ROW_KIND_COLUMN)
            rows = rows.drop_columns([ROW_KIND_COLUMN])
        is_bad = np.asarray(is_unknown_row_kind(kinds).to_numpy(zero_copy_only=False), np.bool_)
        bad = [
            BadMessage(at, "the row has an unknown kind of change")
            for at in np.flatnonzero(is_bad).tolist()
        ]
        kept = np.flatnonzero(~is_bad)
        if bad:
            rows, kinds = rows.take(pa.array(kept)), kinds.take(pa.array(kept))
        envelopes = self.enveloped(rows.to_struct_array(), is_deletion(kinds))
        encoded = self.record_format.encode(envelopes)
        bad += [replace(each, at=int(kept[each.at])) for each in encoded.bad]
        return Encoded(
            messages=encoded.messages,
            kept=encoded.lined_up(pa.array(kept)).to_numpy() if bad else None,
            bad=tuple(sorted(bad, key=lambda each: each.at)),
        )

    def _row_fields(self, schema: pa.Schema) -> pa.Schema:
        others = {ROW_KIND_COLUMN, *self._metadata}
        return pa.schema([each for each in schema if each.name not in others])

    def _row_type(self, schema: pa.Schema) -> pa.StructType:
        return pa.struct([each.with_nullable(True) for each in self._row_fields(schema)])


def check_row_kind(schema: pa.Schema, *, required: bool) -> None:
    """Check the column with the kind of each change, if there is one.

    Raises:
        ConfigurationError: It is not a string, or it is missing although it is required.
    """
    at = schema.get_field_index(ROW_KIND_COLUMN)
    if at < 0 and not required:
        return
    if at < 0 or not pa.types.is_string(schema.field(at).type):
        raise ConfigurationError(
            "a changelog needs a column for the kind of each change",
            expected=f"{ROW_KIND_COLUMN} STRING",
            found=", ".join(schema.names) or "no column",
            option="schema",
        )


def _fields_of(metadata: Iterable[MetadataField]) -> list[pa.Field]:
    """Return the fields of messages with these values."""
    found: dict[str, pa.DataType] = {}
    for each in metadata:
        name, *inside = each.path
        if not inside:
            found[name] = each.type
        else:
            others = found.get(name, pa.struct([]))
            if others.get_field_index(inside[0]) < 0:
                found[name] = pa.struct([*others, (inside[0], each.type)])
    return [pa.field(name, kind) for name, kind in found.items()]
