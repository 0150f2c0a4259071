# SPDX-License-Identifier: Apache-2.0
"""Keeps rows that Spark does not process between source and sink out of the JVM.

If all sinks of a query write the same DataFrame from `from_source` or a `lookup_join` on it, or a
selection of rows and columns that the reader makes itself, Spark carries only the entries of the
plans. The task that reads an entry also looks up and writes its rows. Entries, reports, epochs, and
decisions stay the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import DataFrame

from connectors_core.engine.execution.reader_task import ReaderTask, without_heartbeat
from connectors_core.spark.carriers import checked

Stage = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]
"""A transformation of the rows of a task."""


@dataclass(frozen=True)
class DirectFrame:
    """A DataFrame whose rows Spark need not process. Driver.

    Attributes:
        df: The DataFrame.
        source: Uid of the source of its rows.
        stages: The transformations of the rows, in order.
    """

    df: DataFrame
    source: str
    stages: tuple[Stage, ...] = ()


@dataclass(frozen=True)
class SelectedColumns:
    """A stage that selects columns by name; a column may occur several times. Executor.

    Attributes:
        names: The columns.
    """

    names: tuple[str, ...]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Select the columns of each batch."""
        return (batch.select(list(self.names)) for batch in batches)


@dataclass(frozen=True)
class EntryRows:
    """The rows of entries. Executor.

    Attributes:
        reader: Reads an entry.
        stages: The transformations of its rows, in order.
    """

    reader: ReaderTask
    stages: tuple[Stage, ...]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Read the entries of a DataFrame without heartbeats, which only Spark needs."""
        rows = self._read(batches)
        for stage in self.stages:
            rows = stage(rows)
        return rows

    def _read(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        read = checked(self.reader, self.reader.uid, self.reader.output_schema())
        for batch in batches:
            for entry in batch.column(0).to_pylist():
                yield from without_heartbeat(read(entry))
