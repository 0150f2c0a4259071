# SPDX-License-Identifier: Apache-2.0
"""DataFrames with fixed partitions, which Spark reads without a plan."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from connectors_core.spark.internals.sessions import java_session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def with_fixed_partitions(df: DataFrame) -> tuple[DataFrame, int]:
    """Return the rows in partitions that no longer change, and the number of partitions.

    Adaptive execution chooses partitions while a query runs. The result no longer changes. The
    DataFrames of ``foreachBatch`` are built in the same way, so they are returned unchanged.
    """
    from pyspark.sql import DataFrame

    source = cast(Any, df)
    plan = source._jdf.queryExecution().logical()
    if plan.nodeName() == "LogicalRDD":
        return df, int(plan.rdd().getNumPartitions())
    rows = source._jdf.queryExecution().toRdd()
    frame = java_session(df.sparkSession).internalCreateDataFrame(rows, source._jdf.schema(), False)
    return DataFrame(frame, df.sparkSession), int(rows.getNumPartitions())


def broadcast_threshold(spark: SparkSession) -> int:
    """Return the size in bytes up to which Spark broadcasts the rows of a join."""
    return int(java_session(spark).sessionState().conf().autoBroadcastJoinThreshold())
