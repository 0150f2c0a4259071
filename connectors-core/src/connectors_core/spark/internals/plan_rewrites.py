# SPDX-License-Identifier: Apache-2.0
"""The optimized plan of a DataFrame, and DataFrames with replaced parts of their plans."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final, cast

import pyarrow as pa

from connectors_core.spark.internals.plans import PlanNode, analyzed_plan, elements
from connectors_core.spark.internals.sessions import java_session, jvm_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


_SET: Final = "org.apache.spark.sql.catalyst.expressions.InSet"
_MOST_VALUES: Final = 10_000


def optimized_plan(df: DataFrame) -> list[dict[str, Any]]:
    """Return the optimized plan of a DataFrame, in the form of ``TreeNode.toJSON``.

    JSON lacks the values of a set, which Spark makes of more than ten values of ``IN``. In the
    conditions of filters, the field ``hset`` has their type and their texts here.
    """
    execution = cast(Any, df)._jdf.queryExecution()
    if df.isStreaming:  # Spark only optimizes the plan of a streaming query for each micro-batch
        optimizer = java_session(df.sparkSession).sessionState().optimizer()
        plan = optimizer.execute(execution.analyzed())
    else:
        plan = execution.optimizedPlan()
    nodes: list[dict[str, Any]] = json.loads(str(plan.toJSON()))
    without_values = [
        each
        for node in nodes
        if str(node["class"]).endswith(".Filter")
        for each in node["condition"]
        if each["class"] == _SET
    ]
    if without_values:
        sets = list(_sets_in(PlanNode(plan)))
        if len(sets) == len(without_values):
            for node, found in zip(without_values, sets, strict=True):
                node["hset"] = _values_of(found)
    return nodes


def _sets_in(node: PlanNode) -> Iterator[Any]:
    """Yield the sets in the conditions of filters, in the order of JSON: parents first."""
    if node.name == "Filter":
        yield from _sets_below(node.java.condition())
    for child in node.children:
        yield from _sets_in(child)


def _sets_below(expression: Any) -> Iterator[Any]:
    if expression.getClass().getName() == _SET:
        yield expression
    for each in elements(expression.children()):
        yield from _sets_below(each)


def _values_of(found: Any) -> dict[str, Any] | None:
    """Return the type and the texts of the values in a set; None if it has null or too many."""
    values, separator = found.hset(), f"\0{uuid.uuid4()}\0"
    if values.size() > _MOST_VALUES or values.contains(None):
        return None
    texts = str(values.mkString(separator)).split(separator)  # one call for all values
    return {"type": str(found.child().dataType().simpleString()), "values": texts}


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
