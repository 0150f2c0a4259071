# SPDX-License-Identifier: Apache-2.0
"""The Kafka connector against Spark's own and plain clients, on a separate broker.

All contestants run on the same broker with the same topics, and alternate.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from pyspark.sql import SparkSession
from rich.console import Console

from benchmarks.comparison import Result, compared
from benchmarks.kafka import clients, epochs, latency, memory, reading, writing
from benchmarks.kafka.topics import CODECS, SIZES, Topic, filled
from benchmarks.session import new_session
from connector_kafka.testing import KafkaBroker
from connector_kafka.testing.jars import class_path

PARTITIONS = 4
# Fractions of a topic's size, because a run should be long compared to its start.
WRITTEN_TIMES = 3
MEMORY_MEGABYTES = (16, 64, 256)
# No complete set of these jars is published for Spark 4.3.
PEER_JARS = {"3.5": "spark-sql-kafka-0-10_2.12-3.5.7"}


def measure(runs: int, megabytes: int) -> Iterator[Result]:
    """Measure everything.

    Args:
        runs: The number of measured runs of each contestant.
        megabytes: The size of the values in each topic to read.
    """
    with tempfile.TemporaryDirectory() as folder, KafkaBroker(heap="1g") as broker:
        servers = broker.bootstrap_servers
        say("filling topics")
        topics = [
            filled(broker, size=size, codec=codec, megabytes=megabytes, partitions=PARTITIONS)
            for size in SIZES
            for codec in CODECS
        ]
        for cores in (1, 2):
            spark = new_session(cores, jars=peer_jars())
            yield from _on_spark(spark, cores, runs, servers, topics, broker, Path(folder))
            spark.stop()
        for size in MEMORY_MEGABYTES:
            topic = filled(broker, size=1000, codec="lz4", megabytes=size, partitions=1)
            yield Result(
                f"peak memory (MB) reading a partition of {size} MB",
                memory.peak(servers, topic.name),
            )
            broker.topics.delete(topic.name)


def _on_spark(
    spark: SparkSession,
    cores: int,
    runs: int,
    servers: str,
    topics: list[Topic],
    broker: KafkaBroker,
    folder: Path,
) -> Iterator[Result]:
    has_peer = peer_jars() is not None
    where = f"local[{cores}]"
    for topic in topics:
        say(f"{where}: {topic}")
        ours = {"ours": lambda topic=topic: reading.ours(spark, servers, topic)}
        peers = reading.peers(spark, servers, topic) if has_peer else {}
        loops = clients.reading(servers, topic) if cores == 1 else {}
        yield from compared(
            f"read {topic}, {where} (rows/s)",
            runs,
            ours | peers | loops,
            aims={"Spark's": "at least 1.5", "Spark's, tuned": "at least 1.0"},
        )
    say(f"{where}: streams, writing, micro-batches, epochs")
    topic = topics[0]
    yield from compared(
        f"stream {topic} into nothing, {where} (rows/s)",
        runs,
        reading.streams(spark, servers, topic, has_peer=has_peer),
        aims={"Spark's": "at least 1.5", "Spark's, tuned": "at least 1.0"},
    )
    write = partial(
        writing.contestants, spark, broker, cores=cores, partitions=PARTITIONS, has_peer=has_peer
    )
    for size in SIZES:
        count = WRITTEN_TIMES * topic.bytes // size
        rows = writing.prepared(folder / f"rows-{size}", size=size, count=count)
        for codec in CODECS:
            yield from compared(
                f"write {size} B values, {codec}, {where} (rows/s)",
                runs,
                write(rows, codec, writing.Rows.per_second),
                aims={"Spark's": "at least 1.0"},
            )
    few = writing.prepared(folder / "few", size=SIZES[0], count=writing.FILES)
    yield from compared(
        f"write {few.count} rows, {where} (ms)", runs, write(few, CODECS[0], writing.Rows.in_ms)
    )
    yield from compared(
        f"time per micro-batch at a trickle, {where} (ms)",
        runs,
        latency.contestants(spark, broker, has_peer=has_peer),
        aims={"Spark's": "at most 1.3"},
    )
    yield from compared(
        f"time per epoch of an exactly-once sink, {where} (ms)",
        runs,
        epochs.contestants(spark, broker),
        aims={"at least once": "at most 60 ms more"},
    )


def peer_jars() -> str | None:
    """Return the class path of Spark's own Kafka source and sink, or None if there is none."""
    import pyspark

    name = PEER_JARS.get(".".join(pyspark.__version__.split(".")[:2]))
    return None if name is None else class_path(name).replace(os.pathsep, ",")


def say(what: str) -> None:
    """Report the progress."""
    Console(stderr=True).print(f"kafka: {what}")
