# SPDX-License-Identifier: Apache-2.0
"""Tests from which columns a plan of Spark derives the columns of its rows."""

from __future__ import annotations

import pyarrow as pa
import pytest

from connectors_core.lineage import Transformation
from connectors_core.spark.internals.plan_rewrites import SOURCE
from connectors_core.spark.pushdown.column_origins import column_origins
from connectors_core.spark.pushdown.plan_tree import PlanTree
from connectors_core.spark.pushdown.source_needs import LookupOccurrence, SourceOccurrence

AB = SourceOccurrence("ab", "a#1,b#2", (1, 2), pa.schema([("a", pa.int64()), ("b", pa.int64())]))
C = SourceOccurrence("c", "c#3", (3,), pa.schema([("c", pa.int64())]))
TABLE = LookupOccurrence("table", (11, 12, 13), (0,), ("t",))


def node(kind, *children, **fields):
    """Return the nodes of a tree in the form of ``TreeNode.toJSON``."""
    own = {"class": f"org.{kind}", "num-children": len(children), **fields}
    return [own, *(each for child in children for each in child)]


def column(number):
    return node("AttributeReference", exprId={"id": number}, dataType="any")


def alias(number, value):
    return node("Alias", value, exprId={"id": number})


ROWS = node(SOURCE, columns=AB.text)
OTHER = node(SOURCE, columns=C.text)
SUM = node("AggregateExpression", node("Sum", column(2)))
PLANS = {
    "a source": (ROWS, [1, 2], ["ab.a", "ab.b"]),
    "a condition": (node("Filter", ROWS, condition=column(1)), [1, 2], ["ab.a", "ab.b"]),
    "columns": (
        node("Project", ROWS, projectList=[column(2), alias(9, column(1))]),
        [2, 9],
        ["ab.b", "ab.a"],
    ),
    "an expression": (
        node("Project", ROWS, projectList=[alias(9, node("Add", column(1), column(2)))]),
        [9],
        ["ab.a T, ab.b T"],
    ),
    "a constant": (node("Project", ROWS, projectList=[alias(9, node("Literal"))]), [9], [""]),
    "a sum": (
        node(
            "Aggregate",
            ROWS,
            groupingExpressions=[column(1)],
            aggregateExpressions=[column(1), alias(9, SUM)],
        ),
        [1, 9],
        ["ab.a", "ab.b A"],
    ),
    "a function of a sum": (
        node(
            "Project",
            node("Aggregate", ROWS, aggregateExpressions=[alias(9, SUM)]),
            projectList=[alias(10, node("Add", column(9), node("Literal")))],
        ),
        [10],
        ["ab.b A"],
    ),
    "a join": (
        node("Join", ROWS, OTHER, joinType={"object": "Inner$"}),
        [1, 2, 3],
        ["ab.a", "ab.b", "c.c"],
    ),
    "a semi join": (
        node("Join", ROWS, OTHER, joinType={"object": "LeftSemi$"}),
        [1, 2],
        ["ab.a", "ab.b"],
    ),
    "a union": (
        node("Union", node("Project", ROWS, projectList=[column(1)]), OTHER),
        [1],
        ["ab.a, c.c"],
    ),
    "a window": (
        node("Window", ROWS, windowExpressions=[alias(9, node("Rank", column(2)))]),
        [1, 2, 9],
        ["ab.a", "ab.b", "ab.b T"],
    ),
    "elements of a list": (
        node("Generate", ROWS, generator=node("Explode", column(2)), generatorOutput=[column(9)]),
        [1, 9],
        ["ab.a", "ab.b T"],
    ),
    "a function in Python": (
        node("BatchEvalPython", ROWS, udfs=[node("PythonUDF", column(1))], resultAttrs=[column(9)]),
        [1, 2, 9],
        ["ab.a", "ab.b", "ab.a T"],
    ),
    "a function of batches": (
        node(
            "MapInArrow",
            ROWS,
            functionExpr=node("PythonUDF", column(1), column(2)),
            output=[column(9)],
        ),
        [9],
        ["ab.a T, ab.b T"],
    ),
    "a lookup": (
        node(
            "MapInArrow",
            ROWS,
            functionExpr=node("PythonUDF", column(1), column(2)),
            output=[column(11), column(12), column(13)],
        ),
        [11, 12, 13],
        ["ab.a", "ab.b", "table.t"],
    ),
    "a table of Spark": (node("LogicalRelation", output=[column(7), column(8)]), [7, 8], ["", ""]),
}
MARKS = {
    Transformation.IDENTITY: "",
    Transformation.TRANSFORMATION: " T",
    Transformation.AGGREGATION: " A",
}


@pytest.mark.parametrize("name", PLANS)
def test_each_column_has_its_origins(name):
    plan, output, expected = PLANS[name]
    found = column_origins(PlanTree.of(plan), output, [AB, C], [TABLE])
    assert [
        ", ".join(
            sorted(f"{each.uid}.{each.column}{MARKS[each.transformation]}" for each in origins)
        )
        for origins in found
    ] == expected
