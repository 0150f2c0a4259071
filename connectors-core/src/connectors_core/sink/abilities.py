# SPDX-License-Identifier: Apache-2.0
"""What a two-phase sink can do when the target's transactions are few, or can be lost."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any


class SupportsLeases(ABC):
    """Ability of a committer: the driver hands out what the writers of an epoch may use.

    For targets in which whoever takes a name takes it away from its holder, as it is with the
    transactional ids of Kafka: two attempts must never share one, and Spark's attempt numbers do
    not tell them apart, since they start again at 0 when a stage is run again. So the driver leases
    a pool, and each attempt takes its own part of it by ``WriterInitContext.claim``.
    """

    @abstractmethod
    def lease(self, checkpoint_id: int, number_of_writers: int) -> Any:
        """What the writers of this epoch may use. Driver.

        Called before each job that writes the epoch, also when it is written again: after a failure
        of the driver, or because a committable was lost. By then all that was decided on before is
        committed or lost, and swept; see :class:`~connectors_core.sink.Committer`. A job runs more
        attempts than it has writers: retries, and speculative copies.

        Args:
            checkpoint_id: The epoch.
            number_of_writers: Tasks of the job; a task without rows makes no writer.

        Returns:
            A picklable value; all writers of the job get it as ``WriterInitContext.lease``.

        Raises:
            RetryableError: The target cannot be reached; Spark's query fails and can be restarted.
        """


class SupportsRewriting:
    """Ability of a two-phase sink: what is lost after the decision is written again.

    For targets that give up what was prepared, as Kafka does with a transaction that waits longer
    than its time-out. The committer says so with ``CommitRequest.signal_lost``; then the rows of
    that writer are written again by a new writer of the same epoch and subtask, and its committable
    takes the place of the lost one, durably, before it is committed.

    Such a sink makes at most one committable per writer, has no pre-commit topology, and writes the
    same for the same rows.
    """
