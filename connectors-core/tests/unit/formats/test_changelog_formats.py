# SPDX-License-Identifier: Apache-2.0
"""Tests what all formats of changelogs have in common."""

from __future__ import annotations

import pickle

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from connectors_core.errors import ConfigurationError
from connectors_core.formats import (
    CanalJsonFormat,
    DebeziumAvroFormat,
    DebeziumJsonFormat,
    FormatName,
    MaxwellJsonFormat,
    StaticSchemaRegistry,
    as_format,
)
from connectors_core.formats.avro_schemas import avro_schema_of
from connectors_core.schema import ROW_KIND_COLUMN, RowKind

ROW = pa.schema(
    [
        pa.field("id", pa.int64()),
        pa.field("name", pa.string()),
        pa.field("price", pa.float64()),
        pa.field("late", pa.bool_()),
        pa.field("data", pa.binary()),
        pa.field("total", pa.decimal128(9, 2)),
        pa.field("day", pa.date32()),
        pa.field("at", pa.timestamp("us", "UTC")),
        pa.field("tags", pa.list_(pa.string())),
        pa.field("more", pa.struct([("number", pa.int32()), ("flag", pa.bool_())])),
    ]
)
SCHEMA = ROW.append(pa.field(ROW_KIND_COLUMN, pa.string()))
CHANGE = pa.struct(ROW)
REGISTRY = StaticSchemaRegistry(
    {1: avro_schema_of(pa.schema([("before", CHANGE), ("after", CHANGE), ("op", pa.string())]))}
)
FORMATS = [
    DebeziumJsonFormat(),
    DebeziumAvroFormat(registry=REGISTRY, subject="flights-value"),
    CanalJsonFormat(),
    MaxwellJsonFormat(),
]
VALUES = {
    "id": st.integers(-(2**63), 2**63 - 1),
    "name": st.text(max_size=3) | st.sampled_from(["null", "7", "true", "{}"]),
    "price": st.floats(allow_nan=False),
    "late": st.booleans(),
    "data": st.binary(max_size=4),
    "total": st.decimals(-999_999, 999_999, places=2),
    "day": st.dates(),
    "at": st.datetimes(timezones=st.timezones()).filter(lambda at: 1 < at.year < 9999),
    "tags": st.lists(st.text(max_size=2), max_size=2),
    "more": st.fixed_dictionaries(
        {"number": st.none() | st.integers(0, 9), "flag": st.none() | st.booleans()}
    ),
}
KINDS = st.sampled_from([each.value for each in RowKind])
ROWS = st.lists(
    st.fixed_dictionaries(
        {name: st.none() | each for name, each in VALUES.items()} | {ROW_KIND_COLUMN: KINDS}
    ),
    max_size=6,
)
WRITTEN_AS = {"+I": "+I", "+U": "+I", "-U": "-D", "-D": "-D"}


def batch_of(rows):
    return pa.RecordBatch.from_pylist(rows, schema=SCHEMA)


@pytest.mark.parametrize("form", FORMATS)
@given(rows=ROWS)
def test_written_changes_are_read_as_creations_and_deletions(form, rows):
    form.check_writable(SCHEMA)
    form.check_readable(SCHEMA)
    batch = batch_of(rows)
    encoded = form.encode(batch)
    assert (encoded.kept, encoded.bad) == (None, ())
    decoded = form.decode(encoded.messages, SCHEMA)
    assert decoded.rows.drop_columns([ROW_KIND_COLUMN]) == batch.drop_columns([ROW_KIND_COLUMN])
    assert decoded.rows.column(ROW_KIND_COLUMN).to_pylist() == [
        WRITTEN_AS[row[ROW_KIND_COLUMN]] for row in rows
    ]
    assert decoded.lined_up(pa.array(range(len(rows)))).to_pylist() == [*range(len(rows))]


@pytest.mark.parametrize("form", FORMATS)
@given(rows=ROWS, names=st.sets(st.sampled_from(SCHEMA.names), min_size=1))
def test_any_columns_have_the_same_rows(form, rows, names):
    messages = form.encode(batch_of(rows)).messages
    some = pa.schema([field for field in SCHEMA if field.name in names])
    everything = form.decode(messages, SCHEMA)
    decoded = form.projected(SCHEMA).decode(messages, some)
    assert decoded.rows == everything.rows.select(some.names)
    assert decoded.kept.tolist() == everything.kept.tolist()


@pytest.mark.parametrize("form", FORMATS)
def test_a_row_of_an_unknown_kind_is_bad(form):
    rows = [{"id": 1, ROW_KIND_COLUMN: "+I"}, {"id": 2, ROW_KIND_COLUMN: "?"}, {"id": 3}]
    encoded = form.encode(batch_of(rows))
    assert len(encoded.messages) == 1
    assert encoded.kept.tolist() == [0]
    assert [each.at for each in encoded.bad] == [1, 2]


@pytest.mark.parametrize("form", FORMATS)
def test_rows_without_a_kind_are_inserted(form):
    form.check_writable(ROW)
    messages = form.encode(pa.RecordBatch.from_pylist([{"id": 1}, {"id": 2}], schema=ROW)).messages
    rows = form.decode(messages, SCHEMA).rows.select(["id", ROW_KIND_COLUMN])
    assert rows.to_pylist() == [
        {"id": 1, ROW_KIND_COLUMN: "+I"},
        {"id": 2, ROW_KIND_COLUMN: "+I"},
    ]


@pytest.mark.parametrize("form", FORMATS)
def test_a_kind_of_change_that_is_missing_or_no_text_is_refused(form):
    with pytest.raises(ConfigurationError, match="_row_kind STRING"):
        form.check_readable(ROW)
    wrong = ROW.append(pa.field(ROW_KIND_COLUMN, pa.int64()))
    for check in (form.check_readable, form.check_writable):
        with pytest.raises(ConfigurationError, match="_row_kind STRING"):
            check(wrong)


@pytest.mark.parametrize("form", FORMATS)
def test_a_format_can_be_sent_to_executors(form):
    (key, *_) = form.readable_metadata
    reading = form.reading_metadata({"known": key})
    sent = pickle.loads(pickle.dumps(reading))
    assert sent == form
    schema = SCHEMA.append(pa.field("known", form.readable_metadata[key]))
    messages = form.encode(batch_of([{"id": 1, ROW_KIND_COLUMN: "+I"}])).messages
    assert sent.decode(messages, schema).rows.column("known").to_pylist() == [None]


def test_names_of_formats_tell_changelogs():
    assert {each.value for each in FormatName if each.is_changelog} == {
        "debezium-json",
        "debezium-avro-confluent",
        "canal-json",
        "maxwell-json",
    }
    for form in (DebeziumJsonFormat(), CanalJsonFormat(), MaxwellJsonFormat()):
        name = next(each for each in FormatName if each.is_changelog and as_named(each) == form)
        assert name.is_changelog


def as_named(name):
    return None if "avro" in name else as_format(name.value)
