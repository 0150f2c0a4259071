# SPDX-License-Identifier: Apache-2.0
"""Rows of a changelog as records of a compacted topic (Flink's upsert-kafka)."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

__all__ = [
    "UpsertMode",
    "apply_row_kinds",
    "is_unknown_row_kind",
    "is_update_before",
    "last_of_each_key",
]

_KINDS: Final = pa.array(["+I", "-U", "+U", "-D"])


class UpsertMode(StrEnum):
    """How a changelog becomes records: by key, a deleted row as a record without a value."""

    EVERY_ROW = "every-row"
    """A record for each row, but for what rows were before an update."""
    LAST_OF_EACH_KEY = "last-of-each-key"
    """The last record of each key within a batch of rows (Flink's `sink.buffer-flush`)."""


def is_update_before(kinds: pa.Array) -> pa.Array:
    """Which rows say what a row was before its update: the row after it has the same key."""
    return pc.fill_null(pc.equal(kinds, "-U"), False)


def is_unknown_row_kind(kinds: pa.Array) -> pa.Array:
    """Which rows have a kind that does not exist, or none."""
    return pc.invert(pc.is_in(kinds, value_set=_KINDS.cast(kinds.type)))


def apply_row_kinds(records: pa.RecordBatch, kinds: pa.Array) -> pa.RecordBatch:
    """Make tombstones of deleted rows: records with their key and no value."""
    deleted = pc.fill_null(pc.equal(kinds, "-D"), False)
    at = records.schema.get_field_index("value")
    values = records.column(at)
    values = pc.if_else(deleted, pa.scalar(None, values.type), values)
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
