# SPDX-License-Identifier: Apache-2.0
"""Rows per second of plain client loops, in one process without Spark."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

import confluent_kafka
import kafka

from benchmarks.kafka.topics import Topic

FETCH_BYTES = 8 << 20
POLL_ROWS = 10_000
# A loop is as fast at its end as at its start.
MOST_ROWS = 500_000


def reading(servers: str, topic: Topic) -> Mapping[str, Callable[[], float]]:
    """Measure loops that read the key and value of every record."""
    return {
        "a loop of kafka-python": lambda: _kafka_python(servers, topic),
        "a loop of confluent-kafka": lambda: _confluent(servers, topic),
    }


def _kafka_python(servers: str, topic: Topic) -> float:
    began = time.monotonic()
    consumer = kafka.KafkaConsumer(
        bootstrap_servers=servers,
        group_id=None,
        auto_offset_reset="earliest",
        max_poll_records=POLL_ROWS,
        max_partition_fetch_bytes=FETCH_BYTES,
    )
    consumer.assign([kafka.TopicPartition(topic.name, at) for at in range(topic.partitions)])
    keys: list[bytes] = []
    values: list[bytes] = []
    rows = 0
    while rows < min(topic.rows, MOST_ROWS):
        for records in consumer.poll(timeout_ms=1000).values():
            keys += [record.key for record in records]
            values += [record.value for record in records]
        rows += len(keys)
        keys.clear()
        values.clear()
    consumer.close()
    return rows / (time.monotonic() - began)


def _confluent(servers: str, topic: Topic) -> float:
    began = time.monotonic()
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": "benchmark",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "max.partition.fetch.bytes": FETCH_BYTES,
        }
    )
    consumer.assign(
        [
            confluent_kafka.TopicPartition(topic.name, at, confluent_kafka.OFFSET_BEGINNING)
            for at in range(topic.partitions)
        ]
    )
    rows = 0
    while rows < min(topic.rows, MOST_ROWS):
        messages = consumer.consume(POLL_ROWS, timeout=1)
        keys = [message.key() for message in messages]
        values = [message.value() for message in messages]
        assert len(keys) == len(values)
        rows += len(values)
    consumer.close()
    return rows / (time.monotonic() - began)
