# SPDX-License-Identifier: Apache-2.0
"""Lets only a pipeline's own queries read its sources.

Another query on the same DataFrame would read plans without owning their positions, and its rows
would belong to no epoch. Spark passes local properties to a query's tasks, so a reader can identify
the query.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import SparkSession

from connectors_core.engine.execution.reader_task import ReaderTask
from connectors_core.errors import UnsupportedError
from connectors_core.spark.held_retries import hold_retry

_PROPERTY: Final = "connectors.pipeline"


@contextmanager
def local_property(spark: SparkSession, name: str, value: str) -> Iterator[None]:
    """Set a local property on the tasks of all jobs that this thread starts meanwhile. Driver."""
    context = spark.sparkContext
    before = context.getLocalProperty(name)
    context.setLocalProperty(name, value)
    try:
        yield
    finally:
        context.setLocalProperty(name, before)  # type: ignore[arg-type, unused-ignore]


def pipeline_query(spark: SparkSession, pipeline_id: str) -> AbstractContextManager[None]:
    """Mark queries that this thread starts meanwhile as the pipeline's own. Driver."""
    return local_property(spark, _PROPERTY, pipeline_id)


@dataclass(frozen=True)
class OwnedReader:
    """Reads entries only in a query of its pipeline. Executor."""

    reader: ReaderTask
    pipeline_id: str

    def __call__(self, entry: str) -> Iterator[pa.RecordBatch]:
        """Read one entry.

        Raises:
            UnsupportedError: The query does not belong to the pipeline.
        """
        context = TaskContext.get()
        if context is None or context.getLocalProperty(_PROPERTY) != self.pipeline_id:
            raise UnsupportedError(
                f"another query reads source {self.reader.uid!r}, which belongs to a pipeline",
                hint="register the output with Pipeline.sink_to, or a writer of Spark with "
                "Pipeline.for_each_batch; only the pipeline's own query may read a stream, so that "
                "its positions and its output are decided together",
            )
        hold_retry(self.reader.store)
        return self.reader(entry)
