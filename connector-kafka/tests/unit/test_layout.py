# SPDX-License-Identifier: Apache-2.0
"""Tests how the fields of records become columns."""

from __future__ import annotations

import pyarrow as pa
import pytest

from connector_kafka.fields import ValueFields
from connector_kafka.records import COLUMNS
from connector_kafka.source.layout import RecordLayout


def layout(*metadata: str) -> RecordLayout:
    return RecordLayout.of(
        value_format=None,
        schema=None,
        key_format=None,
        key_fields=(),
        key_fields_prefix="",
        value_fields=ValueFields.ALL,
        metadata_columns=metadata,
    )


@pytest.mark.parametrize("timestamp", [1_700_000_000_000_000_000, 2**63 - 1, -(2**63)])
@pytest.mark.parametrize("columns", [("timestamp",), ("value", "timestamp")])
def test_a_record_with_an_out_of_range_timestamp_is_a_bad_record(timestamp, columns):
    made = layout(*columns)
    fields = [COLUMNS.field(name) for name in made.fetched_columns]
    values = {
        "value": [b"a", b"b"],
        "offset": [7, 8],
        "timestamp": pa.array([timestamp, -1], pa.timestamp("ms", "UTC")),
    }
    records = pa.RecordBatch.from_arrays(
        [pa.array(values[field.name], field.type) for field in fields], schema=pa.schema(fields)
    )
    rows = made.rows(records, "t", 0)
    assert rows.rows.column("timestamp").cast(pa.int64()).to_pylist() == [-1000]
    (damaged,) = rows.damaged
    assert damaged.offset == 7
    assert damaged.raw == (b"a" if "value" in columns else None)
    assert str(timestamp) in damaged.reason
