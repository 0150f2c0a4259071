# SPDX-License-Identifier: Apache-2.0
"""Tests that Java's clients, Spark's own source, and this connector read each other's records."""

from __future__ import annotations

import functools
import itertools
import json
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyspark
import pytest
from kafka import KafkaConsumer

from connector_kafka import (
    KafkaRecordDeserializationSchema,
    KafkaRecordSerializationSchema,
    KafkaSink,
    KafkaSource,
    OffsetsInitializer,
)
from connector_kafka.testing import KafkaBroker
from connector_kafka.testing.jars import class_path
from connector_kafka.testing.tools import ConsoleRecord, console_consumer, console_producer
from connectors_core.sink import DeliveryGuarantee
from connectors_core.source import DataGeneratorSource
from connectors_core.testing import DirectorySink, LocalPipeline, run_driver

CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]
HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
SCHEMA = pa.schema([("key", pa.binary()), ("value", pa.binary()), ("headers", HEADERS)])
COLUMNS = SCHEMA.names
ROWS = 100
SPARKS_OWN = "spark-sql-kafka-0-10_2.12-3.5.7"


def records(numbers: pa.Array) -> pa.RecordBatch:
    """Return keys, values, and headers, some of which are null."""
    rows = [
        {
            "key": None if number % 7 == 0 else b"key %d" % (number % 10),
            "value": None if number % 11 == 0 else b"value %d " % number * (number % 5),
            "headers": [{"key": "n", "value": b"%d" % number}] * (number % 3),
        }
        for number in numbers.to_pylist()
    ]
    return pa.RecordBatch.from_pylist(rows, schema=SCHEMA)


def expected() -> list[dict[str, Any]]:
    return records(pa.array(range(ROWS))).to_pylist()


def in_order(rows: list[dict[str, Any]]) -> list[str]:
    return sorted(map(repr, rows))


def write(broker: KafkaBroker, topic: str, folder: Path, codec: str) -> None:
    """Write the records exactly once."""
    sink = KafkaSink(
        broker.bootstrap_servers,
        serialization=KafkaRecordSerializationSchema(topic=topic, headers_column="headers"),
        delivery_guarantee=DeliveryGuarantee.EXACTLY_ONCE,
        transactional_id_prefix=topic,
        properties={"compression.type": codec},
    )
    with LocalPipeline("write", checkpoint_location=str(folder / codec)) as pipeline:
        rows = pipeline.from_source(DataGeneratorSource(records, ROWS, SCHEMA), uid="records")
        pipeline.sink_to(rows, sink, uid="topic")
        assert pipeline.run(timeout=60)


def read(broker: KafkaBroker, topic: str, folder: Path) -> list[dict[str, Any]]:
    """Read the committed records."""
    source = KafkaSource(
        broker.bootstrap_servers,
        topics=topic,
        bounded=OffsetsInitializer.latest(),
        isolation_level="read_committed",
        deserialization=KafkaRecordDeserializationSchema(metadata_columns=COLUMNS),
    )
    found = DirectorySink(folder / "found")
    with LocalPipeline("read", checkpoint_location=str(folder / "read")) as pipeline:
        pipeline.sink_to(pipeline.from_source(source, uid="topic"), found, uid="found")
        assert pipeline.run(timeout=60)
    return found.read().to_pylist()


@pytest.mark.parametrize(
    "codec",
    [
        pytest.param(codec, marks=pytest.mark.line("3.5") if codec == "lz4" else pytest.mark.slow)
        for codec in CODECS
    ],
)
def test_java_reads_the_records_of_the_sink(
    broker: KafkaBroker, topic: str, tmp_path: Path, codec: str
) -> None:
    write(broker, topic, tmp_path, codec)
    found = console_consumer(broker.internal_servers, topic)
    assert in_order(expected()) == in_order(
        [
            {
                "key": each.key,
                "value": each.value,
                "headers": [{"key": name, "value": value} for name, value in each.headers],
            }
            for each in found
        ]
    )


@pytest.mark.line("3.5")
def test_keys_are_in_the_partitions_that_java_chooses(broker: KafkaBroker, tmp_path: Path) -> None:
    keys = [b"key %d" % number * (number % 4 + 1) for number in range(ROWS)]
    of_java, ours = (broker.topics.create(name, partitions=7) for name in ("java", "ours"))
    rows = [ConsoleRecord(key=key, value=b"") for key in keys]
    console_producer(broker.internal_servers, of_java, rows)
    schema = pa.schema([("key", pa.binary()), ("value", pa.binary())])
    generated = DataGeneratorSource(
        lambda numbers: pa.RecordBatch.from_pydict(
            {"key": [keys[at] for at in numbers.to_pylist()], "value": [b""] * len(numbers)},
            schema=schema,
        ),
        ROWS,
        schema,
    )
    sink = KafkaSink(
        broker.bootstrap_servers, serialization=KafkaRecordSerializationSchema(topic=ours)
    )
    with LocalPipeline("keys", checkpoint_location=str(tmp_path / "keys")) as pipeline:
        pipeline.sink_to(pipeline.from_source(generated, uid="keys"), sink, uid="topic")
        assert pipeline.run(timeout=60)
    found, expected = (partitions_of_keys(broker, topic) for topic in (ours, of_java))
    assert found == expected
    assert len(set(found.values())) == 7


def partitions_of_keys(broker: KafkaBroker, topic: str) -> dict[bytes, int]:
    """Return the partition of each key, as another client reads them."""
    consumer = KafkaConsumer(
        topic,
        bootstrap_servers=broker.bootstrap_servers,
        auto_offset_reset="earliest",
        consumer_timeout_ms=10_000,
    )
    with closing(consumer):
        return {each.key: each.partition for each in itertools.islice(consumer, ROWS)}


@pytest.mark.slow
def test_the_source_reads_the_records_of_java_in_every_codec(
    broker: KafkaBroker, topic: str, tmp_path: Path
) -> None:
    for codec in CODECS:
        rows = [
            ConsoleRecord(
                key=row["key"],
                value=row["value"],
                headers=tuple((each["key"], each["value"]) for each in row["headers"]),
            )
            for row in expected()
        ]
        console_producer(broker.internal_servers, topic, rows, codec=codec)
    assert in_order(read(broker, topic, tmp_path)) == in_order(expected() * len(CODECS))


@pytest.mark.slow
def test_the_connector_writes_to_and_reads_from_an_older_broker(tmp_path: Path) -> None:
    with KafkaBroker(version="3.9.2") as old:
        old.topics.create("topic")
        write(old, "topic", tmp_path, "lz4")
        assert in_order(read(old, "topic", tmp_path)) == in_order(expected())
        assert len(console_consumer(old.internal_servers, "topic")) == ROWS


@pytest.mark.slow
@pytest.mark.skipif(
    not pyspark.__version__.startswith("3.5"), reason="its jars are those of Spark 3.5"
)
def test_sparks_own_source_reads_the_records_of_the_sink(
    broker: KafkaBroker, topic: str, tmp_path: Path
) -> None:
    write(broker, topic, tmp_path, "zstd")
    found = tmp_path / "found.json"
    job = functools.partial(read_by_spark, broker.bootstrap_servers, topic, found)
    log = tmp_path / "spark.log"
    assert run_driver(job, log) == 0, log.read_text(errors="replace")[-4000:]
    rows = [
        {
            "key": row["key"].encode() if row["key"] is not None else None,
            "value": row["value"].encode() if row["value"] is not None else None,
            "headers": [
                {"key": each["key"], "value": each["value"].encode()} for each in row["headers"]
            ],
        }
        for row in json.loads(found.read_text())
    ]
    assert in_order(rows) == in_order(expected())


def read_by_spark(servers: str, topic: str, found: Path) -> None:
    """Read the topic with Spark's own source, in a session with its jars."""
    import pathlib

    from connectors_core.testing import new_session

    jars = class_path(SPARKS_OWN).replace(":", ",")
    options = {
        "kafka.bootstrap.servers": servers,
        "subscribe": topic,
        "includeHeaders": "true",
        "kafka.isolation.level": "read_committed",
    }
    rows = new_session({"spark.jars": jars}).read.format("kafka").options(**options).load()
    texts = rows.selectExpr(
        "cast(key as string) key",
        "cast(value as string) value",
        "transform(coalesce(headers, array()), h -> "
        "struct(h.key as key, cast(h.value as string) as value)) headers",
    )
    read = [row.asDict(recursive=True) for row in texts.collect()]
    pathlib.Path(found).write_text(json.dumps(read))
