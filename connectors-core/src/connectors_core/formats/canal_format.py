# SPDX-License-Identifier: Apache-2.0
"""Changes of rows in MySQL, as Canal reports them in JSON (Flink's `canal-json`)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from connectors_core.formats.change_rows import Changes, Mask, Operation
from connectors_core.formats.changelog_format import (
    CHANGELOGS_SINCE,
    ChangelogFormat,
    Envelopes,
    MetadataField,
)
from connectors_core.formats.isolation import EmptyMessages
from connectors_core.formats.json_format import JsonFormat, decode_json
from connectors_core.formats.messages import Decoded
from connectors_core.formats.partial_changes import partial_changes
from connectors_core.formats.text import JsonReader, converted
from connectors_core.options import REGEX, Setting, option

__all__ = ["CanalJsonFormat"]

_MILLIS: Final = 1000
_WRITTEN_AS_TEXTS: Final = (pa.types.is_integer, pa.types.is_floating, pa.types.is_boolean)
_NO_ROWS: Final = (
    *("CREATE", "ALTER", "ERASE", "QUERY", "TRUNCATE", "RENAME", "CINDEX", "DINDEX"),
    *("GTID", "XACOMMIT", "XAROLLBACK", "MHEARTBEAT"),
)


class CanalJsonFormat(ChangelogFormat, since=CHANGELOGS_SINCE):
    """Each message has changes of rows in Canal's JSON, of one kind.

    The column `_row_kind` has the kind of each change, as in `DebeziumJsonFormat`. A message has
    whole rows, and the former values of their changed fields. An update has two rows for each. A
    change of a table itself has no row. The other columns are read as by the format `json`, and
    numbers and booleans also from texts, as Canal writes them.

    Written messages have one row each: `+I` and `+U` are an inserted row, `-U` and `-D` a deleted
    one.
    """

    operation_field = "type"
    operations: ClassVar[Mapping[str, Operation]] = {
        "INSERT": Operation.INSERT,
        "UPDATE": Operation.UPDATE,
        "DELETE": Operation.DELETE,
        **dict.fromkeys(_NO_ROWS, Operation.NOTHING),
    }
    metadata_fields: ClassVar[Mapping[str, MetadataField]] = {
        "database": MetadataField(("database",), pa.string()),
        "table": MetadataField(("table",), pa.string()),
        "sql-type": MetadataField(("sqlType",), pa.map_(pa.string(), pa.int32())),
        "pk-names": MetadataField(("pkNames",), pa.list_(pa.string())),
        "ingestion-timestamp": MetadataField(("ts",), pa.int64(), _MILLIS),
        "event-timestamp": MetadataField(("es",), pa.int64(), _MILLIS),
    }

    database_include: Setting[str | None] = option(
        "canal-json.database.include",
        REGEX,
        default=None,
        doc="Regular expression that must match the whole name of a database. Changes of others "
        "are skipped.",
    )
    table_include: Setting[str | None] = option(
        "canal-json.table.include",
        REGEX,
        default=None,
        doc="Regular expression that must match the whole name of a table. Changes of others are "
        "skipped.",
    )

    def envelope(self, row: pa.StructType) -> pa.Schema:
        """See `ChangelogFormat`."""
        rows = pa.list_(row)
        return pa.schema(
            [("data", rows), ("old", rows), ("type", pa.string()), ("isDdl", pa.bool_())]
        )

    def changes(self, envelopes: Envelopes) -> Changes:
        """See `ChangelogFormat`."""
        is_ddl = pc.fill_null(envelopes.fields.column("isDdl"), False)
        operation = np.where(is_ddl, Operation.NOTHING, envelopes.operation)
        return partial_changes(replace(envelopes, operation=operation))

    def enveloped(self, rows: pa.StructArray, is_deleted: pa.BooleanArray) -> pa.RecordBatch:
        """See `ChangelogFormat`."""
        offsets = pa.array(np.arange(len(rows) + 1, dtype=np.int32))
        kinds = pc.if_else(is_deleted, "DELETE", "INSERT")
        return pa.RecordBatch.from_pydict(
            {"data": pa.ListArray.from_arrays(offsets, rows), "type": kinds}
        )

    def _decode_envelopes(self, messages: pa.Array, schema: pa.Schema) -> Decoded:
        includes = {"database": self.database_include, "table": self.table_include}
        patterns = {name: each for name, each in includes.items() if each is not None}
        if not patterns:
            return _decode(messages, schema)
        # The rows of other tables need not fit the schema.
        names = JsonFormat().decode(messages, pa.schema([(each, pa.string()) for each in patterns]))
        included = np.ones(names.rows.num_rows, np.bool_)
        for name, pattern in patterns.items():
            included &= _matching(names.rows.column(name), pattern)
        at = names.lined_up(pa.array(np.arange(len(messages)))).filter(pa.array(included))
        decoded = _decode(messages.take(at), schema)
        bad = [replace(each, at=at[each.at].as_py()) for each in decoded.bad]
        return Decoded(
            rows=decoded.rows,
            kept=decoded.lined_up(at).to_numpy(),
            bad=tuple(sorted([*names.bad, *bad], key=lambda each: each.at)),
        )


@dataclass(frozen=True)
class _RowReader(JsonReader):
    """Reads rows with texts in place of numbers, as Canal writes them, or with numbers."""

    def read(self, data: bytes | pa.Buffer) -> pa.RecordBatch:
        """See `JsonReader`."""
        try:
            return super().read(data)
        except pa.ArrowInvalid:
            texts = pa.schema([each.with_type(_with_texts(each.type)) for each in self.schema])
            read = JsonReader(texts, ignore_new=True).read(data)
            return converted(read, self.schema)


def _decode(messages: pa.Array, schema: pa.Schema) -> Decoded:
    # Arrow finds the first text among numbers at once.
    reader = _RowReader(schema, ignore_new=True, rewrite=False)
    return decode_json(messages, reader, schema, empty=EmptyMessages.NULL)


def _with_texts(kind: pa.DataType) -> pa.DataType:
    """Return the type of lists of rows with texts in place of numbers and booleans."""
    if not (pa.types.is_list(kind) and pa.types.is_struct(kind.value_type)):
        return kind
    return pa.list_(pa.struct([_with_text(each) for each in kind.value_type]))


def _with_text(field: pa.Field) -> pa.Field:
    is_text = any(is_of(field.type) for is_of in _WRITTEN_AS_TEXTS)
    return field.with_type(pa.string()) if is_text else field


def _matching(names: pa.Array, pattern: str) -> Mask:
    """Return which names the pattern matches, of which only a few differ."""
    known = pc.unique(names).drop_null().to_pylist()
    wanted = [each for each in known if re.fullmatch(pattern, each)]
    found = pc.is_in(names, value_set=pa.array(wanted, pa.string()))
    return np.asarray(found.to_numpy(zero_copy_only=False), np.bool_)
