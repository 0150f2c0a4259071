# SPDX-License-Identifier: Apache-2.0
"""Tests the transaction responses of the broker that the sink relies on."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from kafka import KafkaConsumer, TopicPartition
from kafka_batches import batch_of

from connector_kafka.client.cluster import broker_setting, ensure_topic
from connector_kafka.client.config import PRODUCER_PROPERTIES, ClientConfig
from connector_kafka.client.producer import Producer
from connector_kafka.client.transactions import Transaction, TransactionClient
from connector_kafka.client.wire import Wire
from connector_kafka.errors import KafkaFatalError
from connector_kafka.testing import KafkaBroker

TIMEOUT_MS = 60_000


@pytest.fixture
def config(broker: KafkaBroker) -> ClientConfig:
    return ClientConfig.of({"bootstrap.servers": broker.bootstrap_servers}, PRODUCER_PROPERTIES)


@pytest.fixture
def driver(config: ClientConfig) -> Iterator[TransactionClient]:
    wire = Wire(config)
    yield TransactionClient(wire)
    wire.close()


@pytest.fixture
def producer(config: ClientConfig) -> Iterator[Producer]:
    producer = Producer(config)
    yield producer
    producer.close()


def begun(driver: TransactionClient, name: str, timeout_ms: int = TIMEOUT_MS) -> Transaction:
    return Transaction(name, driver.init_producer_ids([name], timeout_ms=timeout_ms)[name])


def prepare(producer: Producer, transaction: Transaction, topic: str, *values: bytes) -> None:
    """Write rows and a receipt. The receipt is a committed offset of the topic itself."""
    producer.begin(transaction)
    producer.send({(topic, 0): [batch_of(transaction.producer, *values)]})
    producer.flush()
    producer.transactions.commit_offset(
        transaction,
        group=f"{topic}-receipts",
        topic=topic,
        partition=0,
        offset=1,
        metadata="0/0/0",
    )


def visible(broker: KafkaBroker, topic: str) -> list[bytes]:
    consumer = KafkaConsumer(
        bootstrap_servers=broker.bootstrap_servers,
        isolation_level="read_committed",
        auto_offset_reset="earliest",
        consumer_timeout_ms=500,
        group_id=None,
    )
    consumer.assign([TopicPartition(topic, 0)])
    values = [message.value for message in consumer]
    consumer.close()
    return values


def answer(driver: TransactionClient, transaction: Transaction, *, commit: bool = True) -> str:
    (error,) = driver.end([transaction], commit=commit)
    return "NONE" if error is None else error.code.removeprefix("KAFKA_")


def test_another_client_can_commit_a_prepared_transaction(
    broker: KafkaBroker, driver: TransactionClient, producer: Producer, topic: str
) -> None:
    transaction = begun(driver, topic)
    prepare(producer, transaction, topic, b"a", b"b")
    assert visible(broker, topic) == []
    producer.close()
    assert answer(driver, transaction) == "NONE"
    assert answer(driver, transaction) == "NONE", "to say it twice is no error"
    assert answer(driver, transaction, commit=False) == "INVALID_TXN_STATE"
    assert visible(broker, topic) == [b"a", b"b"]
    assert driver.stable_offset(f"{topic}-receipts", topic, 0) == 1


def test_a_new_producer_epoch_aborts_the_open_transaction_and_fences_its_writer(
    broker: KafkaBroker, driver: TransactionClient, producer: Producer, topic: str
) -> None:
    old = begun(driver, topic)
    prepare(producer, old, topic, b"old")
    new = begun(driver, topic)
    assert new.producer.producer_id == old.producer.producer_id
    assert new.producer.epoch > old.producer.epoch
    assert answer(driver, old) == "PRODUCER_FENCED"
    assert driver.stable_offset(f"{topic}-receipts", topic, 0) is None
    producer.send({(topic, 0): [batch_of(old.producer, b"zombie", sequence=1)]})
    with pytest.raises(KafkaFatalError):
        producer.flush()
    assert visible(broker, topic) == []


def test_after_a_new_producer_epoch_only_the_receipt_proves_the_commit(
    driver: TransactionClient, producer: Producer, topic: str
) -> None:
    transaction = begun(driver, topic)
    prepare(producer, transaction, topic, b"a")
    assert answer(driver, transaction) == "NONE"
    begun(driver, topic)
    assert answer(driver, transaction) == "PRODUCER_FENCED"
    assert driver.stable_offset(f"{topic}-receipts", topic, 0) == 1


def test_a_fenced_writer_cannot_begin_a_transaction(
    driver: TransactionClient, producer: Producer, topic: str
) -> None:
    old = begun(driver, topic)
    begun(driver, topic)
    with pytest.raises(KafkaFatalError):
        prepare(producer, old, topic, b"zombie")


def test_many_transactional_ids_are_initialized_at_once(
    driver: TransactionClient, topic: str
) -> None:
    names = [f"{topic}-{number}" for number in range(12)]
    first = driver.init_producer_ids(names, timeout_ms=TIMEOUT_MS)
    again = driver.init_producer_ids(names, timeout_ms=TIMEOUT_MS)
    assert list(first) == names
    assert all(again[name].epoch > first[name].epoch for name in names)
    assert {each.transactional_id for each in driver.list_transactions()} >= set(names)


def test_an_open_transaction_is_described(
    driver: TransactionClient, producer: Producer, topic: str
) -> None:
    transaction = begun(driver, topic)
    prepare(producer, transaction, topic, b"a")
    (found,) = driver.describe_transactions([topic, f"{topic}-unknown"])
    assert found.transaction == transaction
    assert found.state == "Ongoing"
    assert found.started_ms is not None
    assert (topic, 0) in found.partitions


def test_transactions_with_unknown_ids_are_not_committed(
    driver: TransactionClient, topic: str
) -> None:
    known = begun(driver, topic)
    stranger = Transaction(f"{topic}-stranger", known.producer)
    assert answer(driver, stranger) == "INVALID_PRODUCER_ID_MAPPING"
    assert answer(driver, known) == "INVALID_TXN_STATE", "nothing was written"


def test_creating_an_existing_topic_is_not_an_error(config: ClientConfig, topic: str) -> None:
    wire = Wire(config)
    for _ in range(2):
        ensure_topic(wire, f"{topic}-made", settings={"cleanup.policy": "compact"})
    assert int(broker_setting(wire, "offsets.retention.minutes") or 0) > 0
    assert broker_setting(wire, "no.such.setting") is None
    wire.close()
