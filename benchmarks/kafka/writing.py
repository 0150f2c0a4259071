# SPDX-License-Identifier: Apache-2.0
"""Writes Parquet files into a topic, at least once."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from benchmarks.kafka.topics import values
from benchmarks.session import write_files
from connector_kafka import KafkaRecordSerializationSchema, KafkaSink
from connector_kafka.testing import KafkaBroker

SCHEMA = pa.schema([("key", pa.binary()), ("value", pa.binary())])
FILES = 4
TUNED = {"kafka.linger.ms": "20", "kafka.batch.size": str(64 << 10)}


@dataclass(frozen=True)
class Rows:
    """Files of rows to write."""

    folder: Path
    count: int

    def per_second(self, seconds: float) -> float:
        """Return the rows per second."""
        return self.count / seconds

    def in_ms(self, seconds: float) -> float:
        """Milliseconds."""
        return seconds * 1e3


def prepared(folder: Path, *, size: int, count: int) -> Rows:
    """Write files of keys and values, once."""
    if not folder.exists():
        folder.mkdir()
        column = pa.array(list(values(size, count // FILES)), pa.binary())
        keys = pa.array([b"%010d" % number for number in range(len(column))])
        for number in range(FILES):
            pq.write_table(pa.table([keys, column], schema=SCHEMA), folder / f"{number}.parquet")
    return Rows(folder, count // FILES * FILES)


def contestants(
    spark: SparkSession,
    broker: KafkaBroker,
    rows: Rows,
    codec: str,
    unit: Callable[[Rows, float], float],
    *,
    cores: int,
    partitions: int,
    has_peer: bool,
) -> Mapping[str, Callable[[], float]]:
    """Compare ours with and without Spark rows, and Spark's own writer with defaults and tuned."""

    def ours(topic: str, condition: str | None) -> None:
        sink = KafkaSink(
            broker.bootstrap_servers,
            serialization=KafkaRecordSerializationSchema(topic=topic),
            properties={"compression.type": codec},
        )
        write_files(spark, rows.folder, SCHEMA, sink, condition, parallelism=cores)

    def peer(topic: str, options: Mapping[str, str]) -> None:
        (
            spark.read.parquet(str(rows.folder))
            .write.format("kafka")
            .option("kafka.bootstrap.servers", broker.bootstrap_servers)
            .option("kafka.compression.type", codec)
            .option("topic", topic)
            .options(**options)
            .save()
        )

    def timed(write: Callable[[str], None]) -> float:
        topic = broker.topics.create(f"write-{time.monotonic_ns()}", partitions=partitions)
        began = time.monotonic()
        write(topic)
        elapsed = time.monotonic() - began
        found = sum(broker.topics.end_offsets(topic).values())
        assert found == rows.count, f"{found} of {rows.count} rows were written"
        broker.topics.delete(topic)
        return unit(rows, elapsed)

    found: dict[str, Callable[[], float]] = {
        "ours": lambda: timed(lambda topic: ours(topic, None)),
        "ours, with a condition in Spark": lambda: timed(
            lambda topic: ours(topic, "length(value) >= 0")
        ),
    }
    if has_peer:
        found["Spark's"] = lambda: timed(lambda topic: peer(topic, {}))
        found["Spark's, tuned"] = lambda: timed(lambda topic: peer(topic, TUNED))
    return found
