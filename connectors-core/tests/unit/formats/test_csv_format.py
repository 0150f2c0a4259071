# SPDX-License-Identifier: Apache-2.0
"""Tests that CSV messages are read back unchanged, and that a bad message affects only itself."""

from __future__ import annotations

import pickle
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from format_messages import NUMBERED, TEXTS, VALUES, among, decoded_as_if_alone, messages
from hypothesis import given, settings
from hypothesis import strategies as st

from connectors_core.errors import ConfigurationError, InvalidOptionError
from connectors_core.formats import CsvDialect, CsvFormat, EmptyMessages

SCHEMA = pa.schema(
    [
        ("text", pa.string()),
        ("id", pa.int64()),
        ("number", pa.float64()),
        ("price", pa.decimal128(12, 3)),
        ("flag", pa.bool_()),
        ("at", pa.timestamp("us", "UTC")),
        ("day", pa.date32()),
        ("time", pa.time64("us")),
        ("more", pa.string()),
    ]
)
ROWS = st.lists(
    st.fixed_dictionaries(
        VALUES
        | {
            "number": st.none() | st.floats(allow_nan=False),
            "time": st.none() | st.times(),
            "more": TEXTS,
        }
    ),
    max_size=6,
)
DIALECTS = st.sampled_from(
    [
        CsvDialect(),
        CsvDialect(delimiter="\t", null_values=("\\N", "")),
        CsvDialect(delimiter="1", quote_char="'"),
        CsvDialect(delimiter="a", quote_char="b", escape_char="c"),
        CsvDialect(delimiter=";", double_quote=False, escape_char="\\"),
    ]
)


@settings(max_examples=80, deadline=None)
@given(rows=ROWS, dialect=DIALECTS)
def test_written_rows_are_read_back_unchanged(
    rows: list[dict[str, Any]], dialect: CsvDialect
) -> None:
    batch = pa.RecordBatch.from_pylist(rows, schema=SCHEMA)
    csv_format = CsvFormat(dialect=dialect)
    encoded = csv_format.encode(batch)
    assert (len(encoded.messages), encoded.kept, encoded.bad) == (len(rows), None, ())
    decoded = csv_format.decode(encoded.messages, SCHEMA)
    assert (decoded.kept, decoded.bad) == (None, ())
    assert decoded.rows.equals(batch)


BROKEN = st.sampled_from(
    [
        b'1,"open',
        b'"',
        b'",',
        b'x"',
        b"2,x\n3,y",
        b"2,x\r3,y",
        b"2,x\n\n3,y",
        b'2,"x\n3,y',
        b'"\n3,y',
        b"1",
        b"1,x,y",
        b"x,x",
        b"1.5,x",
        b"1,\xff",
        b"1,\0",
        b"\0",
        b"\n",
        b" ",
        b"\xef\xbb\xbf1,x",
        b'1,"x"y',
    ]
)


@settings(max_examples=100, deadline=None)
@given(among(BROKEN, b'%d,"a\n""b"""\r\n'))
def test_a_bad_message_does_not_affect_the_other_messages(
    cases: list[tuple[bytes, int | None]],
) -> None:
    column = messages(*(message for message, _ in cases))
    _, alone = decoded_as_if_alone(CsvFormat(), column)
    for (_, number), one in zip(cases, alone, strict=True):
        assert number is None or one.rows.to_pylist() == [{"id": number, "text": 'a\n"b"'}]


def test_a_quote_that_is_open_at_the_end_of_a_message_does_not_swallow_the_next_message() -> None:
    decoded = CsvFormat().decode(messages(b'1,"x', b"5,y", b'",\n7,z'), NUMBERED)
    assert decoded.rows.to_pylist() == [{"id": 5, "text": "y"}]
    assert [each.at for each in decoded.bad] == [0, 2]


def test_null_messages_empty_messages_and_empty_texts() -> None:
    column = messages(None, b'1,""', b"", b"2,")
    decoded = CsvFormat().decode(column, NUMBERED)
    assert [tuple(row.values()) for row in decoded.rows.to_pylist()] == [
        (None, None),
        (1, ""),
        (None, None),
        (2, None),
    ]
    decoded = CsvFormat(empty_messages=EmptyMessages.BAD).decode(column, NUMBERED)
    assert [each.at for each in decoded.bad] == [0, 2]


def test_timestamps_in_another_zone_and_in_a_custom_format() -> None:
    schema = pa.schema([("at", pa.timestamp("us", "UTC"))])
    dialect = CsvDialect(timestamp_formats=("%d.%m.%Y %H:%M",), assume_time_zone="America/New_York")
    decoded = CsvFormat(dialect=dialect).decode(messages(b"01.01.2013 05:00"), schema)
    assert decoded.rows["at"].to_pylist() == [datetime(2013, 1, 1, 10, tzinfo=UTC)]


def test_a_row_with_a_quote_that_cannot_be_escaped_is_a_bad_record() -> None:
    rows = pa.RecordBatch.from_pylist([{"id": n, "text": t} for n, t in enumerate('a"b')])
    encoded = CsvFormat(dialect=CsvDialect(double_quote=False)).encode(rows)
    assert encoded.messages.to_pylist() == [b'0,"a"', b'2,"b"']
    assert [each.at for each in encoded.bad] == [1]
    assert encoded.lined_up(rows)["id"].to_pylist() == [0, 2]


@pytest.mark.parametrize("number", [b"1234567890", b'"1234567890.5"', b"1e9", b"-1e10"])
def test_a_decimal_with_too_many_digits_is_a_bad_record(number: bytes) -> None:
    """Arrow accepts the value, but Spark fails on it."""
    schema = pa.schema([("price", pa.decimal128(12, 3)), ("text", pa.string())])
    decoded = CsvFormat().decode(messages(b"1,a", number + b",b"), schema)
    [bad] = decoded.bad
    assert (bad.at, decoded.rows["text"].to_pylist()) == (1, ["a"])
    assert "too many digits" in bad.reason
    assert "123456" not in bad.reason


@pytest.mark.parametrize("number", [b"1e-999999999", b'"1E-999"', rb'"1\e\-\999999999"'])
def test_a_number_outside_the_decimal_range_rejects_only_its_own_message(number: bytes) -> None:
    """Arrow returns a different number or ends the process."""
    schema = pa.schema([("price", pa.decimal128(12, 3)), ("text", pa.string())])
    written = CsvFormat(dialect=CsvDialect(escape_char="\\"))
    texts = messages(b"1e-3,1e-999999999", number + b",x", b"2,2f4e-1234")
    decoded = written.decode(texts, schema)
    assert [each.at for each in decoded.bad] == [1]
    assert "999" not in decoded.bad[0].reason
    assert decoded.rows["price"].to_pylist() == [Decimal("0.001"), Decimal(2)]
    assert decoded.rows["text"].to_pylist() == ["1e-999999999", "2f4e-1234"]


@pytest.mark.parametrize(
    "message",
    [
        b"s3cret,x",
        b"it converts to s3cret: x,x",
        b"1,s3cret,s3cret",
        b"s3cret",
        b'1,"s3cret',
        b"1,s3cret\xff",
        b"1,s3cret\n1,s3cret",
        b",".join([b"s3cret"] * 12),
    ],
)
def test_the_reason_for_a_bad_record_contains_no_values(message: bytes) -> None:
    [bad] = CsvFormat().decode(messages(message), NUMBERED).bad
    assert bad.reason
    assert "s3cret" not in bad.reason


def test_columns_that_csv_cannot_represent_are_refused_by_name() -> None:
    CsvFormat().check_readable(SCHEMA)
    CsvFormat().check_writable(SCHEMA)
    schema = pa.schema([("tags", pa.list_(pa.string()))])
    with pytest.raises(ConfigurationError, match="'tags' cannot be read from CSV"):
        CsvFormat().check_readable(schema)
    with pytest.raises(ConfigurationError, match="'tags' cannot be written as CSV"):
        CsvFormat().check_writable(schema)


def test_a_format_compares_by_value_and_can_be_pickled() -> None:
    csv_format = CsvFormat(dialect=CsvDialect(delimiter="|"))
    assert pickle.loads(pickle.dumps(csv_format)) == csv_format


@pytest.mark.parametrize(
    ("dialect", "key"),
    [
        (CsvDialect(null_values=("N,A",)), "null-literal"),
        (CsvDialect(null_values=('"',)), "null-literal"),
        (CsvDialect(null_values=("N\nA",)), "null-literal"),
        (CsvDialect(null_values=("\\N",), escape_char="\\"), "null-literal"),
        (CsvDialect(null_values=()), "null-literal"),
        (CsvDialect(true_values=()), "true-values"),
        (CsvDialect(false_values=("no,",)), "false-values"),
    ],
)
def test_a_spelling_that_could_not_be_read_back_is_refused_before_writing(
    dialect: CsvDialect, key: str
) -> None:
    form = CsvFormat(dialect=dialect)
    form.check_readable(pa.schema([("a", pa.bool_())]))
    with pytest.raises(InvalidOptionError) as refused:
        form.check_writable(pa.schema([("a", pa.bool_())]))
    assert refused.value.option == f"csv.{key}"


def test_a_letter_as_the_delimiter_may_occur_in_quoted_booleans() -> None:
    rows = pa.record_batch({"a": pa.array([True, None]), "b": pa.array([1, 2])})
    form = CsvFormat(dialect=CsvDialect(delimiter="t"))
    form.check_writable(rows.schema)
    assert form.decode(form.encode(rows).messages, rows.schema).rows == rows
