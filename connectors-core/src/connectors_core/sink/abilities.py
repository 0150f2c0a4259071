# SPDX-License-Identifier: Apache-2.0
"""Abilities of two-phase sinks whose targets have few transactions or can lose them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any


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


class SupportsRewriting:
    """Ability of a two-phase sink: rewrites data that is lost after the decision.

    Some targets drop prepared data, such as Kafka when a transaction exceeds its timeout. The
    committer reports this with ``CommitRequest.signal_lost``. A new writer of the same epoch and
    subtask then writes the rows again, and its committable durably replaces the lost one before it
    is committed.

    Such a sink creates at most one committable per writer, has no pre-commit topology, and writes
    the same output for the same rows.
    """
