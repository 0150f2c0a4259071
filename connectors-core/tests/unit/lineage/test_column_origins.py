# SPDX-License-Identifier: Apache-2.0
"""Tests on which columns the columns and the rows of a plan of Spark depend."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest

from connectors_core.lineage import ColumnOrigin, Transformation
from connectors_core.spark.internals.plan_rewrites import SOURCE
from connectors_core.spark.pushdown.column_origins import PlanInputs, plan_origins
from connectors_core.spark.pushdown.plan_tree import PlanTree
from connectors_core.spark.pushdown.source_needs import LookupOccurrence, SourceOccurrence

AB = SourceOccurrence("ab", "a#1,b#2", (1, 2), pa.schema([("a", pa.int64()), ("b", pa.int64())]))
C = SourceOccurrence("c", "c#3", (3,), pa.schema([("c", pa.int64())]))
TABLE = LookupOccurrence("table", (11, 12, 13), (0,), ("t",), on=(0,), keys=("k",))
OF_SPARK = ColumnOrigin(uid="@file/x", column="x", transformation=Transformation.IDENTITY)


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


def derived(value):
    """Return a plan with one column, which has this value."""
    return node("Project", ROWS, projectList=[alias(9, value)])


def window(function):
    """Return a plan that orders a window by the second column."""
    spec = node("WindowSpecDefinition", column(1), node("SortOrder", column(2)))
    return node(
        "Window", ROWS, windowExpressions=[alias(9, node("WindowExpression", function, spec))]
    )


EXISTENCE = node(
    "Join",
    ROWS,
    OTHER,
    joinType={"product-class": "org.ExistenceJoin", "exists": column(9)},
    condition=node("EqualTo", column(1), column(3)),
)
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
    "whether rows exist": (EXISTENCE, [1, 2, 9], ["ab.a", "ab.b", "ab.a C, c.c C"]),
    "a union": (
        node("Union", node("Project", ROWS, projectList=[column(1)]), OTHER),
        [1],
        ["ab.a, c.c"],
    ),
    "a rank": (window(node("Rank", column(2))), [1, 2, 9], ["ab.a", "ab.b", "ab.a W, ab.b W"]),
    "a sum over a window": (window(SUM), [9], ["ab.a W, ab.b A, ab.b W"]),
    "a choice": (
        derived(node("CaseWhen", column(1), column(2), column(2), column(1))),
        [9],
        ["ab.a C, ab.a T, ab.b C, ab.b T"],
    ),
    "a choice with another value": (
        derived(node("CaseWhen", node("Not", column(1)), node("Literal"), column(2))),
        [9],
        ["ab.a C, ab.b T"],
    ),
    "a value if": (
        derived(node("If", column(1), column(2), node("Literal"))),
        [9],
        ["ab.a C, ab.b T"],
    ),
    "the first value": (
        derived(node("Coalesce", column(1), column(2))),
        [9],
        ["ab.a C, ab.a T, ab.b C, ab.b T"],
    ),
    "a sum of some rows": (
        node(
            "Aggregate",
            ROWS,
            aggregateExpressions=[
                alias(9, node("AggregateExpression", node("Sum", column(2)), column(1)))
            ],
        ),
        [9],
        ["ab.a C, ab.b A"],
    ),
    "a sum of choices": (
        node(
            "Aggregate",
            derived(node("If", column(1), column(2), node("Literal"))),
            aggregateExpressions=[alias(10, node("AggregateExpression", node("Sum", column(9))))],
        ),
        [10],
        ["ab.a C, ab.b A"],
    ),
    "a sum and a column": (
        node("Aggregate", ROWS, aggregateExpressions=[alias(9, node("Add", SUM, column(1)))]),
        [9],
        ["ab.a T, ab.b A"],
    ),
    "grouping sets": (
        node(
            "Expand",
            ROWS,
            projections=[[column(1), column(2)], [column(1), node("Literal")]],
            output=[column(8), column(9)],
        ),
        [8, 9],
        ["ab.a", "ab.b"],
    ),
    "groups in pandas": (
        node("FlatMapGroupsInPandas", ROWS, groupingAttributes=[column(1)], output=[column(9)]),
        [9],
        ["ab.a T, ab.b T"],
    ),
    "groups with a state": (
        node(
            "FlatMapGroupsInPandasWithState",
            ROWS,
            groupingAttributes=[column(1)],
            outputAttrs=[column(9)],
        ),
        [9],
        ["ab.a T, ab.b T"],
    ),
    "a processor with a state": (
        node(
            "TransformWithStateInPySpark",
            ROWS,
            node("LocalRelation", output=[]),  # no initial state
            groupingAttributesLen=1,
            initGroupingAttrsLen=0,
            outputAttrs=[column(9)],
        ),
        [9],
        ["ab.a T, ab.b T"],
    ),
    "two groups in pandas": (
        node(
            "FlatMapCoGroupsInPandas",
            ROWS,
            OTHER,
            leftGroupingLen=1,
            rightGroupingLen=1,
            output=[column(9)],
        ),
        [9],
        ["ab.a T, ab.b T, c.c T"],
    ),
    "an unknown node": (node("Unknown", ROWS, made=[column(9)]), [1, 9], ["ab.a", ""]),
    "elements of a list": (
        node("Generate", ROWS, generator=node("Explode", column(2)), generatorOutput=[column(9)]),
        [1, 9],
        ["ab.a", "ab.b T"],
    ),
    "a union of elements": (
        node(
            "Union",
            node(
                "Generate",
                ROWS,
                generator=node("Explode", column(1)),
                unrequiredChildIndex=[0],
                generatorOutput=[column(9)],
            ),
            node("Project", OTHER, projectList=[column(3), alias(10, node("Literal"))]),
        ),
        [2, 9],
        ["ab.b, c.c", "ab.a T"],
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
    "a table of Spark": (
        node("LogicalRelation", output=[column(7), column(8)]),
        [7, 8],
        ["@file/x.x", ""],
    ),
    "a table of Hive": (
        node("HiveTableRelation", dataCols=[column(8)], partitionCols=[column(7)]),
        [7, 8],
        ["@file/x.x", ""],
    ),
}
# Plans, and the columns that decide which rows they return.
ROW_ORIGINS = {
    "a source": (ROWS, ""),
    "conditions": (
        node("Filter", ROWS, condition=node("And", column(1), node("Not", column(2)))),
        "ab.a F, ab.b F",
    ),
    "a condition on an expression": (
        node("Filter", derived(node("Add", column(1), column(2))), condition=column(9)),
        "ab.a F, ab.b F",
    ),
    "a condition of the pipeline": (
        node("Filter", node(SOURCE, columns=C.text), condition=node("Rand", column(3))),
        "",
    ),
    "keys of a join, which are not null": (
        node(
            "Join",
            node("Filter", ROWS, condition=node("IsNotNull", column(1))),
            node("Filter", OTHER, condition=node("IsNotNull", column(3))),
            condition=node("EqualTo", column(1), column(3)),
        ),
        "ab.a J, c.c J",
    ),
    "a semi join": (
        node(
            "Join",
            ROWS,
            OTHER,
            joinType={"object": "LeftSemi$"},
            condition=node("EqualTo", column(1), column(3)),
        ),
        "ab.a J, c.c J",
    ),
    "whether rows exist": (EXISTENCE, ""),
    "a condition on whether rows exist": (
        node("Filter", EXISTENCE, condition=node("Or", column(9), column(2))),
        "ab.a F, ab.b F, c.c F",
    ),
    "a column that is not null": (
        node("Filter", ROWS, condition=node("IsNotNull", column(1))),
        "ab.a F",
    ),
    "groups": (node("Aggregate", ROWS, groupingExpressions=[column(1)]), "ab.a G"),
    "groups in pandas": (PLANS["groups in pandas"][0], "ab.a G"),
    "groups with a state": (PLANS["groups with a state"][0], "ab.a G"),
    "a processor with a state": (PLANS["a processor with a state"][0], "ab.a G"),
    "two groups in pandas": (PLANS["two groups in pandas"][0], "ab.a G, c.c G"),
    "distinct rows": (node("Deduplicate", ROWS, keys=[column(2)]), "ab.b G"),
    "an order": (node("Sort", ROWS, order=[node("SortOrder", column(2))]), "ab.b S"),
    "a rank": (
        node("Filter", window(node("Rank", column(2))), condition=column(9)),
        "ab.a F, ab.b F",
    ),
    "a lookup": (
        PLANS["a lookup"][0],
        "ab.a J, table.k J",
    ),
    "a condition below a union": (
        node("Union", node("Filter", OTHER, condition=column(3)), OTHER),
        "c.c F",
    ),
}
MARKS = {
    Transformation.IDENTITY: "",
    **{each: f" {each.value[0]}" for each in Transformation if each is not Transformation.IDENTITY},
}
INPUTS = PlanInputs([AB, C], [TABLE], {7: OF_SPARK})


def shown(origins):
    return ", ".join(
        sorted(f"{each.uid}.{each.column}{MARKS[each.transformation]}" for each in origins)
    )


@pytest.mark.parametrize("name", PLANS)
def test_each_column_has_its_origins(name):
    plan, output, expected = PLANS[name]
    found = plan_origins(PlanTree.of(plan), output, INPUTS).columns
    assert [shown(origins) for origins in found] == expected


@pytest.mark.parametrize("name", ROW_ORIGINS)
def test_rows_have_the_columns_that_decide_about_them(name):
    plan, expected = ROW_ORIGINS[name]
    own = replace(INPUTS, own_columns=["c"] if "pipeline" in name else [])
    assert shown(plan_origins(PlanTree.of(plan), [], own).rows) == expected


def test_direct_dependencies_are_told_from_indirect_ones():
    assert {each.value for each in Transformation if each.is_direct} == {
        "IDENTITY",
        "TRANSFORMATION",
        "AGGREGATION",
    }
