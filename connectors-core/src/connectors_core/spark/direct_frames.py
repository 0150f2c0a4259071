# SPDX-License-Identifier: Apache-2.0
"""Rows that no one looks at between source and sink never enter the JVM.

Where all sinks of a query write the very DataFrame that `from_source` returned, or `lookup_join`
for such a one, the query carries the entries of the plans alone, and the task that reads an entry
looks up and writes its rows. All else is as it is otherwise: entries, reports, epochs, decisions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import DataFrame

from connectors_core.engine.execution.reader_task import ReaderTask, without_heartbeat
from connectors_core.spark.carriers import checked

Stage = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]
"""What is done with the rows of a task."""


@dataclass(frozen=True)
class DirectFrame:
    """A DataFrame whose rows need no Spark. Driver.

    Attributes:
        df: The DataFrame.
        source: Whose entries its rows are made of.
        stages: What is done with them, in order.
    """

    df: DataFrame
    source: str
    stages: tuple[Stage, ...] = ()


@dataclass(frozen=True)
class EntryRows:
    """The rows of entries. Executor.

    Attributes:
        reader: Reads an entry.
        stages: What is done with its rows, in order.
    """

    reader: ReaderTask
    stages: tuple[Stage, ...]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Read the entries of a DataFrame of entries; heartbeats are for Spark and left out."""
        rows = self._read(batches)
        for stage in self.stages:
            rows = stage(rows)
        return rows

    def _read(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        read = checked(self.reader, self.reader.uid, self.reader.output_schema())
        for batch in batches:
            for entry in batch.column(0).to_pylist():
                yield from without_heartbeat(read(entry))
