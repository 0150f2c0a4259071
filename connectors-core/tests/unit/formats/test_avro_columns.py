# SPDX-License-Identifier: Apache-2.0
"""Tests that columns decoded without objects are those that Avro's library reads."""

from __future__ import annotations

import datetime
import json
import math
from io import BytesIO

import fastavro
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from connectors_core.formats.avro_columns import decoded_columns, same_header
from connectors_core.formats.avro_format import _read
from connectors_core.formats.avro_schemas import parsed_schema
from connectors_core.schema.python_rows import columns_of

LONGS = st.integers(-(2**63), 2**63 - 1)
INSTANTS = st.datetimes(timezones=st.just(datetime.UTC))


def logical(kind, name):
    return {"type": kind, "logicalType": name}


def of_millis(value):
    return value.replace(microsecond=value.microsecond // 1000 * 1000)


def record(name, **fields):
    listed = [{"name": each, "type": kind} for each, kind in fields.items()]
    return {"type": "record", "name": name, "fields": listed}


DEEP = record("deep", z="boolean")

# By name: the type in Avro, its values, and the types of columns that it can be read into.
KINDS = {
    "int": ("int", st.integers(-(2**31), 2**31 - 1), [pa.int32(), pa.int64(), pa.int8()]),
    "long": ("long", LONGS, [pa.int64(), pa.int32(), pa.uint64()]),
    "float": ("float", st.floats(width=32), [pa.float32(), pa.float64()]),
    "double": ("double", st.floats(), [pa.float64(), pa.float32()]),
    "boolean": ("boolean", st.booleans(), [pa.bool_()]),
    "string": ("string", st.text(max_size=20), [pa.string(), pa.large_string()]),
    "bytes": ("bytes", st.binary(max_size=20), [pa.binary(), pa.large_binary()]),
    "date": (logical("int", "date"), st.dates(), [pa.date32()]),
    "time ms": (
        logical("int", "time-millis"),
        st.times().map(of_millis),
        [pa.time32("ms"), pa.time64("us")],
    ),
    "time us": (logical("long", "time-micros"), st.times(), [pa.time64("us")]),
    "at ms": (
        logical("long", "timestamp-millis"),
        INSTANTS.map(of_millis),
        [pa.timestamp("us", "UTC"), pa.timestamp("ms", "UTC")],
    ),
    "at us": (
        logical("long", "timestamp-micros"),
        INSTANTS,
        [pa.timestamp("us", "UTC"), pa.timestamp("us", "Europe/Berlin")],
    ),
    "local": (logical("long", "local-timestamp-micros"), st.datetimes(), [pa.timestamp("us")]),
    "uuid": (logical("string", "uuid"), st.uuids().map(str), [pa.string()]),
    "record": (
        record("inner", x=["null", "long"], y="string", deep=["null", DEEP]),
        st.fixed_dictionaries(
            {
                "x": st.none() | LONGS,
                "y": st.text(max_size=5),
                "deep": st.none() | st.fixed_dictionaries({"z": st.booleans()}),
            }
        ),
        [
            pa.struct(
                [("x", pa.int64()), ("y", pa.string()), ("deep", pa.struct([("z", pa.bool_())]))]
            ),
            pa.struct([("missing", pa.int64()), pa.field("y", pa.string(), nullable=False)]),
            pa.struct([("x", pa.int32()), ("deep", pa.string())]),
        ],
    ),
}


def record_schema(**fields):
    return parsed_schema(json.dumps(record("r", **fields)))


def written(schema, rows):
    messages = []
    for row in rows:
        stream = BytesIO()
        fastavro.schemaless_writer(stream, schema, row)
        messages.append(stream.getvalue())
    return pa.array(messages, pa.binary())


def expected(messages, schema, wanted):
    """Return what the library reads, one record after another; None if it fails."""
    try:
        records = [_read(schema, None, message) for message in messages.to_pylist()]
        return columns_of(records, wanted)
    except (ValueError, pa.ArrowException):
        return None


def same(one, other):
    def shown(batch):
        return [
            [("NaN" if isinstance(v, float) and math.isnan(v) else (v, str(v))) for v in column]
            for column in batch.to_pydict().values()
        ]

    return one.schema.equals(other.schema) and shown(one) == shown(other)


@st.composite
def cases(draw):
    names = draw(st.lists(st.sampled_from([*KINDS]), min_size=1, max_size=5, unique=True))
    fields, values, wanted = {}, {}, []
    for at, name in enumerate(names):
        kind, drawn, columns = KINDS[name]
        field = f"f{at}"
        nullable = draw(st.sampled_from(["no", "first", "last"]))
        if nullable != "no":
            drawn = st.none() | drawn
            kind = ["null", kind] if nullable == "first" else [kind, "null"]
        fields[field], values[field] = kind, drawn
        if draw(st.integers(0, 4)):
            column = draw(st.sampled_from(columns))
            wanted.append(
                pa.field(field, column, nullable=draw(st.sampled_from([True, True, False])))
            )
    if draw(st.booleans()):
        wanted.append(pa.field("missing", pa.int64()))
    rows = draw(st.lists(st.fixed_dictionaries(values), min_size=1, max_size=12))
    return fields, rows, pa.schema(draw(st.permutations(wanted)))


@given(cases(), st.integers(0, 3), st.booleans())
@settings(max_examples=400)
def test_columns_are_those_that_the_library_reads(case, before, narrow):
    fields, rows, wanted = case
    if not len(wanted):
        return
    schema = record_schema(**fields)
    messages = written(schema, rows)
    padded = pa.array([b"x" * before + each for each in messages.to_pylist()], pa.binary())
    found = decoded_columns(padded, schema, wanted, skip=before, narrow=narrow)
    reference = expected(messages, schema, wanted)
    if found is not None:
        assert reference is not None
        assert same(found, reference)


@pytest.mark.parametrize("name", KINDS)
@given(data=st.data())
@settings(max_examples=20)
def test_valid_records_of_plain_fields_need_no_library(name, data):
    kind, drawn, columns = KINDS[name]
    again = kind["name"] if name == "record" else kind
    schema = record_schema(a=["null", kind], b=again, c="string")
    one, two, three = (data.draw(drawn) for _ in range(3))
    rows = [{"a": None, "b": one, "c": ""}, {"a": two, "b": three, "c": "é"}]
    wanted = pa.schema([("c", pa.string()), ("a", columns[0]), ("b", columns[0])])
    messages = written(schema, rows)
    found = decoded_columns(messages, schema, wanted, skip=0, narrow=False)
    assert found is not None
    assert same(found, expected(messages, schema, wanted))


@given(cases(), st.data())
@settings(max_examples=300)
def test_damaged_records_are_left_to_the_library(case, data):
    """What it decodes of damaged bytes is exactly what the library decodes of them."""
    fields, rows, wanted = case
    if not len(wanted):
        return
    schema = record_schema(**fields)
    messages = written(schema, rows).to_pylist()
    at = data.draw(st.integers(0, len(messages) - 1))
    message = bytearray(messages[at])
    damage = data.draw(st.sampled_from(["cut", "grown", "changed"]))
    if damage == "cut":
        message = message[: data.draw(st.integers(0, len(message)))]
    elif damage == "grown" or not message:
        message += data.draw(st.binary(min_size=1, max_size=3))
    else:
        message[data.draw(st.integers(0, len(message) - 1))] = data.draw(st.integers(0, 255))
    messages[at] = bytes(message)
    damaged = pa.array(messages, pa.binary())
    found = decoded_columns(damaged, schema, wanted, skip=0, narrow=False)
    if found is not None:
        reference = expected(damaged, schema, wanted)
        assert reference is not None
        assert same(found, reference)


@pytest.mark.parametrize(
    "kind",
    [
        {"type": "array", "items": "int"},
        {"type": "map", "values": "int"},
        {"type": "enum", "name": "e", "symbols": ["A"]},
        {"type": "fixed", "name": "f", "size": 2},
        {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2},
        record("n", x=["int", "long"]),
        ["null", "int", "string"],
    ],
)
def test_other_types_are_left_to_the_library(kind):
    schema = record_schema(a="long", b=kind)
    messages = pa.array([b"\0\0", b"\0\0"], pa.binary())
    wanted = pa.schema([("a", pa.int64())])
    assert decoded_columns(messages, schema, wanted, skip=0, narrow=True) is None


@given(
    st.lists(st.binary(max_size=8), min_size=1, max_size=8), st.integers(0, 8), st.integers(0, 3)
)
def test_a_header_is_the_same_in_all_messages_or_none(messages, size, cut):
    column = pa.array([b"before"] * cut + messages, pa.binary()).slice(cut)
    heads = {each[:size] for each in messages}
    expected = None
    if len(heads) == 1 and all(len(each) >= size for each in messages):
        (expected,) = heads
    assert same_header(column, size) == expected
