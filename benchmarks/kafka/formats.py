# SPDX-License-Identifier: Apache-2.0
"""Rows per second of records in JSON and Avro, decoded into Spark, against Spark's functions."""

from __future__ import annotations

import io
import json
import os
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import fastavro
import orjson
import pyspark
from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F
from rich.console import Console

from benchmarks.comparison import Result, compared
from benchmarks.kafka import PARTITIONS, peer_jars
from benchmarks.kafka.reading import TUNED
from benchmarks.kafka.topics import POOL, fill
from benchmarks.session import new_session
from connector_kafka import KafkaRecordDeserializationSchema, KafkaSource, OffsetsInitializer
from connector_kafka.testing import KafkaBroker
from connectors_core import AvroFormat, JsonFormat, Pipeline
from connectors_core.spark.pushdown import push_down
from connectors_core.testing.servers import PinnedArtifacts

COLUMNS = (
    "id BIGINT, carrier STRING, flight INT, tailnum STRING, origin STRING, dest STRING, "
    "dep_delay DOUBLE, arr_delay DOUBLE, distance BIGINT, cancelled BOOLEAN"
)
FEW = ("carrier", "dep_delay", "distance")
_AVRO_TYPES = {"BIGINT": "long", "INT": "int", "STRING": "string", "DOUBLE": "double"}
AVRO = json.dumps(
    {
        "type": "record",
        "name": "flight",
        "fields": [
            {"name": name, "type": ["null", _AVRO_TYPES.get(kind, "boolean")]}
            for name, kind in (each.split() for each in COLUMNS.split(", "))
        ],
    }
)
# With all columns, and with a few.
AIMS = {"json": ("at least 2.0", "at least 3.0"), "avro": ("at least 1.0", "")}
FORMATS = {"json": JsonFormat(), "avro": AvroFormat(schema=AVRO)}
_PINNED = Path(__file__).parent / "pinned/spark-avro_2.12-3.5.7.txt"


def measure(runs: int, rows: int) -> Iterator[Result]:
    """Measure both formats, with all fields and with some of them.

    Args:
        runs: The number of measured runs of each contestant.
        rows: The number of records in each topic.
    """
    with KafkaBroker(heap="1g") as broker:
        topics = {kind: _filled(broker, kind, rows) for kind in FORMATS}
        spark = new_session(jars=_jars())
        for kind, topic in topics.items():
            for columns, aim in zip((None, FEW), AIMS[kind], strict=True):
                what = "10 fields" if columns is None else f"{len(columns)} of 10 fields"
                Console(stderr=True).print(f"kafka formats: {kind}, {what}")
                chosen = columns or tuple(each.split()[0] for each in COLUMNS.split(", "))
                found: dict[str, Callable[[], float]] = {
                    "ours": lambda kind=kind, topic=topic, chosen=chosen: (
                        rows / ours(spark, broker.bootstrap_servers, topic, kind, chosen)
                    )
                }
                if _jars() is not None:
                    for name, options in (("Spark's", {}), ("Spark's, tuned", TUNED)):
                        found[name] = lambda kind=kind, topic=topic, chosen=chosen, given=options: (
                            rows / peer(spark, broker.bootstrap_servers, topic, kind, chosen, given)
                        )
                yield from compared(
                    f"read {kind}, {what} (rows/s)",
                    runs,
                    found,
                    aims={"Spark's": aim},
                )
        spark.stop()


def ours(spark: SparkSession, servers: str, topic: str, kind: str, columns: Sequence[str]) -> float:
    """Return the seconds to read columns into Spark's noop sink, as a pipeline reads them."""
    with tempfile.TemporaryDirectory() as folder:
        began = time.monotonic()
        pipeline = Pipeline(spark, "read", checkpoint_location=f"{folder}/checkpoint")
        source = KafkaSource(
            servers,
            topics=topic,
            bounded=OffsetsInitializer.latest(),
            deserialization=KafkaRecordDeserializationSchema(
                value_format=FORMATS[kind], schema=COLUMNS
            ),
        )
        df = pipeline.from_source(source, uid="topic").select(*columns)
        df = push_down(df, pipeline._frames.batches, {}).df  # a pipeline does this when it starts
        df.write.format("noop").mode("overwrite").save()
        return time.monotonic() - began


def peer(
    spark: SparkSession,
    servers: str,
    topic: str,
    kind: str,
    columns: Sequence[str],
    options: Mapping[str, str],
) -> float:
    """Return the seconds to read columns with Spark's own source and functions."""
    began = time.monotonic()
    records = (
        spark.read.format("kafka")
        .option("kafka.bootstrap.servers", servers)
        .option("subscribe", topic)
        .options(**options)
        .load()
    )
    row = _decoded(F.col("value"), kind).alias("row")
    rows = records.select(row).select(*(f"row.{name}" for name in columns))
    rows.write.format("noop").mode("overwrite").save()
    return time.monotonic() - began


def _decoded(value: Column, kind: str) -> Column:
    if kind == "json":
        return F.from_json(value.cast("string"), COLUMNS)
    from pyspark.sql.avro.functions import from_avro

    return from_avro(value, AVRO)


def _filled(broker: KafkaBroker, kind: str, rows: int) -> str:
    name = broker.topics.create(f"formats-{kind}", partitions=PARTITIONS)
    messages = [_message(kind, number) for number in range(POOL)]
    records = ((None, messages[number % POOL]) for number in range(rows))
    fill(broker, name, records, rows=rows, codec="none", partitions=PARTITIONS)
    return name


def _message(kind: str, number: int) -> bytes:
    row: dict[str, Any] = {
        "id": number,
        "carrier": ("AA", "B6", "DL", "UA")[number % 4],
        "flight": number % 900,
        "tailnum": f"N{number % 3000:05}",
        "origin": "JFK",
        "dest": "LAX",
        "dep_delay": number % 180 / 2 if number % 40 else None,
        "arr_delay": number % 200 / 3 if number % 40 else None,
        "distance": number * 7 % 2500,
        "cancelled": number % 40 == 0,
    }
    if kind == "json":
        return orjson.dumps(row)
    stream = io.BytesIO()
    fastavro.schemaless_writer(stream, fastavro.parse_schema(json.loads(AVRO)), row)
    return stream.getvalue()


def _jars() -> str | None:
    """Return the jars of Spark's Kafka source and Avro functions, or None if there are none."""
    kafka = peer_jars()
    if kafka is None:
        return None
    assert pyspark.__version__.startswith("3.5.")
    avro = PinnedArtifacts.read(_PINNED, folder_variable="CONNECTORS_PEER_JARS").paths()
    return ",".join([*kafka.split(","), *map(os.fspath, avro)])
