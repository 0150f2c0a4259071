# SPDX-License-Identifier: Apache-2.0
"""The analyzed logical plan of a DataFrame."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, cast

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_WATERMARK_KEY: Final = "spark.watermarkDelayMs"


@dataclass(frozen=True)
class PlanNode:
    """A node of a plan. Each property queries the JVM.

    Args:
        java: Spark's ``LogicalPlan``.
    """

    java: Any

    @property
    def name(self) -> str:
        """The kind of the node, such as ``Project``."""
        return str(self.java.nodeName())

    @property
    def is_streaming(self) -> bool:
        """Whether a stream is below the node."""
        return bool(self.java.isStreaming())

    @property
    def children(self) -> list[PlanNode]:
        """The nodes that this one reads."""
        return [PlanNode(child) for child in _elements(self.java.children())]

    @property
    def grouping_keys(self) -> list[Expression]:
        """The grouping expressions of an ``Aggregate``."""
        return [Expression(key) for key in _elements(self.java.groupingExpressions())]

    def alias(self) -> str | None:
        """Return the name from ``DataFrame.alias``; None in any other node."""
        return str(self.java.identifier().name()) if self.name == "SubqueryAlias" else None

    def watermark_delay(self) -> str | None:
        """Return the delay of ``withWatermark``, such as "10 seconds"; None in any other node."""
        is_watermark = self.name.endswith("EventTimeWatermark")
        return str(self.java.delay().toString()) if is_watermark else None


@dataclass(frozen=True)
class Expression:
    """An expression of a plan.

    Args:
        java: Spark's ``Expression``.
    """

    java: Any

    @property
    def type_name(self) -> str:
        """The name of its type, such as ``struct``."""
        return str(self.java.dataType().typeName())

    def event_times(self) -> list[Expression]:
        """Return the referenced columns with a watermark."""
        return [
            Expression(column)
            for column in _elements(self.java.references().toSeq())
            if column.metadata().contains(_WATERMARK_KEY)
        ]


def analyzed_plan(df: DataFrame) -> PlanNode:
    """Return the root of a DataFrame's analyzed plan."""
    return PlanNode(cast(Any, df)._jdf.queryExecution().analyzed())


def _elements(sequence: Any) -> list[Any]:
    return [sequence.apply(index) for index in range(sequence.size())]
