# SPDX-License-Identifier: Apache-2.0
"""The shared tools of lookup and vector search cases, which join rows with an external table."""

from __future__ import annotations

import tempfile
import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Generic, TypeVar

import pyarrow as pa

from connectors_core.engine.execution.lookup_task import close_lookups
from connectors_core.metrics import MetricGroup
from connectors_core.source import DataGeneratorSource
from connectors_core.testing.directory_sink import DirectorySink
from connectors_core.testing.environment import TestEnvironment
from connectors_core.testing.pace import stretched

BATCH_ROWS: Final = 10_000

_SECONDS: Final = 240.0

TableT = TypeVar("TableT")
ContextT = TypeVar("ContextT", bound="JoinExternalContext[Any]")


class JoinExternalContext(ABC, Generic[TableT]):
    """The external system of one case, initially empty and not shared."""

    @abstractmethod
    def create_table(self, options: Mapping[str, str]) -> TableT:
        """Return the table of this context.

        Args:
            options: Some of ``connectors_core.lookup.LOOKUP_OPTIONS``, as a user writes them.
        """

    @abstractmethod
    def write(self, rows: pa.Table) -> None:
        """Replace all rows of the table. The new rows are visible on return."""

    def away(self) -> AbstractContextManager[None]:
        """Make the external system unavailable within the context.

        Raises:
            NotImplementedError: The table lacks the capability `OUTAGES`.
        """
        raise NotImplementedError

    def secrets(self) -> Sequence[str]:
        """Return the secrets given to all tables of this context. No output may show them."""
        return ()

    def close(self) -> None:
        """Remove the remaining data of the case from the external system."""


class JoinTrial(Generic[ContextT]):
    """A case in progress.

    Args:
        context: The external system.
        folder: The folder for the files of the runtime.
        options: The options of the table.
        environment: Creates the pipelines of joins on Spark.
    """

    def __init__(
        self,
        context: ContextT,
        folder: Path,
        options: Mapping[str, str],
        environment: TestEnvironment,
    ) -> None:
        self.context = context
        self.options = dict(options)
        self._folder = folder
        self._environment = environment
        self._pipeline_id = uuid.uuid4().hex

    def close(self) -> None:
        """Close all open resources."""
        close_lookups()

    def run_pipeline(
        self, rows: pa.Table, join: Callable[[Any, Any], Any], *, batch_rows: int = BATCH_ROWS
    ) -> pa.Table:
        """Run a pipeline that joins rows, and return the joined rows.

        Args:
            rows: The rows.
            join: Joins, given the pipeline and its stream of the rows.
            batch_rows: The number of rows in a batch.
        """
        root = Path(tempfile.mkdtemp(dir=self._folder))
        source = DataGeneratorSource(
            RowsOf(rows), rows.num_rows, rows.schema, batch_rows=batch_rows
        )
        sink = DirectorySink(root / "rows")
        with self._environment.pipeline("join", root / "checkpoint") as pipeline:
            joined = join(pipeline, pipeline.from_source(source, uid="rows"))
            pipeline.sink_to(joined, sink, uid="joined")
            seconds = stretched(_SECONDS)
            assert pipeline.run(timeout=seconds), f"the pipeline does not end within {seconds:g} s"
        return sink.read()


@dataclass(frozen=True)
class RowsOf:
    """Returns the rows of a table by their numbers, for a `DataGeneratorSource`."""

    rows: pa.Table

    def __call__(self, numbers: pa.Array) -> pa.RecordBatch:
        """Return some rows."""
        (batch,) = self.rows.take(numbers).combine_chunks().to_batches()
        return batch


def forget(_numbers: MetricGroup) -> None:
    """Ignore the metrics of a task."""
