# SPDX-License-Identifier: Apache-2.0
"""Tests that Java's console tools write and read the given records."""

import pytest
from kafka import KafkaProducer

from connector_kafka.testing import BrokerError, KafkaBroker
from connector_kafka.testing.tools import ConsoleRecord, console_consumer, console_producer

pytestmark = pytest.mark.line("3.5")  # these tests do not use Spark
CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]  # in the order of their numbers
RECORDS = [
    ConsoleRecord(key=b"k", value="vä,:\\x41\t".encode()),
    ConsoleRecord(key=None, value=None),
    ConsoleRecord(key=b"", value=b"", headers=(("a", b"1"), ("a", None), ("b", b""))),
]


def test_the_consumer_reads_the_records_of_the_producer(broker: KafkaBroker, topic: str) -> None:
    console_producer(broker.internal_servers, topic, RECORDS, codec="gzip")
    found = console_consumer(broker.internal_servers, topic, quiet=3)
    assert [(each.key, each.value, each.headers) for each in found] == [
        (each.key, each.value, each.headers) for each in RECORDS
    ]
    assert [(each.partition, each.offset) for each in found] == [(0, 0), (0, 1), (0, 2)]
    assert all(each.timestamp > 1_700_000_000_000 for each in found)


def test_the_consumer_reads_committed_records_with_unchanged_bytes(
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
def test_the_producer_uses_the_given_codec(broker: KafkaBroker, topic: str, codec: str) -> None:
    records = [ConsoleRecord(key=b"%d" % number, value=b"x" * 100) for number in range(100)]
    console_producer(broker.internal_servers, topic, records, codec=codec)
    segment = next(broker.segments(topic))
    assert segment[22] & 7 == CODECS.index(codec)  # the attributes in the batch header


def test_a_missing_topic_is_an_error(broker: KafkaBroker) -> None:
    with pytest.raises(BrokerError, match="UnknownTopicOrPartition"):
        console_producer(
            broker.internal_servers,
            "nowhere",
            RECORDS,
            properties={"max.block.ms": "1000"},
        )
