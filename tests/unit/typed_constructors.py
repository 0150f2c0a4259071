# SPDX-License-Identifier: Apache-2.0
"""Correct and wrong keywords of constructors, as type checkers see them.

`test_docs_types.py` checks it with mypy and pyright. A wrong value needs the comment that ignores
its error. An unneeded comment is an error too, because it shows that a keyword accepts too much.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import time, timedelta
from pathlib import Path

import pyarrow as pa
from pyspark.sql.types import StructType

from connector_elasticsearch import ElasticsearchSource, ElasticsearchTable
from connector_filesystem import CsvOptions, FileFormat, FileSource
from connector_kafka import KafkaRecordDeserializationSchema, KafkaSource
from connectors_core.formats import (
    ConfluentAvroFormat,
    CsvDialect,
    CsvFormat,
    EmptyMessages,
    HttpSchemaRegistry,
    JsonFormat,
)
from connectors_core.lookup import (
    DefaultLookupCache,
    LookupRequestConfiguration,
    PeriodicCacheReloadTrigger,
    ScheduleMode,
    TimedCacheReloadTrigger,
)
from connectors_core.secrets import Secret
from connectors_core.source import DataGeneratorSource

Generator = Callable[[pa.Int64Array], pa.RecordBatch]


def right(generator: Generator, arrow: pa.Schema, spark: StructType) -> None:
    FileSource("/data")
    FileSource(Path("/data"), format="csv", schema="id BIGINT", csv=CsvOptions(delimiter=";"))
    FileSource(["/a", "/b"], format=FileFormat.PARQUET, schema=spark, batch_rows=10)
    FileSource("/data", schema=arrow, monitor_interval="10 s", split_size="128mb")
    FileSource("/data", monitor_interval=timedelta(seconds=10), split_size=1 << 20)
    KafkaSource("localhost:9092", topics="flights", discovery_interval=None)
    KafkaSource(["a:9092", "b:9092"], topics=["a", "b"], properties={"client.id": "me"})
    KafkaRecordDeserializationSchema(value_format=JsonFormat(), schema=spark)
    KafkaRecordDeserializationSchema(value_format="json", schema="id BIGINT")
    ElasticsearchSource("http://localhost:9200", "flights", schema=arrow, keep_alive="1 min")
    ElasticsearchSource("http://localhost:9200", ["a", "b"], schema=spark, limit=5)
    CsvFormat(dialect=CsvDialect(delimiter=";", null_values=["", "NA"]), empty_messages="bad")
    JsonFormat(ignore_null_fields=True, empty_messages=EmptyMessages.BAD)
    ConfluentAvroFormat(registry=HttpSchemaRegistry(url="http://localhost", timeout="2 s"))
    HttpSchemaRegistry(url="http://localhost", user_info=Secret("a:b"), timeout=timedelta(1))
    DefaultLookupCache(max_rows=5, expire_after_write="10 s", expire_after_access=timedelta(1))
    PeriodicCacheReloadTrigger("10 min", ScheduleMode.FIXED_RATE)
    TimedCacheReloadTrigger(time(3, 30), reload_interval_in_days=2)
    hourly = PeriodicCacheReloadTrigger("1 h")
    patient = LookupRequestConfiguration(max_retries=20, timeout="5 s")
    ElasticsearchTable("http://a", "planes", id_column="id", cache="partial", requests=patient)
    ElasticsearchTable("http://a", "planes", cache=DefaultLookupCache(), asynchronous=True)
    ElasticsearchTable("http://a", ["a", "b"], cache="full", reload_trigger=hourly)
    DataGeneratorSource(generator, None, spark)
    DataGeneratorSource(generator, 10, "id BIGINT")
    DataGeneratorSource(generator, count=10, schema=arrow)


def given(source: FileSource, cache: DefaultLookupCache) -> tuple[int, timedelta | None]:
    return source.split_size, cache.expire_after_write


def wrong() -> None:
    FileSource()  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    FileSource(5)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    FileSource("/", format="xml")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    FileSource("/", batch_rows="9")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    FileSource("/", csv=";")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    FileSource("/", order=True)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    FileSource("/", delimiter=";")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    KafkaSource("a", topics=5)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    KafkaSource("a", deserialization={})  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    KafkaSource("a", topic="b")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    ElasticsearchSource("a")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    ElasticsearchSource("a", 5)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    ElasticsearchTable("a", "b", cache=5)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    ElasticsearchTable("a", "b", lookup={})  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    CsvDialect(delimiter=5)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    CsvFormat(dialect=";")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    JsonFormat(write_nulls=True)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    HttpSchemaRegistry()  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    DefaultLookupCache(5)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    TimedCacheReloadTrigger(3)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
