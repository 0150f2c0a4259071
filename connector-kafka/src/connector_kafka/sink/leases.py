# SPDX-License-Identifier: Apache-2.0
"""The pool of transactional ids of a sink: who may write under which of them, and when no more."""

from __future__ import annotations

from dataclasses import dataclass

from connector_kafka.client.transactions import ProducerIdentity, TransactionClient
from connector_kafka.sink.transactional_ids import SinkTransactions

__all__ = ["TransactionLease", "TransactionPool"]


@dataclass(frozen=True, kw_only=True)
class TransactionLease:
    """What the writers of one epoch may use; made on the driver, read on executors.

    Attributes:
        checkpoint_id: The epoch.
        identities: For each writer the identities under its transactional ids, by slot. Each is
            good for one transaction of one attempt.
    """

    checkpoint_id: int
    identities: tuple[tuple[ProducerIdentity, ...], ...]


class TransactionPool:
    """Leases the ids of a sink's writers; driver, one thread.

    To initialise an id gives it a new epoch, fences whoever had the old one, and aborts what that
    one left open. So one act ends an epoch's losers, keeps zombies out, and prepares the next
    lease. No writer ever initialises an id: it could abort a transaction that was decided on.

    Args:
        names: How the ids are called.
        size: Ids of each writer.
        client: Talks to the coordinators.
        timeout_ms: Age at which brokers abort a transaction, in milliseconds.
    """

    def __init__(
        self, names: SinkTransactions, *, size: int, client: TransactionClient, timeout_ms: int
    ) -> None:
        self._names = names
        self._size = size
        self._client = client
        self._timeout_ms = timeout_ms
        self._fresh: dict[str, ProducerIdentity] = {}
        self._handed_out: set[str] = set()
        self._discovered = False

    def lease(self, checkpoint_id: int, number_of_writers: int) -> TransactionLease:
        """Hand out the ids of all writers of an epoch.

        Raises:
            KafkaRetryableError: The coordinators do not answer.
            ConfigurationError: They refuse.
        """
        ids = [
            self._names.transactional_id(subtask, slot)
            for subtask in range(number_of_writers)
            for slot in range(self._size)
        ]
        self.renew()
        self._initialise([each for each in ids if each not in self._fresh])
        self._handed_out.update(ids)
        identities = [self._fresh.pop(each) for each in ids]
        return TransactionLease(
            checkpoint_id=checkpoint_id,
            identities=tuple(
                tuple(identities[first : first + self._size])
                for first in range(0, len(ids), self._size)
            ),
        )

    def renew(self) -> None:
        """Take back all that was handed out: fence its holders, abort what they left open.

        The first time in the life of a driver also what former drivers handed out, and one id at
        least, so that a cluster that refuses them says so at once.
        """
        if not self._discovered:
            self._handed_out.add(self._names.transactional_id(0, 0))
            self._handed_out.update(
                each.transactional_id
                for each in self._client.list_transactions()
                if self._names.place(each.transactional_id) is not None
            )
            self._discovered = True
        self._initialise(sorted(self._handed_out))

    def renew_writer(self, subtask_id: int, *, at_least: int = 0) -> None:
        """Take back the ids of one writer, whether this driver handed them out or not.

        Args:
            subtask_id: The writer.
            at_least: A slot to be taken back even if the pool is smaller now.
        """
        slots = range(max(self._size, at_least + 1))
        self._initialise([self._names.transactional_id(subtask_id, slot) for slot in slots])

    def _initialise(self, ids: list[str]) -> None:
        self._fresh.update(self._client.init_producer_ids(ids, timeout_ms=self._timeout_ms))
        self._handed_out.difference_update(ids)
