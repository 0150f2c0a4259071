# SPDX-License-Identifier: Apache-2.0
"""Changes of rows in MySQL, as Maxwell reports them (Flink's `maxwell-json`)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Final

import pyarrow as pa
import pyarrow.compute as pc

from connectors_core.formats.change_rows import Changes, Operation
from connectors_core.formats.changelog_format import ChangelogFormat, Envelopes, MetadataField
from connectors_core.formats.partial_changes import partial_changes

__all__ = ["MaxwellJsonFormat"]

_SECONDS: Final = 1_000_000
_NO_ROWS: Final = (
    "bootstrap-start",
    "bootstrap-complete",
    *(f"{what}-{done}" for what in ("database", "table") for done in ("create", "alter", "drop")),
)


class MaxwellJsonFormat(ChangelogFormat):
    """Each message is a change of a row in Maxwell's JSON.

    The column `_row_kind` has the kind of each change, as in `DebeziumJsonFormat`. A message has
    the whole row, and the former values of its changed fields. A row of a bootstrap is `+I`. A
    change of a table or database itself has no row. The other columns are read as by the format
    `json`.

    Written messages have one row each: `+I` and `+U` are an inserted row, `-U` and `-D` a deleted
    one.
    """

    operation_field = "type"
    operations: ClassVar[Mapping[str, Operation]] = {
        "insert": Operation.INSERT,
        "bootstrap-insert": Operation.INSERT,
        "update": Operation.UPDATE,
        "delete": Operation.DELETE,
        **dict.fromkeys(_NO_ROWS, Operation.NOTHING),
    }
    metadata_fields: ClassVar[Mapping[str, MetadataField]] = {
        "database": MetadataField(("database",), pa.string()),
        "table": MetadataField(("table",), pa.string()),
        "primary-key-columns": MetadataField(("primary_key_columns",), pa.list_(pa.string())),
        "ingestion-timestamp": MetadataField(("ts",), pa.int64(), _SECONDS),
    }

    def envelope(self, row: pa.StructType) -> pa.Schema:
        """See `ChangelogFormat`."""
        return pa.schema([("data", row), ("old", row), ("type", pa.string())])

    def changes(self, envelopes: Envelopes) -> Changes:
        """See `ChangelogFormat`."""
        return partial_changes(envelopes)

    def enveloped(self, rows: pa.StructArray, is_deleted: pa.BooleanArray) -> pa.RecordBatch:
        """See `ChangelogFormat`."""
        kinds = pc.if_else(is_deleted, "delete", "insert")
        return pa.RecordBatch.from_pydict({"data": rows, "type": kinds})
