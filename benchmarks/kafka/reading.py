# SPDX-License-Identifier: Apache-2.0
"""Rows per second of reading a topic into Spark, or through a discarding stream."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from pyspark.sql import SparkSession

from benchmarks.kafka.topics import Topic
from connector_kafka import KafkaSource, OffsetsInitializer
from connectors_core import Pipeline
from connectors_core.sink import DiscardingSink

# Larger requests and polls than Spark's defaults of 1 MB and 500 records.
TUNED = {
    "kafka.max.poll.records": "10000",
    "kafka.max.partition.fetch.bytes": str(8 << 20),
    "kafka.fetch.max.bytes": str(64 << 20),
}


def ours(spark: SparkSession, servers: str, topic: Topic) -> float:
    """Read a DataFrame of our source into Spark's noop sink."""
    with tempfile.TemporaryDirectory() as folder:
        began = time.monotonic()
        pipeline = Pipeline(spark, "read", checkpoint_location=str(Path(folder) / "checkpoint"))
        source = KafkaSource(servers, topics=topic.name, bounded=OffsetsInitializer.latest())
        df = pipeline.from_source(source, uid="topic")
        df.write.format("noop").mode("overwrite").save()
        return topic.rows / (time.monotonic() - began)


def peers(spark: SparkSession, servers: str, topic: Topic) -> Mapping[str, Callable[[], float]]:
    """Read Spark's own source into the noop sink, with defaults and tuned."""

    def read(options: Mapping[str, str]) -> float:
        began = time.monotonic()
        df = (
            spark.read.format("kafka")
            .option("kafka.bootstrap.servers", servers)
            .option("subscribe", topic.name)
            .options(**options)
            .load()
        )
        df.write.format("noop").mode("overwrite").save()
        return topic.rows / (time.monotonic() - began)

    return {"Spark's": lambda: read({}), "Spark's, tuned": lambda: read(TUNED)}


def streams(
    spark: SparkSession, servers: str, topic: Topic, *, has_peer: bool
) -> Mapping[str, Callable[[], float]]:
    """Read all available records as a stream into a discarding sink."""

    def ours(condition: str | None) -> float:
        with tempfile.TemporaryDirectory() as folder:
            began = time.monotonic()
            with Pipeline(
                spark, "stream", checkpoint_location=str(Path(folder) / "c"), streaming=True
            ) as pipeline:
                source = KafkaSource(
                    servers, topics=topic.name, bounded=OffsetsInitializer.latest()
                )
                df = pipeline.from_source(source, uid="topic")
                pipeline.sink_to(
                    df if condition is None else df.where(condition), DiscardingSink(), uid="noop"
                )
                pipeline.run()
            return topic.rows / (time.monotonic() - began)

    def peer(options: Mapping[str, str]) -> float:
        with tempfile.TemporaryDirectory() as folder:
            began = time.monotonic()
            query = (
                spark.readStream.format("kafka")
                .option("kafka.bootstrap.servers", servers)
                .option("subscribe", topic.name)
                .option("startingOffsets", "earliest")
                .options(**options)
                .load()
                .writeStream.format("noop")
                .option("checkpointLocation", folder)
                .trigger(availableNow=True)
                .start()
            )
            query.awaitTermination()
            return topic.rows / (time.monotonic() - began)

    contestants: dict[str, Callable[[], float]] = {
        "ours": lambda: ours(None),
        "ours, with a condition in Spark": lambda: ours("offset % 2 >= 0"),
    }
    if has_peer:
        contestants |= {"Spark's": lambda: peer({}), "Spark's, tuned": lambda: peer(TUNED)}
    return contestants
