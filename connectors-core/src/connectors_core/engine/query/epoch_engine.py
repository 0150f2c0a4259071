# SPDX-License-Identifier: Apache-2.0
"""What runs the rows of an epoch: Spark, or a test's own process."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeVar

from connectors_core.engine.execution.writer_task import Leases, WriterMessage, WriteTask
from connectors_core.engine.protocol import Entry

BatchT = TypeVar("BatchT", contravariant=True)


class EpochEngine(Protocol[BatchT]):
    """Runs the rows of an epoch in tasks. Driver."""

    def write(self, batch: BatchT, task: WriteTask, leases: Leases) -> list[WriterMessage]:
        """Write a batch with the writers of the task's sinks.

        Written again, the rows are in the same subtasks as before.

        Args:
            batch: The rows.
            task: The epoch and its sinks.
            leases: For the sinks that need one; asked once the number of writers is known.

        Returns:
            The messages of the attempts that won, one of each task for each sink.
        """
        ...

    def drain(self, batch: BatchT) -> None:
        """Run a batch and throw its rows away."""
        ...

    def read(self, entries: Sequence[Entry]) -> None:
        """Read entries for their reports, and throw their rows away."""
        ...
