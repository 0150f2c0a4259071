# SPDX-License-Identifier: Apache-2.0
"""Tests that the format of messages is recognized only if it reads all of them."""

from __future__ import annotations

import datetime
import decimal
import io
import json
import struct

import fastavro
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from connectors_core.formats import (
    FormatName,
    JsonFormat,
    StaticSchemaRegistry,
    TypeConflict,
    columns_of_avro,
    infer_messages,
)

UTC = pa.timestamp("us", "UTC")


def messages(*values):
    return pa.array([each if isinstance(each, bytes) else each.encode() for each in values])


def found(*values, **options):
    return infer_messages(messages(*values), **options)


@pytest.mark.parametrize(
    ("values", "conflicts", "schema"),
    [
        (['{"a":1}', ' {"a":1.5,"b":"2024-01-01"}\n'], [], {"a": pa.float64(), "b": pa.date32()}),
        (['{"a":1}', '{"a":"x"}'], [("a", "number", "string")], {"a": pa.string()}),
        (['{"a":[1,"x"]}'], [("a[]", "number", "string")], {"a": pa.list_(pa.string())}),
        (
            ['{"a":{"b":1}}', '{"a":{"b":true}}'],
            [("a.b", "number", "boolean")],
            {"a": pa.struct([("b", pa.string())])},
        ),
        (  # the later conflict contains the earlier one
            ['{"a":{"b":1}}', '{"a":{"b":true}}', '{"a":[]}'],
            [("a", "object", "array")],
            {"a": pa.string()},
        ),
        (
            ['{"a":1,"c":"2024-01-01T00:00:00Z"}', '{"a":{},"c":false}'],
            [("a", "number", "object"), ("c", "string", "boolean")],
            {"a": pa.string(), "c": pa.string()},
        ),
        (
            ['{"a":null,"b":{},"c":[{}],"d":"2024-01-01T00:00:00Z"}'],
            [],
            {"a": pa.string(), "b": pa.string(), "c": pa.list_(pa.string()), "d": UTC},
        ),
    ],
)
def test_json_has_the_types_of_its_fields_and_conflicting_ones_are_text(values, conflicts, schema):
    result = found(*values)
    assert result.format is FormatName.JSON
    assert result.schema == pa.schema(schema)
    assert result.conflicts == tuple(TypeConflict(path, (a, b)) for path, a, b in conflicts)
    assert result.reason is None
    assert not JsonFormat().decode(messages(*values), result.schema).bad


def test_fields_that_spark_cannot_tell_apart_are_left_out():
    result = found('{"id":1,"ID":2,"":3,"in":[{"a":1,"A":2}]}')
    inner = pa.list_(pa.struct([("a", pa.int64())]))
    assert result.schema == pa.schema([("id", pa.int64()), ("in", inner)])
    assert result.omitted == ("ID", "", "in[].A")


@pytest.mark.parametrize(
    ("values", "format", "reason"),
    [
        (["a log line", "another, with a comma"], FormatName.STRING, None),
        (["Hello Bob, how are you?"], FormatName.STRING, "at least 3 of them"),
        (["1,a", "2,b"], FormatName.STRING, "at least 3 of them"),
        (["[1,2]", "[3,4]", "[5,6]"], FormatName.STRING, "some begin as JSON does"),
        (['["a","b"]', '["c","d"]', '["e","f"]'], FormatName.STRING, "some begin as JSON does"),
        (["1,a", "2,b", ' [3,"c"]'], FormatName.STRING, "some begin as JSON does"),
        (['{"a":1}', "text"], FormatName.STRING, "1 of 2 messages are JSON objects"),
        (['{"a":1}{"a":2}'], FormatName.STRING, "1 of 1 messages are not json: the message is not"),
        (['{"a":1,"a":2}'], FormatName.STRING, "a field occurs twice"),
        (['{"a/b":1}', '{"a/b":""}'], FormatName.STRING, "a value is not of type number"),
        (["{}"], FormatName.STRING, "no fields"),
        (["[1]", "5"], FormatName.STRING, None),
        ([b"\xff\xfe"], FormatName.RAW, None),
        ([struct.pack(">q", 5)], FormatName.RAW, "no registry is named"),
        ([b"\0\0\0\0\x01{}"], FormatName.RAW, "no registry is named"),
        ([b"a\0b"], FormatName.RAW, None),
    ],
)
def test_other_messages_are_one_value_and_the_reason_is_given(values, format, reason):
    result = found(*values)
    assert (result.format, result.schema.names) == (format, [])
    assert result.reason is None if reason is None else reason in result.reason


def test_csv_needs_the_same_number_of_fields_in_each_message():
    result = found("1,a,2024-01-01", '2,"b, c",\n', "3,d,2024-01-02")
    assert result.format is FormatName.CSV
    assert result.schema == pa.schema(
        [("f0", pa.int64()), ("f1", pa.string()), ("f2", pa.date32())]
    )
    assert found("1,a", "2", "3,c").format is FormatName.STRING
    assert found("1,a", "2,b", "3,c", csv=False).format is FormatName.STRING


# --- Avro ---

NUMBER = {"name": "x", "type": ["int", "double"]}
FIRST = {
    "type": "record",
    "name": "n.R",
    "fields": [
        {"name": "id", "type": "int"},
        {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["A", "B"]}},
        {"name": "other", "type": ["null", "Kind"]},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9}},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "tags", "type": {"type": "array", "items": {"type": "map", "values": "long"}}},
        {"name": "hour", "type": {"type": "int", "logicalType": "time-millis"}},
        {"name": "either", "type": ["null", "string", "long"]},
        {"name": "inner", "type": {"type": "record", "name": "I", "fields": [NUMBER]}},
    ],
}
SECOND = {
    "type": "record",
    "name": "R",
    "fields": [{"name": "id", "type": ["null", "long"]}, {"name": "more", "type": "string"}],
}
REGISTRY = StaticSchemaRegistry({1: json.dumps(FIRST), 2: json.dumps(SECOND), 3: '"string"'})
ROW = {
    "id": 1,
    "kind": "A",
    "other": None,
    "price": decimal.Decimal(5),
    "at": datetime.datetime(2024, 1, 1, tzinfo=datetime.UTC),
    "tags": [{"a": 1}],
    "hour": datetime.time(1),
    "either": None,
    "inner": {"x": 1.5},
}
COLUMNS = pa.schema(
    [
        ("id", pa.int32()),
        ("kind", pa.string()),
        ("other", pa.string()),
        ("price", pa.decimal128(9, 0)),
        ("at", UTC),
        ("tags", pa.list_(pa.map_(pa.string(), pa.int64()))),
        ("inner", pa.struct([("x", pa.float64())])),
    ]
)


def avro(schema_id, row):
    out = io.BytesIO(struct.pack(">bI", 0, schema_id))
    out.seek(5)
    schema = json.loads(REGISTRY.schema_of(schema_id))
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), row)
    return out.getvalue()


def test_avro_has_the_columns_of_the_schemas_of_its_ids():
    result = found(avro(1, ROW), registry=REGISTRY)
    assert (result.format, result.schema) == (FormatName.AVRO_CONFLUENT, COLUMNS)
    assert result.omitted == ("hour", "either")
    assert columns_of_avro(REGISTRY.schema_of(1)) == result
    both = found(avro(1, ROW), avro(2, {"id": 2**40, "more": "x"}), registry=REGISTRY)
    assert both.schema.field("id").type == pa.int64()
    assert both.schema.names == [*COLUMNS.names, "more"]


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (avro(3, "text"), "not a record schema"),
        (b"\0\0\0\0\x07x", "schema 7 does not exist"),
        (avro(2, {"id": 1, "more": "x"})[:-1], "1 of 1 messages are not avro-confluent"),
    ],
)
def test_messages_whose_schema_cannot_be_used_are_raw(message, reason):
    result = found(message, registry=REGISTRY)
    assert result.format is FormatName.RAW
    assert reason in result.reason


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abA"), inner),
    max_leaves=6,
)


@given(st.lists(st.dictionaries(st.sampled_from(["a", "b", "c"]), VALUES), min_size=1, max_size=5))
def test_any_objects_can_be_read_with_what_was_inferred(objects):
    values = messages(*map(json.dumps, objects))
    result = infer_messages(values)
    if result.format is FormatName.JSON:
        assert not JsonFormat().decode(values, result.schema).bad
    else:
        assert result.reason
