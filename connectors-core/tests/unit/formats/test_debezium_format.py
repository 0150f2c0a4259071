# SPDX-License-Identifier: Apache-2.0
"""Tests the rows of changes in Debezium's JSON, against a reading of one message after another."""

from __future__ import annotations

import json
import pickle

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from connectors_core.errors import ConfigurationError
from connectors_core.formats import DebeziumJsonFormat, as_format
from connectors_core.schema import ROW_KIND_COLUMN, RowKind

SCHEMA = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        pa.field("name", pa.string()),
        pa.field("tags", pa.list_(pa.string())),
        pa.field(ROW_KIND_COLUMN, pa.string(), nullable=False),
    ]
)
IMAGES = st.none() | st.fixed_dictionaries(
    {"name": st.none() | st.text(max_size=4)},
    optional={
        "id": st.none() | st.integers(0, 9),
        "tags": st.none() | st.lists(st.text(max_size=2), max_size=2),
        "further": st.integers(),
    },
)
CHANGES = st.fixed_dictionaries(
    {"op": st.sampled_from(["c", "r", "u", "u", "d", "t", None])},
    optional={"before": IMAGES, "after": IMAGES, "ts_ms": st.integers(0, 9)},
)
MESSAGES = st.lists(CHANGES | st.sampled_from([None, b"", b"{", b"[]", b"{}"]), max_size=8)
IMAGES_OF = {"c": ["after"], "r": ["after"], "u": ["before", "after"], "d": ["before"]}
KINDS_OF = {"c": ["+I"], "r": ["+I"], "u": ["-U", "+U"], "d": ["-D"]}


def as_bytes(message, wrapped=False):
    if not isinstance(message, dict):
        return message
    given = {"schema": {"type": "struct"}, "payload": message} if wrapped else message
    return json.dumps(given).encode()


def rows_of(message):
    """Return the rows of a message; None if it is bad."""
    if not message:
        return []
    if not isinstance(message, dict) or message.get("op") not in IMAGES_OF:
        return None
    images = [message.get(name) for name in IMAGES_OF[message["op"]]]
    if any(image is None or image.get("id") is None for image in images):
        return None
    return [
        {
            "id": image["id"],
            "name": image.get("name"),
            "tags": image.get("tags"),
            ROW_KIND_COLUMN: kind,
        }
        for image, kind in zip(images, KINDS_OF[message["op"]], strict=True)
    ]


@settings(max_examples=200)
@given(MESSAGES, st.booleans())
def test_each_change_has_its_rows_and_bad_ones_have_none(messages, wrapped):
    column = pa.array([as_bytes(each, wrapped) for each in messages], pa.binary())
    decoded = DebeziumJsonFormat(schema_include=wrapped).decode(column, SCHEMA)
    expected = [rows_of(each) for each in messages]
    rows = [(at, row) for at, found in enumerate(expected) for row in found or []]
    assert decoded.rows.schema == SCHEMA
    assert decoded.rows.to_pylist() == [row for _, row in rows]
    assert decoded.lined_up(pa.array(range(len(messages)))).to_pylist() == [at for at, _ in rows]
    assert [each.at for each in decoded.bad] == [
        at for at, found in enumerate(expected) if found is None
    ]
    assert all(each.reason for each in decoded.bad)


@given(MESSAGES, st.sets(st.sampled_from(SCHEMA.names), min_size=1))
def test_any_columns_have_the_same_rows(messages, names):
    """If no image lacks a value that is not nullable, which only the whole row shows."""
    messages = [each for each in messages if rows_of(each) is not None]
    column = pa.array([as_bytes(each) for each in messages], pa.binary())
    some = pa.schema([field for field in SCHEMA if field.name in names])
    format_ = DebeziumJsonFormat()
    everything = format_.decode(column, SCHEMA)
    decoded = format_.projected(SCHEMA).decode(column, some)
    assert decoded.rows == everything.rows.select(some.names)
    assert decoded.kept.tolist() == everything.kept.tolist()


@given(
    st.lists(
        st.fixed_dictionaries(
            {
                "id": st.integers(0, 5),
                "name": st.none() | st.text(max_size=3),
                "tags": st.none() | st.lists(st.text(max_size=2), max_size=2),
                ROW_KIND_COLUMN: st.sampled_from([each.value for each in RowKind]),
            }
        ),
        max_size=10,
    )
)
def test_written_changes_are_read_as_creations_and_deletions(rows):
    format_ = DebeziumJsonFormat()
    format_.check_writable(SCHEMA)
    encoded = format_.encode(pa.RecordBatch.from_pylist(rows, schema=SCHEMA))
    assert (encoded.kept, encoded.bad) == (None, ())
    decoded = format_.decode(encoded.messages, SCHEMA)
    simple = {"+I": "+I", "+U": "+I", "-U": "-D", "-D": "-D"}
    assert decoded.rows.to_pylist() == [
        row | {ROW_KIND_COLUMN: simple[row[ROW_KIND_COLUMN]]} for row in rows
    ]


def test_a_row_of_an_unknown_kind_is_bad():
    rows = [{"id": 1, ROW_KIND_COLUMN: "+I"}, {"id": 2, ROW_KIND_COLUMN: "?"}]
    encoded = DebeziumJsonFormat().encode(pa.RecordBatch.from_pylist(rows, schema=SCHEMA))
    assert len(encoded.messages) == 1
    assert encoded.kept.tolist() == [0]
    assert [each.at for each in encoded.bad] == [1]


def test_an_update_without_the_row_before_names_the_remedy():
    message = as_bytes({"op": "u", "before": None, "after": {"id": 1}})
    (bad,) = DebeziumJsonFormat().decode(pa.array([message]), SCHEMA).bad
    assert "REPLICA IDENTITY FULL" in bad.reason


def test_a_schema_without_the_kind_of_change_is_refused():
    for check in (DebeziumJsonFormat().check_readable, DebeziumJsonFormat().check_writable):
        with pytest.raises(ConfigurationError, match="_row_kind STRING"):
            check(pa.schema([("id", pa.int64())]))
    with pytest.raises(ConfigurationError, match="their schema cannot be written"):
        DebeziumJsonFormat(schema_include=True).check_writable(SCHEMA)


def test_the_format_has_a_name_and_can_be_sent_to_executors():
    format_ = as_format("debezium-json")
    assert format_ == DebeziumJsonFormat()
    assert pickle.loads(pickle.dumps(format_)) == format_
