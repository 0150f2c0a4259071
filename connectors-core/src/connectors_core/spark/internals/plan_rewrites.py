# SPDX-License-Identifier: Apache-2.0
"""The optimized plan of a DataFrame, and DataFrames with replaced parts of their plans."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Collection, Iterator
from typing import TYPE_CHECKING, Any, Final, cast

import pyarrow as pa
from py4j.protocol import Py4JError

from connectors_core.spark.internals.plans import PlanNode, analyzed_plan, elements
from connectors_core.spark.internals.sessions import dataset_class, java_class, java_session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


SOURCE: Final = "Source"
_SET: Final = "org.apache.spark.sql.catalyst.expressions.InSet"
# Nodes that read a source: of batch and of memory streams, or of the Python Data Source API.
_READING_SOURCES: Final = frozenset({"MapInArrow", "PythonMapInArrow", "StreamingRelationV2"})
_LEAF: Final = "OneRowRelation"
_CATALYST: Final = "org.apache.spark.sql.catalyst"
_MOST_VALUES: Final = 10_000


def optimized_plan(df: DataFrame, sources: Collection[str]) -> list[dict[str, Any]]:
    """Return the optimized plan of a DataFrame, in the form of ``TreeNode.toJSON``.

    A node that reads a source becomes a node of the class `SOURCE`, without the fields of its many
    columns: the JVM sends texts of up to 8 KB without a delay.

    JSON lacks the values of a set, which Spark makes of more than ten values of ``IN``. In the
    conditions of filters, the field ``hset`` has their type and their texts here. JSON also lacks
    which columns a ``Generate`` drops, which its field ``unrequiredChildIndex`` has here.

    Args:
        df: The DataFrame.
        sources: The columns of each source, as in `PlanNode.column_texts`.

    Raises:
        ValueError: Spark cannot show the plan in this form.
    """
    try:
        return _plan_without_sources(df, sources)
    except Py4JError as error:
        raise ValueError(f"Spark cannot show the plan: {error}") from error


def _plan_without_sources(df: DataFrame, sources: Collection[str]) -> list[dict[str, Any]]:
    execution = cast(Any, df)._jdf.queryExecution()
    if df.isStreaming:  # Spark only optimizes the plan of a streaming query for each micro-batch
        optimizer = java_session(df.sparkSession).sessionState().optimizer()
        plan = optimizer.execute(execution.analyzed())
    else:
        plan = execution.optimizedPlan()
    rewrite = _Rewrite(df.sparkSession)
    leaf = rewrite.leaf()
    columns: list[str | None] = []

    def source_columns(node: PlanNode) -> Any:
        name = node.name
        if name == _LEAF:
            columns.append(None)
        if name not in _READING_SOURCES or (text := node.column_texts) not in sources:
            return None
        columns.append(text)
        return leaf

    plan = rewrite.replaced(PlanNode(plan), source_columns)
    nodes: list[dict[str, Any]] = json.loads(str(plan.toJSON()))
    leaves = [node for node in nodes if str(node["class"]).endswith(f".{_LEAF}")]
    for node, text in zip(leaves, columns, strict=True):
        if text is not None:
            node.update({"class": SOURCE, "columns": text})
    _add_values_of_sets(nodes, PlanNode(plan))
    _add_dropped_columns(nodes, PlanNode(plan))
    return nodes


def _add_values_of_sets(nodes: list[dict[str, Any]], plan: PlanNode) -> None:
    without_values = [
        each
        for node in nodes
        if str(node["class"]).endswith(".Filter")
        for each in node["condition"]
        if each["class"] == _SET
    ]
    if without_values:
        filters = _nodes_of_kind("Filter", plan)
        sets = [each for node in filters for each in _sets_below(node.java.condition())]
        if len(sets) == len(without_values):
            for node, found in zip(without_values, sets, strict=True):
                node["hset"] = _values_of(found)


def _add_dropped_columns(nodes: list[dict[str, Any]], plan: PlanNode) -> None:
    generating = [node for node in nodes if str(node["class"]).endswith(".Generate")]
    if any(node["unrequiredChildIndex"] is None for node in generating):
        for node, found in zip(generating, _nodes_of_kind("Generate", plan), strict=True):
            node["unrequiredChildIndex"] = elements(found.java.unrequiredChildIndex())


def _nodes_of_kind(kind: str, node: PlanNode) -> Iterator[PlanNode]:
    """Yield nodes in the order of JSON: parents first."""
    if node.name == kind:
        yield node
    for child in node.children:
        yield from _nodes_of_kind(kind, child)


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
    conf = java_class(spark, "org.apache.spark.sql.internal.SQLConf")
    return str(conf.get().sessionLocalTimeZone())


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

    def with_narrower_part(node: PlanNode) -> Any:
        replacement = narrower(node)
        if replacement is None:
            return None
        part = rewrite.widened(*replacement, node.java.output())
        return node.java.withNewChildren(rewrite.sequence([part]))

    plan = rewrite.replaced(analyzed_plan(df), with_narrower_part)
    return DataFrame(rewrite.dataset_of(plan), spark)


class _Rewrite:
    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._project = java_class(spark, f"{_CATALYST}.plans.logical.Project")
        self._literal = java_class(spark, f"{_CATALYST}.expressions.Literal")
        self._alias = java_class(spark, f"{_CATALYST}.expressions.Alias")
        self._to_seq = java_class(spark, "org.apache.spark.api.python.PythonUtils").toSeq
        self._empty = self.sequence([])
        self._none = java_class(spark, "scala.Option").empty()

    def sequence(self, items: list[Any]) -> Any:
        return self._to_seq(items)

    def leaf(self) -> Any:
        """Return a node without columns."""
        return java_class(self._spark, f"{_CATALYST}.plans.logical.{_LEAF}")()

    def replaced(self, node: PlanNode, replacement: Callable[[PlanNode], Any]) -> Any:
        """Return a plan in which some nodes are replaced; the function returns None for others."""
        found = replacement(node)
        if found is not None:
            return found
        children = node.children
        parts = [self.replaced(child, replacement) for child in children]
        if all(part is child.java for part, child in zip(parts, children, strict=True)):
            return node.java
        return node.java.withNewChildren(self.sequence(parts))

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
                value = nulls[each.type] = self._literal.create(None, column.dataType())
            projected.append(self._renamed(value, each.name, column.exprId()))
        return self._project(self.sequence(projected), plan)

    def _renamed(self, value: Any, name: str, column_id: Any) -> Any:
        return self._alias(value, name, column_id, self._empty, self._none, self._empty)

    def dataset_of(self, plan: Any) -> Any:
        """Return the JVM's DataFrame of a plan."""
        return dataset_class(self._spark).ofRows(java_session(self._spark), plan)
