# SPDX-License-Identifier: Apache-2.0
"""Tests the rows of changes of Debezium, against a reading of one message after another."""

from __future__ import annotations

import base64
import json
from datetime import UTC, datetime
from decimal import Decimal
from io import BytesIO

import fastavro
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from connectors_core.errors import ConfigurationError, RetryableError
from connectors_core.formats import (
    DebeziumAvroFormat,
    DebeziumJsonFormat,
    HttpSchemaRegistry,
    StaticSchemaRegistry,
    avro_format,
)
from connectors_core.schema import ROW_KIND_COLUMN

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
        "further": st.integers(0, 9),
    },
)
CHANGES = st.fixed_dictionaries(
    {"op": st.sampled_from(["c", "r", "u", "u", "d", "t", None])},
    optional={"before": IMAGES, "after": IMAGES, "ts_ms": st.integers(0, 9)},
)
MESSAGES = st.lists(CHANGES | st.sampled_from([None, b"", b"{", b"[]", b"{}"]), max_size=8)
IMAGES_OF = {"c": ["after"], "r": ["after"], "u": ["before", "after"], "d": ["before"]}
KINDS_OF = {"c": ["+I"], "r": ["+I"], "u": ["-U", "+U"], "d": ["-D"]}


def nullable(kind):
    return ["null", kind]


# The schema that Debezium registers. The row after a change has the type of that before it.
ROW = {
    "type": "record",
    "name": "Value",
    "fields": [
        {"name": "id", "type": nullable("long")},
        {"name": "further", "type": nullable({"type": "int", "connect.default": 7})},
        {"name": "name", "type": nullable("string")},
        {"name": "tags", "type": nullable({"type": "array", "items": "string"})},
    ],
}
SOURCE = {
    "type": "record",
    "name": "Source",
    "namespace": "io.debezium.connector.postgresql",
    "fields": [
        {"name": "ts_ms", "type": "long"},
        {"name": "db", "type": "string"},
        {"name": "schema", "type": nullable("string")},
        {"name": "table", "type": "string"},
    ],
}


def envelope_of(row):
    return {
        "type": "record",
        "name": "Envelope",
        "namespace": "dbserver1.public.flights",
        "fields": [
            {"name": "before", "type": nullable(row)},
            {"name": "after", "type": nullable("Value")},
            {"name": "source", "type": nullable(SOURCE)},
            {"name": "op", "type": nullable("string")},
            {"name": "ts_ms", "type": nullable("long")},
        ],
    }


PLAIN_ROW = {**ROW, "fields": ROW["fields"][:3]}
ENVELOPES = {1: envelope_of(ROW), 2: envelope_of(PLAIN_ROW)}
REGISTRY = StaticSchemaRegistry({key: json.dumps(each) for key, each in ENVELOPES.items()})


def json_of(message):
    return json.dumps(message).encode()


def wrapped_json_of(message):
    return json_of({"schema": {"type": "struct"}, "payload": message})


def avro_of(message, schema_id=1):
    stream = BytesIO(bytes([0, 0, 0, 0, schema_id]))
    stream.seek(5)
    fastavro.schemaless_writer(stream, ENVELOPES[schema_id], message)
    return stream.getvalue()


ENCODINGS = [
    (DebeziumJsonFormat(), json_of),
    (DebeziumJsonFormat(schema_include=True), wrapped_json_of),
    (DebeziumAvroFormat(registry=REGISTRY), avro_of),
]


def column_of(messages, encode):
    encoded = [encode(each) if isinstance(each, dict) else each for each in messages]
    return pa.array(encoded, pa.binary())


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


@pytest.mark.parametrize(("form", "encode"), ENCODINGS)
@settings(max_examples=150)
@given(messages=MESSAGES)
def test_each_change_has_its_rows_and_bad_ones_have_none(form, encode, messages):
    decoded = form.decode(column_of(messages, encode), SCHEMA)
    expected = [rows_of(each) for each in messages]
    rows = [(at, row) for at, found in enumerate(expected) for row in found or []]
    assert decoded.rows.schema == SCHEMA
    assert decoded.rows.to_pylist() == [row for _, row in rows]
    assert decoded.lined_up(pa.array(range(len(messages)))).to_pylist() == [at for at, _ in rows]
    assert [each.at for each in decoded.bad] == [
        at for at, found in enumerate(expected) if found is None
    ]
    assert all(each.reason for each in decoded.bad)


@settings(max_examples=50)
@given(messages=st.lists(CHANGES, min_size=2, max_size=8))
def test_rows_of_plain_fields_need_no_objects_of_avro(messages):
    plain = pa.schema([each for each in SCHEMA if each.name != "tags"])
    column = column_of(messages, lambda message: avro_of(message, 2))
    form = DebeziumAvroFormat(registry=REGISTRY)
    with pytest.MonkeyPatch.context() as patched:
        patched.delattr(avro_format, "_read")
        decoded = form.decode(column, plain)
    expected = [row for each in messages for row in rows_of(each) or []]
    assert decoded.rows.to_pylist() == [
        {name: row[name] for name in plain.names} for row in expected
    ]


@pytest.mark.parametrize(("form", "encode"), ENCODINGS)
def test_metadata_of_a_change_are_columns_of_its_rows(form, encode):
    source = {"ts_ms": 1_000, "db": "shop", "schema": "public", "table": "flights"}
    image = {"id": 1}
    messages = [
        {"op": "u", "before": image, "after": image, "source": source, "ts_ms": 2_001},
        {"op": "c", "after": image, "source": None, "ts_ms": 2**62},
        {"op": "c", "after": image},
    ]
    columns = {
        "at": "ingestion-timestamp",
        "changed": "source.timestamp",
        "db": "source.database",
        "schema": "source.schema",
        "table": "source.table",
    }
    types = [(name, form.readable_metadata[key]) for name, key in columns.items()]
    schema = pa.schema([*types, *SCHEMA])
    reading = form.reading_metadata(columns)
    reading.check_readable(schema)
    decoded = reading.decode(column_of(messages, encode), schema)
    of_update = {
        "at": datetime(1970, 1, 1, 0, 0, 2, 1000, UTC),
        "changed": datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC),
        "db": "shop",
        "schema": "public",
        "table": "flights",
    }
    assert decoded.rows.select([*columns]).to_pylist() == [
        of_update,
        of_update,
        dict.fromkeys(columns),
    ]
    assert [each.at for each in decoded.bad] == [1]
    assert decoded.bad[0].reason == "a time is out of range"


def test_an_update_without_the_row_before_names_the_remedy():
    message = json_of({"op": "u", "before": None, "after": {"id": 1}})
    (bad,) = DebeziumJsonFormat().decode(pa.array([message]), SCHEMA).bad
    assert "REPLICA IDENTITY FULL" in bad.reason


def test_messages_with_their_schema_cannot_be_written():
    with pytest.raises(ConfigurationError, match="their schema cannot be written"):
        DebeziumJsonFormat(schema_include=True).check_writable(SCHEMA)


def test_messages_in_avro_are_written_with_a_registered_schema():
    plain = pa.schema([each for each in SCHEMA if each.name != "tags"])
    row = {"type": "record", "fields": PLAIN_ROW["fields"][::2]}
    schema = {
        "type": "record",
        "name": "written",
        "fields": [
            {"name": "before", "type": nullable({**row, "name": "old"})},
            {"name": "after", "type": nullable({**row, "name": "new"})},
            {"name": "op", "type": "string"},
        ],
    }
    form = DebeziumAvroFormat(
        registry=StaticSchemaRegistry({9: json.dumps(schema)}),
        subject="flights-value",
        schema=json.dumps(schema),
    )
    form.check_writable(plain)
    rows = [{"id": 1, "name": "a", ROW_KIND_COLUMN: kind} for kind in ("+I", "?", "-D")]
    encoded = form.encode(pa.RecordBatch.from_pylist(rows, schema=plain))
    assert encoded.kept.tolist() == [0, 2]
    assert [each.at for each in encoded.bad] == [1]
    assert [
        fastavro.schemaless_reader(BytesIO(each[5:]), schema)
        for each in encoded.messages.to_pylist()
    ] == [
        {"before": None, "after": {"id": 1, "name": "a"}, "op": "c"},
        {"before": {"id": 1, "name": "a"}, "after": None, "op": "d"},
    ]


def test_errors_of_the_registry_name_the_options_of_the_format():
    with pytest.raises(ConfigurationError) as refused:
        DebeziumAvroFormat(registry=REGISTRY).check_writable(SCHEMA)
    assert refused.value.option == "debezium-avro-confluent.subject"
    registry = HttpSchemaRegistry(url="http://127.0.0.1:1", timeout="1 s")
    form = DebeziumAvroFormat(registry=registry, subject="flights-value")
    with pytest.raises(RetryableError) as unreachable:
        form.decode(column_of([{"op": "c"}], avro_of), SCHEMA)
    assert unreachable.value.option == "debezium-avro-confluent.url"
    with pytest.raises(RetryableError) as unreachable:
        form.encode(pa.RecordBatch.from_pylist([], schema=SCHEMA))
    assert unreachable.value.option == "debezium-avro-confluent.url"


PLACEHOLDER = "__debezium_unavailable_value"
LARGE = pa.schema(
    [
        ("id", pa.int64()),
        ("text", pa.string()),
        ("data", pa.binary()),
        (ROW_KIND_COLUMN, pa.string()),
    ]
)


def update_of_large(before, after):
    change = {"op": "u", "before": before, "after": after}
    return DebeziumJsonFormat().decode(pa.array([json.dumps(change).encode()]), LARGE)


@pytest.mark.parametrize(
    ("column", "placeholder", "value", "stored"),
    [
        ("text", PLACEHOLDER, "long", "long"),
        ("text", PLACEHOLDER, None, None),
        ("data", base64.b64encode(PLACEHOLDER.encode()).decode(), "AAE=", b"\0\1"),
    ],
)
def test_a_value_that_did_not_change_keeps_that_of_the_row_before(
    column, placeholder, value, stored
):
    decoded = update_of_large({"id": 1, column: value}, {"id": 2, column: placeholder})
    assert decoded.bad == ()
    assert decoded.rows.column(column).to_pylist() == [stored, stored]
    assert decoded.rows.column("id").to_pylist() == [1, 2]


def test_a_value_that_no_row_has_makes_the_change_bad():
    decoded = update_of_large({"id": 1, "text": PLACEHOLDER}, {"id": 1, "text": PLACEHOLDER})
    assert [each.at for each in decoded.bad] == [0]
    assert "REPLICA IDENTITY FULL" in decoded.bad[0].reason


def test_an_unknown_former_value_is_null():
    decoded = update_of_large({"id": 1, "text": PLACEHOLDER}, {"id": 1, "text": "new"})
    assert decoded.rows.column("text").to_pylist() == [None, "new"]


def test_another_placeholder_can_be_configured():
    change = {"op": "u", "before": {"text": "old"}, "after": {"text": "?"}}
    messages = pa.array([json.dumps(change).encode()])
    decoded = DebeziumJsonFormat(placeholder="?").decode(messages, LARGE)
    assert decoded.rows.column("text").to_pylist() == ["old", "old"]


PRICES = pa.schema(
    [
        ("price", pa.decimal128(10, 2)),
        ("parts", pa.struct([("prices", pa.list_(pa.decimal128(38, 3)))])),
        (ROW_KIND_COLUMN, pa.string()),
    ]
)


def created(prices):
    messages = [json.dumps({"op": "c", "after": {"price": each}}).encode() for each in prices]
    return DebeziumJsonFormat(decimals="precise").decode(pa.array(messages), PRICES)


@given(st.lists(st.none() | st.decimals("-99999999.99", "99999999.99", places=2), max_size=5))
def test_precise_decimals_are_bytes(prices):
    def text(price):
        number = int(price.scaleb(2))
        size = (8 + (number + (number < 0)).bit_length()) // 8
        return base64.b64encode(number.to_bytes(size, "big", signed=True)).decode()

    decoded = created([None if price is None else text(price) for price in prices])
    assert decoded.bad == ()
    assert decoded.rows.column("price").to_pylist() == prices


def test_a_text_of_digits_is_bytes_as_well():
    assert created(["1234"]).rows.column("price").to_pylist() == [Decimal("-26588.24")]


@pytest.mark.parametrize("text", ["", "?", base64.b64encode(bytes(17)).decode(), "f////////w=="])
def test_bytes_that_are_no_decimal_make_the_change_bad(text):
    decoded = created(["1234", text, "1234"])
    assert [each.at for each in decoded.bad] == [1]


def test_precise_decimals_are_read_at_every_depth():
    after = {"parts": {"prices": ["AQ==", None, "/w=="]}}
    message = json.dumps({"op": "c", "after": after}).encode()
    decoded = DebeziumJsonFormat(decimals="precise").decode(pa.array([message]), PRICES)
    prices = [Decimal("0.001"), None, Decimal("-0.001")]
    assert decoded.rows.column("parts").to_pylist() == [{"prices": prices}]


def test_precise_decimals_are_not_written():
    with pytest.raises(ConfigurationError, match="cannot be written as bytes"):
        DebeziumJsonFormat(decimals="precise").check_writable(PRICES)
