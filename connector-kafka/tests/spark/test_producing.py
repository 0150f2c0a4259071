# SPDX-License-Identifier: Apache-2.0
"""Tests that resent records arrive once and in order."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from kafka_sink_suites import read_committed

from connector_kafka.client.config import PRODUCER_PROPERTIES, ClientConfig
from connector_kafka.client.producer import Producer
from connector_kafka.errors import KafkaRequestError
from connector_kafka.records import Compression, Encoder
from connector_kafka.testing import KafkaBroker, KafkaProxy

CUTS = 4


def test_resent_records_arrive_once_and_in_order(
    broker: KafkaBroker, proxy: KafkaProxy, topic: str
) -> None:
    producer = Producer(
        ClientConfig.of({"bootstrap.servers": broker.bootstrap_servers}, PRODUCER_PROPERTIES)
    )
    producer.be_idempotent()
    encoder = Encoder(
        batch_size=1000,
        producer_id=producer.identity.producer_id,
        producer_epoch=producer.identity.epoch,
    )
    values = [b"%06d" % number for number in range(2000)]
    for cut in range(CUTS):
        send(producer, encoder, topic, values[cut * 500 : (cut + 1) * 500])
        proxy.cut()
    producer.flush()
    producer.close()
    assert read_committed(broker, topic) == values


def test_batches_above_the_limit_of_their_topic_are_split(broker: KafkaBroker) -> None:
    topic = broker.topics.create("small-batches", config={"max.message.bytes": "500"})
    producer = Producer(
        ClientConfig.of({"bootstrap.servers": broker.bootstrap_servers}, PRODUCER_PROPERTIES)
    )
    producer.be_idempotent()
    encoder = Encoder(
        compression=Compression.LZ4,
        producer_id=producer.identity.producer_id,
        producer_epoch=producer.identity.epoch,
    )

    def send_now(values: list[bytes]) -> None:
        send(producer, encoder, topic, values)
        producer.flush()

    random = np.random.default_rng(0)
    values = [random.bytes(20) for _ in range(300)]
    try:
        send_now(values[:200])
        send_now(values[200:])
        assert read_committed(broker, topic) == values
        with pytest.raises(KafkaRequestError, match="a record is too large"):
            send_now([random.bytes(1000)])
    finally:
        producer.close()


def send(producer: Producer, encoder: Encoder, topic: str, values: list[bytes]) -> None:
    batches = encoder.encode(
        pa.RecordBatch.from_pydict({"value": values}),
        np.zeros(len(values), np.int32),
        now=1_700_000_000_000,
        next_sequence=lambda partition: producer.next_sequence(topic, partition),
    )
    producer.send({(topic, number): own for number, own in batches.items()})
