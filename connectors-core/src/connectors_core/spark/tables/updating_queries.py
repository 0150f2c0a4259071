# SPDX-License-Identifier: Apache-2.0
"""Queries on streams whose rows change: aggregates that no watermark completes."""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame

from connectors_core.errors import UnsupportedError
from connectors_core.schema import RowKind
from connectors_core.spark.internals.plans import PlanNode, analyzed_plan
from connectors_core.table import DynamicTableSink

__all__ = ["is_updating"]

# Above an aggregate, these give one row for each of its rows.
_KEEP_ROWS: Final = frozenset({"Project", "SubqueryAlias", "View"})


def is_updating(name: str, rows: DataFrame, sink: DynamicTableSink) -> bool:
    """Return whether the rows of a query replace earlier ones.

    Args:
        name: The full name of the table that receives them.
        rows: The rows.
        sink: The sink of the table.

    Raises:
        UnsupportedError: They do, and the table keeps all rows, or the query can drop a row that
            it has already emitted.
    """
    if not rows.isStreaming:
        return False
    above, node = [], analyzed_plan(rows)
    while not _updates(node):
        above.append(node.name)
        streams = [each for each in node.children if each.is_streaming]
        if len(streams) != 1:
            return False
        node = streams[0]
    if not sink.changelog_mode.contains(RowKind.UPDATE_AFTER):
        raise UnsupportedError(
            f"the query updates the rows of its aggregate, and the table {name} only adds rows",
            expected="a table whose rows are replaced by key, or an aggregate over a window of the "
            "event time",
            found=f"changes {sink.changelog_mode}",
            hint="declare a PRIMARY KEY in a table that replaces rows, or group by window(...)",
        )
    other = [each for each in above if each not in _KEEP_ROWS]
    if other:
        raise UnsupportedError(
            "the query can drop a row of its aggregate that it has already emitted, and Spark "
            "deletes no rows",
            expected="an aggregate with only selected columns after it",
            found=", ".join(other),
            hint="insert the rows of the aggregate into a table, and query that table",
        )
    return True


def _updates(node: PlanNode) -> bool:
    return (
        node.name == "Aggregate"
        and node.is_streaming
        and not any(each.is_event_time for each in node.grouping_keys)
    )
