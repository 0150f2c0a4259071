# SPDX-License-Identifier: Apache-2.0
"""Stages over Arrow batches on DataFrames whose columns have any name."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from connectors_core.spark.direct_frames import Stage


def map_in_arrow(df: DataFrame, stage: Stage, schema: StructType | str) -> DataFrame:
    """Return the output of a stage over the rows of a DataFrame.

    ``DataFrame.mapInArrow`` reads a column `a.b` as the field `b` of a column `a`.

    Args:
        df: The rows.
        stage: The stage; pickled for executors.
        schema: The schema of its output, or its DDL.
    """
    names = tuple(df.columns)
    if not any("." in name or "`" in name for name in names):
        return df.mapInArrow(stage, schema)
    numbered = df.toDF(*(str(number) for number in range(len(names))))
    return numbered.mapInArrow(_Renamed(stage, names), schema)


@dataclass(frozen=True)
class _Renamed:
    """A stage whose input has these names. Executor."""

    stage: Stage
    names: tuple[str, ...]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        names = list(self.names)
        return self.stage(batch.rename_columns(names) for batch in batches)
