# SPDX-License-Identifier: Apache-2.0
"""Finds the operators of a streaming query that compare event times with Spark's watermark."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from connectors_core.spark.internals.plans import Expression, PlanNode, analyzed_plan

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

# Nodes that do not use the watermark. Any other node counts as one that does.
_STATELESS: Final = frozenset(
    {
        "CollectMetrics",
        "EventTimeWatermark",
        "Expand",
        "Filter",
        "Generate",
        "GlobalLimit",
        "LocalLimit",
        "MapInArrow",
        "MapInPandas",
        "Project",
        "PythonMapInArrow",
        "RebalancePartitions",
        "Repartition",
        "RepartitionByExpression",
        "ResolvedHint",
        "Sample",
        "Sort",
        "SubqueryAlias",
        "Union",
        "View",
    }
)


def only_windows_compare(df: DataFrame) -> bool:
    """Return whether only windows compare event times with Spark's watermark.

    Spark compares the end of a window, but the event time itself in any other operator. See
    :mod:`connectors_core.source.watermarks` for the consequences.

    Args:
        df: The DataFrame of a streaming query.
    """

    def walk(node: PlanNode) -> bool:
        if not node.is_streaming:
            return True
        children = node.children
        return _harmless(node, children) and all(map(walk, children))

    return walk(analyzed_plan(df))


def _harmless(node: PlanNode, children: Sequence[PlanNode]) -> bool:
    name = node.name
    if name == "Aggregate":
        return all(map(_is_window_or_timeless, node.grouping_keys))
    if name == "Join":
        return not all(child.is_streaming for child in children)
    return not children or name in _STATELESS


def _is_window_or_timeless(key: Expression) -> bool:
    """Return whether each event time of a key is an entire window."""
    times = key.event_times()
    return not times or all(each.type_name == "struct" for each in (*times, key))
