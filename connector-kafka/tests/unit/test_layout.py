# SPDX-License-Identifier: Apache-2.0
"""Tests how the fields of records become columns."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from connector_kafka.fields import ValueFields
from connector_kafka.records import COLUMNS
from connector_kafka.source.layout import RecordLayout
from connectors_core.errors import InvalidOptionError
from connectors_core.formats import CanalJsonFormat


def layout(*metadata: str) -> RecordLayout:
    return layout_of(metadata, value_format=None, schema=None)


def layout_of(metadata: Any, **decoded: Any) -> RecordLayout:
    return RecordLayout.of(
        key_format=None,
        key_fields=(),
        key_fields_prefix="",
        value_fields=ValueFields.ALL,
        metadata_columns=metadata,
        **decoded,
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
    assert damaged.reason == "the timestamp of the record is out of range"


CANAL = {
    "value_format": CanalJsonFormat(),
    "schema": pa.schema([("id", pa.int64()), ("_row_kind", pa.string())]),
}


def test_metadata_of_values_line_up_with_those_of_records():
    made = layout_of({"value.table": "of", "offset": "at"}, **CANAL)
    made.check()
    records = pa.RecordBatch.from_pydict(
        {
            "value": [
                b'{"type":"UPDATE","table":"t1","data":[{"id":"1"},{"id":"2"}],"old":[{},{}]}',
                b'{"type":"DELETE","table":"t2","data":[{"id":"3"}]}',
            ],
            "offset": [7, 8],
        }
    )
    rows = made.rows(records, "t", 0).rows
    assert rows.schema == made.schema
    assert rows.to_pydict() == {
        "id": [1, 1, 2, 2, 3],
        "_row_kind": ["-U", "+U", "-U", "+U", "-D"],
        "of": ["t1"] * 4 + ["t2"],
        "at": [7] * 4 + [8],
    }
    narrow = made.projected(["of", "at"])
    assert narrow.rows(records, "t", 0).rows == rows.select(["of", "at"])


@pytest.mark.parametrize(
    ("metadata", "reason"),
    [
        (["value.owner"], "'value.owner' does not exist"),
        ({"value.table": "id"}, "same name"),
        ({"value.table": "of", "value.database": "of"}, "same name"),
        ({"value.table": "of", "offset": "of"}, "same name"),
    ],
)
def test_unknown_and_ambiguous_metadata_of_values_are_refused(metadata, reason):
    with pytest.raises(InvalidOptionError, match=reason):
        layout_of(metadata, **CANAL).check()


@pytest.mark.parametrize("columns", [["offset"], ["partition", "offset"], ["id"], ["_row_kind"]])
def test_a_projection_keeps_the_rows_and_the_damaged_records_of_a_changelog(columns):
    made = layout_of(["offset", "partition"], **CANAL)
    records = pa.RecordBatch.from_pydict(
        {
            "value": [
                b'{"type":"UPDATE","data":[{"id":"1"},{"id":"2"}],"old":[{},{}]}',
                None,
                b'{"type":"?"}',
                b'{"type":"INSERT","data":[{"id":"3"}]}',
            ],
            "offset": [7, 8, 9, 10],
        }
    )
    whole, some = (each.rows(records, "t", 0) for each in (made, made.projected(columns)))
    assert some.rows == whole.rows.select(columns)
    assert [each.reason for each in some.damaged] == [each.reason for each in whole.damaged] != []


def test_values_that_are_not_decoded_have_no_metadata():
    with pytest.raises(InvalidOptionError, match=r"'value\.table' does not exist"):
        layout("value.table")
