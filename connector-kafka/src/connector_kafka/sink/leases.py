# SPDX-License-Identifier: Apache-2.0
"""The pool of transactional ids of a sink: who may write under which of them, and when no more."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from connector_kafka.client.transactions import ProducerIdentity, TransactionClient
from connector_kafka.sink.transactional_ids import SinkTransactions, TransactionalId

__all__ = ["TransactionLease", "TransactionPool"]

# Brokers forget an id that nobody used for a week (`transactional.id.expiration.ms`).
_FRESH_SECONDS: Final = 3600.0


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
        clock: Seconds of a monotonic clock.
    """

    def __init__(
        self,
        names: SinkTransactions,
        *,
        size: int,
        client: TransactionClient,
        timeout_ms: int,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._names = names
        self._size = size
        self._client = client
        self._timeout_ms = timeout_ms
        self._clock = clock
        self._fresh: dict[str, tuple[ProducerIdentity, float]] = {}
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
        oldest = self._clock() - _FRESH_SECONDS
        self._initialise([i for i in ids if i not in self._fresh or self._fresh[i][1] < oldest])
        self._handed_out.update(ids)
        identities = [self._fresh.pop(each)[0] for each in ids]
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
                if self._names.include(each.transactional_id)
            )
            self._discovered = True
        self._initialise(sorted(self._handed_out))

    def renew_writer(self, transactional_id: TransactionalId) -> None:
        """Take back all ids of one writer, whether this driver handed them out or not.

        Args:
            transactional_id: One of them. When it was handed out, the pool may have been larger
                and the prefix another one.
        """
        slots = range(max(self._size, transactional_id.slot + 1))
        self._initialise([f"{transactional_id.writer}-{slot}" for slot in slots])

    def _initialise(self, ids: list[str]) -> None:
        now = self._clock()
        given = self._client.init_producer_ids(ids, timeout_ms=self._timeout_ms)
        self._fresh.update({each: (identity, now) for each, identity in given.items()})
        self._handed_out.difference_update(ids)
