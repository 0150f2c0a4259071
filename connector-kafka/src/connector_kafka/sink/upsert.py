# SPDX-License-Identifier: Apache-2.0
"""Rows of a changelog as records of a compacted topic (Flink's upsert-kafka)."""

from __future__ import annotations

from enum import StrEnum

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from connectors_core.sink import is_deletion

__all__ = [
    "UpsertMode",
    "apply_row_kinds",
    "last_of_each_key",
]


class UpsertMode(StrEnum):
    """How a changelog becomes records: by key, a deleted row as a record without a value."""

    EVERY_ROW = "every-row"
    """A record for each row, but for what rows were before an update."""
    LAST_OF_EACH_KEY = "last-of-each-key"
    """The last record of each key within a batch of rows (Flink's `sink.buffer-flush`)."""


def apply_row_kinds(records: pa.RecordBatch, kinds: pa.Array) -> pa.RecordBatch:
    """Make tombstones of deleted rows: records with their key and no value."""
    at = records.schema.get_field_index("value")
    values = records.column(at)
    values = pc.if_else(is_deletion(kinds), pa.scalar(None, values.type), values)
    return records.set_column(at, "value", values)


def last_of_each_key(records: pa.RecordBatch) -> pa.RecordBatch:
    """Keep the last record of each key, topic and partition, in their order."""
    by = [name for name in ("key", "topic", "partition") if name in records.schema.names]
    numbered = pa.table(
        [records.column(name) for name in by] + [pa.array(np.arange(records.num_rows))],
        names=[*by, "at"],
    )
    last = numbered.group_by(by).aggregate([("at", "max")]).column("at_max")
    return records.take(pa.array(np.sort(last.to_numpy())))
