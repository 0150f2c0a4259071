# SPDX-License-Identifier: Apache-2.0
"""Abilities of sinks: scarce transactions, lost data, and replaced partitions."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa

    from connectors_core.sink.sink import Sink


class SupportsLeases(ABC):
    """Ability of a committer: the driver leases resources to the writers of an epoch.

    Some targets take a name away from its holder when another client takes it, such as Kafka with
    transactional ids. Two attempts must never share such a name, and Spark's attempt numbers do not
    distinguish attempts, because they restart at 0 when a stage runs again. The driver therefore
    leases a pool, and each attempt claims its own part with ``WriterInitContext.claim``.
    """

    @abstractmethod
    def lease(self, checkpoint_id: int, number_of_writers: int) -> Any:
        """Return the resources for the writers of this epoch. Driver.

        The core calls this before each job that writes the epoch, including a job that writes it
        again after a driver failure or a lost committable. By then, everything decided earlier is
        committed or lost, and swept; see :class:`~connectors_core.sink.Committer`. A job runs more
        attempts than it has writers: retries and speculative copies.

        Args:
            checkpoint_id: The epoch.
            number_of_writers: Tasks of the job; a task without rows creates no writer.

        Returns:
            A picklable value, which all writers of the job get as
            ``WriterInitContext.lease``.

        Raises:
            RetryableError: The target is unreachable; Spark's query fails and can be
                restarted.
        """


class SupportsCommittedEpoch(ABC):
    """Ability of a committer: the target tells the newest epoch that was committed to it.

    State that was restored from a backup can be older than the output. The pipeline then writes
    rows again, and warns before it does so.
    """

    @abstractmethod
    def newest_committed_epoch(self) -> int | None:
        """Return the newest epoch of this pipeline and sink in the target; None if none is known.

        Called once, after `Committer.recover`. Driver.

        Raises:
            RetryableError: The target is unreachable; the pipeline fails and can be restarted.
        """

    def epoch_committed(self, checkpoint_id: int) -> None:
        """Keep the number of an epoch in the target, unless its commit does. Driver.

        All committables of the epoch are committed. An earlier driver that was frozen may keep an
        older number afterward.
        """


class SupportsRewriting:
    """Ability of a two-phase sink: rewrites data that is lost after the decision.

    Some targets drop prepared data, such as Kafka when a transaction exceeds its timeout. The
    committer reports this with ``CommitRequest.signal_lost``. A new writer of the same epoch and
    subtask then writes the rows again, and its committable durably replaces the lost one before it
    is committed.

    Such a sink creates at most one committable per writer, has no pre-commit topology, and writes
    the same output for the same rows.
    """


class SupportsOverwrite(ABC):
    """Ability of a sink: the rows of a batch run replace earlier ones (Flink's SupportsOverwrite).

    The planner of ``INSERT OVERWRITE`` calls it before it plans the query, so that a query can read
    the rows that it replaces.
    """

    @abstractmethod
    def apply_overwrite(self, partition: Mapping[str, pa.Scalar]) -> Sink:
        """Return a sink whose run replaces rows that the target has now. Driver.

        The commit of the run removes the replaced rows, never earlier. Rows that others add
        meanwhile stay.

        Args:
            partition: The values of all partition columns: the partition to replace, even if the
                run has no rows. Empty to replace the partitions that receive rows, or all rows of a
                target without partitions.
        """


class SupportsPartitioning(ABC):
    """Ability of a sink: stores rows by partition columns (Flink's SupportsPartitioning)."""

    @abstractmethod
    def partition_columns(self) -> Sequence[str]:
        """Return the columns whose values determine the partition of a row; none without any."""
