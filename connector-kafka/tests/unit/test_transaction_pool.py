# SPDX-License-Identifier: Apache-2.0
"""Tests when the pool initializes each transactional ID."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

from connector_kafka.client.transactions import ListedTransaction, ProducerIdentity
from connector_kafka.sink.leases import TransactionPool
from connector_kafka.sink.transactional_ids import SinkTransactions, TransactionalId

PIPELINE = "0123456789abcdef0123456789abcdef"  # pragma: allowlist secret
NAMES = SinkTransactions(prefix="p", pipeline_id=PIPELINE, sink_uid="out")


class Coordinators:
    """Coordinators that hand out epochs and remember the requested IDs."""

    def __init__(self, *listed: str, over: Sequence[str] = ()) -> None:
        self.asked: list[str] = []
        self._listed = dict.fromkeys(listed, "Ongoing") | dict.fromkeys(over, "CompleteCommit")
        self._epochs = itertools.count()

    def list_transactions(self) -> list[ListedTransaction]:
        return [
            ListedTransaction(transactional_id=each, producer_id=0, state=state)
            for each, state in self._listed.items()
        ]

    def init_producer_ids(
        self, transactional_ids: Sequence[str], *, timeout_ms: int
    ) -> dict[str, ProducerIdentity]:
        self.asked += transactional_ids
        return {each: ProducerIdentity(0, next(self._epochs)) for each in transactional_ids}


def pool(client: Any, now: list[float]) -> TransactionPool:
    return TransactionPool(
        NAMES, incarnation=5, size=2, client=client, timeout_ms=1, clock=lambda: now[0]
    )


def test_each_lease_of_an_id_has_a_new_producer_epoch() -> None:
    client, now = Coordinators(), [0.0]
    leases = pool(client, now)
    first, second = (leases.lease(epoch, 2).identities for epoch in (0, 1))
    assert not {*itertools.chain(*first)} & {*itertools.chain(*second)}


def test_an_id_that_brokers_may_have_forgotten_is_initialized_again() -> None:
    client, now = Coordinators(), [0.0]
    leases = pool(client, now)
    leases.lease(0, 1)
    leases.renew()
    client.asked.clear()
    now[0] = 8 * 86_400.0
    leases.lease(1, 1)
    assert sorted(client.asked) == [NAMES.transactional_id(0, 5, slot) for slot in (0, 1)]


def test_ids_are_initialized_again_before_brokers_with_a_short_memory_forget_them() -> None:
    client, now = Coordinators(), [0.0]
    leases = pool(client, now)
    leases.forgotten_after = 60.0
    leases.lease(0, 1)
    leases.renew()
    client.asked.clear()
    now[0] = 31.0
    leases.lease(1, 1)
    assert sorted(client.asked) == [NAMES.transactional_id(0, 5, slot) for slot in (0, 1)]


def test_only_ids_of_previous_drivers_of_the_same_sink_are_taken_over() -> None:
    left = [NAMES.transactional_id(7, 4, 3), NAMES.transactional_id(7, 5, 1)]
    before = f"p-{PIPELINE}-out-2-0"  # the naming scheme of releases before 3.0
    former_prefix = f"q-{PIPELINE}-out-0-1"
    others = [f"p-{PIPELINE}-out-1-0-0", "of-somebody"]
    client = Coordinators(*left, before, former_prefix, *others)
    pool(client, [0.0]).renew()
    assert client.asked == [
        *sorted([*left, before, former_prefix]),
        NAMES.transactional_id(0, 5, 0),
    ]


def test_completed_ids_older_than_the_previous_driver_are_left_to_expire() -> None:
    older, last = NAMES.transactional_id(0, 2, 0), NAMES.transactional_id(0, 4, 0)
    client = Coordinators(over=[older, last])
    pool(client, [0.0]).renew()
    assert client.asked == [last, NAMES.transactional_id(0, 5, 0)]


def test_ids_of_a_later_driver_are_not_initialized() -> None:
    client = Coordinators(*(NAMES.transactional_id(0, 6, slot) for slot in range(3)))
    leases = pool(client, [0.0])
    leases.renew()
    leases.lease(0, 2)
    name = TransactionalId.parse(NAMES.transactional_id(0, 5, 0))
    assert name is not None
    leases.renew_writer(name)
    leases.renew()
    assert {NAMES.own(each).incarnation for each in client.asked} == {5}


def test_all_open_transactions_of_a_writer_are_fenced_when_it_is_renewed() -> None:
    other = NAMES.transactional_id(1, 4, 0)
    open_ids = [NAMES.transactional_id(0, 3, 9), f"p-{PIPELINE}-out-0-7"]
    client = Coordinators(*open_ids, other)
    leases = pool(client, [0.0])
    name = TransactionalId.parse(NAMES.transactional_id(0, 4, 0))
    assert name is not None
    leases.renew_writer(name)
    own_slots = [NAMES.transactional_id(0, 4, slot) for slot in (0, 1)]
    assert sorted(client.asked) == sorted([*open_ids, *own_slots])
