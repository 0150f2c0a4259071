# SPDX-License-Identifier: Apache-2.0
"""Time per micro-batch while a few records arrive at intervals."""

from __future__ import annotations

import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import confluent_kafka
from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQuery

from benchmarks.micro_batch import median_trigger
from connector_kafka import KafkaSource
from connector_kafka.testing import KafkaBroker
from connectors_core import Pipeline
from connectors_core.sink import DiscardingSink

BATCHES = 40
DEADLINE = 120.0
PAUSE = 0.02
PARTITIONS = 2


def contestants(
    spark: SparkSession, broker: KafkaBroker, *, has_peer: bool
) -> Mapping[str, Callable[[], float]]:
    """Let each contestant read and discard a slow stream of records in its own topic."""

    def ours() -> float:
        with tempfile.TemporaryDirectory() as folder, trickling(broker) as topic:
            pipeline = Pipeline(
                spark, "trickle", checkpoint_location=str(Path(folder) / "c"), streaming=True
            )
            source = KafkaSource(broker.bootstrap_servers, topics=topic)
            pipeline.sink_to(
                pipeline.from_source(source, uid="topic"), DiscardingSink(), uid="noop"
            )
            with pipeline:
                pipeline.start()
                return _watched(spark.streams.active[0])

    def peer() -> float:
        with tempfile.TemporaryDirectory() as folder, trickling(broker) as topic:
            query = (
                spark.readStream.format("kafka")
                .option("kafka.bootstrap.servers", broker.bootstrap_servers)
                .option("subscribe", topic)
                .option("startingOffsets", "earliest")
                .load()
                .writeStream.format("noop")
                .option("checkpointLocation", folder)
                .start()
            )
            try:
                return _watched(query)
            finally:
                query.stop()

    return {"ours": ours} | ({"Spark's": peer} if has_peer else {})


def _watched(query: StreamingQuery) -> float:
    deadline = time.monotonic() + DEADLINE
    while (exception := query.exception()) is None and time.monotonic() < deadline:
        if sum(each["numInputRows"] > 0 for each in query.recentProgress) >= BATCHES:
            break
        time.sleep(0.2)
    if exception is not None:
        raise exception
    return median_trigger(list(query.recentProgress))


@contextmanager
def trickling(broker: KafkaBroker) -> Iterator[str]:
    """Create a topic that receives a record every few milliseconds."""
    topic = broker.topics.create(f"trickle-{time.monotonic_ns()}", partitions=PARTITIONS)
    ended = threading.Event()

    def produce() -> None:
        producer = confluent_kafka.Producer(
            {"bootstrap.servers": broker.bootstrap_servers, "linger.ms": 0}
        )
        while not ended.wait(PAUSE):
            producer.produce(topic, b"a few bytes")
            producer.poll(0)
        producer.flush()

    thread = threading.Thread(target=produce, daemon=True)
    thread.start()
    try:
        yield topic
    finally:
        ended.set()
        thread.join()
        broker.topics.delete(topic)
