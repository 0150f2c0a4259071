# SPDX-License-Identifier: Apache-2.0
"""The analysed logical plan of a DataFrame."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, cast

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_WATERMARK_KEY: Final = "spark.watermarkDelayMs"


@dataclass(frozen=True)
class PlanNode:
    """A node of a plan. Each property asks the JVM.

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
        """What an ``Aggregate`` groups by."""
        return [Expression(key) for key in _elements(self.java.groupingExpressions())]

    def alias(self) -> str | None:
        """The name that ``DataFrame.alias`` gave; None in another node."""
        return str(self.java.identifier().name()) if self.name == "SubqueryAlias" else None

    def watermark_delay(self) -> str | None:
        """The delay of ``withWatermark``, such as "10 seconds"; None in another node."""
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
        """The columns with a watermark that it refers to."""
        return [
            Expression(column)
            for column in _elements(self.java.references().toSeq())
            if column.metadata().contains(_WATERMARK_KEY)
        ]


def analyzed_plan(df: DataFrame) -> PlanNode:
    """The root of a DataFrame's analysed plan."""
    return PlanNode(cast(Any, df)._jdf.queryExecution().analyzed())


def _elements(sequence: Any) -> list[Any]:
    return [sequence.apply(index) for index in range(sequence.size())]
