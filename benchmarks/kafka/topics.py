# SPDX-License-Identifier: Apache-2.0
"""Topics for the benchmarks."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from confluent_kafka import Producer

from connector_kafka.testing import KafkaBroker

SIZES = (100, 1000)
CODECS = ("none", "lz4")
KEY_BYTES = 10
BATCH_BYTES = 64 << 10
POOL = 4096


@dataclass(frozen=True)
class Topic:
    """A topic and its contents."""

    name: str
    size: int
    codec: str
    rows: int
    partitions: int

    @property
    def bytes(self) -> int:
        """The size of all values."""
        return self.rows * self.size

    def __str__(self) -> str:
        return f"{self.size} B values, {self.codec}"


def filled(broker: KafkaBroker, *, size: int, codec: str, megabytes: int, partitions: int) -> Topic:
    """Create a topic with this number of megabytes of values."""
    rows = megabytes * 1_000_000 // size
    name = broker.topics.create(f"read-{size}-{codec}-{megabytes}", partitions=partitions)
    records = ((b"%010d" % number, value) for number, value in enumerate(values(size, rows)))
    fill(broker, name, records, rows=rows, codec=codec, partitions=partitions)
    return Topic(name, size, codec, rows, partitions)


def fill(
    broker: KafkaBroker,
    topic: str,
    records: Iterable[tuple[bytes | None, bytes]],
    *,
    rows: int,
    codec: str,
    partitions: int,
) -> None:
    """Write keys and values to the partitions in turn, and check their number."""
    producer = Producer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "compression.type": codec,
            "batch.size": BATCH_BYTES,
            "linger.ms": 50,
            "queue.buffering.max.messages": POOL,
            "sticky.partitioning.linger.ms": 0,
        }
    )
    for number, (key, value) in enumerate(records):
        while True:
            try:
                producer.produce(topic, value, key=key, partition=number % partitions)
                break
            except BufferError:
                producer.poll(0.1)
    producer.flush()
    found = sum(broker.topics.end_offsets(topic).values())
    assert found == rows, f"{found} of {rows} rows are in {topic}"


def values(size: int, count: int) -> Iterator[bytes]:
    """Return values that compress about as well as text: common words and numbers."""
    rng = random.Random(7)
    words = ["".join(rng.choices("abcdefghijklmnopqrstuvwxyz", k=6)) for _ in range(512)]
    pool = []
    for _ in range(min(POOL, count)):
        text = ""
        while len(text) < size:
            text += f"{rng.choice(words)}={rng.randrange(10**6)};"
        pool.append(text[:size].encode())
    for number in range(count):
        yield pool[number % len(pool)]
