# SPDX-License-Identifier: Apache-2.0
"""What compares event times with Spark's watermark in a streaming query."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, cast

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_WATERMARK_KEY: Final = "spark.watermarkDelayMs"

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

    def walk(plan: Any) -> bool:
        if not plan.isStreaming():
            return True
        children = _elements(plan.children())
        return _harmless(plan, children) and all(map(walk, children))

    return walk(cast(Any, df)._jdf.queryExecution().analyzed())


def _harmless(plan: Any, children: list[Any]) -> bool:
    name = str(plan.nodeName())
    if name == "Aggregate":
        return _groups_by_windows(plan.groupingExpressions())
    if name == "Join":
        return not all(child.isStreaming() for child in children)
    return not children or name in _STATELESS


def _groups_by_windows(keys: Any) -> bool:
    """Whether each event time among the keys of a group is a window as a whole."""
    for key in _elements(keys):
        times = [
            attribute
            for attribute in _elements(key.references().toSeq())
            if attribute.metadata().contains(_WATERMARK_KEY)
        ]
        if any(not _is_window(expression) for expression in (*times, key) if times):
            return False
    return True


def _is_window(expression: Any) -> bool:
    return str(expression.dataType().typeName()) == "struct"


def _elements(sequence: Any) -> list[Any]:
    return [sequence.apply(index) for index in range(sequence.size())]
