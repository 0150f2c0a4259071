# SPDX-License-Identifier: Apache-2.0
"""Tests Avro messages, with and without a registry."""

from __future__ import annotations

import json
import pickle
import sys
from datetime import datetime
from io import BytesIO
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from format_messages import VALUES, messages
from hypothesis import given, settings
from hypothesis import strategies as st

from connectors_core.errors import (
    ConfigurationError,
    InvalidOptionError,
    MissingDependencyError,
)
from connectors_core.formats import (
    AvroFormat,
    ConfluentAvroFormat,
    EmptyMessages,
    StaticSchemaRegistry,
)
from connectors_core.formats.avro_schemas import avro_schema_of
from connectors_core.testing import nested_batches

SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("small", pa.int32()),
        ("text", pa.string()),
        ("data", pa.binary()),
        ("number", pa.float64()),
        ("price", pa.decimal128(12, 3)),
        ("flag", pa.bool_()),
        ("at", pa.timestamp("us", "UTC")),
        ("local", pa.timestamp("us")),
        ("day", pa.date32()),
        ("time", pa.time64("us")),
        ("nested", pa.struct([("text", pa.string()), ("tags", pa.list_(pa.string()))])),
        ("values", pa.map_(pa.string(), pa.int64())),
        pa.field("required", pa.int64(), nullable=False),
    ]
)
TEXTS = st.none() | st.text(alphabet=st.characters(exclude_categories=["Cs"]), max_size=5)
ROWS = st.lists(
    st.fixed_dictionaries(
        VALUES
        | {
            "small": st.none() | st.integers(-(2**31), 2**31 - 1),
            "text": TEXTS,
            "data": st.none() | st.binary(max_size=5),
            "number": st.none() | st.floats(allow_nan=False),
            "local": st.none() | st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30)),
            "time": st.none() | st.times(),
            "nested": st.none()
            | st.fixed_dictionaries({"text": TEXTS, "tags": st.none() | st.lists(TEXTS)}),
            "values": st.none()
            | st.dictionaries(st.text(max_size=3), st.none() | st.integers(0, 9), max_size=2).map(
                lambda values: list(values.items())
            ),
            "required": st.integers(-9, 9),
        }
    ),
    max_size=4,
)
CARRIER = {"type": "enum", "name": "Carrier", "symbols": ["AA", "UA"]}
FLIGHT = json.dumps(
    {
        "type": "record",
        "name": "Flight",
        "namespace": "org.example",
        "fields": [
            {"name": "id", "type": "int"},
            {
                "name": "carrier",
                "type": {"type": "enum", "name": "Carrier", "symbols": ["AA", "UA"]},
            },
            {"name": "uuid", "type": ["null", {"type": "string", "logicalType": "uuid"}]},
            {"name": "again", "type": ["null", "Carrier"]},
        ],
    }
)
COLUMNS = pa.schema([("carrier", pa.string()), ("id", pa.int64()), ("uuid", pa.string())])
UUID = "8c9a7b1e-27a0-4d35-9d34-4d7f0a3c2b11"


def written(record: dict[str, Any], schema: str = FLIGHT) -> bytes:
    stream = BytesIO()
    fastavro.schemaless_writer(stream, json.loads(schema), record)
    return stream.getvalue()


FLIGHTS = [
    {"id": 1, "carrier": "UA", "uuid": UUID, "again": None},
    {"id": 2, "carrier": "AA", "uuid": None, "again": "UA"},
]
ROWS_OF_FLIGHTS = [
    {"carrier": "UA", "id": 1, "uuid": UUID},
    {"carrier": "AA", "id": 2, "uuid": None},
]


@settings(max_examples=60, deadline=None)
@given(ROWS)
def test_written_rows_are_read_back_unchanged(rows: list[dict[str, Any]]) -> None:
    batch = pa.RecordBatch.from_pylist(rows, schema=SCHEMA)
    encoded = AvroFormat().encode(batch)
    assert (len(encoded.messages), encoded.kept, encoded.bad) == (len(rows), None, ())
    decoded = AvroFormat().decode(encoded.messages, SCHEMA)
    assert (decoded.kept, decoded.bad) == (None, ())
    assert decoded.rows.equals(batch)


@settings(max_examples=80, deadline=None)
@given(nested_batches())
def test_nested_columns_of_any_nullability_are_written_and_read(batch: pa.RecordBatch) -> None:
    encoded = AvroFormat().encode(batch)
    assert encoded.bad == ()
    decoded = AvroFormat().decode(encoded.messages, batch.schema)
    assert decoded.bad == ()
    assert decoded.rows.schema.equals(batch.schema)
    assert decoded.rows.to_pylist() == batch.to_pylist()


def test_messages_from_another_writer_are_read_by_field_name() -> None:
    avro = AvroFormat(schema=FLIGHT)
    avro.check_readable(COLUMNS)
    decoded = avro.decode(messages(*(written(each) for each in FLIGHTS)), COLUMNS)
    assert decoded.rows.to_pylist() == ROWS_OF_FLIGHTS


@settings(max_examples=100, deadline=None)
@given(st.lists(st.sampled_from([None, b""]) | st.binary(max_size=20), max_size=6))
def test_arbitrary_bytes_are_decoded_or_rejected_one_message_at_a_time(
    values: list[bytes | None],
) -> None:
    good = written(FLIGHTS[0])
    column = messages(good, *values, good)
    decoded = AvroFormat(schema=FLIGHT, empty_messages=EmptyMessages.BAD).decode(column, COLUMNS)
    assert len(decoded.bad) + decoded.rows.num_rows == len(column)
    assert decoded.rows.to_pylist()[0] == decoded.rows.to_pylist()[-1] == ROWS_OF_FLIGHTS[0]
    assert {at for at, value in enumerate(values, 1) if not value} <= {
        each.at for each in decoded.bad
    }


def test_a_value_that_does_not_fit_its_column_is_a_bad_record_and_is_not_shown() -> None:
    schema = pa.schema([pa.field("id", pa.int8(), nullable=False)])
    column = messages(written({**FLIGHTS[0], "id": 7333}), written(FLIGHTS[1]))
    decoded = AvroFormat(schema=FLIGHT).decode(column, schema)
    assert decoded.rows["id"].to_pylist() == [2]
    [bad] = decoded.bad
    assert bad.reason == "column id: a value is not of type int8"


@pytest.mark.parametrize(
    ("kind", "value", "declared"),
    [
        ("double", 1.5, pa.int64()),
        ("string", "UA", pa.list_(pa.string())),
        ({"type": "map", "values": "double"}, {"a": 1.5}, pa.map_(pa.string(), pa.int64())),
    ],
)
@pytest.mark.parametrize("count", [1, 2])  # one by one, and together
def test_a_value_of_another_type_is_not_changed_to_fit(
    kind: Any, value: Any, declared: pa.DataType, count: int
) -> None:
    fields = [{"name": "x", "type": kind}]
    avro = json.dumps({"type": "record", "name": "r", "fields": fields})
    column = messages(*[written({"x": value}, avro)] * count)
    decoded = AvroFormat(schema=avro).decode(column, pa.schema([("x", declared)]))
    assert {each.reason for each in decoded.bad} == {f"column x: a value is not of type {declared}"}
    assert (len(decoded.bad), decoded.rows.num_rows) == (count, 0)


def test_a_row_that_does_not_fit_the_schema_is_a_bad_record() -> None:
    rows = pa.RecordBatch.from_pylist(
        [{"id": 1, "carrier": "UA"}, {"id": 2**40, "carrier": "UA"}, {"id": 3, "carrier": "XX"}]
    )
    encoded = AvroFormat(schema=FLIGHT).encode(rows)
    assert encoded.messages.to_pylist() == [
        written({"id": 1, "carrier": "UA", "uuid": None, "again": None})
    ]
    assert [each.at for each in encoded.bad] == [1, 2]
    assert encoded.lined_up(rows)["id"].to_pylist() == [1]


def test_a_row_that_python_cannot_hold_is_a_bad_record() -> None:
    days = pa.array([0, 2**31 - 1, 1], pa.int32()).view(pa.date32())
    encoded = AvroFormat().encode(pa.record_batch({"day": days}))
    assert [each.at for each in encoded.bad] == [1]
    assert len(encoded.messages) == 2


def test_with_a_registry_each_message_is_read_with_its_own_schema() -> None:
    older = json.dumps(
        {"type": "record", "name": "Flight", "fields": [{"name": "id", "type": "long"}]}
    )
    registry = StaticSchemaRegistry({3: older, 7: FLIGHT})
    confluent = ConfluentAvroFormat(registry=registry, subject="flights-value", schema=FLIGHT)
    confluent.check_readable(COLUMNS)
    confluent.check_writable(COLUMNS)
    encoded = confluent.encode(pa.RecordBatch.from_pylist(ROWS_OF_FLIGHTS, schema=COLUMNS))
    assert encoded.messages[0].as_py()[:5] == b"\0\0\0\0\7"
    column = messages(
        encoded.messages[0].as_py(),
        b"\0\0\0\0\3" + written({"id": 5}, older),
        b"\0\0\0\0\4" + written({"id": 5}, older),
        b"\1\0\0\0\3" + written({"id": 5}, older),
        b"\0\0",
        encoded.messages[1].as_py(),
    )
    decoded = confluent.decode(column, COLUMNS)
    assert decoded.rows["id"].to_pylist() == [1, 5, 2]
    assert [each.reason for each in decoded.bad] == [
        "the schema 4 does not exist",
        "the message does not start with a schema id",
        "the message does not start with a schema id",
    ]


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ([{"name": "next", "type": ["null", "R"]}], "the type R is recursive"),
        ([{"name": "all", "type": {"type": "array", "items": "null"}}], "items use no bytes"),
        ([{"name": "id", "type": "nonsense"}], "cannot be used"),
    ],
)
def test_a_schema_that_lets_a_short_message_exhaust_the_reader_is_refused(
    fields: list[Any], reason: str
) -> None:
    schema = json.dumps({"type": "record", "name": "R", "namespace": "n", "fields": fields})
    with pytest.raises(ConfigurationError, match=reason):
        AvroFormat(schema=schema).check_readable(pa.schema([(fields[0]["name"], pa.string())]))
    [bad] = (
        ConfluentAvroFormat(registry=StaticSchemaRegistry({1: schema}))
        .decode(messages(b"\0\0\0\0\1\2\2"), COLUMNS)
        .bad
    )
    assert reason in bad.reason


def test_an_incompatible_schema_is_refused_on_the_driver() -> None:
    with pytest.raises(ConfigurationError, match="no field 'gate'"):
        AvroFormat(schema=FLIGHT).check_readable(pa.schema([("gate", pa.string())]))
    with pytest.raises(ConfigurationError, match="'for how long' cannot be an Avro field"):
        AvroFormat().check_writable(pa.schema([("for how long", pa.int64())]))
    with pytest.raises(ConfigurationError, match="'wait' cannot be an Avro field"):
        AvroFormat().check_writable(pa.schema([("wait", pa.duration("s"))]))
    with pytest.raises(ConfigurationError, match="is not a record schema"):
        AvroFormat(schema='"string"').check_writable(COLUMNS)
    with pytest.raises(ConfigurationError, match="requires a subject"):
        ConfluentAvroFormat(registry=StaticSchemaRegistry({})).check_writable(COLUMNS)


def test_without_the_library_the_error_names_the_package_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "fastavro", None)
    with pytest.raises(MissingDependencyError, match=r"connectors-core\[avro\]"):
        AvroFormat().check_readable(COLUMNS)


def test_formats_compare_by_value_and_can_be_pickled() -> None:
    formats = [
        AvroFormat(schema=FLIGHT),
        ConfluentAvroFormat(registry=StaticSchemaRegistry({1: FLIGHT}), subject="s"),
    ]
    assert pickle.loads(pickle.dumps(formats)) == formats


# --- some of the columns ------------------------------------------------------------------------


@settings(max_examples=60, deadline=None)
@given(ROWS, st.lists(st.sampled_from(SCHEMA.names), min_size=1, unique=True))
def test_a_projected_format_reads_the_same_values(
    rows: list[dict[str, Any]], names: list[str]
) -> None:
    batch = pa.RecordBatch.from_pylist(rows, schema=SCHEMA)
    encoded = AvroFormat().encode(batch)
    wanted = pa.schema([field for field in SCHEMA if field.name in names])
    decoded = AvroFormat().projected(SCHEMA).decode(encoded.messages, wanted)
    assert decoded.bad == ()
    assert decoded.rows.equals(batch.select(wanted.names))


def test_a_projected_format_skips_the_other_fields() -> None:
    broken = written(FLIGHTS[0]).replace(UUID.encode(), b"\xff" * len(UUID))
    schema = pa.schema([("id", pa.int64())])
    registry = StaticSchemaRegistry({7: FLIGHT})
    for avro, message in (
        (AvroFormat(schema=FLIGHT), broken),
        (ConfluentAvroFormat(registry=registry), b"\0\0\0\0\7" + broken),
    ):
        assert len(avro.decode(messages(message), schema).bad) == 1
        narrow = pickle.loads(pickle.dumps(avro.projected(COLUMNS)))
        assert narrow.decode(messages(message), schema).rows.to_pylist() == [{"id": 1}]


def test_a_projected_format_reads_a_wanted_enum_with_the_whole_record() -> None:
    narrow = AvroFormat(schema=FLIGHT).projected(COLUMNS)
    wanted = pa.schema([COLUMNS.field("carrier")])
    decoded = narrow.decode(messages(*(written(each) for each in FLIGHTS)), wanted)
    assert decoded.rows.to_pylist() == [{"carrier": "UA"}, {"carrier": "AA"}]


def test_a_field_is_not_mistaken_for_another_one_with_its_alias() -> None:
    schema = {
        "type": "record",
        "name": "Flight",
        "fields": [
            {"name": "old", "type": "int"},
            {"name": "new", "type": "int", "aliases": ["old"]},
        ],
    }
    columns = pa.schema([("old", pa.int64()), ("new", pa.int64())])
    narrow = AvroFormat(schema=json.dumps(schema)).projected(columns)
    message = written({"old": 1, "new": 2}, json.dumps(schema))
    decoded = narrow.decode(messages(message), pa.schema([columns.field("new")]))
    assert decoded.rows.to_pylist() == [{"new": 2}]


def test_the_registry_is_asked_once_for_a_schema_that_does_not_exist() -> None:
    class Counting(StaticSchemaRegistry):
        asked = 0

        def schema_of(self, schema_id: int) -> str:
            Counting.asked += schema_id == 7
            return super().schema_of(schema_id)

    schema = avro_schema_of(COLUMNS)
    avro = ConfluentAvroFormat(registry=Counting({1: schema}))
    decoded = avro.decode(messages(*[b"\0\0\0\0\7" + bytes(9)] * 20), COLUMNS)
    assert {each.reason for each in decoded.bad} == {"the schema 7 does not exist"}
    assert (len(decoded.bad), decoded.rows.num_rows) == (20, 0)
    assert Counting.asked <= 2  # for the column as a whole, and for the messages one by one


@pytest.mark.parametrize("registry", [None, "http://registry:8081", object()])
def test_an_object_that_is_no_registry_is_refused(registry: object) -> None:
    with pytest.raises(InvalidOptionError, match="registry"):
        ConfluentAvroFormat(registry=registry)  # type: ignore[arg-type]
