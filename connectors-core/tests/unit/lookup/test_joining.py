# SPDX-License-Identifier: Apache-2.0
"""Tests joins with lookup results against the same join in plain Python."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from connectors_core.errors import ConfigurationError, UnsupportedError
from connectors_core.lookup.join import LookupJoin

ROWS = pa.schema([pa.field("n", pa.int64()), pa.field("a", pa.int32()), pa.field("b", pa.string())])
TABLE = pa.schema(
    [pa.field("a", pa.int32()), pa.field("b", pa.string()), pa.field("value", pa.int64())]
)
NUMBERS = st.none() | st.integers(-3, 3)
TEXTS = st.none() | st.sampled_from(["", "x", "y", "xy"])


def in_python(rows, found, keys, how):
    """Join row by row, as the reference."""
    result = []
    for row in rows:
        matches = [
            each for each in found if all(row[k] is not None and row[k] == each[k] for k in keys)
        ]
        result += [{**row, "value": each["value"]} for each in matches]
        if not matches and how == "left":
            result.append({**row, "value": None})
    return result


def batch_of(rows, schema=ROWS):
    return pa.RecordBatch.from_pylist(rows, schema=schema)


def join(join, rows, found):
    keys = join.distinct_keys(rows)
    return pa.Table.from_batches(join.join(rows, keys, found), schema=join.schema)


@given(
    rows=st.lists(st.tuples(NUMBERS, TEXTS), max_size=30),
    found=st.lists(st.tuples(NUMBERS, TEXTS), max_size=20),
    keys=st.sampled_from([("a",), ("b",), ("a", "b"), ("b", "a")]),
    how=st.sampled_from(["left", "inner"]),
)
def test_a_join_equals_the_join_row_by_row(rows, found, keys, how):
    rows = [{"n": n, "a": a, "b": b} for n, (a, b) in enumerate(rows)]
    found = [{"a": a, "b": b, "value": n} for n, (a, b) in enumerate(found)]
    table = pa.schema([TABLE.field(key) for key in (*keys, "value")])
    rule = LookupJoin.of(ROWS, TABLE, on=keys, columns=["value"], how=how)
    assert rule.table == table
    looked_up = pa.Table.from_pylist(found, schema=TABLE).select(table.names)
    assert join(rule, batch_of(rows), looked_up).to_pylist() == in_python(rows, found, keys, how)


@given(rows=st.lists(st.tuples(NUMBERS, TEXTS), max_size=30))
def test_each_key_is_requested_once_and_nulls_never(rows):
    rule = LookupJoin.of(ROWS, TABLE, on=["a", "b"])
    keys = rule.distinct_keys(batch_of([{"n": 0, "a": a, "b": b} for a, b in rows]))
    asked = [(key["a"], key["b"]) for key in keys.to_pylist()]
    assert len(asked) == len(set(asked))
    assert set(asked) == {(a, b) for a, b in rows if a is not None and b is not None}


@pytest.mark.parametrize(
    "values",
    [
        [1, 2],
        [True, False],
        ["é", "e"],
        [b"\x00", b""],
        [date(1, 1, 1), date(9999, 12, 31)],
        [datetime(2024, 1, 1, tzinfo=UTC), datetime(1960, 1, 1, 0, 0, 0, 1, tzinfo=UTC)],
        [Decimal("1.10"), Decimal("-2.00")],
    ],
    ids=lambda values: type(values[0]).__name__,
)
def test_keys_of_every_type_match(values):
    array = pa.array([*values, values[0], None])
    if pa.types.is_timestamp(array.type):
        array = array.cast(pa.timestamp("us", tz="UTC"))
    rows = pa.record_batch([array], names=["key"])
    table = pa.table([array[:2], pa.array([10, 20])], names=["key", "value"])
    rule = LookupJoin.of(rows.schema, table.schema, on=["key"])
    assert join(rule, rows, table)["value"].to_pylist() == [10, 20, 10, None]


def test_many_matches_are_returned_in_batches_of_bounded_size():
    rows = batch_of([{"n": n, "a": 1, "b": None} for n in range(50)])
    rule = LookupJoin.of(ROWS, TABLE, on=["a"], columns=["value"])
    found = pa.table(
        {"a": pa.array([1] * 1_000, pa.int32()), "value": pa.array(range(1_000))},
        schema=rule.table,
    )
    batches = list(rule.join(rows, rule.distinct_keys(rows), found))
    assert max(batch.num_rows for batch in batches) <= 16_384
    joined = pa.Table.from_batches(batches)
    assert joined["value"].to_pylist() == list(range(1_000)) * 50
    assert joined["n"].to_pylist() == [n for n in range(50) for _ in range(1_000)]


def test_rows_for_keys_that_were_not_requested_are_left_out():
    rows = batch_of([{"n": 0, "a": 1, "b": None}])
    rule = LookupJoin.of(ROWS, TABLE, on=["a"], columns=["value"], how="inner")
    found = pa.table({"a": [2, 1, 3], "value": [20, 10, 30]}, schema=rule.table)
    assert join(rule, rows, found)["value"].to_pylist() == [10]


def test_keys_and_columns_may_have_other_names():
    rule = LookupJoin.of(ROWS, TABLE, on={"n": "value"}, columns={"b": "name", "value": "again"})
    assert rule.keys == ("value",)
    assert rule.table.names == ["value", "b"]
    rows = batch_of([{"n": 7, "a": 1, "b": "x"}])
    found = pa.table({"value": [7], "b": ["seven"]}, schema=rule.table)
    assert join(rule, rows, found).to_pylist() == [
        {"n": 7, "a": 1, "b": "x", "name": "seven", "again": 7}
    ]


def test_a_left_join_makes_added_columns_nullable():
    table = pa.schema([TABLE.field("a"), pa.field("value", pa.int64(), nullable=False)])
    rows = ROWS.remove(2)
    assert LookupJoin.of(rows, table, on=["a"], how="left").schema.field("value").nullable
    assert not LookupJoin.of(rows, table, on=["a"], how="inner").schema.field("value").nullable


@pytest.mark.parametrize(
    ("arguments", "option"),
    [
        ({"on": []}, "on"),
        ({"on": "a"}, "on"),
        ({"on": ["zz"]}, "on"),
        ({"on": {"a": "zz"}}, "on"),
        ({"on": {"n": "a"}}, "on"),
        ({"on": ["a"], "columns": ["zz"]}, "columns"),
        ({"on": ["a"]}, "columns"),
        ({"on": ["a"], "columns": [], "how": "outer"}, "how"),
    ],
    ids=str,
)
def test_invalid_arguments_are_refused(arguments, option):
    with pytest.raises(ConfigurationError) as refused:
        LookupJoin.of(ROWS, TABLE, **arguments)
    assert refused.value.option == option


def test_keys_of_inexact_types_are_refused():
    rows = pa.schema([pa.field("key", pa.float64())])
    with pytest.raises(UnsupportedError, match="'key'"):
        LookupJoin.of(rows, rows, on=["key"])
