# SPDX-License-Identifier: Apache-2.0
"""Rows that no one looks at between source and sink never enter the JVM.

Where all sinks of a query write the very DataFrame that `from_source` returned, the query carries
the entries of the plans alone, and the task that reads an entry writes its rows. All else is as it
is otherwise: entries, reports, epochs, decisions.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import pyarrow as pa

from connectors_core.execution.reading import ReaderTask, without_heartbeat
from connectors_core.runtime.carriers import checked


@dataclass(frozen=True)
class EntryRows:
    """The rows of entries. Executor."""

    reader: ReaderTask

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Read the entries of a DataFrame of entries; heartbeats are for Spark and left out."""
        read = checked(self.reader, self.reader.uid, self.reader.output_schema())
        for batch in batches:
            for entry in batch.column(0).to_pylist():
                yield from without_heartbeat(read(entry))
