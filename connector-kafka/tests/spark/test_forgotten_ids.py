# SPDX-License-Identifier: Apache-2.0
"""Tests a quiet pipeline whose transactional IDs the brokers forget."""

from __future__ import annotations

import time

import pytest
from kafka_batches import batch_of

from connector_kafka.client.config import PRODUCER_PROPERTIES, ClientConfig
from connector_kafka.client.producer import Producer
from connector_kafka.client.transactions import Transaction, TransactionClient
from connector_kafka.client.wire import Wire
from connector_kafka.sink.committer import KafkaCommitter
from connector_kafka.sink.receipts import Receipts
from connector_kafka.sink.transactional_ids import SinkTransactions
from connector_kafka.testing import KafkaBroker

PIPELINE = "0123456789abcdef0123456789abcdef"  # pragma: allowlist secret
NAMES = SinkTransactions(prefix="p", pipeline_id=PIPELINE, sink_uid="out")
FORGETFUL = {
    "transactional.id.expiration.ms": "1000",
    "transaction.remove.expired.transaction.cleanup.interval.ms": "200",
}


@pytest.mark.slow
def test_a_quiet_pipeline_writes_after_brokers_have_forgotten_its_ids() -> None:
    with KafkaBroker(properties=FORGETFUL) as broker:
        topic = broker.topics.create("quiet")
        config = ClientConfig.of(
            {"bootstrap.servers": broker.bootstrap_servers}, PRODUCER_PROPERTIES
        )
        receipts = Receipts(names=NAMES, topic="receipts")
        committer = KafkaCommitter(config, receipts, incarnation=1, pool_size=1)
        producer, wire = Producer(config), Wire(config)
        try:
            committer.lease(0, 1)
            committer.sweep(0)  # initializes the IDs of the next epoch
            committer.recover(0)
            deadline = time.monotonic() + 30
            while TransactionClient(wire).list_transactions():
                assert time.monotonic() < deadline, "the broker keeps the ids"
            ((identity,),) = committer.lease(1, 1).identities
            producer.begin(Transaction(NAMES.transactional_id(0, 1, 0), identity))
            producer.send({(topic, 0): [batch_of(identity, b"a")]})
            producer.flush()
        finally:
            committer.close()
            producer.close()
            wire.close()
