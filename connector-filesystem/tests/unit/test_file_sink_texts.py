# SPDX-License-Identifier: Apache-2.0
"""Tests the text encoders with the readers of the standard library and of pyarrow."""

from __future__ import annotations

import base64
import csv
import io
import json
import math
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.csv as pacsv
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from connector_filesystem.formats import CsvOptions
from connector_filesystem.sink.csv_lines import bad_csv_rows, encode_csv_lines
from connector_filesystem.sink.json_lines import encode_json_lines
from connectors_core.formats.text import csv_header, unsupported_csv_type, unsupported_json_type

TEXTS = st.none() | st.text(alphabet=st.characters(exclude_categories=["Cs"]), max_size=12)
FLOATS = st.none() | st.floats()
MOMENTS = st.none() | st.datetimes(
    min_value=datetime(1, 1, 2), max_value=datetime(9999, 12, 30), timezones=st.just(UTC)
)
NESTED = st.none() | st.fixed_dictionaries(
    {"name": TEXTS, "tags": st.none() | st.lists(TEXTS, max_size=3)}
)
SCHEMA = pa.schema(
    [
        ("text", pa.string()),
        ("number", pa.float64()),
        ("id", pa.int64()),
        ("flag", pa.bool_()),
        ("ts", pa.timestamp("us", "UTC")),
        ("nested", pa.struct([("name", pa.string()), ("tags", pa.list_(pa.string()))])),
        ("attributes", pa.map_(pa.string(), pa.float64())),
    ]
)
PLAIN = {
    "text": TEXTS,
    "number": FLOATS,
    "id": st.none() | st.integers(-(2**63), 2**63 - 1),
    "flag": st.none() | st.booleans(),
    "ts": MOMENTS,
}
ROWS = st.lists(
    st.fixed_dictionaries(
        {
            **PLAIN,
            "nested": NESTED,
            "attributes": st.none()
            | st.dictionaries(TEXTS.filter(lambda key: key is not None), FLOATS, max_size=3),
        }
    ),
    min_size=1,
    max_size=8,
)


def json_form(value: Any) -> Any:
    """Return the expected value in the file by the documented rules of the module."""
    if isinstance(value, float) and math.isnan(value):
        return "NaN"
    if isinstance(value, float) and math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, datetime):
        return value.strftime("%Y").zfill(4) + value.strftime("-%m-%dT%H:%M:%S.%fZ")
    if isinstance(value, dict):
        return {key: json_form(each) for key, each in value.items()}
    if isinstance(value, list):
        return [json_form(each) for each in value]
    return value


def without_nulls(value: Any, *, is_map: bool = False) -> Any:
    if isinstance(value, dict):
        return {
            key: without_nulls(each, is_map=key == "attributes")
            for key, each in value.items()
            if each is not None or is_map
        }
    if isinstance(value, list):
        return [without_nulls(each) for each in value]
    return value


def json_lines(batch: pa.RecordBatch, **options: Any) -> bytes:
    return b"".join(buffer.to_pybytes() for buffer in encode_json_lines(batch, **options))


@settings(max_examples=150, deadline=None)
@given(rows=ROWS, start=st.integers(0, 3), write_nulls=st.booleans())
def test_json_lines_contain_the_values_of_the_columns(
    rows: list[dict[str, Any]], start: int, write_nulls: bool
) -> None:
    batch = pa.RecordBatch.from_pylist(rows, schema=SCHEMA).slice(start)
    lines = json_lines(batch, write_nulls=write_nulls).split(b"\n")
    assert lines.pop() == b""
    found = [json.loads(line) for line in lines]
    wanted = [json_form(row) for row in rows[start:]]
    assert found == (wanted if write_nulls else [without_nulls(row) for row in wanted])


def test_json_writes_types_that_have_no_kernel() -> None:
    row = {
        "dec": Decimal("12345678901234567890.10"),
        "day": date(1960, 2, 29),
        "at": time(1, 2, 3, 4),
        "bin": b"\x00\xff",
        "naive": datetime(2020, 1, 2, 3, 4, 5),
        "days": {date(2020, 1, 1): 1.0}.items(),
        "code": "EWR",
        "small": 1.5,
        "nothing": None,
    }
    schema = pa.schema(
        [
            ("dec", pa.decimal128(30, 2)),
            ("day", pa.date32()),
            ("at", pa.time64("us")),
            ("bin", pa.binary()),
            ("naive", pa.timestamp("ms", None)),
            ("days", pa.map_(pa.date32(), pa.float32())),
            ("code", pa.dictionary(pa.int8(), pa.string())),
            ("small", pa.float32()),
            ("nothing", pa.null()),
        ]
    )
    batch = pa.RecordBatch.from_pylist([{**row, "days": list(row["days"])}], schema=schema)
    assert json.loads(json_lines(batch, write_nulls=True), parse_float=str) == {
        "dec": "12345678901234567890.10",
        "day": "1960-02-29",
        "at": "01:02:03.000004",
        "bin": base64.b64encode(b"\x00\xff").decode(),
        "naive": "2020-01-02T03:04:05.000",
        "days": {"2020-01-01": "1.0"},
        "code": "EWR",
        "small": "1.5",
        "nothing": None,
    }


def test_a_timestamp_of_any_zone_is_written_in_utc() -> None:
    moment = datetime(2013, 1, 1, 10, tzinfo=UTC)
    batch = pa.RecordBatch.from_arrays(
        [pa.array([moment], pa.timestamp("s", "America/New_York"))], ["ts"]
    )
    assert json_lines(batch) == b'{"ts":"2013-01-01T10:00:00Z"}\n'


def test_many_rows_and_rows_without_columns_are_complete_lines() -> None:
    batch = pa.RecordBatch.from_arrays([pa.array(range(100_000))], ["n"])
    assert len(json_lines(batch).splitlines()) == 100_000
    assert json_lines(batch.slice(7, 0)) == b""


@pytest.mark.parametrize(
    ("kind", "csv_can", "json_can"),
    [
        (pa.int64(), True, True),
        (pa.dictionary(pa.int32(), pa.string()), True, True),
        (pa.list_(pa.int64()), False, True),
        (pa.struct([("a", pa.duration("s"))]), False, False),
        (pa.binary(), False, True),
        (pa.map_(pa.binary(), pa.int64()), False, False),
        (pa.duration("us"), False, False),
    ],
)
def test_an_error_names_the_types_that_a_format_lacks(
    kind: pa.DataType, csv_can: bool, json_can: bool
) -> None:
    assert (unsupported_csv_type(kind) is None) is csv_can
    assert (unsupported_json_type(kind) is None) is json_can


CSV_SCHEMA = pa.schema([field for field in SCHEMA if not pa.types.is_nested(field.type)])
CSV_ROWS = st.lists(st.fixed_dictionaries(PLAIN), min_size=1, max_size=8)
DIALECTS = [
    CsvOptions(newlines_in_values=True),
    CsvOptions(newlines_in_values=True, delimiter="\t", null_values=("\\N", "")),
    CsvOptions(newlines_in_values=True, delimiter="1", quote_char="'", header=False),
    CsvOptions(delimiter=";", double_quote=False, escape_char="\\"),
]


def same(left: Any, right: Any) -> bool:
    if isinstance(left, float) and isinstance(right, float) and math.isnan(left):
        return math.isnan(right)
    return bool(left == right)


@settings(max_examples=100, deadline=None)
@given(rows=CSV_ROWS, start=st.integers(0, 3), dialect=st.sampled_from(DIALECTS))
def test_csv_values_survive_a_round_trip(
    rows: list[dict[str, Any]], start: int, dialect: CsvOptions
) -> None:
    batch = pa.RecordBatch.from_pylist(rows, schema=CSV_SCHEMA).slice(start)
    bad = bad_csv_rows(batch, dialect)
    if not dialect.newlines_in_values:
        held = [bool({"\n", "\r"} & set(row["text"] or "")) for row in rows[start:]]
        assert [row for _, _, found in bad for row in found.tolist()] in (held, [])
        batch = batch.filter(pa.array([not each for each in held], pa.bool_()))
        rows = [row for row, each in zip(rows[start:], held, strict=True) if not each]
        start = 0
    else:
        assert bad == []
    data = csv_header(CSV_SCHEMA, dialect) if dialect.header else b""
    data += b"".join(buffer.to_pybytes() for buffer in encode_csv_lines(batch, dialect))
    if not data:
        return
    table = pacsv.read_csv(
        io.BytesIO(data),
        read_options=pacsv.ReadOptions(column_names=None if dialect.header else CSV_SCHEMA.names),
        parse_options=pacsv.ParseOptions(
            delimiter=dialect.delimiter,
            quote_char=dialect.quote_char,
            double_quote=dialect.double_quote,
            escape_char=dialect.escape_char or False,
            newlines_in_values=dialect.newlines_in_values,
        ),
        convert_options=pacsv.ConvertOptions(
            column_types=CSV_SCHEMA,
            null_values=list(dialect.null_values),
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        ),
    )
    found = table.to_pylist()
    assert len(found) == len(rows[start:])
    for left, right in zip(found, rows[start:], strict=True):
        assert all(same(left[name], right[name]) for name in right), (left, right)


def test_errors_name_csv_rows_that_would_be_lost_or_changed() -> None:
    alone = pa.RecordBatch.from_arrays([pa.array(["a", None, "b"])], ["only"])
    [(_, option, rows)] = bad_csv_rows(alone, CsvOptions())
    assert (option, rows.tolist()) == ("csv.null-literal", [False, True, False])
    assert bad_csv_rows(alone, CsvOptions(null_values=("NULL",))) == []
    quotes = pa.RecordBatch.from_arrays([pa.array(["a", 'b"'])], ["text"])
    [(_, option, rows)] = bad_csv_rows(quotes, CsvOptions(double_quote=False))
    assert (option, rows.tolist()) == ("csv.double-quote", [False, True])


def test_csv_quotes_column_names() -> None:
    schema = pa.schema([('a,"b', pa.int64()), ("c", pa.int64())])
    assert next(csv.reader([csv_header(schema, CsvOptions()).decode()])) == ['a,"b', "c"]
