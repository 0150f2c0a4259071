# SPDX-License-Identifier: Apache-2.0
"""Recognizes queries that only select rows and columns of one source, which need no JVM."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from connectors_core.source.predicates import Predicate
from connectors_core.spark.internals.plan_rewrites import SOURCE
from connectors_core.spark.pushdown.conditions import Conditions, conjuncts
from connectors_core.spark.pushdown.plan_tree import PlanTree
from connectors_core.spark.pushdown.source_needs import SourceOccurrence

_ONLY_FOR_SPARK = frozenset({"EventTimeWatermark", "SubqueryAlias"})


@dataclass(frozen=True)
class Selection:
    """A query that selects rows and columns of one source.

    Attributes:
        uid: The source.
        columns: The column of the source for each column of the query.
        filters: The conditions that exactly the selected rows satisfy.
    """

    uid: str
    columns: tuple[str, ...]
    filters: frozenset[Predicate]


def selection_of(
    plan: PlanTree,
    occurrences: Sequence[SourceOccurrence],
    *,
    own_columns: Collection[str],
    time_zone: Callable[[], str],
) -> Selection | None:
    """Return the selection that a plan makes; None if Spark has to process its rows.

    Args:
        plan: The optimized plan.
        occurrences: The sources in the analyzed plan.
        own_columns: Columns that the pipeline adds and filters itself.
        time_zone: Returns the time zone in which Spark shows timestamps.
    """
    chain = [plan]
    while len(chain[-1].children) == 1:
        chain.append(chain[-1].children[0])
    *nodes, leaf = chain
    if leaf.kind != SOURCE:
        return None
    source = next(each for each in occurrences if each.text == leaf.fields["columns"])
    names = dict(zip(source.columns, source.schema.names, strict=True))
    output = [column for column, name in names.items() if name not in own_columns]
    filters: set[Predicate] = set()
    for node in reversed(nodes):
        if node.kind == "Project":
            output = []
            for each in node.expressions("projectList"):
                renamed = each.kind == "Alias"
                column = (each.children[0] if renamed else each).column_id
                if column not in names:
                    return None
                if renamed:
                    names[int(each.fields["exprId"]["id"])] = names[column]
                    column = int(each.fields["exprId"]["id"])
                output.append(column)
        elif node.kind == "Filter":
            (condition,) = node.expressions("condition")
            used = {names.get(column) for column, _ in condition.references()}
            if used <= {*own_columns}:
                continue
            conditions = Conditions(names, source.schema, time_zone)
            for each in conjuncts(condition):
                translated = conditions.translated(each)
                if translated is None:
                    return None
                filters.add(translated)
        elif node.kind not in _ONLY_FOR_SPARK:
            return None
    return Selection(source.uid, tuple(names[column] for column in output), frozenset(filters))
