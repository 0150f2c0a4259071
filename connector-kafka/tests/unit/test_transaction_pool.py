# SPDX-License-Identifier: Apache-2.0
"""Which transactional ids are initialised when."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

from connector_kafka.client.transactions import ListedTransaction, ProducerIdentity
from connector_kafka.sink.leases import TransactionPool
from connector_kafka.sink.transactional_ids import SinkTransactions

PIPELINE = "0123456789abcdef0123456789abcdef"  # pragma: allowlist secret
NAMES = SinkTransactions(prefix="p", pipeline_id=PIPELINE, sink_uid="out")


class Coordinators:
    """Give epochs, and remember for which ids they were asked."""

    def __init__(self, *listed: str) -> None:
        self.asked: list[str] = []
        self._listed = listed
        self._epochs = itertools.count()

    def list_transactions(self) -> list[ListedTransaction]:
        return [
            ListedTransaction(transactional_id=each, producer_id=0, state="Ongoing")
            for each in self._listed
        ]

    def init_producer_ids(
        self, transactional_ids: Sequence[str], *, timeout_ms: int
    ) -> dict[str, ProducerIdentity]:
        self.asked += transactional_ids
        return {each: ProducerIdentity(0, next(self._epochs)) for each in transactional_ids}


def pool(client: Any, now: list[float]) -> TransactionPool:
    return TransactionPool(NAMES, size=2, client=client, timeout_ms=1, clock=lambda: now[0])


def test_an_id_is_leased_with_a_new_epoch_each_time() -> None:
    client, now = Coordinators(), [0.0]
    leases = pool(client, now)
    first, second = (leases.lease(epoch, 2).identities for epoch in (0, 1))
    assert not {*itertools.chain(*first)} & {*itertools.chain(*second)}


def test_an_id_that_brokers_may_have_forgotten_is_initialised_again() -> None:
    client, now = Coordinators(), [0.0]
    leases = pool(client, now)
    leases.lease(0, 1)
    leases.renew()
    client.asked.clear()
    now[0] = 8 * 86_400.0
    leases.lease(1, 1)
    assert sorted(client.asked) == [NAMES.transactional_id(0, slot) for slot in (0, 1)]


def test_what_former_drivers_left_is_taken_back_and_nothing_of_others() -> None:
    own = NAMES.transactional_id(7, 3)
    others = [f"p-{PIPELINE}-out-1-0-0", f"q-{PIPELINE}-out-0-1", "of-somebody"]
    client = Coordinators(own, *others)
    pool(client, [0.0]).renew()
    assert sorted(client.asked) == sorted([NAMES.transactional_id(0, 0), own])
