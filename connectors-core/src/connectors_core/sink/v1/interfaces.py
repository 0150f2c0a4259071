# SPDX-License-Identifier: Apache-2.0
"""The interfaces of Sink V1 (Flink's FLIP-143, as of Flink 1.14)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, Never, TypeVar

import pyarrow as pa

from connectors_core.errors import UnsupportedError
from connectors_core.metrics import MetricGroup
from connectors_core.serialization import VersionedSerializer

CommT = TypeVar("CommT")
WriterStateT = TypeVar("WriterStateT")
GlobalCommT = TypeVar("GlobalCommT")


@dataclass(frozen=True, kw_only=True)
class InitContext:
    """Deprecated since 1.1.0, removed in 2.0.0: the context of a writer. Executor.

    Attributes:
        subtask_id: Number of the writer in the epoch, from 0.
        metric_group: Metrics of this writer.
    """

    subtask_id: int
    metric_group: MetricGroup


class WriterContext:
    """Deprecated since 1.1.0, removed in 2.0.0: the context of a batch. Executor.

    A batch has many event times, and no watermark reaches a writer, so both methods refuse.
    """

    def timestamp(self) -> Never:
        """Refuse.

        Raises:
            UnsupportedError: Always.
        """
        raise UnsupportedError(
            "a batch has no single timestamp",
            hint="read the event times from their column in the batch",
        )

    def current_watermark(self) -> Never:
        """Refuse.

        Raises:
            UnsupportedError: Always.
        """
        raise UnsupportedError(
            "no watermark reaches a writer",
            hint="read the event times from their column in the batch",
        )


class Writer(ABC, Generic[CommT, WriterStateT]):
    """Deprecated since 1.1.0, removed in 2.0.0: writes the rows of one task of one epoch. Executor.

    Flink's name is `SinkWriter`, and `Writer` in FLIP-143.
    """

    @abstractmethod
    def write(self, element: pa.RecordBatch, context: WriterContext) -> None:
        """Take a batch of rows. In Flink, an element is one record.

        Args:
            element: The rows, at least one.
            context: Refuses what only a single record has.
        """

    @abstractmethod
    def prepare_commit(self, flush: bool) -> Sequence[CommT]:
        """Stage all rows, and return the committables.

        A sink without a committer makes its rows durable here, and returns none.

        Args:
            flush: Whether to keep no rows back. Always true, because a writer ends with its epoch.
        """

    def snapshot_state(self, checkpoint_id: int) -> Sequence[WriterStateT]:
        """Return the state for the next writer, after `prepare_commit`.

        The adapter calls this only if the sink has a `writer_state_serializer`.

        Args:
            checkpoint_id: The epoch.
        """
        return []

    @abstractmethod
    def close(self) -> None:
        """Release resources; after a failure, also without `prepare_commit`."""


class Committer(ABC, Generic[CommT]):
    """Deprecated since 1.1.0, removed in 2.0.0: commits the committables of writers. Driver.

    Idempotent, because a restart commits again.
    """

    @abstractmethod
    def commit(self, committables: Sequence[CommT]) -> Sequence[CommT]:
        """Commit, and return the committables to retry.

        Any exception except a `RetryableError` fails the pipeline. The next start commits again.

        Args:
            committables: The committables.

        Returns:
            Those of the given objects that are not committed yet, not copies of them.

        Raises:
            RetryableError: The result is unknown: all are retried.
        """

    @abstractmethod
    def close(self) -> None:
        """Release resources."""


class GlobalCommitter(ABC, Generic[CommT, GlobalCommT]):
    """Deprecated since 1.1.0, removed in 2.0.0: commits an epoch as a whole, after its commits.

    Driver. The adapter creates one for each attempt to commit an epoch, so it must not rely on
    what it keeps in memory. A driver may fail at any point, and its successor combines the same
    committables again.

    Flink's ``endOfInput`` is missing, because the end of the input is no event here. The adapter
    refuses a global committer with a method `end_of_input`.
    """

    @abstractmethod
    def filter_recovered_committables(
        self, global_committables: Sequence[GlobalCommT]
    ) -> Sequence[GlobalCommT]:
        """Return those that are not committed yet.

        The adapter asks before every commit, because a former driver may have failed after it.
        Flink asks only after a restart.
        """

    @abstractmethod
    def combine(self, committables: Sequence[CommT]) -> GlobalCommT:
        """Return what to commit for an epoch.

        Args:
            committables: The committables of its writers, at least one. The committer, if there is
                one, has committed them.
        """

    @abstractmethod
    def commit(self, global_committables: Sequence[GlobalCommT]) -> Sequence[GlobalCommT]:
        """Commit, and return those to retry.

        Raises:
            RetryableError: The result is unknown: the epoch is retried.
        """

    @abstractmethod
    def close(self) -> None:
        """Release resources."""


class Sink(ABC, Generic[CommT, WriterStateT, GlobalCommT]):
    """Deprecated since 1.1.0, removed in 2.0.0: a sink of Sink V1, for `SinkV1Adapter.wrap`.

    Immutable and picklable, because Spark sends it to executors.
    """

    @abstractmethod
    def create_writer(
        self, context: InitContext, states: Sequence[WriterStateT]
    ) -> Writer[CommT, WriterStateT]:
        """Create a writer for one task of one epoch. Executor.

        Several attempts of a task can run at once, so each writer stages under names of its own.

        Args:
            context: The context of the writer.
            states: The states of previous writers; empty for a first epoch, or an additional
                writer.
        """

    def create_committer(self) -> Committer[CommT] | None:
        """Create a committer, or return None if the sink has none. Driver."""
        return None

    def create_global_committer(self) -> GlobalCommitter[CommT, GlobalCommT] | None:
        """Create a global committer, or return None if the sink has none. Driver."""
        return None

    def committable_serializer(self) -> VersionedSerializer[CommT] | None:
        """Return the serializer of committables. Each committer needs it, also a global one."""
        return None

    def global_committable_serializer(self) -> VersionedSerializer[GlobalCommT] | None:
        """Return the serializer of global committables.

        Nothing stores them here: the decision holds the committables to combine.
        """
        return None

    def writer_state_serializer(self) -> VersionedSerializer[WriterStateT] | None:
        """Return the serializer of writer states, or None if writers keep no state."""
        return None
