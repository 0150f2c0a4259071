# SPDX-License-Identifier: Apache-2.0
"""Tests values in another spelling than that of their type, which Spark and Flink read too."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from connectors_core.formats import CsvFormat, DebeziumJsonFormat, JsonFormat, MaxwellJsonFormat
from connectors_core.formats.text import CsvDialect
from connectors_core.schema import ROW_KIND_COLUMN

MOMENT, PRICE = pa.timestamp("us", tz="UTC"), pa.decimal128(10, 2)
NINE = "2020-01-01T00:00:00.123456789"
CUT = datetime(2020, 1, 1, 0, 0, 0, 123456, UTC)
SPELLINGS: dict[str, tuple[pa.DataType, Any, Any]] = {
    "seven digits": (MOMENT, "2020-01-01T00:00:00.1234567Z", CUT),
    "nine digits": (MOMENT, f"{NINE}Z", CUT),
    "an offset": (MOMENT, "2020-01-01T02:00:00.123456789+02:00", CUT),
    "no zone": (MOMENT, NINE, CUT),
    "a time without a zone": (pa.timestamp("us"), NINE, CUT.replace(tzinfo=None)),
    "seconds": (pa.timestamp("s"), NINE, datetime(2020, 1, 1)),
    "rounded up": (PRICE, 1.239, Decimal("1.24")),
    "rounded away from zero": (PRICE, -1.235, Decimal("-1.24")),
    "a decimal as a text": (PRICE, "1.234", Decimal("1.23")),
    "an integer": (pa.int32(), "1", 1),
    "a double": (pa.float64(), "1.5", 1.5),
    "a boolean": (pa.bool_(), "TRUE", True),
    "in a struct": (pa.struct([("a", PRICE)]), {"a": 1.239}, {"a": Decimal("1.24")}),
    "in a list": (pa.list_(MOMENT), [f"{NINE}Z", None], [CUT, None]),
    "in a map": (pa.map_(pa.string(), pa.int64()), {"a": "1"}, [("a", 1)]),
}
WRONG: dict[str, tuple[pa.DataType, Any]] = {
    "a fraction in an integer": (pa.int32(), 1.5),
    "a text in an integer": (pa.int32(), "one"),
    "a number in a boolean": (pa.bool_(), 1),
    "a boolean in a double": (pa.float64(), True),
    "too many digits": (PRICE, 99999999999.9),
    "an exponent that no decimal has": (PRICE, "1e-999999999"),
    "a number in a time": (MOMENT, 2020),
}


def decoded(form: JsonFormat, kind: pa.DataType, *values: Any) -> Any:
    messages = pa.array([json.dumps({"v": value}).encode() for value in values])
    return form.decode(messages, pa.schema([("v", kind)]))


@pytest.mark.parametrize("name", SPELLINGS)
def test_a_json_value_in_another_spelling_is_read_unless_strict(name: str) -> None:
    kind, written, value = SPELLINGS[name]
    found = decoded(JsonFormat(), kind, None, written)
    assert found.bad == ()
    assert found.rows["v"].to_pylist() == [None, value]
    strict = decoded(JsonFormat(strict=True), kind, None, written)
    assert [each.at for each in strict.bad] == [1]


@pytest.mark.parametrize("name", WRONG)
def test_a_json_value_of_another_kind_stays_bad(name: str) -> None:
    found = decoded(JsonFormat(), WRONG[name][0], None, WRONG[name][1])
    assert [each.at for each in found.bad] == [1]


REPEATED: dict[str, tuple[pa.DataType, str, Any]] = {
    "a number": (pa.int32(), '{"v": 1, "v": 2}', 2),
    "null at the end": (pa.int32(), '{"v": 1, "v": null}', None),
    "an escaped name": (pa.string(), r'{"v": "a", "\u0076": "b"}', "b"),
    "three times": (
        pa.list_(pa.int32()),
        '{"v": [1], "x": 1, "v": [], "x": {}, "v": [2, 3]}',
        [2, 3],
    ),
    "in a struct": (pa.struct([("a", PRICE)]), '{"v": {"a": 1, "a": 2.5}}', {"a": Decimal("2.5")}),
    "in a list": (
        pa.list_(pa.struct([("a", pa.int32())])),
        '{"v": [{"a": {"a": 1}, "a": 2}, {"a": 3}]}',
        [{"a": 2}, {"a": 3}],
    ),
    "in a map": (
        pa.map_(pa.string(), pa.struct([("a", pa.int32())])),
        '{"v": {"k": {"a": 1, "a": 2}, "l": {"a": 3}}}',
        [("k", {"a": 2}), ("l", {"a": 3})],
    ),
    "in other spellings": (pa.int32(), '{"v": "1", "v": "2"}', 2),
}


@pytest.mark.parametrize("name", REPEATED)
def test_the_last_value_of_a_repeated_json_field_counts_unless_strict(name: str) -> None:
    kind, text, value = REPEATED[name]
    schema = pa.schema([("v", kind)])
    messages = pa.array([b'{"v": null}', text.encode(), b"{}"])
    found = JsonFormat().decode(messages, schema)
    assert found.bad == ()
    assert found.rows["v"].to_pylist() == [None, value, None]
    strict = JsonFormat(strict=True).decode(messages, schema)
    assert [each.at for each in strict.bad] == [1]


def test_a_repeated_key_of_a_map_stays_in_it() -> None:
    schema = pa.schema([("v", pa.map_(pa.string(), pa.int32()))])
    found = JsonFormat().decode(
        pa.array([b'{"v": {"a": 1, "a": 2}, "v": {"b": 1, "b": 2}}']), schema
    )
    assert found.rows["v"].to_pylist() == [[("b", 1), ("b", 2)]]


@pytest.mark.parametrize(
    "broken",
    ['{"v":1,"v":2,}', '{"v":tru,"v":2}', '{xvx:1,"v":2}', '{"v":1,"v"}', '{"v":1 2,"v":3}'],
)
def test_a_repeated_field_hides_nothing_that_is_not_json(broken: str) -> None:
    messages = pa.array([b'{"v": 1, "v": 2}', broken.encode(), b'{"v": 3, "v": 4}'])
    found = JsonFormat().decode(messages, pa.schema([("v", pa.int32())]))
    assert [each.at for each in found.bad] == [1]
    assert found.rows["v"].to_pylist() == [2, 4]


class Pairs(list[tuple[str, Any]]):
    """The members of an object, which can have a name twice."""


def objects(**members: st.SearchStrategy[Any]) -> st.SearchStrategy[Pairs]:
    pairs = (st.tuples(st.just(name), values) for name, values in members.items())
    return st.none() | st.lists(st.one_of(*pairs), max_size=6).map(Pairs)


NUMBERS = st.none() | st.integers(-9, 9)
OTHERS = st.sampled_from([None, "}", '{"a":1,"a":2}', "\\", ["[", {"a": 1}]])
INNER = objects(a=NUMBERS, é=NUMBERS, other=OTHERS)


def as_json(value: Any) -> str:
    if isinstance(value, Pairs):
        members = (f"{json.dumps(name)} :{as_json(each)}" for name, each in value)
        return "{" + " , ".join(members) + "}"
    return f"[{','.join(map(as_json, value))}]" if isinstance(value, list) else json.dumps(value)


@given(st.lists(objects(a=NUMBERS, b=INNER, c=st.lists(INNER, max_size=2), other=OTHERS)))
def test_repeated_fields_are_read_as_by_python(written: list[Pairs | None]) -> None:
    inner = pa.struct([("a", pa.int64()), ("é", pa.int64())])
    schema = pa.schema([("a", pa.int64()), ("b", inner), ("c", pa.list_(inner))])
    texts = [as_json(each or Pairs()) for each in written]
    last = [json.dumps(json.loads(text)).encode() for text in texts]
    expected = JsonFormat(strict=True).decode(pa.array(last, pa.binary()), schema)
    found = JsonFormat().decode(pa.array([each.encode() for each in texts], pa.binary()), schema)
    assert found.bad == expected.bad == ()
    assert found.rows.equals(expected.rows)


def test_csv_cuts_times_and_rounds_decimals() -> None:
    schema = pa.schema([("at", MOMENT), ("price", PRICE), ("n", pa.int32())])
    lines = pa.array([f"{NINE}Z,1.239,1".encode(), f"{NINE},1.2,1".encode(), b",,x"])
    found = CsvFormat().decode(lines, schema)
    assert found.rows.to_pylist() == [{"at": CUT, "price": Decimal("1.24"), "n": 1}]
    assert [each.at for each in found.bad] == [1, 2]
    strict = CsvFormat(dialect=CsvDialect(strict=True)).decode(lines, schema)
    assert [each.at for each in strict.bad] == [0, 1, 2]


@pytest.mark.parametrize(
    ("form", "message"),
    [
        (DebeziumJsonFormat(), {"op": "c", "after": {"at": f"{NINE}Z", "price": 1.239}}),
        (MaxwellJsonFormat(), {"type": "insert", "data": {"at": f"{NINE}Z", "price": 1.239}}),
    ],
)
def test_no_change_is_lost_because_of_more_places(form: Any, message: Any) -> None:
    schema = pa.schema([("at", MOMENT), ("price", PRICE), (ROW_KIND_COLUMN, pa.string())])
    found = form.decode(pa.array([json.dumps(message).encode()]), schema)
    assert found.rows.to_pylist() == [{"at": CUT, "price": Decimal("1.24"), ROW_KIND_COLUMN: "+I"}]


@given(st.decimals("-999999", "999999", places=6))
def test_a_decimal_is_rounded_half_up(number: Decimal) -> None:
    found = decoded(JsonFormat(), pa.decimal128(12, 2), str(number))
    assert found.rows["v"].to_pylist() == [number.quantize(Decimal("0.01"), "ROUND_HALF_UP")]
