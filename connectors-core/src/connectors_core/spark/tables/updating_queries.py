# SPDX-License-Identifier: Apache-2.0
"""Queries whose rows replace earlier ones: aggregates without an event time among their keys."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Final

from pyspark.sql import DataFrame

from connectors_core.errors import UnsupportedError
from connectors_core.schema import RowKind
from connectors_core.spark.internals.plans import Expression, PlanNode, inlined_plan
from connectors_core.table import DynamicTableSink

__all__ = ["check_takes_updates", "is_updating"]

_GROUPING: Final = frozenset({"Aggregate", "Distinct"})
# Nodes that return each row, so that the next row of a group replaces the former one.
_KEEP_ROWS: Final = frozenset(
    {"MapInArrow", "Project", "PythonMapInArrow", "SubqueryAlias", "View"}
)


def is_updating(rows: DataFrame) -> bool:
    """Return whether a stream has an aggregate whose groups never end, and so are updated."""
    return any(_never_ends(node) for node in _streaming(inlined_plan(rows)))


def check_takes_updates(sink: DynamicTableSink, name: str, rows: DataFrame) -> None:
    """Check that a table can take the updates of a query.

    Args:
        sink: The sink of the table.
        name: The name of the table.
        rows: The rows of a query that is updating.

    Raises:
        UnsupportedError: The table adds each row, or an update could not reach it.
    """
    plan, mode = inlined_plan(rows), sink.changelog_mode
    found = [node.name for node in _above_groups(plan)]
    lost = [each for each in found if each not in _KEEP_ROWS | _GROUPING]
    if lost:
        raise UnsupportedError(
            f"the rows of an aggregate for the table {name} change, and only projections and "
            "lookups can follow",
            expected="SELECT ... GROUP BY ..., or groups with a window",
            found=", ".join(lost),
            hint="put the condition before the aggregate, or into the queries of the table",
        )
    aggregates = [node.name for node in _streaming(plan) if node.name in _GROUPING]
    if len(aggregates) > 1:
        raise UnsupportedError(
            f"an aggregate for the table {name} would count the updates of another one as rows",
            expected="one aggregate",
            found=f"{len(aggregates)} aggregates",
            hint="group by a window of the event time first, and insert these rows into a table",
        )
    if not mode.contains(RowKind.UPDATE_AFTER) or mode.contains(RowKind.UPDATE_BEFORE):
        raise UnsupportedError(
            f"the groups of a stream never end, and the table {name} cannot replace their rows",
            expected="a table of elasticsearch, upsert-kafka, or Parquet files, with a PRIMARY KEY",
            found=f"changes {mode}",
            hint="group by a window of the event time too, such as window(time, '1 day')",
        )
    key = tuple(sink.key) or tuple(sink.sink.writer_keys())
    if key and not _identifies_groups(plan, key):
        raise UnsupportedError(
            f"the key of the table {name} does not identify the groups of its query, so their rows "
            "would replace each other, or stay when they should be replaced",
            expected="a PRIMARY KEY of the grouped columns, all of them and no others",
            found=f"PRIMARY KEY ({', '.join(key)})",
            hint="add the other grouped columns to the key, such as grouping_id() of a ROLLUP, and "
            "remove results of the aggregate from it",
        )


def _never_ends(node: PlanNode) -> bool:
    return node.name in _GROUPING and not any(each.is_event_time for each in _keys(node))


def _keys(groups: PlanNode) -> list[Expression]:
    return groups.columns if groups.name == "Distinct" else groups.grouping_keys


def _streaming(node: PlanNode) -> Iterator[PlanNode]:
    if node.is_streaming:
        yield node
        for child in node.children:
            yield from _streaming(child)


def _above_groups(node: PlanNode) -> Iterator[PlanNode]:
    """Yield the nodes above the groups that never end, with their aggregates."""
    if any(_never_ends(below) for below in _streaming(node)):
        yield node
        for child in node.children:
            yield from _above_groups(child)


def _identifies_groups(plan: PlanNode, key: Collection[str]) -> bool:
    """Return whether columns depend on each key of the groups, and on nothing else."""
    names = {each.lower() for each in key}
    columns = {each.column_id for each in plan.columns if each.column_name.lower() in names}
    while plan.name not in _GROUPING:
        columns = _columns_below(plan, columns)
        (plan,) = plan.children
    named = plan.columns if plan.name == "Distinct" else plan.named_expressions
    pending, keys, used = [each for each in named if each.column_id in columns], _keys(plan), set()
    while pending:
        value = pending.pop()
        same = {at for at, each in enumerate(keys) if each.is_same(value)}
        if value.name == "AggregateExpression":
            return False
        used |= same
        pending += [] if same else value.children
    return len(used) == len(keys)


def _columns_below(node: PlanNode, columns: Collection[int]) -> set[int]:
    """Return the columns of a node's child on which columns of the node depend."""
    if node.name == "Project":
        chosen = [each for each in node.named_expressions if each.column_id in columns]
        return {column.column_id for each in chosen for column in each.references}
    # A lookup adds its columns behind the others.
    below = zip(node.columns, node.children[0].columns, strict=False)
    return {child.column_id for column, child in below if column.column_id in columns}
