# SPDX-License-Identifier: Apache-2.0
"""Tests what a plan needs of a source below a lookup, and the values of sets, without Spark."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal

import pyarrow as pa
import pytest

from connectors_core.source import IsIn
from connectors_core.spark.internals.plan_rewrites import SOURCE
from connectors_core.spark.pushdown.conditions import Conditions
from connectors_core.spark.pushdown.plan_tree import PlanTree
from connectors_core.spark.pushdown.selection import Selection, selection_of
from connectors_core.spark.pushdown.source_needs import (
    LookupOccurrence,
    SourceOccurrence,
    column_ids,
    needs_of,
)

SCHEMA = pa.schema(
    [
        ("n", pa.int64()),
        ("s", pa.string()),
        ("d", pa.date32()),
        ("t", pa.timestamp("us", tz="UTC")),
        ("money", pa.decimal128(8, 2)),
        ("x", pa.float64()),
    ]
)


def node(kind, *children, **fields):
    """Return the nodes of a tree in the form of ``TreeNode.toJSON``."""
    own = {"class": f"org.{kind}", "num-children": len(children), **fields}
    return [own, *(each for child in children for each in child)]


def column(number):
    return node("AttributeReference", exprId={"id": number}, dataType="any")


def in_set(number, kind, values):
    found = None if values is None else {"type": kind, "values": values}
    return node("InSet", column(number), hset=found)


@pytest.mark.parametrize(
    ("name", "kind", "texts", "values"),
    [
        ("n", "bigint", ["7", "-3"], (-3, 7)),
        ("s", "string", ["it's", ""], ("", "it's")),
        ("d", "date", ["1", "0"], (date(1970, 1, 1), date(1970, 1, 2))),
        ("t", "timestamp", ["1500000"], (datetime(1970, 1, 1, 0, 0, 1, 500000, UTC),)),
        ("money", "decimal(8,2)", ["1.50"], (Decimal("1.50"),)),
        ("s", "string collate UTF8_LCASE", ["a"], None),
        ("x", "double", ["1.5"], None),
        ("n", "bigint", None, None),
    ],
)
def test_a_set_has_the_values_of_its_column(name, kind, texts, values):
    conditions = Conditions(dict(enumerate(SCHEMA.names)), SCHEMA, lambda: "UTC")
    condition = PlanTree.of(in_set(SCHEMA.names.index(name), kind, texts))
    expected = None if values is None else IsIn((name,), values)
    assert conditions.translated(condition) == expected


def lookup_plan(inputs):
    """Return a query that uses `s`, and an added column, of rows that a lookup by `n` returns."""
    source = node(SOURCE, columns="n#0")
    stage = node(
        "MapInArrow",
        source,
        functionExpr=node("PythonUDF", *inputs),
        output=[column(10 + at) for at in range(7)],
    )
    condition = node("And", in_set(10, "bigint", ["5"]), node("IsNotNull", column(16)))
    kept = node("Filter", stage, condition=condition)
    return node("Project", kept, projectList=[column(11), column(16)])


def needs_with(inputs):
    found = needs_of(
        PlanTree.of(lookup_plan(inputs)),
        [SourceOccurrence("rows", "n#0", tuple(range(6)), SCHEMA)],
        lookups=[LookupOccurrence("lookup", tuple(range(10, 17)), (0, 2), ("name",))],
        own_columns=[],
        time_zone=lambda: "UTC",
    )
    return found["rows"]


def test_ids_of_columns_are_read_off_their_texts():
    names = ["a", "b.c", "at"]
    assert column_ids("a#1L,b.c#2,at#3-T3153600000000ms", names) == (1, 2, 3)
    assert column_ids("a#1L,bxc#2,at#3", names) is None


def test_a_lookup_needs_its_own_columns_and_those_that_the_query_uses():
    needs = needs_with([column(at) for at in range(6)])
    assert needs.fields == {("n",), ("d",), ("s",)}
    assert needs.filters == (IsIn(("n",), (5,)),)  # the added column has no origin


def test_a_lookup_with_other_inputs_needs_all_columns():
    needs = needs_with([*(column(at) for at in range(5)), node("Literal")])
    assert needs.fields == {(name,) for name in SCHEMA.names}
    assert needs.filters == ()


ROWS = node(SOURCE, columns="n#0")
SMALL = in_set(0, "bigint", ["5"])
RENAMED = node("Alias", column(1), exprId={"id": 20})


def selected(plan):
    return selection_of(
        PlanTree.of(plan),
        [SourceOccurrence("rows", "n#0", tuple(range(6)), SCHEMA)],
        own_columns=["x"],
        time_zone=lambda: "UTC",
    )


@pytest.mark.parametrize(
    ("plan", "columns", "filters"),
    [
        (ROWS, "nsdtmoney", set()),
        (node("Project", ROWS, projectList=[column(2), column(0)]), "dn", set()),
        (node("Project", ROWS, projectList=[RENAMED, column(1)]), "ss", set()),
        (node("Filter", ROWS, condition=SMALL), "nsdtmoney", {IsIn(("n",), (5,))}),
        (
            node("Filter", node("Project", ROWS, projectList=[column(0)]), condition=SMALL),
            "n",
            {IsIn(("n",), (5,))},
        ),
        (node("Filter", ROWS, condition=node("Not", column(5))), "nsdtmoney", set()),
        (node("EventTimeWatermark", ROWS), "nsdtmoney", set()),
    ],
)
def test_a_selection_of_rows_and_columns_needs_no_spark(plan, columns, filters):
    found = selected(plan)
    assert found == Selection("rows", found.columns, frozenset(filters))
    assert "".join(found.columns) == columns


@pytest.mark.parametrize(
    "plan",
    [
        node("Filter", ROWS, condition=node("And", SMALL, node("Unknown", column(0)))),
        node("Filter", ROWS, condition=in_set(0, "bigint", None)),
        node("Filter", ROWS, condition=node("And", SMALL, node("Not", column(5)))),
        node("Project", ROWS, projectList=[node("Add", column(0), column(0))]),
        node("Project", ROWS, projectList=[node("Alias", node("Literal"), exprId={"id": 20})]),
        node("Aggregate", ROWS),
        node("GlobalLimit", node("LocalLimit", ROWS)),
        node("Union", ROWS, ROWS),
        node("MapInArrow", ROWS),
        node("LocalRelation"),
    ],
)
def test_all_other_queries_need_spark(plan):
    assert selected(plan) is None
