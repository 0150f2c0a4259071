# SPDX-License-Identifier: Apache-2.0
"""Tests exact output of streams that Spark reads itself, while the tests kill the drivers."""

from __future__ import annotations

import importlib.metadata
import json
import signal
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pytest
from kafka import KafkaProducer

from connector_elasticsearch import ElasticsearchSink
from connector_elasticsearch.testing import ElasticsearchServer
from connector_kafka import KafkaRecordSerializationSchema, KafkaSink
from connector_kafka.testing import KafkaBroker
from connector_kafka.testing.jars import class_path
from connector_kafka.testing.tools import console_consumer
from connectors_core import JsonFormat, Pipeline
from connectors_core.sink import DeliveryGuarantee
from connectors_core.testing import (
    WRITING_POINTS,
    crash_chain,
    new_session,
    run_driver,
    wait_for_survivors,
)

pytestmark = pytest.mark.slow
TOPIC = "numbers"
BATCH_ROWS = 30
ROWS = BATCH_ROWS * (len(WRITING_POINTS) + 3)  # each driver commits at most one micro-batch
SPARKS_KAFKA = "spark-sql-kafka-0-10_2.12-3.5.7"  # none is published for Spark 4.3


@dataclass(frozen=True)
class FilesToKafka:
    """Spark's file source, a filter, and the sink for Kafka."""

    root: str
    servers: str
    topic: str

    def __call__(self) -> None:
        lines = new_session({}).readStream.schema("n BIGINT").option("maxFilesPerTrigger", 1)
        sink = KafkaSink(
            self.servers,
            serialization=KafkaRecordSerializationSchema(
                topic=self.topic, value_format=JsonFormat()
            ),
            delivery_guarantee=DeliveryGuarantee.EXACTLY_ONCE,
            transactional_id_prefix=self.topic,
        )
        pipeline = Pipeline(new_session({}), "files", checkpoint_location=f"{self.root}/checkpoint")
        with pipeline:
            pipeline.sink_to(lines.json(f"{self.root}/in").where("n >= 0"), sink, uid="topic")
            assert pipeline.run(available_now=True)


@dataclass(frozen=True)
class KafkaToElasticsearch:
    """Spark's source for Kafka and the sink for Elasticsearch."""

    root: str
    servers: str
    topic: str
    url: str

    def __call__(self) -> None:
        jars = class_path(SPARKS_KAFKA).replace(":", ",")
        spark = new_session({"spark.jars": jars})
        records = (
            spark.readStream.format("kafka")
            .option("kafka.bootstrap.servers", self.servers)
            .option("subscribe", self.topic)
            .option("startingOffsets", "earliest")
            .option("maxOffsetsPerTrigger", BATCH_ROWS)
            .load()
        )
        sink = ElasticsearchSink(self.url, self.topic, id_columns=["n"])
        pipeline = Pipeline(spark, "topic", checkpoint_location=f"{self.root}/checkpoint")
        with pipeline:
            rows = records.selectExpr("CAST(CAST(value AS STRING) AS BIGINT) AS n")
            pipeline.sink_to(rows, sink, uid="index")
            assert pipeline.run(available_now=True)


@pytest.fixture
def broker() -> Iterator[KafkaBroker]:
    with KafkaBroker() as running:
        running.topics.create(TOPIC, partitions=3)
        yield running


@pytest.fixture
def server() -> Iterator[ElasticsearchServer]:
    with ElasticsearchServer() as running:
        yield running


def kill_at_each_point(job: Callable[[], None], folder: Path) -> None:
    log = folder / "driver.log"
    for fault in crash_chain(folder, WRITING_POINTS):
        code = run_driver(job, log, fault)
        assert fault.fired, (fault.point, code, log.read_text()[-4000:])
        assert code == -signal.SIGKILL, (fault.point, code, log.read_text()[-4000:])
    assert run_driver(job, log) == 0, log.read_text()[-4000:]
    wait_for_survivors(log)


@pytest.mark.timeout(900)
def test_files_that_spark_reads_arrive_once_in_kafka(broker: KafkaBroker, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    for start in range(0, ROWS, BATCH_ROWS):
        lines = [json.dumps({"n": n}) + "\n" for n in range(start, start + BATCH_ROWS)]
        (tmp_path / "in" / f"{start:04d}.json").write_text("".join(lines))
    kill_at_each_point(FilesToKafka(str(tmp_path), broker.bootstrap_servers, TOPIC), tmp_path)
    found = console_consumer(broker.internal_servers, TOPIC)
    numbers = Counter(json.loads(record.value or b"")["n"] for record in found)
    assert numbers == Counter(range(ROWS))


@pytest.mark.timeout(900)
@pytest.mark.skipif(
    not importlib.metadata.version("pyspark").startswith("3.5"),
    reason=f"{SPARKS_KAFKA} is for Spark 3.5; none is published for newer lines",
)
def test_records_that_spark_reads_from_kafka_arrive_once_in_elasticsearch(
    broker: KafkaBroker, server: ElasticsearchServer, tmp_path: Path
) -> None:
    producer = KafkaProducer(bootstrap_servers=broker.bootstrap_servers, acks="all")
    with closing(producer):
        for number in range(ROWS):
            producer.send(TOPIC, b"%d" % number, partition=number % 3)
    mapping = {"properties": {"n": {"type": "long"}}}
    server.request("PUT", f"/{TOPIC}", {"mappings": mapping})
    job = KafkaToElasticsearch(str(tmp_path), broker.bootstrap_servers, TOPIC, server.url)
    kill_at_each_point(job, tmp_path)
    found = Counter(hit["_source"]["n"] for hit in server.documents(TOPIC))
    assert found == Counter(range(ROWS))
