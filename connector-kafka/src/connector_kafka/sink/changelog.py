# SPDX-License-Identifier: Apache-2.0
"""Converts rows of a changelog to records of a compacted topic (Flink's upsert-kafka)."""

from __future__ import annotations

from enum import StrEnum

import numpy as np
import pyarrow as pa

__all__ = [
    "UpsertMode",
    "last_of_each_key",
]


class UpsertMode(StrEnum):
    """How to convert a changelog to records by key.

    A deleted row becomes a record without a value.
    """

    EVERY_ROW = "every-row"
    """One record per row, except the previous version of an updated row before its new version."""
    LAST_OF_EACH_KEY = "last-of-each-key"
    """The last record of each key within a batch of rows (Flink's `sink.buffer-flush`)."""


def last_of_each_key(records: pa.RecordBatch) -> pa.RecordBatch:
    """Keep the last record of each key, topic, and partition, in order."""
    by = [name for name in ("key", "topic", "partition") if name in records.schema.names]
    numbered = pa.table(
        [records.column(name) for name in by] + [pa.array(np.arange(records.num_rows))],
        names=[*by, "at"],
    )
    last = numbered.group_by(by).aggregate([("at", "max")]).column("at_max")
    return records.take(pa.array(np.sort(last.to_numpy())))
