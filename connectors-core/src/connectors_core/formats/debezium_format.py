# SPDX-License-Identifier: Apache-2.0
"""Changes of database rows, as Debezium reports them in JSON (Flink's `debezium-json`)."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from connectors_core.errors import ConfigurationError
from connectors_core.formats.isolation import EmptyMessages, decode_isolating
from connectors_core.formats.json_format import JsonFormat, explain_json, read_json_messages
from connectors_core.formats.messages import (
    BadMessage,
    Decoded,
    DecodingFormat,
    Encoded,
    EncodingFormat,
)
from connectors_core.formats.text import JsonReader
from connectors_core.options import Configured, Setting, option
from connectors_core.schema import ROW_KIND_COLUMN, RowKind

__all__ = ["DebeziumJsonFormat"]

_SINCE: Final = "1.1.0"
_KINDS: Final = pa.array([each.value for each in RowKind])
_INSERT, _BEFORE, _AFTER, _DELETE = (
    [*RowKind].index(each)
    for each in (RowKind.INSERT, RowKind.UPDATE_BEFORE, RowKind.UPDATE_AFTER, RowKind.DELETE)
)
_INSERTS: Final = pa.array(["c", "r"])  # a created row, and one of a snapshot
_OPERATIONS: Final = pa.array(["c", "r", "u", "d"])
_NO_BEFORE: Final = (
    "the change has no row before it: let the database report whole rows, such as with REPLICA "
    "IDENTITY FULL in PostgreSQL"
)


class DebeziumJsonFormat(Configured, DecodingFormat, EncodingFormat, scope="format"):
    """Each message is a change of a row in Debezium's JSON, with the row before and after it.

    The column `_row_kind` has the kind of each change. A created row and a row of a snapshot are
    `+I`, and a deleted one is `-D`. An update is two rows: `-U`, the row before, and `+U`, the row
    after. A tombstone has no row. The other columns are read as by the format `json`.

    Written messages have one row each: `+I` and `+U` are a created row, `-U` and `-D` a deleted
    one. Readers get the same table.
    """

    one_row_per_message = False

    schema_include: Setting[bool] = option(
        "debezium-json.schema-include",
        bool,
        default=False,
        doc="Whether messages contain their schema, as with Kafka Connect's "
        "`value.converter.schemas.enable`. Such messages cannot be written.",
        since=_SINCE,
    )

    def check_readable(self, schema: pa.Schema) -> None:
        """See `DecodingFormat`."""
        _check_row_kind(schema)
        JsonFormat().check_readable(_row_fields(schema))

    def projected(self, schema: pa.Schema) -> DebeziumJsonFormat:
        """See `DecodingFormat`."""
        return self

    def check_writable(self, schema: pa.Schema) -> None:
        """See `EncodingFormat`."""
        if self.schema_include:
            raise ConfigurationError(
                "messages with their schema cannot be written",
                option="debezium-json.schema-include",
                hint="remove it",
            )
        _check_row_kind(schema)
        JsonFormat().check_writable(_row_fields(schema))

    def decode(self, messages: pa.Array | pa.ChunkedArray, schema: pa.Schema) -> Decoded:
        """See `DecodingFormat`. The rows of a message are in a sequence."""
        row = _row_type(schema)
        envelope = pa.schema([("before", row), ("after", row), ("op", pa.string())])
        outer = envelope
        if self.schema_include:
            outer = pa.schema([("payload", pa.struct(envelope))])
        reader = JsonReader(outer, ignore_new=True)
        changes = decode_isolating(
            messages,
            outer,
            parse=lambda part: read_json_messages(part, reader),
            explain=explain_json,
            empty=EmptyMessages.NULL,
        )
        columns = changes.rows.columns
        if self.schema_include:
            columns = columns[0].flatten()
        return _rows_of(changes, columns, messages, schema)

    def encode(self, rows: pa.RecordBatch) -> Encoded:
        """See `EncodingFormat`."""
        at = rows.schema.get_field_index(ROW_KIND_COLUMN)
        kinds = pc.index_in(rows.column(at).cast(pa.string()), value_set=_KINDS)
        codes = pc.fill_null(kinds, -1).to_numpy()
        bad = tuple(
            BadMessage(number, "the row has an unknown kind of change")
            for number in np.flatnonzero(codes < 0).tolist()
        )
        kept = np.flatnonzero(codes >= 0)
        if bad:
            rows, codes = rows.take(pa.array(kept)), codes[kept]
        deleted = (codes == _BEFORE) | (codes == _DELETE)
        values = rows.drop_columns([ROW_KIND_COLUMN]).to_struct_array()
        nothing = pa.scalar(None, values.type)
        is_deleted = pa.array(deleted)
        envelope = pa.RecordBatch.from_pydict(
            {
                "before": pc.if_else(is_deleted, values, nothing),
                "after": pc.if_else(is_deleted, nothing, values),
                "op": pc.if_else(is_deleted, "d", "c"),
            }
        )
        encoded = JsonFormat().encode(envelope)
        return Encoded(messages=encoded.messages, kept=kept if bad else None, bad=bad)


def _check_row_kind(schema: pa.Schema) -> None:
    at = schema.get_field_index(ROW_KIND_COLUMN)
    if at < 0 or not pa.types.is_string(schema.field(at).type):
        raise ConfigurationError(
            "a changelog needs a column for the kind of each change",
            expected=f"{ROW_KIND_COLUMN} STRING",
            found=", ".join(schema.names) or "no column",
            option="schema",
        )


def _row_fields(schema: pa.Schema) -> pa.Schema:
    return pa.schema([each for each in schema if each.name != ROW_KIND_COLUMN])


def _row_type(schema: pa.Schema) -> pa.DataType:
    """Return the type of rows, in which all is nullable; text if no column is wanted."""
    fields = [each.with_nullable(True) for each in _row_fields(schema)]
    return pa.struct(fields) if fields else pa.string()


def _rows_of(
    changes: Decoded,
    columns: list[pa.Array],
    messages: pa.Array | pa.ChunkedArray,
    schema: pa.Schema,
) -> Decoded:
    """Return the rows of changes, and those that cannot be used as bad messages."""
    before, after, op = columns
    count = len(op)
    at = np.arange(count) if changes.kept is None else changes.kept
    sizes = pc.fill_null(pc.binary_length(messages), 0).to_numpy(zero_copy_only=False)
    has_before, has_after = (_are_valid(each) for each in (before, after))
    inserts, updates, deletes = (
        _are_in(op, each) for each in (_INSERTS, pa.array(["u"]), pa.array(["d"]))
    )
    filled = sizes[at] > 0
    reasons = np.select(
        [
            ~filled,
            ~_are_in(op, _OPERATIONS),
            (inserts | updates) & ~has_after,
            (updates | deletes) & ~has_before,
        ],
        ["", "the operation is unknown", "the change has no row after it", _NO_BEFORE],
        "",
    )
    # One or two rows for each change: the first is that before an update or a deletion.
    counts = np.where(filled & (reasons == ""), 1 + updates, 0)
    change = np.repeat(np.arange(count), counts)
    is_second = np.arange(len(change)) - np.repeat(np.cumsum(counts) - counts, counts) == 1
    is_after = inserts[change] | is_second
    kinds = np.select(
        [inserts[change], deletes[change], is_second], [_INSERT, _DELETE, _AFTER], _BEFORE
    )
    rows = _taken(before, after, change + count * is_after, kinds, schema)
    lacking = _lacking(rows, schema)
    if lacking is not None:
        bad_change = np.unique(change[lacking])
        reasons[bad_change] = "a column that is not nullable is null"
        good = ~np.isin(change, bad_change)
        rows, change = rows.filter(pa.array(good)), change[good]
    own = [BadMessage(int(at[each]), str(reasons[each])) for each in np.flatnonzero(reasons != "")]
    bad = sorted([*changes.bad, *own], key=lambda each: each.at)
    rows = pa.RecordBatch.from_arrays(rows.columns, schema=schema)
    return Decoded(rows=rows, kept=at[change], bad=tuple(bad))


def _are_valid(column: pa.Array) -> npt.NDArray[np.bool_]:
    return np.asarray(column.is_valid().to_numpy(zero_copy_only=False), np.bool_)


def _are_in(column: pa.Array, values: pa.Array) -> npt.NDArray[np.bool_]:
    found = pc.is_in(column, value_set=values)
    return np.asarray(found.to_numpy(zero_copy_only=False), np.bool_)


def _taken(
    before: pa.Array,
    after: pa.Array,
    places: npt.NDArray[np.int64],
    kinds: npt.NDArray[np.int64],
    schema: pa.Schema,
) -> pa.RecordBatch:
    """Return rows from the rows before, followed by those after, with their kinds."""
    wanted = pa.array(places)
    nullable = pa.schema([each.with_nullable(True) for each in schema])
    parts = {}
    if pa.types.is_struct(before.type):
        for at, field in enumerate(before.type):
            both = pa.concat_arrays([before.flatten()[at], after.flatten()[at]])
            parts[field.name] = both.take(wanted)
    parts[ROW_KIND_COLUMN] = _KINDS.take(pa.array(kinds))
    return pa.RecordBatch.from_arrays([parts[name] for name in schema.names], schema=nullable)


def _lacking(rows: pa.RecordBatch, schema: pa.Schema) -> npt.NDArray[np.bool_] | None:
    """Return which rows lack the value of a column that is not nullable; None if none does."""
    found: npt.NDArray[np.bool_] | None = None
    for field in schema:
        column = rows.column(field.name)
        if not field.nullable and column.null_count:
            lacks = ~_are_valid(column)
            found = lacks if found is None else found | lacks
    return found
