# SPDX-License-Identifier: Apache-2.0
"""What compares event times with Spark's watermark in a streaming query."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from connectors_core.spark.internals.plans import Expression, PlanNode, analyzed_plan

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

# Nodes that do not look at the watermark. What is not named here counts as one that does.
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
    """Whether windows are all that compares event times with Spark's watermark.

    Spark compares a window's end, and of everything else the event time itself; see
    :mod:`connectors_core.source.watermarks` for what follows from it.

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
    """Whether each event time of a key is a window as a whole."""
    times = key.event_times()
    return not times or all(each.type_name == "struct" for each in (*times, key))
