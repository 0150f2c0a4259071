# SPDX-License-Identifier: Apache-2.0
"""Tests which conditions of a query become a query to the server."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest

from connector_elasticsearch.source.conditions import condition_of
from connectors_core.source import (
    And,
    Comparison,
    FieldPath,
    IsIn,
    IsNull,
    Not,
    Or,
    Predicate,
    StartsWith,
)

pytestmark = pytest.mark.cell

MOMENT = pa.timestamp("us", tz="UTC")
SCHEMA = pa.schema(
    [
        ("name", pa.string()),
        ("long", pa.int64()),
        ("short", pa.int16()),
        ("flag", pa.bool_()),
        ("at", MOMENT),
        ("object", pa.struct([("inner", pa.int32())])),
        ("several", pa.list_(pa.int64())),
    ]
)
PROPERTIES: dict[str, Any] = {
    "name": {"type": "keyword"},
    "long": {"type": "long"},
    "short": {"type": "short"},
    "flag": {"type": "boolean"},
    "at": {"type": "date"},
    "object": {"properties": {"inner": {"type": "integer"}}},
    "several": {"type": "long"},
}


def query_of(condition: Predicate, *mappings: dict[str, Any]) -> Any:
    """Return the query for one condition; None if the server returns all documents."""
    given = mappings or ({"properties": PROPERTIES},)
    by_index = {f"i{number}": mapping for number, mapping in enumerate(given)}
    query, used = condition_of([condition], SCHEMA, by_index)
    if query is None:
        assert used == ()
        return None
    assert used == (condition,)
    wanted, ignored, unknown = query["bool"]["should"]
    assert ignored == {"exists": {"field": "_ignored"}}
    assert unknown == {"bool": {"must_not": [{"terms": {"_index": sorted(by_index)}}]}}
    (found,) = wanted["bool"]["filter"]
    return found


def mapping(field: str, **definition: Any) -> dict[str, Any]:
    return {"properties": {**PROPERTIES, field: definition}}


LONG, NAME = Comparison(("long",), "=", 5), Comparison(("name",), "=", "abc")
RANGE = {"range": {"long": {"gte": 7}}}


@pytest.mark.parametrize(
    ("condition", "query"),
    [
        (NAME, {"terms": {"name": ["abc"]}}),
        (IsIn(("name",), ("a", "b")), {"terms": {"name": ["a", "b"]}}),
        (Comparison(("flag",), "=", False), {"terms": {"flag": [False]}}),
        (Comparison(("long",), ">=", 7), RANGE),
        (Comparison(("object", "inner"), "<", 7), {"range": {"object.inner": {"lt": 7}}}),
        (Not(IsNull(("object", "inner"))), {"exists": {"field": "object.inner"}}),
        (And((Comparison(("long",), ">=", 7), IsNull(("name",)))), {"bool": {"filter": [RANGE]}}),
    ],
)
def test_a_condition_on_an_indexed_field_becomes_a_query(condition: Predicate, query: Any) -> None:
    assert query_of(condition) == query


def test_bounds_of_timestamps_cover_the_digits_that_the_index_does_not_have() -> None:
    moment = datetime(2013, 1, 1, 0, 0, 0, 1500, tzinfo=UTC)
    found = query_of(Comparison(("at",), "=", moment))
    assert found["range"]["at"] == {
        "gte": "2013-01-01T00:00:00.000Z",
        "lte": "2013-01-01T00:00:00.002Z",
        "format": "strict_date_optional_time",
    }
    assert query_of(Comparison(("at",), ">", datetime(1, 1, 1, tzinfo=UTC))) is None


@pytest.mark.parametrize(
    "condition",
    [
        Comparison(("name",), "!=", "abc"),
        Comparison(("name",), "=", "1.0E23"),
        IsIn(("name",), ("a", "0")),
        Comparison(("name",), ">", "abc"),
        StartsWith(("name",), "a"),
        IsNull(("name",)),
        Not(LONG),
        Or((LONG, IsNull(("name",)))),
        Comparison(("long",), "=", 2**53),
        Comparison(("short",), "=", 2**15),
        Not(IsNull(("object",))),
        Not(IsNull(("several",))),
        Comparison(("_id",), "=", "a"),
    ],
)
def test_a_condition_in_doubt_stays_with_the_reader(condition: Predicate) -> None:
    assert query_of(condition) is None


PRESENT = Not(IsNull(("name",)))
INNER: FieldPath = ("object", "inner")


@pytest.mark.parametrize(
    ("condition", "changed"),
    [
        (NAME, mapping("name", type="text")),
        (NAME, mapping("name", type="wildcard")),
        (NAME, mapping("name", type="keyword", normalizer="lowercase")),
        (NAME, mapping("name", type="keyword", script={"source": "emit('a')"})),
        (NAME, mapping("name", type="keyword", index=False)),
        (NAME, mapping("name", type="keyword", ignore_above=2)),
        (PRESENT, mapping("name", type="keyword", ignore_above=2000)),
        (PRESENT, mapping("name", type="keyword", doc_values=False)),
        (LONG, mapping("long", type="double")),
        (LONG, mapping("long", type="unsigned_long")),
        (LONG, {"properties": PROPERTIES, "dynamic": False}),
        (LONG, {"properties": PROPERTIES, "dynamic": "runtime"}),
        (LONG, {"properties": PROPERTIES, "runtime": {"long": {"type": "long"}}}),
        (LONG, {"properties": {"name": {"type": "keyword"}}}),
        (
            Comparison(INNER, "=", 1),
            mapping("object", type="nested", properties={"inner": {"type": "integer"}}),
        ),
        (
            Comparison(INNER, "=", 1),
            mapping("object", dynamic="false", properties={"inner": {"type": "integer"}}),
        ),
    ],
)
def test_a_field_whose_index_may_lack_a_value_is_not_searched(
    condition: Predicate, changed: dict[str, Any]
) -> None:
    assert query_of(condition) is not None
    assert query_of(condition, changed) is None
    assert query_of(condition, {"properties": PROPERTIES}, changed) is None
