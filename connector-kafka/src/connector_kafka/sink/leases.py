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
# States of an id under which nothing is open, as Kafka calls them.
_OVER: Final = frozenset({"Empty", "CompleteCommit", "CompleteAbort", "Dead"})


@dataclass(frozen=True, kw_only=True)
class TransactionLease:
    """What the writers of one epoch may use; made on the driver, read on executors.

    Attributes:
        checkpoint_id: The epoch.
        incarnation: The driver that leases; its number is part of the ids.
        identities: For each writer the identities under its transactional ids, by slot. Each is
            good for one transaction of one attempt.
    """

    checkpoint_id: int
    incarnation: int
    identities: tuple[tuple[ProducerIdentity, ...], ...]


class TransactionPool:
    """Leases the ids of a sink's writers; driver, one thread.

    To initialise an id gives it a new epoch, fences whoever had the old one, and aborts what that
    one left open. So one act ends an epoch's losers, keeps zombies out, and prepares the next
    lease. No writer ever initialises an id: it could abort a transaction that was decided on.

    A driver initialises its own ids and those of the drivers before it, never those of a later one:
    whoever was taken for dead and goes on can end nothing that belongs to its successor.

    Args:
        names: How the ids are called.
        incarnation: Number of this driver.
        size: Ids of each writer.
        client: Talks to the coordinators.
        timeout_ms: Age at which brokers abort a transaction, in milliseconds.
        clock: Seconds of a monotonic clock.
    """

    def __init__(
        self,
        names: SinkTransactions,
        *,
        incarnation: int,
        size: int,
        client: TransactionClient,
        timeout_ms: int,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._names = names
        self._incarnation = incarnation
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
            self._names.transactional_id(subtask, self._incarnation, slot)
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
            incarnation=self._incarnation,
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
            # First the others': an id of a driver shows that it has fenced those before it.
            self._fence(self._left_by_others())
            self._handed_out.add(self._names.transactional_id(0, self._incarnation, 0))
            self._discovered = True
        self._initialise(sorted(self._handed_out))

    def _left_by_others(self) -> list[str]:
        """Ids of the driver before this one, and older ones under which something is open.

        Other ids of older drivers were fenced by the one that followed. To initialise them would
        keep brokers from ever forgetting them.
        """
        found = [
            (parsed, each.state)
            for each in self._client.list_transactions()
            if (parsed := self._names.own(each.transactional_id)) is not None
            and parsed.incarnation <= self._incarnation
        ]
        earlier = {each.incarnation for each, _ in found} - {self._incarnation}
        last = max(earlier, default=self._incarnation)
        return sorted(
            each.name for each, state in found if each.incarnation >= last or state not in _OVER
        )

    def _fence(self, ids: list[str]) -> None:
        self._client.init_producer_ids(ids, timeout_ms=self._timeout_ms)

    def renew_writer(self, transactional_id: TransactionalId) -> None:
        """Take back all ids of one writer, whether this driver handed them out or not.

        Args:
            transactional_id: One of them. When it was handed out, the pool may have been larger
                and the prefix another one.
        """
        name = transactional_id
        stem = name.name.removesuffix(str(name.slot))
        ids = {f"{stem}{slot}" for slot in range(max(self._size, name.slot + 1))}
        for each in self._client.list_transactions():
            parsed = TransactionalId.parse(each.transactional_id)
            if parsed is None or parsed.writer != name.writer or each.state in _OVER:
                continue
            if parsed.incarnation <= self._incarnation:
                ids.add(parsed.name)
        own = {each for each in ids if self._is_own(each)}
        self._fence(sorted(ids - own))
        self._initialise(sorted(own))

    def _is_own(self, name: str) -> bool:
        parsed = self._names.own(name)
        return parsed is not None and name == self._names.transactional_id(
            parsed.subtask_id, self._incarnation, parsed.slot
        )

    def _initialise(self, ids: list[str]) -> None:
        now = self._clock()
        given = self._client.init_producer_ids(ids, timeout_ms=self._timeout_ms)
        self._fresh.update({each: (identity, now) for each, identity in given.items()})
        self._handed_out.difference_update(ids)
