# SPDX-License-Identifier: Apache-2.0
"""Tests transactions when attempts, drivers, or brokers fail."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pyarrow as pa
import pytest
from kafka_sink_suites import open_transactions, read_committed

from connector_kafka import KafkaRecordSerializationSchema, KafkaSink
from connector_kafka.errors import KafkaFatalError
from connector_kafka.sink import KafkaCommittable
from connector_kafka.testing import KafkaBroker
from connectors_core.errors import ConfigurationError, FatalError, InvalidOptionError
from connectors_core.records import RecordErrorHandler, RecordPolicy
from connectors_core.sink import (
    CommitOutcome,
    CommitRequest,
    CommitterInitContext,
    DeliveryGuarantee,
    WriterInitContext,
)

PIPELINE = "0123456789abcdef0123456789abcdef"  # pragma: allowlist secret
SCHEMA = pa.schema([("value", pa.binary())])


class Driver:
    """One run of a driver, and the attempts that it starts."""

    def __init__(
        self, broker: KafkaBroker, topic: str, *, incarnation: int = 0, **settings: Any
    ) -> None:
        self._broker, self._topic = broker, topic
        self._sink = KafkaSink(
            broker.bootstrap_servers,
            serialization=KafkaRecordSerializationSchema(topic=topic),
            delivery_guarantee=DeliveryGuarantee.EXACTLY_ONCE,
            **{"transactional_id_prefix": topic} | settings,
        )
        context = CommitterInitContext(
            pipeline_id=PIPELINE, sink_uid="out", incarnation=incarnation
        )
        self.committer: Any = self._sink.create_committer(context)
        self._lease: Any = None
        self._claimed: set[str] = set()

    def start(self) -> Driver:
        self.committer.recover(-1)
        return self

    def begin(self, epoch: int, writers: int = 1) -> None:
        self._lease = self.committer.lease(epoch, writers)
        self._claimed = set()

    def writer(self, epoch: int, subtask: int = 0) -> Any:
        return self._sink.create_writer(
            WriterInitContext(
                pipeline_id=PIPELINE,
                sink_uid="out",
                checkpoint_id=epoch,
                subtask_id=subtask,
                attempt_number=0,
                nonce="0",
                schema=SCHEMA,
                record_errors=RecordErrorHandler(RecordPolicy.fail()),
                lease=self._lease,
                claim=self._claim,
            )
        )

    def prepare(self, epoch: int, *values: bytes, subtask: int = 0) -> KafkaCommittable:
        writer = self.writer(epoch, subtask)
        writer.write(rows(*values))
        writer.flush()
        (committable,) = writer.prepare_commit()
        writer.close()
        return committable

    def begin_and_prepare(self, epoch: int, *values: bytes) -> KafkaCommittable:
        self.begin(epoch)
        return self.prepare(epoch, *values)

    def commit(self, *committables: KafkaCommittable) -> list[CommitOutcome]:
        requests = [CommitRequest(each) for each in committables]
        self.committer.commit(requests)
        return [request.outcome for request in requests]

    def committed(self) -> list[bytes | None]:
        """Return the values that a consumer of committed records reads from the topic."""
        return read_committed(self._broker, self._topic)

    def open_transactions(self) -> list[str]:
        return open_transactions(self._broker, self._topic)

    def _claim(self, name: str) -> bool:
        is_first = name not in self._claimed
        self._claimed.add(name)
        return is_first


Life = Callable[..., Driver]


def rows(*values: bytes) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"value": list(values)}, schema=SCHEMA)


@pytest.fixture
def life(broker: KafkaBroker, topic: str) -> Iterator[Life]:
    """Return a function that starts another run of the driver."""
    lives: list[Driver] = []

    def begin(*, starts: bool = True, **settings: Any) -> Driver:
        lives.append(Driver(broker, topic, **settings))
        return lives[-1].start() if starts else lives[-1]

    yield begin
    for each in lives:
        each.committer.close()


def test_only_the_chosen_one_of_two_attempts_is_visible(life: Life) -> None:
    driver = life()
    driver.begin(0)
    winner, loser = driver.prepare(0, b"a"), driver.prepare(0, b"a")
    assert winner.transactional_id != loser.transactional_id
    assert driver.commit(winner) == [CommitOutcome.COMMITTED]
    driver.committer.sweep(0)
    driver.begin(1)
    assert driver.open_transactions() == []
    assert driver.committed() == [b"a"]


def test_a_driver_that_resumes_late_does_not_harm_its_successor(life: Life) -> None:
    frozen = life(incarnation=1)
    decided = frozen.begin_and_prepare(0, b"decided")
    # The first driver freezes here, after its decision, and a second driver takes over.
    successor = life(incarnation=2, starts=False)
    assert successor.commit(decided) == [CommitOutcome.COMMITTED]
    successor.start().begin(2)
    prepared = successor.prepare(2, b"of the successor")
    # The first driver resumes, and does everything that it could have been about to do.
    began = time.monotonic()
    assert frozen.commit(decided) == [CommitOutcome.RETRY], "the receipt may still change"
    assert time.monotonic() - began < 20, "it looks at its lease before it asks again"
    frozen.committer.sweep(0)
    frozen.start().begin(1)
    frozen.prepare(1, b"too late")
    assert successor.commit(prepared) == [CommitOutcome.COMMITTED]
    assert successor.commit(prepared) == [CommitOutcome.COMMITTED]
    assert frozen.commit(decided) == [CommitOutcome.ALREADY_COMMITTED]
    assert successor.commit(successor.begin_and_prepare(3, b"next")) == [CommitOutcome.COMMITTED]
    # The late transaction stays open until its timeout, or until the next driver starts.
    life(incarnation=3)
    assert successor.open_transactions() == []
    assert successor.committed() == [b"decided", b"of the successor", b"next"]


def test_an_attempt_without_a_free_transactional_id_is_refused(life: Life) -> None:
    driver = life(transaction_pool_size=1)
    driver.begin(0)
    driver.prepare(0, b"a")
    with pytest.raises(ConfigurationError) as refused:
        driver.writer(0)
    assert refused.value.option == "sink.transaction-pool-size"


def test_an_attempt_with_the_lease_of_another_epoch_is_refused(life: Life) -> None:
    driver = life()
    driver.begin(0)
    with pytest.raises(FatalError, match="lease"):
        driver.writer(1)


def test_a_flushed_writer_refuses_more_rows(life: Life) -> None:
    driver = life()
    driver.begin(0)
    writer = driver.writer(0)
    writer.write(rows(b"a"))
    writer.flush()
    with pytest.raises(FatalError):
        writer.write(rows(b"late"))
    driver.commit(*writer.prepare_commit())
    assert driver.committed() == [b"a"]


def test_a_new_driver_fences_the_writers_of_the_previous_driver(life: Life) -> None:
    former = life()
    former.begin(0)
    zombie, late = former.writer(0), former.writer(0)
    zombie.write(rows(b"zombie"))
    driver = life()
    winner = driver.begin_and_prepare(0, b"a")
    with pytest.raises(KafkaFatalError):
        zombie.flush()
    with pytest.raises(KafkaFatalError):  # its transaction begins only now
        late.write(rows(b"late"))
    zombie.close()
    late.close()
    assert driver.commit(winner) == [CommitOutcome.COMMITTED]
    assert driver.committed() == [b"a"]


def test_a_replaced_driver_cannot_commit_its_prepared_transactions(life: Life) -> None:
    former = life()
    prepared = former.begin_and_prepare(0, b"former")
    life()
    assert former.commit(prepared) == [CommitOutcome.LOST]
    assert former.committed() == []


def test_the_rows_of_lost_transactions_are_rewritten_exactly_once(life: Life) -> None:
    driver = life()
    driver.begin(0, writers=2)
    kept, lost = driver.prepare(0, b"a"), driver.prepare(0, b"b", subtask=1)
    driver.committer.recover(-1)  # aborts both transactions, as their timeout would
    assert driver.commit(kept, lost) == [CommitOutcome.LOST] * 2
    driver.begin(0, writers=2)
    again = driver.prepare(0, b"a"), driver.prepare(0, b"b", subtask=1)
    assert driver.commit(*again) == [CommitOutcome.COMMITTED] * 2
    assert sorted(driver.committed()) == [b"a", b"b"]


def test_a_receipt_proves_that_a_previous_driver_committed(life: Life) -> None:
    former = life()
    prepared = former.begin_and_prepare(7, b"a")
    former.commit(prepared)
    driver = life()  # its fencing makes the broker forget the transaction
    assert driver.commit(prepared) == [CommitOutcome.ALREADY_COMMITTED]
    assert driver.commit(driver.begin_and_prepare(8, b"b")) == [CommitOutcome.COMMITTED]
    assert driver.committed() == [b"a", b"b"]


def test_a_receipt_is_found_after_the_prefix_and_the_receipts_topic_change(
    topic: str, life: Life
) -> None:
    former = life()
    prepared = former.begin_and_prepare(7, b"a")
    former.commit(prepared)
    life()
    driver = life(transactional_id_prefix=f"other-{topic}", receipts_topic=f"receipts-{topic}")
    assert driver.commit(prepared) == [CommitOutcome.ALREADY_COMMITTED]
    assert driver.committed() == [b"a"]


def test_a_repeated_commit_changes_nothing(life: Life) -> None:
    driver = life()
    prepared = driver.begin_and_prepare(0, b"a")
    for _ in range(2):
        assert driver.commit(prepared) == [CommitOutcome.COMMITTED]
    assert driver.committed() == [b"a"]


def test_a_receipt_that_may_have_expired_is_not_trusted(life: Life) -> None:
    driver = life()
    prepared = driver.begin_and_prepare(0, b"a")
    driver.committer.recover(-1)
    long_ago = dataclasses.replace(prepared, prepared_at=prepared.prepared_at - timedelta(days=8))
    request = CommitRequest(long_ago)
    driver.committer.commit([request])
    assert request.outcome is CommitOutcome.FAILED
    assert "offsets.retention.minutes" in str(request.error)


def test_a_timeout_above_the_maximum_of_the_broker_is_refused_at_start(life: Life) -> None:
    with pytest.raises(InvalidOptionError) as refused:
        life(properties={"transaction.timeout.ms": 3_600_000})
    assert refused.value.option == "properties.transaction.timeout.ms"
    assert "900000" in (refused.value.expected or "")


def test_the_number_of_writers_can_change_between_epochs(life: Life) -> None:
    driver = life()
    for epoch, writers in enumerate((1, 3, 2)):
        driver.begin(epoch, writers)
        prepared = [driver.prepare(epoch, b"%d" % epoch, subtask=each) for each in range(writers)]
        assert driver.commit(*prepared) == [CommitOutcome.COMMITTED] * writers
        driver.committer.sweep(epoch)
    assert sorted(driver.committed()) == [b"0", b"1", b"1", b"1", b"2", b"2"]


@pytest.mark.slow
def test_a_transaction_is_lost_after_its_timeout(life: Life) -> None:
    driver = life(properties={"transaction.timeout.ms": 1000})
    prepared = driver.begin_and_prepare(0, b"a")
    deadline = time.monotonic() + 40  # the broker checks timeouts every ten seconds
    while driver.open_transactions() and time.monotonic() < deadline:
        time.sleep(0.2)
    assert driver.commit(prepared) == [CommitOutcome.LOST]
    assert driver.commit(driver.begin_and_prepare(0, b"a")) == [CommitOutcome.COMMITTED]
    assert driver.committed() == [b"a"]


@pytest.mark.slow
def test_prepared_transactions_survive_a_killed_broker(broker: KafkaBroker, life: Life) -> None:
    driver = life()
    prepared = driver.begin_and_prepare(0, b"a")
    broker.kill()
    broker.start()
    assert driver.commit(prepared) == [CommitOutcome.COMMITTED]
    driver.committer.sweep(0)
    assert driver.commit(driver.begin_and_prepare(1, b"b")) == [CommitOutcome.COMMITTED]
    assert driver.committed() == [b"a", b"b"]
