# SPDX-License-Identifier: Apache-2.0
"""Tests that JSON messages are read back unchanged, and that a bad message affects only itself."""

from __future__ import annotations

import json
import pickle
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from format_messages import NUMBERED, TEXTS, VALUES, among, decoded_as_if_alone, messages
from hypothesis import given, settings
from hypothesis import strategies as st

from connectors_core.errors import ConfigurationError
from connectors_core.formats import EmptyMessages, JsonFormat
from connectors_core.testing import nested_batches

BYTES = st.none() | st.binary(max_size=7)
TAGS = st.none() | st.lists(TEXTS, max_size=2)
SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("text", pa.string()),
        ("number", pa.float64()),
        ("price", pa.decimal128(12, 3)),
        ("flag", pa.bool_()),
        ("at", pa.timestamp("us", "UTC")),
        ("day", pa.date32()),
        ("data", pa.binary()),
        ("nested", pa.struct([("data", pa.binary()), ("tags", pa.list_(pa.string()))])),
        ("parts", pa.list_(pa.binary())),
    ]
)
ROWS = st.lists(
    st.fixed_dictionaries(
        VALUES
        | {
            "number": st.none() | st.floats(),
            "data": BYTES,
            "nested": st.none() | st.fixed_dictionaries({"data": BYTES, "tags": TAGS}),
            "parts": st.none() | st.lists(BYTES, max_size=3),
        }
    ),
    max_size=6,
)


@settings(max_examples=80, deadline=None)
@given(rows=ROWS, write_nulls=st.booleans())
def test_written_rows_are_read_back_unchanged(
    rows: list[dict[str, Any]], write_nulls: bool
) -> None:
    batch = pa.RecordBatch.from_pylist(rows, schema=SCHEMA)
    json_format = JsonFormat(ignore_null_fields=not write_nulls)
    encoded = json_format.encode(batch)
    assert (len(encoded.messages), encoded.kept, encoded.bad) == (len(rows), None, ())
    decoded = json_format.decode(encoded.messages, SCHEMA)
    assert (decoded.kept, decoded.bad) == (None, ())
    assert decoded.rows.schema.equals(batch.schema)
    assert str(decoded.rows.to_pylist()) == str(batch.to_pylist())  # NaN is not equal to itself


@settings(max_examples=150, deadline=None)
@given(batch=nested_batches(), write_nulls=st.booleans())
def test_nested_columns_of_any_nullability_are_written_and_read(
    batch: pa.RecordBatch, write_nulls: bool
) -> None:
    json_format = JsonFormat(ignore_null_fields=not write_nulls)
    encoded = json_format.encode(batch)
    assert encoded.bad == ()
    decoded = json_format.decode(encoded.messages, batch.schema)
    assert decoded.bad == ()
    assert decoded.rows.schema.equals(batch.schema)
    assert decoded.rows.to_pylist() == batch.to_pylist()


BROKEN = st.sampled_from(
    [
        b'{"id":1}{"id":2}',
        b'{"id":1',
        b'"text":"x"}',
        b'{"id":1}\0',
        b'{"id":1}\0{"id":2}',
        b'{"id":1},{"id":2}',
        b'[{"id":1}]',
        b'{"id":1}]',
        b'{"id":"1"}',
        b'{"id":1.5}',
        b'{"id":1,"id":2}',
        b'{"text":"\xff"}',
        b'{"text":"\n"}',
        b'{"text":"open}',
        b'{"text":{}}',
        b'{"other":{"more":[{}',
        b"}",
        b"{",
        b"{}{}",
        b"{}{}{}",
        b"null",
        b"1",
        b" ",
        b"\xef\xbb\xbf{}",
    ]
)


@settings(max_examples=100, deadline=None)
@given(among(BROKEN, b'{"id":%d, "more":\n[{}]}'))
def test_a_bad_message_does_not_affect_the_other_messages(
    cases: list[tuple[bytes, int | None]],
) -> None:
    column = messages(*(message for message, _ in cases))
    decoded, alone = decoded_as_if_alone(JsonFormat(), column)
    for (_, number), one in zip(cases, alone, strict=True):
        assert number is None or one.rows["id"].to_pylist() == [number]
    assert decoded.lined_up(column).to_pylist() == [
        message for (message, _), one in zip(cases, alone, strict=True) if not one.bad
    ]


@pytest.mark.parametrize(
    ("taker", "giver"),
    [(b'{"id":1}{"id":2}', b"\0"), (b'{"more":[{}', b']}{"id":2}'), (b"{}{}", b'{}\0{"id":2}')],
)
def test_two_broken_halves_of_a_document_are_two_bad_records(taker: bytes, giver: bytes) -> None:
    decoded = JsonFormat().decode(messages(taker, b'{"id":5}', giver), NUMBERED)
    assert decoded.rows["id"].to_pylist() == [5]
    assert [each.at for each in decoded.bad] == [0, 2]


def test_a_message_may_contain_line_breaks_and_surrounding_whitespace() -> None:
    pretty = json.dumps({"id": 1, "text": "a\nb"}, indent=2).encode()
    decoded = JsonFormat().decode(messages(b" \r\n" + pretty + b"\n", pretty), NUMBERED)
    assert decoded.rows.to_pylist() == [{"id": 1, "text": "a\nb"}] * 2


@pytest.mark.parametrize("kind", [pa.binary(), pa.large_binary(), pa.string()])
def test_columns_of_every_arrow_layout_are_read(kind: pa.DataType) -> None:
    column = pa.chunked_array(
        [pa.array([f'{{"id":{n}}}' for n in range(5)]).cast(kind)[1:], pa.array([], kind)]
    )
    assert JsonFormat().decode(column, NUMBERED).rows["id"].to_pylist() == [1, 2, 3, 4]
    assert JsonFormat().decode(column[:0], NUMBERED).rows.num_rows == 0


def test_an_empty_message_is_a_row_of_nulls_or_a_bad_record() -> None:
    column = messages(None, b'{"id":1}', b"", b"nothing")
    decoded = JsonFormat().decode(column, NUMBERED)
    assert decoded.rows["id"].to_pylist() == [None, 1, None]
    assert [each.at for each in decoded.bad] == [3]
    decoded = JsonFormat(empty_messages=EmptyMessages.BAD).decode(column, NUMBERED)
    assert decoded.rows["id"].to_pylist() == [1]
    assert [each.at for each in decoded.bad] == [0, 2, 3]
    required = pa.schema([pa.field("id", pa.int64(), nullable=False)])
    decoded = JsonFormat().decode(column, required)
    assert decoded.rows["id"].to_pylist() == [1]
    assert "is not nullable" in decoded.bad[0].reason


def test_an_unknown_field_is_ignored_or_makes_the_message_a_bad_record() -> None:
    column = messages(b'{"id":1,"new":[1]}')
    assert JsonFormat().decode(column, NUMBERED).rows["id"].to_pylist() == [1]
    [bad] = JsonFormat(fail_on_unknown_field=True).decode(column, NUMBERED).bad
    assert "unexpected field" in bad.reason


def test_a_missing_field_is_null_or_makes_the_message_a_bad_record() -> None:
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False), ("text", pa.string())])
    decoded = JsonFormat().decode(messages(b'{"id":1}', b'{"text":"x"}'), schema)
    assert decoded.rows.to_pylist() == [{"id": 1, "text": None}]
    assert decoded.bad[0].reason == "column id is null but not nullable"


EXACT = pa.schema(
    [
        ("price", pa.decimal128(12, 3)),
        ("text", pa.string()),
        ("number", pa.float64()),
        ("deep", pa.list_(pa.struct([("price", pa.decimal128(12, 3))]))),
    ]
)


@pytest.mark.parametrize(
    "number",
    [b"1e-999999999", b"1.5E-999", b'"-1e-000999999999"', rb'"1\u0065\u002d\u0039\u0039999999"'],
)
@pytest.mark.parametrize("place", [b'{"price":%s}', b'{"text":"x","deep":[{},{"price": %s}]}'])
def test_a_number_outside_the_decimal_range_rejects_only_its_own_message(
    number: bytes, place: bytes
) -> None:
    """Arrow returns a different number or ends the process."""
    decoded = JsonFormat().decode(messages(b'{"price":1}', place % number, b'{"price":2}'), EXACT)
    assert [each.at for each in decoded.bad] == [1]
    assert b"999" not in decoded.bad[0].reason.encode()
    assert decoded.rows["price"].to_pylist() == [Decimal(1), Decimal(2)]


@pytest.mark.parametrize("number", [b"1234567890.5", b'"1234567890"', b"1e9", b"-1e10"])
@pytest.mark.parametrize("place", [b'{"price":%s}', b'{"text":"x","deep":[{},{"price": %s}]}'])
def test_a_decimal_with_too_many_digits_is_a_bad_record(number: bytes, place: bytes) -> None:
    """Arrow accepts the value, but Spark fails on it."""
    decoded = JsonFormat().decode(messages(b'{"price":1}', place % number), EXACT)
    [bad] = decoded.bad
    assert (bad.at, decoded.rows["price"].to_pylist()) == (1, [Decimal(1)])
    assert "too many digits" in bad.reason
    assert "123456" not in bad.reason


@pytest.mark.parametrize(
    ("message", "name", "value"),
    [
        (b'{"price":1e-3}', "price", Decimal("0.001")),
        (b'{"price":1e-0003}', "price", Decimal("0.001")),
        (b'{"text":"1e-999999999","price":1}', "text", "1e-999999999"),
        (b'{"text":"2f4e-1234","price":1}', "text", "2f4e-1234"),
        (rb'{"text":"\u0031","price":1}', "text", "1"),
        (b'{"number":1e-999,"price":1}', "number", 0.0),
        (b'{"other":[1e-999999999],"price":1}', "price", Decimal(1)),
        (b'{"deep":[null,{}],"other":{"price":1e-999}}', "deep", [None, {"price": None}]),
    ],
)
def test_huge_exponents_outside_decimal_columns_are_accepted(
    message: bytes, name: str, value: Any
) -> None:
    decoded = JsonFormat().decode(messages(message), EXACT)
    assert not decoded.bad
    assert decoded.rows[name].to_pylist() == [value]


@pytest.mark.parametrize(
    "message",
    [
        b'{"id":"s3cret"}',
        b'{"id":73.3}',
        b'{"price":"s3cret"}',
        b'{"price":73333333333333333333333.3}',
        b'{"at":"s3cret"}',
        b'{"day":"s3cret"}',
        b'{"data":"s3cret"}',
        b'{"text":"s3cret\xff"}',
        b'{"text":"s3cret',
        b'{"flag":s3cret}',
        b"s3cret 73.3",
    ],
)
def test_the_reason_for_a_bad_record_contains_no_values(message: bytes) -> None:
    [bad] = JsonFormat().decode(messages(message), SCHEMA).bad
    assert bad.reason
    assert "s3cret" not in bad.reason
    assert "73.3" not in bad.reason
    assert "s3cret" not in repr(bad)


def test_many_messages_that_are_not_json_are_rejected_together() -> None:
    column = pa.array([b"text"] * 100_000 + [b'{"id":1}'])
    decoded = JsonFormat().decode(column, NUMBERED)
    assert decoded.rows["id"].to_pylist() == [1]
    assert len(decoded.bad) == 100_000


def test_columns_that_json_cannot_represent_are_refused_by_name() -> None:
    schema = pa.schema([("at", pa.struct([("time", pa.time64("us"))]))])
    with pytest.raises(ConfigurationError, match="'at' cannot be read from JSON"):
        JsonFormat().check_readable(schema)
    JsonFormat().check_readable(SCHEMA)
    with pytest.raises(ConfigurationError, match="'for' cannot be written as JSON"):
        JsonFormat().check_writable(pa.schema([("for", pa.duration("s"))]))
    JsonFormat().check_writable(SCHEMA)


def test_a_format_compares_by_value_and_can_be_pickled() -> None:
    json_format = JsonFormat(ignore_null_fields=True)
    assert pickle.loads(pickle.dumps(json_format)) == json_format


@settings(max_examples=60, deadline=None)
@given(rows=ROWS, names=st.lists(st.sampled_from(SCHEMA.names), min_size=1, unique=True))
def test_a_projected_format_reads_the_same_values(
    rows: list[dict[str, Any]], names: list[str]
) -> None:
    batch = pa.RecordBatch.from_pylist(rows, schema=SCHEMA)
    wanted = pa.schema([field for field in SCHEMA if field.name in names])
    projected = JsonFormat().projected(SCHEMA)
    assert projected is not None
    decoded = projected.decode(JsonFormat().encode(batch).messages, wanted)
    assert decoded.bad == ()
    assert str(decoded.rows.to_pylist()) == str(batch.select(wanted.names).to_pylist())


def test_a_format_that_looks_for_unknown_fields_needs_all_columns() -> None:
    assert JsonFormat(fail_on_unknown_field=True).projected(SCHEMA) is None
