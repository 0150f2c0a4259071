# SPDX-License-Identifier: Apache-2.0
"""Tests JSON messages with the id of a schema, and the columns that a JSON Schema describes."""

from __future__ import annotations

import json
import struct

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from connectors_core.errors import UnsupportedError
from connectors_core.formats import (
    FORMAT_OPTIONS,
    ConfluentJsonFormat,
    FormatName,
    JsonFormat,
    RegisteredSchema,
    columns_of_registered,
    format_of,
)

COLUMNS = pa.schema([("id", pa.int64()), ("text", pa.string())])
SCHEMA = {
    "$schema": "http://json-schema.org/draft-07/schema#",
    "type": "object",
    "properties": {
        "id": {"type": "integer"},
        "name": {"oneOf": [{"type": "null"}, {"type": "string"}]},
        "price": {"type": ["number", "null"]},
        "ok": {"type": "boolean"},
        "day": {"type": "string", "format": "date"},
        "at": {"anyOf": [{"type": "string", "format": "date-time"}, {"type": "null"}]},
        "tags": {"type": "array", "items": {"type": "string"}},
        "sizes": {"type": "object", "additionalProperties": {"type": "integer"}},
        "home": {"$ref": "#/definitions/Address"},
        "either": {"type": ["string", "integer"]},
        "kind": {"enum": ["a", 1]},
        "anything": True,
        "open": {"type": "object"},
        "elsewhere": {"$ref": "http://example.com/other.json"},
    },
    "definitions": {
        "Address": {
            "type": "object",
            "properties": {"town": {"type": "string"}, "next": {"$ref": "#/definitions/Address"}},
        }
    },
}


def framed(text: str, schema_id: int = 7) -> bytes:
    return struct.pack(">bI", 0, schema_id) + text.encode()


def test_a_json_schema_has_the_columns_of_its_properties():
    found = columns_of_registered(RegisteredSchema("JSON", json.dumps(SCHEMA)))
    assert found.format is FormatName.JSON_CONFLUENT
    address = pa.struct([("town", pa.string()), ("next", pa.string())])
    assert found.schema == pa.schema(
        [
            ("id", pa.int64()),
            ("name", pa.string()),
            ("price", pa.float64()),
            ("ok", pa.bool_()),
            ("day", pa.date32()),
            ("at", pa.timestamp("us", tz="UTC")),
            ("tags", pa.list_(pa.string())),
            ("sizes", pa.map_(pa.string(), pa.int64())),
            ("home", address),
            ("either", pa.string()),
            ("kind", pa.string()),
            ("anything", pa.string()),
            ("open", pa.string()),
            ("elsewhere", pa.string()),
        ]
    )
    text = (
        '{"id": 1, "at": "2026-01-31T05:00:00Z", "sizes": {"a": 2}, "either": 5, '
        '"home": {"town": "x", "next": {"town": "y"}}, "open": {"b": [1]}}'
    )
    (row,) = ConfluentJsonFormat().decode(pa.array([framed(text)]), found.schema).rows.to_pylist()
    assert (row["id"], row["at"].hour, row["sizes"], row["either"]) == (1, 5, [("a", 2)], "5")
    assert row["home"] == {"town": "x", "next": '{"town": "y"}'}
    assert row["open"] == '{"b": [1]}'


@pytest.mark.parametrize(
    ("kind", "text", "shown"),
    [
        ("JSON", '{"type": "string"}', "not that of an object"),
        ("JSON", "true", "not that of an object"),
        ("JSON", "{", "."),
        ("PROTOBUF", 'syntax = "proto3";', "schema of PROTOBUF"),
    ],
)
def test_a_schema_without_columns_is_refused(kind, text, shown):
    with pytest.raises(ValueError, match=shown):
        columns_of_registered(RegisteredSchema(kind, text))


def test_messages_without_an_id_are_bad():
    messages = [framed('{"id": 1}'), b'{"id": 2}', b"", framed("5"), b"\0\0\0", framed('{"id": 3}')]
    decoded = ConfluentJsonFormat(empty_messages="bad").decode(pa.array(messages), COLUMNS)
    assert decoded.rows.column("id").to_pylist() == [1, 3]
    reasons = {each.at: each.reason for each in decoded.bad}
    assert set(reasons) == {1, 2, 3, 4}
    assert reasons[1] == "the message does not start with a schema id"
    assert "not a JSON object" in reasons[3]


@given(st.lists(st.fixed_dictionaries({"id": st.integers(-5, 5), "text": st.text(max_size=3)})))
def test_messages_with_an_id_are_read_as_those_without(rows):
    texts = [json.dumps(each) for each in rows]
    for kind in (pa.binary(), pa.large_binary()):
        plain = pa.array([each.encode() for each in texts], kind)
        prefixed = pa.array([framed(each, number) for number, each in enumerate(texts)], kind)
        expected = JsonFormat().decode(plain, COLUMNS)
        assert ConfluentJsonFormat().decode(prefixed, COLUMNS).rows == expected.rows


def test_the_format_writes_nothing():
    found = format_of(FORMAT_OPTIONS.parse({"format": "json-confluent"}))
    assert isinstance(found, ConfluentJsonFormat)
    found.check_readable(COLUMNS)
    with pytest.raises(UnsupportedError, match="only reads"):
        found.check_writable(COLUMNS)
