# SPDX-License-Identifier: Apache-2.0
"""Tests that the reason of a bad record says what was expected, in no words of Arrow."""

from __future__ import annotations

import pyarrow as pa
import pytest

from connectors_core.formats import CsvFormat, JsonFormat

SCHEMA = pa.schema(
    [
        ("n", pa.int32()),
        ("d", pa.decimal128(5, 2)),
        ("t", pa.timestamp("us", "UTC")),
        ("b", pa.bool_()),
        ("day", pa.date32()),
        ("s", pa.string()),
    ]
)
MISFITS = {
    "n": "int32",
    "t": "timestamp[us, tz=UTC]",
    "day": "date32[day]",
}


def reason(format, message):
    decoded = format.decode(pa.array([message], pa.binary()), SCHEMA)
    (bad,) = decoded.bad
    return bad.reason


@pytest.mark.parametrize(("column", "kind"), MISFITS.items())
def test_the_reason_names_column_and_type(column, kind):
    values = [b"secret" if each == column else b"" for each in SCHEMA.names]
    expected = f"column {column}: a value is not of type {kind}"
    assert reason(CsvFormat(), b",".join(values)) == expected
    found = reason(JsonFormat(), f'{{"{column}":"secret"}}'.encode())
    assert found in (expected, f"column {column}: a value is not of type number")


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        (b'{"n":1.5}', "column n: a value is not of type int32"),
        (b'{"d":123456.78}', "column d: a value is not of type decimal128(5, 2)"),
        (b'{"b":"secret"}', "column b: a value is not of type boolean"),
        (b'{"d":"secret"}', "column d: a value does not fit its type"),
        (b'{"n" 1}', "the record is malformed"),
        (b'{"s":"\xff"}', "column s: a text is not UTF-8"),
        (b"secret", "the message is not a JSON object"),
    ],
)
def test_reasons_of_json(message, expected):
    assert reason(JsonFormat(), message) == expected


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        (b",123456.78,,,,", "column d: a value is not of type decimal128(5, 2)"),
        (b",,,secret,,", "column b: a value is not of type bool"),
        (b",,", "the record has 3 fields instead of 6"),
        (b",,,,,\xff", "column s: a text is not UTF-8"),
    ],
)
def test_reasons_of_csv(message, expected):
    assert reason(CsvFormat(), message) == expected
