# SPDX-License-Identifier: Apache-2.0
"""The optimized plan of a DataFrame, and DataFrames with replaced parts of their plans."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa

from connectors_core.spark.internals.plans import PlanNode, analyzed_plan
from connectors_core.spark.internals.sessions import java_session, jvm_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def optimized_plan(df: DataFrame) -> str:
    """Return the optimized plan of a DataFrame as JSON, in the form of ``TreeNode.toJSON``."""
    execution = cast(Any, df)._jdf.queryExecution()
    if df.isStreaming:  # Spark only optimizes the plan of a streaming query for each micro-batch
        optimizer = java_session(df.sparkSession).sessionState().optimizer()
        return str(optimizer.execute(execution.analyzed()).toJSON())
    return str(execution.optimizedPlan().toJSON())


def shown_time_zone(spark: SparkSession) -> str:
    """Return the time zone in which plans show timestamps."""
    return str(jvm_of(spark).org.apache.spark.sql.internal.SQLConf.get().sessionLocalTimeZone())


def with_narrower_parts(
    df: DataFrame, narrower: Callable[[PlanNode], tuple[DataFrame, pa.Schema] | None]
) -> DataFrame:
    """Replace parts of a plan by DataFrames with some of their columns.

    The other columns become null. All columns keep Spark's ids, so the plan above stays valid.

    Args:
        df: A DataFrame.
        narrower: Returns the replacement of what is below a ``SubqueryAlias``, and all its columns
            in order; None for any other node.
    """
    from pyspark.sql import DataFrame

    spark = df.sparkSession
    rewrite = _Rewrite(spark)

    def rebuilt(node: PlanNode) -> Any:
        replacement = narrower(node)
        if replacement is not None:
            parts = [rewrite.widened(*replacement, node.java.output())]
        else:
            children = node.children
            parts = [rebuilt(child) for child in children]
            if all(part is child.java for part, child in zip(parts, children, strict=True)):
                return node.java
        return node.java.withNewChildren(rewrite.sequence(parts))

    plan = rebuilt(analyzed_plan(df))
    return DataFrame(rewrite.dataset_of(plan), spark)


class _Rewrite:
    def __init__(self, spark: SparkSession) -> None:
        self._jvm = jvm_of(spark)
        self._session = java_session(spark)
        self._sql = self._jvm.org.apache.spark.sql
        self._expressions = self._sql.catalyst.expressions
        self._empty = self.sequence([])
        self._none = self._jvm.scala.Option.empty()

    def sequence(self, items: list[Any]) -> Any:
        return self._jvm.org.apache.spark.api.python.PythonUtils.toSeq(items)

    def widened(self, df: DataFrame, schema: pa.Schema, columns: Any) -> Any:
        """Return a plan with these columns; those that the DataFrame does not have are null.

        Every call of the JVM takes time, and a table may have hundreds of columns.
        """
        plan = analyzed_plan(df).java
        found = plan.output()
        values = {name: found.apply(at) for at, name in enumerate(df.columns)}
        nulls: dict[pa.DataType, Any] = {}
        projected = []
        for at, each in enumerate(schema):
            column = columns.apply(at)
            value = values.get(each.name)
            if value is None:
                value = nulls.get(each.type)
            if value is None:
                value = nulls[each.type] = self._expressions.Literal.create(None, column.dataType())
            projected.append(self._renamed(value, each.name, column.exprId()))
        return self._sql.catalyst.plans.logical.Project(self.sequence(projected), plan)

    def _renamed(self, value: Any, name: str, column_id: Any) -> Any:
        return self._expressions.Alias(value, name, column_id, self._empty, self._none, self._empty)

    def dataset_of(self, plan: Any) -> Any:
        # py4j returns a package, not an error, if the class does not exist.
        dataset = self._sql.classic.Dataset
        if type(dataset).__name__ != "JavaClass":
            dataset = self._sql.Dataset
        return dataset.ofRows(self._session, plan)
