# SPDX-License-Identifier: Apache-2.0
"""Time per epoch of the sink: exactly once against at least once."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from pyspark.sql import SparkSession

from benchmarks.micro_batch import median_trigger
from connector_kafka import KafkaRecordSerializationSchema, KafkaSink
from connector_kafka.testing import KafkaBroker
from connectors_core import Pipeline
from connectors_core.sink import DeliveryGuarantee
from connectors_core.source import NumberSequenceSource, ReadLimits

EPOCHS = 30
ROWS = 1000


def contestants(spark: SparkSession, broker: KafkaBroker) -> Mapping[str, Callable[[], float]]:
    """Run a stream of short epochs into a topic, with one writer."""

    def run(guarantee: DeliveryGuarantee) -> float:
        topic = broker.topics.create(f"epochs-{time.monotonic_ns()}")
        sink = KafkaSink(
            broker.bootstrap_servers,
            serialization=KafkaRecordSerializationSchema(topic=topic),
            delivery_guarantee=guarantee,
        )
        with tempfile.TemporaryDirectory() as folder:
            pipeline = Pipeline(
                spark,
                topic,
                checkpoint_location=str(Path(folder) / "c"),
                streaming=True,
                parallelism=1,
            )
            numbers = pipeline.from_source(
                NumberSequenceSource(0, EPOCHS * ROWS - 1),
                uid="numbers",
                limits=ReadLimits(rows=ROWS),
            )
            rows = numbers.selectExpr("cast(value as string) as value")
            pipeline.sink_to(rows, sink, uid="topic")
            with pipeline:
                pipeline.start()
                query = spark.streams.active[0]
                pipeline.await_termination()
                found = median_trigger(list(query.recentProgress))
        broker.topics.delete(topic)
        return found

    return {
        "ours": lambda: run(DeliveryGuarantee.EXACTLY_ONCE),
        "at least once": lambda: run(DeliveryGuarantee.AT_LEAST_ONCE),
    }
