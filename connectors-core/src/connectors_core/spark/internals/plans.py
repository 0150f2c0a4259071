# SPDX-License-Identifier: Apache-2.0
"""The analyzed logical plan of a DataFrame."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, cast

from py4j.protocol import Py4JError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_ACCESS_TIME: Final = re.compile("access_time=[0-9]+")  # reading changes it
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
        return [PlanNode(child) for child in elements(self.java.children())]

    @property
    def subqueries(self) -> list[PlanNode]:
        """The plans of the subqueries in its expressions."""
        return [PlanNode(plan) for plan in elements(self.java.subqueries())]

    @property
    def first_column_id(self) -> int | None:
        """Spark's id of the first column; None without columns."""
        columns = self.java.output()
        return int(columns.head().exprId().id()) if columns.nonEmpty() else None

    @property
    def columns(self) -> list[Expression]:
        """Its columns."""
        return [Expression(column) for column in elements(self.java.output())]

    @property
    def column_texts(self) -> str:
        """Its columns with Spark's ids, such as ``a#1L,b#2``."""
        return str(self.java.output().mkString(","))

    @property
    def schema_json(self) -> dict[str, Any]:
        """Its columns in the form of ``StructType.jsonValue``."""
        return cast("dict[str, Any]", json.loads(str(self.java.schema().json())))

    @property
    def input_kind(self) -> str:
        """The kind of an input that this leaf reads, such as ``LogicalRelation`` or ``kafka``."""
        return self.stream_kind if self.is_streaming else self.name

    @property
    def input_files(self) -> str | None:
        """The files that this leaf reads, with sizes and times; None for any other node."""
        try:
            files = str(self.java.relation().location().allFiles().mkString("\n"))
        except Py4JError:
            return None
        return _ACCESS_TIME.sub("", files)

    @property
    def stream_kind(self) -> str:
        """The name of the source that a streaming leaf reads, such as ``kafka``."""
        try:
            return str(self.java.sourceName()).partition("[")[0]  # FileSource[path]
        except Py4JError:  # the leaf of a stream in memory has no such name
            return self.name

    @property
    def expressions(self) -> list[Expression]:
        """The expressions of the node itself."""
        return [Expression(each) for each in elements(self.java.expressions())]

    @property
    def named_expressions(self) -> list[Expression]:
        """The expressions of the columns of a ``Project`` or an ``Aggregate``."""
        is_project = self.name == "Project"
        found = self.java.projectList() if is_project else self.java.aggregateExpressions()
        return [Expression(each) for each in elements(found)]

    @property
    def grouping_keys(self) -> list[Expression]:
        """The grouping expressions of an ``Aggregate``."""
        return [Expression(key) for key in elements(self.java.groupingExpressions())]

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
    def name(self) -> str:
        """The kind of the expression, such as ``AggregateExpression``."""
        return str(self.java.nodeName())

    @property
    def children(self) -> list[Expression]:
        """The expressions from which it is computed."""
        return [Expression(child) for child in elements(self.java.children())]

    @property
    def text(self) -> str:
        """The expression in Spark's own notation."""
        return str(self.java.toString())

    @property
    def nondeterministic(self) -> list[str]:
        """The kinds of the innermost expressions in it with other values in every run."""
        if self.java.deterministic():
            return []
        inner = [name for child in self.children for name in child.nondeterministic]
        return inner or [str(self.java.prettyName())]

    @property
    def column_id(self) -> int:
        """Spark's id of a column, or of an expression that becomes one."""
        return int(self.java.exprId().id())

    @property
    def column_name(self) -> str:
        """The name of a column."""
        return str(self.java.name())

    @property
    def references(self) -> list[Expression]:
        """The columns that it reads."""
        return [Expression(column) for column in elements(self.java.references().toSeq())]

    @property
    def type_name(self) -> str:
        """The name of its type, such as ``struct``."""
        return str(self.java.dataType().typeName())

    @property
    def is_event_time(self) -> bool:
        """Whether it is itself a column with a watermark, and not computed from one."""
        return self.java.children().isEmpty() and bool(self.event_times())

    def event_times(self) -> list[Expression]:
        """Return the referenced columns with a watermark."""
        return [each for each in self.references if each.java.metadata().contains(_WATERMARK_KEY)]

    def is_same(self, other: Expression) -> bool:
        """Return whether two expressions have the same values."""
        return bool(self.java.semanticEquals(other.java))


def analyzed_plan(df: DataFrame) -> PlanNode:
    """Return the root of a DataFrame's analyzed plan."""
    return PlanNode(cast(Any, df)._jdf.queryExecution().analyzed())


def inlined_plan(df: DataFrame) -> PlanNode:
    """Return the root of a DataFrame's analyzed plan, with the queries of WITH in their places."""
    jvm = cast(Any, df.sparkSession)._jvm
    rule = jvm.org.apache.spark.sql.catalyst.optimizer.InlineCTE
    (constructor,) = jvm.java.lang.Class.forName(rule._fqn).getConstructors()
    further = [False] * (constructor.getParameterCount() - 1)  # Spark 4 has one more
    return PlanNode(rule(True, *further).apply(analyzed_plan(df).java))


def elements(sequence: Any) -> list[Any]:
    """Return the elements of a sequence of Scala."""
    return [sequence.apply(index) for index in range(sequence.size())]
