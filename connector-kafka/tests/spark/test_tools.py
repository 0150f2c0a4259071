# SPDX-License-Identifier: Apache-2.0
"""Tests that the Java tools write and read the requested records."""

import pytest
from kafka import KafkaProducer

from connector_kafka.testing import BrokerError, KafkaBroker
from connector_kafka.testing.tools import ConsoleRecord, console_consumer, console_producer

pytestmark = pytest.mark.line("3.5")  # no Spark in them
CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]  # by their numbers
RECORDS = [
    ConsoleRecord(key=b"k", value="vä,:\\x41\t".encode()),
    ConsoleRecord(key=None, value=None),
    ConsoleRecord(key=b"", value=b"", headers=(("a", b"1"), ("a", None), ("b", b""))),
]


def test_what_the_producer_is_given_the_consumer_sees(broker: KafkaBroker, topic: str) -> None:
    console_producer(broker.internal_servers, topic, RECORDS, codec="gzip")
    found = console_consumer(broker.internal_servers, topic, quiet=3)
    assert [(each.key, each.value, each.headers) for each in found] == [
        (each.key, each.value, each.headers) for each in RECORDS
    ]
    assert [(each.partition, each.offset) for each in found] == [(0, 0), (0, 1), (0, 2)]
    assert all(each.timestamp > 1_700_000_000_000 for each in found)


def test_the_consumer_sees_bytes_as_they_are_and_only_what_was_committed(
    broker: KafkaBroker, topic: str
) -> None:
    every = bytes(range(256))
    producer = KafkaProducer(bootstrap_servers=broker.bootstrap_servers, transactional_id=topic)
    producer.init_transactions()
    producer.begin_transaction()
    producer.send(topic, every, headers=[("all", every)])
    producer.commit_transaction()
    producer.begin_transaction()
    producer.send(topic, b"aborted")
    producer.flush()
    producer.abort_transaction()
    producer.close()
    found = console_consumer(broker.internal_servers, topic, quiet=3)
    assert [(each.value, each.headers) for each in found] == [(every, (("all", every),))]


@pytest.mark.slow
@pytest.mark.parametrize("codec", CODECS)
def test_the_producer_compresses_as_it_is_told(broker: KafkaBroker, topic: str, codec: str) -> None:
    records = [ConsoleRecord(key=b"%d" % number, value=b"x" * 100) for number in range(100)]
    console_producer(broker.internal_servers, topic, records, codec=codec)
    segment = next(broker.segments(topic))
    assert segment[22] & 7 == CODECS.index(codec)  # attributes, in the header of the batch


def test_a_topic_that_is_not_there_is_an_error(broker: KafkaBroker) -> None:
    with pytest.raises(BrokerError, match="UnknownTopicOrPartition"):
        console_producer(
            broker.internal_servers,
            "nowhere",
            RECORDS,
            properties={"max.block.ms": "1000"},
        )
