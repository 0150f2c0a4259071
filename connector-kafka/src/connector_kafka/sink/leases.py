# SPDX-License-Identifier: Apache-2.0
"""The pool of transactional IDs of a sink, which leases them to writers and revokes them."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from typing import Final

from connector_kafka.client.transactions import ProducerIdentity, TransactionClient
from connector_kafka.sink.transactional_ids import SinkTransactions, TransactionalId

__all__ = ["TransactionLease", "TransactionPool"]

_FRESH_SECONDS: Final = 3600.0
# Kafka's names of the states in which an ID has no open transaction.
_OVER: Final = frozenset({"Empty", "CompleteCommit", "CompleteAbort", "Dead"})


@dataclass(frozen=True, kw_only=True)
class TransactionLease:
    """The lease of one epoch's writers, created on the driver and read on executors.

    Attributes:
        checkpoint_id: The epoch.
        incarnation: The driver that grants the lease. Its number is part of the IDs.
        identities: For each writer, the identities under its transactional IDs, by slot. Each is
            valid for one transaction of one attempt.
    """

    checkpoint_id: int
    incarnation: int
    identities: tuple[tuple[ProducerIdentity, ...], ...]


@dataclass(eq=False, repr=False)
class TransactionPool:
    """Leases the IDs of a sink's writers. Driver, one thread.

    Initializing an ID gives it a new epoch, fences the holder of the old one, and aborts the
    holder's open transaction. So one operation ends an epoch's losers, keeps out zombies, and
    prepares the next lease. A writer never initializes an ID, because that could abort a decided
    transaction.

    A driver initializes its own IDs and those of earlier drivers, never those of a later one. So a
    driver that was presumed dead but still runs cannot end its successor's transactions.

    Args:
        names: The names of the IDs.
        incarnation: The number of this driver.
        size: The number of IDs per writer.
        client: The client for the coordinators.
        timeout_ms: The age in milliseconds at which brokers abort a transaction.
        forgotten_after: The seconds after which brokers forget an unused ID
            (`transactional.id.expiration.ms`).
        clock: Seconds of a monotonic clock.
    """

    names: SinkTransactions
    _: KW_ONLY
    incarnation: int
    size: int
    client: TransactionClient
    timeout_ms: int
    forgotten_after: float = 7 * 86_400.0
    clock: Callable[[], float] = time.monotonic

    def __post_init__(self) -> None:
        self._fresh: dict[str, tuple[ProducerIdentity, float]] = {}
        self._handed_out: set[str] = set()
        self._discovered = False

    def lease(self, checkpoint_id: int, number_of_writers: int) -> TransactionLease:
        """Lease the IDs of all writers of an epoch.

        Raises:
            KafkaRetryableError: The coordinators do not respond.
            ConfigurationError: The coordinators reject the IDs.
        """
        ids = [
            self.names.transactional_id(subtask, self.incarnation, slot)
            for subtask in range(number_of_writers)
            for slot in range(self.size)
        ]
        self.renew()
        oldest = self.clock() - min(_FRESH_SECONDS, self.forgotten_after / 2)
        self._initialise([i for i in ids if i not in self._fresh or self._fresh[i][1] < oldest])
        self._handed_out.update(ids)
        identities = [self._fresh.pop(each)[0] for each in ids]
        return TransactionLease(
            checkpoint_id=checkpoint_id,
            incarnation=self.incarnation,
            identities=tuple(
                tuple(identities[first : first + self.size])
                for first in range(0, len(ids), self.size)
            ),
        )

    def renew(self) -> None:
        """Revoke all leases: fence the holders and abort their open transactions.

        A driver's first call also revokes the leases of former drivers, and at least one ID, so
        that a cluster that rejects the IDs reports it at once.
        """
        if not self._discovered:
            # The others' IDs first: an ID of a driver shows that it has fenced the drivers before
            # it.
            self.fence_others()
            self._handed_out.add(self.names.transactional_id(0, self.incarnation, 0))
            self._discovered = True
        self._initialise(sorted(self._handed_out))

    def fence_others(self) -> None:
        """Fence the writers of former drivers, and abort their open transactions."""
        self._fence(self._left_by_others())

    def _left_by_others(self) -> list[str]:
        """Return the IDs of the previous driver, and older ones with an open transaction.

        The successor of each older driver has already fenced its other IDs. Initializing them again
        would keep brokers from ever forgetting them.
        """
        found = [
            (parsed, each.state)
            for each in self.client.list_transactions()
            if (parsed := self.names.own(each.transactional_id)) is not None
            and parsed.incarnation <= self.incarnation
        ]
        earlier = {each.incarnation for each, _ in found} - {self.incarnation}
        last = max(earlier, default=self.incarnation)
        return sorted(
            each.name for each, state in found if each.incarnation >= last or state not in _OVER
        )

    def _fence(self, ids: list[str]) -> None:
        self.client.init_producer_ids(ids, timeout_ms=self.timeout_ms)

    def renew_writer(self, transactional_id: TransactionalId) -> None:
        """Revoke all IDs of one writer, whether this driver leased them or not.

        Args:
            transactional_id: One of them. At the time of its lease, the pool may have been larger
                and the prefix different.
        """
        name = transactional_id
        stem = name.name.removesuffix(str(name.slot))
        ids = {f"{stem}{slot}" for slot in range(max(self.size, name.slot + 1))}
        for each in self.client.list_transactions():
            parsed = TransactionalId.parse(each.transactional_id)
            if parsed is None or parsed.writer != name.writer or each.state in _OVER:
                continue
            if parsed.incarnation <= self.incarnation:
                ids.add(parsed.name)
        own = {each for each in ids if self._is_own(each)}
        self._fence(sorted(ids - own))
        self._initialise(sorted(own))

    def _is_own(self, name: str) -> bool:
        parsed = self.names.own(name)
        return parsed is not None and name == self.names.transactional_id(
            parsed.subtask_id, self.incarnation, parsed.slot
        )

    def _initialise(self, ids: list[str]) -> None:
        now = self.clock()
        given = self.client.init_producer_ids(ids, timeout_ms=self.timeout_ms)
        self._fresh.update({each: (identity, now) for each, identity in given.items()})
        self._handed_out.difference_update(ids)
