# SPDX-License-Identifier: Apache-2.0
"""DataFrames whose partitions are decided."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from connectors_core.spark.internals.sessions import java_session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def with_fixed_partitions(df: DataFrame) -> tuple[DataFrame, int]:
    """The same rows in partitions that no longer change, and the number of partitions.

    Adaptive execution decides on the partitions while a query runs. The result is past that, as are
    the DataFrames of ``foreachBatch``, which are made in the same way and are returned as they are.
    """
    from pyspark.sql import DataFrame

    source = cast(Any, df)
    plan = source._jdf.queryExecution().logical()
    if plan.nodeName() == "LogicalRDD":
        return df, int(plan.rdd().getNumPartitions())
    rows = source._jdf.queryExecution().toRdd()
    frame = java_session(df.sparkSession).internalCreateDataFrame(rows, source._jdf.schema(), False)
    return DataFrame(frame, df.sparkSession), int(rows.getNumPartitions())
