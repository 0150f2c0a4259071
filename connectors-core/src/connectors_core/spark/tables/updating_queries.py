# SPDX-License-Identifier: Apache-2.0
"""Queries whose rows replace earlier ones: aggregates without an event time among their keys."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pyspark.sql import DataFrame

from connectors_core.errors import UnsupportedError
from connectors_core.schema import RowKind
from connectors_core.spark.internals.plans import PlanNode, analyzed_plan
from connectors_core.table import ChangelogMode

__all__ = ["check_takes_updates", "is_updating"]

# Nodes that return each row, so that the next row of a group replaces the former one.
_KEEP_ROWS: Final = frozenset(
    {"Aggregate", "MapInArrow", "Project", "PythonMapInArrow", "SubqueryAlias", "View"}
)


def is_updating(rows: DataFrame) -> bool:
    """Return whether a stream has an aggregate whose groups never end, and so are updated."""
    return any(_never_ends(node) for node in _streaming(analyzed_plan(rows)))


def check_takes_updates(name: str, mode: ChangelogMode, rows: DataFrame) -> None:
    """Check that a table can take the updates of a query.

    Args:
        name: The name of the table.
        mode: The changes that it accepts.
        rows: The rows of a query that is updating.

    Raises:
        UnsupportedError: The table adds each row, or an update could not reach it.
    """
    found = [node.name for node in _above_groups(analyzed_plan(rows))]
    lost = [each for each in found if each not in _KEEP_ROWS]
    if lost:
        raise UnsupportedError(
            f"the rows of an aggregate for the table {name} change, and only projections and "
            "lookups can follow",
            expected="SELECT ... GROUP BY ..., or groups with a window",
            found=", ".join(lost),
            hint="put the condition before the aggregate, or into the queries of the table",
        )
    if not mode.contains(RowKind.UPDATE_AFTER) or mode.contains(RowKind.UPDATE_BEFORE):
        raise UnsupportedError(
            f"the groups of a stream never end, and the table {name} cannot replace their rows",
            expected="a table of elasticsearch, upsert-kafka, or Parquet files, with a PRIMARY KEY",
            found=f"changes {mode}",
            hint="group by a window of the event time too, such as window(time, '1 day')",
        )


def _never_ends(node: PlanNode) -> bool:
    is_aggregate = node.name == "Aggregate"
    return is_aggregate and not any(key.event_times() for key in node.grouping_keys)


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
