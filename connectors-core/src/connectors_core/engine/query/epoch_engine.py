# SPDX-License-Identifier: Apache-2.0
"""The interface to the engine that runs an epoch: Spark, or the process of a test."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol, TypeVar

from connectors_core.engine.execution.commit_task import CommitMessage, CommitTask
from connectors_core.engine.execution.compactor_task import CompactMessage, CompactTask
from connectors_core.engine.execution.writer_task import Leases, WriterMessage, WriteTask
from connectors_core.engine.protocol import Entry

BatchT = TypeVar("BatchT", contravariant=True)


class EpochEngine(Protocol[BatchT]):
    """Runs the rows of an epoch in tasks. Driver."""

    def write(self, batch: BatchT, task: WriteTask, leases: Leases) -> list[WriterMessage]:
        """Write a batch with the writers of the task's sinks.

        If a batch is written again, its rows are in the same subtasks as before.

        Args:
            batch: The rows.
            task: The epoch and its sinks.
            leases: Leases for the sinks that use them; called when the number of writers is known.

        Returns:
            The messages of the successful attempts: one per task and sink.
        """
        ...

    def drain(self, batch: BatchT) -> Mapping[str, int]:
        """Run a batch and discard its rows.

        Returns:
            The number of rows of each sink with inputs of Spark; see `SinkSettings`.
        """
        ...

    def read(self, entries: Sequence[Entry]) -> None:
        """Read entries to create their reports; discard their rows."""
        ...

    def compact(self, task: CompactTask) -> list[CompactMessage]:
        """Run compaction requests, on a thread of their own, next to epochs."""
        ...

    def commit(self, task: CommitTask) -> list[CommitMessage]:
        """Commit requests in tasks, each with a share of them."""
        ...

    def cancel_compactions(self) -> None:
        """Cancel running compactions. From any thread."""
        ...
