# SPDX-License-Identifier: Apache-2.0
"""Results of statements."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import DataFrame

from connectors_core.engine.query.status import PipelineStatus
from connectors_core.errors import ConfigurationError
from connectors_core.spark.pipeline import Pipeline

__all__ = ["TableResult"]


@dataclass(frozen=True, kw_only=True)
class TableResult:
    """The result of a statement (Flink's `TableResult`).

    Attributes:
        columns: The names of its columns.
        rows: Its rows, for a statement that shows something.
        frame: The rows of a query.
        pipeline: The pipeline of an INSERT. In batch, it has ended.
    """

    columns: Sequence[str] = ()
    rows: Sequence[tuple[Any, ...]] = field(default=())
    frame: DataFrame | None = None
    pipeline: Pipeline | None = None

    def collect(self) -> list[tuple[Any, ...]]:
        """Return the rows. A query runs now."""
        if self.frame is not None:
            return [tuple(row) for row in self.frame.collect()]
        return list(self.rows)

    def await_termination(self, timeout: float | None = None) -> bool:
        """Wait for the end of an INSERT; return whether it has ended.

        Raises:
            ConnectorError: It failed.
        """
        return self.pipeline is None or self.pipeline.await_termination(timeout)

    def stop(self) -> None:
        """Stop an INSERT after the current micro-batch. The same statement resumes it."""
        if self.pipeline is not None:
            self.pipeline.stop()

    def status(self) -> PipelineStatus:
        """Return the status of an INSERT.

        Raises:
            ConfigurationError: The statement was none.
        """
        if self.pipeline is None:
            raise ConfigurationError("only an INSERT has a status")
        return self.pipeline.status()
