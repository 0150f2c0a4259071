# SPDX-License-Identifier: Apache-2.0
"""Tests messages that consist of a single value."""

from __future__ import annotations

import pickle

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from connectors_core.errors import ConfigurationError
from connectors_core.formats import RawFormat, StringFormat

RAW = pa.schema([("value", pa.binary())])
TEXT = pa.schema([("value", pa.string())])


@settings(deadline=None)
@given(st.lists(st.none() | st.binary(max_size=5)))
def test_bytes_pass_through_unchanged(values: list[bytes | None]) -> None:
    decoded = RawFormat().decode(pa.array(values, pa.binary()), RAW)
    assert decoded.rows["value"].to_pylist() == values
    assert (decoded.kept, decoded.bad) == (None, ())
    assert RawFormat().encode(decoded.rows).messages.to_pylist() == values


@settings(deadline=None)
@given(st.lists(st.none() | st.binary(max_size=5)))
def test_a_text_that_is_not_utf8_is_a_bad_record(values: list[bytes | None]) -> None:
    def is_text(value: bytes | None) -> bool:
        try:
            return value is None or value.decode() is not None
        except UnicodeDecodeError:
            return False

    column = pa.array(values, pa.binary())
    decoded = StringFormat().decode(column, TEXT)
    good = [value for value in values if is_text(value)]
    assert StringFormat().encode(decoded.rows).messages.to_pylist() == good
    assert [each.at for each in decoded.bad] == [
        at for at, value in enumerate(values) if not is_text(value)
    ]
    assert {each.reason for each in decoded.bad} <= {"the text is not UTF-8"}
    assert decoded.lined_up(column).to_pylist() == good


def test_a_null_in_a_column_that_is_not_nullable_is_a_bad_record() -> None:
    schema = pa.schema([pa.field("value", pa.binary(), nullable=False)])
    decoded = RawFormat().decode(pa.array([b"a", None, b""]), schema)
    assert decoded.rows["value"].to_pylist() == [b"a", b""]
    [bad] = decoded.bad
    assert (bad.at, bad.reason) == (1, "the message is null")


def test_the_schema_must_match_the_format() -> None:
    RawFormat().check_readable(RAW)
    StringFormat().check_writable(TEXT)
    for refused in (TEXT, pa.schema([*RAW, ("more", pa.binary())]), pa.schema([])):
        with pytest.raises(ConfigurationError, match="do not fit the format raw"):
            RawFormat().check_readable(refused)
    with pytest.raises(ConfigurationError, match="do not fit the format string"):
        StringFormat().check_writable(RAW)


def test_formats_can_be_pickled() -> None:
    assert pickle.loads(pickle.dumps([RawFormat(), StringFormat()])) == [
        RawFormat(),
        StringFormat(),
    ]
