# SPDX-License-Identifier: Apache-2.0
"""Tests rows of Python values: a value keeps its meaning, or is refused with its column."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from connectors_core.schema.python_rows import columns_of

LONG, TEXT = pa.int64(), pa.string()
MOMENT = pa.timestamp("us", tz="UTC")


def struct_of(kind: pa.DataType) -> pa.DataType:
    return pa.struct([("x", kind)])


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (LONG, 1.5),
        (LONG, float("nan")),
        (LONG, Decimal("1.5")),
        (LONG, "1"),
        (pa.int32(), 2**31),
        (pa.float32(), 1e300),
        (MOMENT, 1_700_000_000),
        (MOMENT, "2024-01-01"),
        (pa.date32(), 19_000),
        (pa.duration("us"), 5),
        (pa.list_(TEXT), "text"),
        (pa.list_(LONG), b"bytes"),
        (pa.list_(LONG), [1, 1.5]),
        (pa.list_(pa.list_(TEXT)), ["text"]),
        (pa.map_(TEXT, LONG), {"a": 1.5}),
        (pa.map_(TEXT, pa.list_(TEXT)), [("a", "text")]),
        (struct_of(LONG), {"x": 1.5}),
        (struct_of(LONG), [("x", 1.5)]),
        (struct_of(LONG), "text"),
        (pa.list_(struct_of(pa.list_(MOMENT))), [{"x": [1]}]),
    ],
    ids=str,
)
def test_a_value_that_would_change_is_refused(kind: pa.DataType, value: Any) -> None:
    schema = pa.schema([("id", LONG), ("wrong", kind)])
    with pytest.raises(pa.ArrowInvalid, match=r"^column wrong: a value is not of type"):
        columns_of([{"id": 1}, {"id": 2, "wrong": value}], schema)


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (LONG, 1),
        (pa.float32(), float("inf")),
        (pa.float32(), 3.4028234663852886e38),
        (pa.float64(), 1),
        (pa.decimal128(5, 2), Decimal("1.5")),
        (MOMENT, datetime(2024, 1, 1, tzinfo=UTC)),
        (pa.date32(), date(2024, 1, 1)),
        (pa.duration("us"), timedelta(1)),
        (pa.list_(TEXT), ["text", None]),
        (pa.list_(LONG), None),
        (pa.map_(TEXT, LONG), [("a", 1), ("b", None)]),
        (struct_of(struct_of(LONG)), {"x": {"x": None}}),
        (struct_of(struct_of(LONG)), {"x": None}),
    ],
    ids=str,
)
def test_other_values_are_kept(kind: pa.DataType, value: Any) -> None:
    rows = columns_of([{"wrong": value}, {}], pa.schema([("wrong", kind)]))
    assert rows.column("wrong").to_pylist() == [value, None]


def test_a_whole_number_with_a_point_is_a_whole_number() -> None:
    assert columns_of([{"n": 2.0}], pa.schema([("n", LONG)])).to_pylist() == [{"n": 2}]


def test_null_is_refused_where_it_is_not_allowed() -> None:
    with pytest.raises(pa.ArrowInvalid, match="column n is null but not nullable"):
        columns_of([{}], pa.schema([pa.field("n", LONG, nullable=False)]))
