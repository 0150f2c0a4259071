# SPDX-License-Identifier: Apache-2.0
"""Regenerates the files in this folder with Java's producer. Run it in this folder.

Each file is the log of a partition, exactly as the broker stores it.
"""

from __future__ import annotations

from pathlib import Path

from kafka import KafkaProducer

from connector_kafka.testing import KafkaBroker
from connector_kafka.testing.tools import ConsoleRecord, console_producer

FOLDER = Path(__file__).parent
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")

RECORDS = [
    ConsoleRecord(
        key=None if number % 7 == 0 else b"key-%d" % (number % 11),
        value=None if number % 13 == 0 else b"value-%d " % number * (number % 9),
        headers=tuple(
            (f"header-{each}", None if each == 1 else b"%d" % number) for each in range(number % 4)
        ),
    )
    for number in range(200)
]


def write(broker: KafkaBroker) -> None:
    for codec in CODECS:
        topic = broker.topics.create(codec)
        console_producer(
            broker.internal_servers, topic, RECORDS, codec=codec, properties={"batch.size": "2000"}
        )
        keep(broker, topic)
    topic = broker.topics.create(
        "log-append-time", config={"message.timestamp.type": "LogAppendTime"}
    )
    console_producer(broker.internal_servers, topic, RECORDS[:20], codec="zstd")
    keep(broker, topic)
    topic = broker.topics.create("transactions")
    producer = KafkaProducer(bootstrap_servers=broker.bootstrap_servers, transactional_id=topic)
    producer.init_transactions()
    for number, commit in enumerate((True, False, True)):
        producer.begin_transaction()
        for each in range(3):
            producer.send(topic, b"%d-%d" % (number, each))
        producer.flush()
        producer.commit_transaction() if commit else producer.abort_transaction()
    producer.close()
    keep(broker, topic)


def keep(broker: KafkaBroker, topic: str) -> None:
    (FOLDER / f"{topic}.log").write_bytes(b"".join(broker.segments(topic)))


if __name__ == "__main__":
    with KafkaBroker() as broker:
        write(broker)
