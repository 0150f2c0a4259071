# SPDX-License-Identifier: Apache-2.0
"""The inputs of a DataFrame that Spark reads itself: tables, files, and its own streams. Driver."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql.types import StructType

from connectors_core.lineage import LineageDataset
from connectors_core.spark.carriers import spark_leaves
from connectors_core.spark.internals.arrow_types import arrow_schema
from connectors_core.spark.internals.plans import PlanNode
from connectors_core.spark.internals.relations import Relation, relation_of
from connectors_core.spark.pushdown.source_needs import column_ids

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True)
class SparkInput:
    """An input that Spark reads itself.

    Attributes:
        uid: `@` and a name that is the same in every run. No other uid begins with `@`.
        datasets: The datasets; empty if Spark does not tell them.
        schema: Its columns; None if Arrow does not have their types.
        columns: The columns of the datasets, by Spark's id.
    """

    uid: str
    datasets: tuple[LineageDataset, ...]
    schema: pa.Schema | None
    columns: Mapping[int, str]


def spark_inputs(df: DataFrame) -> list[SparkInput]:
    """Return the inputs of a DataFrame that Spark reads itself, without rows that are in the plan.

    Args:
        df: Any DataFrame.
    """
    return [_input(leaf, relation_of(df.sparkSession, leaf)) for leaf in spark_leaves(df)]


def _input(leaf: PlanNode, relation: Relation) -> SparkInput:
    schema = StructType.fromJson(leaf.schema_json)
    named = [f"{each.namespace}/{each.name.lstrip('/')}" for each in relation.datasets]
    # Without datasets, the columns tell different inputs of one kind apart.
    name = ", ".join(named) or f"{leaf.input_kind}({', '.join(schema.names)})"
    ids = column_ids(leaf.column_texts, schema.names) if relation.has_columns else None
    columns = {} if ids is None else dict(zip(ids, schema.names, strict=True))
    return SparkInput(f"@{name}", relation.datasets, _in_arrow(schema), columns)


def _in_arrow(schema: StructType) -> pa.Schema | None:
    try:
        return arrow_schema(schema)
    except PySparkException:
        return None
