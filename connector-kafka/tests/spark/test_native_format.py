# SPDX-License-Identifier: Apache-2.0
"""Tests the format `connector_kafka` of Spark 4, which needs no pipeline."""

from __future__ import annotations

import functools
import signal
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from kafka_sink_suites import KafkaSinkFormatSuite, read_committed
from kafka_suites import KafkaSourceFormatSuite
from numbered_records import NumberedRecords

from connector_kafka.testing import KafkaBroker
from connectors_core.testing import (
    Fault,
    FaultAction,
    FaultPoint,
    new_session,
    run_driver,
    wait_for_survivors,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytest.importorskip("pyspark.sql.datasource")
pytestmark = pytest.mark.line("4.3")

FORMAT = "connector_kafka"
TO_END = {"scan.bounded.mode": "latest-offset", "scan.startup.mode": "earliest-offset"}


class TestReading(KafkaSourceFormatSuite):
    pass


class TestWriting(KafkaSinkFormatSuite):
    pass


def options_of(broker: KafkaBroker, topic: str, **more: Any) -> dict[str, str]:
    return {
        "properties.bootstrap.servers": broker.bootstrap_servers,
        "topic": topic,
        "value.format": "string",
        "schema": "value STRING",
    } | more


def numbers_in(broker: KafkaBroker, topic: str) -> Counter[int]:
    return Counter(int(value or b"-1") for value in read_committed(broker, topic))


def test_a_topic_is_written_and_read_in_batch(
    spark: SparkSession, broker: KafkaBroker, topic: str
) -> None:
    rows = spark.range(0, 60, 1, 3).selectExpr("cast(id AS string) AS value")
    rows.write.format(FORMAT).options(**options_of(broker, topic)).mode("append").save()
    frame = spark.read.format(FORMAT).options(**options_of(broker, topic, **TO_END)).load()
    assert Counter(int(row.value) for row in frame.collect()) == Counter(range(60))


def test_a_batch_read_without_an_end_is_refused(
    spark: SparkSession, broker: KafkaBroker, topic: str
) -> None:
    frame = spark.read.format(FORMAT).options(**options_of(broker, topic)).load()
    with pytest.raises(Exception, match=r"scan\.bounded\.mode"):
        frame.collect()


def test_an_exactly_once_write_names_the_pipeline(
    spark: SparkSession, broker: KafkaBroker, topic: str
) -> None:
    rows = spark.range(3).selectExpr("cast(id AS string) AS value")
    options = options_of(broker, topic, **{"sink.delivery-guarantee": "exactly-once"})
    with pytest.raises(Exception, match=r"choose at-least-once, or write with Pipeline\.sink_to"):
        rows.write.format(FORMAT).options(**options).mode("append").save()


def copy(spark: SparkSession, root: Path, options: dict[str, str], **limits: Any) -> list[int]:
    """Copy what a topic has now to files; return the rows of each micro-batch."""
    frame = spark.readStream.format(FORMAT).options(**options, **limits).load()
    query = (
        frame.writeStream.format("json")
        .option("checkpointLocation", str(root / "checkpoint"))
        .trigger(availableNow=True)
        .start(str(root / "out"))
    )
    try:
        assert query.awaitTermination(120)
    finally:
        query.stop()
    rows = (progress.numInputRows for progress in query.recentProgress)
    return [each for each in rows if each]


def test_a_stream_resumes_at_its_offsets_within_the_limit_of_rows(
    spark: SparkSession, broker: KafkaBroker, topic: str, tmp_path: Path
) -> None:
    records = NumberedRecords(broker, topic, tmp_path)
    options = options_of(broker, topic, **{"scan.startup.mode": "earliest-offset"})
    records.write(25)
    assert copy(spark, tmp_path, options, **{"limits.rows": 10}) == [10, 10, 5]
    assert copy(spark, tmp_path, options) == []
    records.write(15)
    assert copy(spark, tmp_path, options) == [15]
    values = spark.read.json(str(tmp_path / "out")).collect()
    assert Counter(int(row.value) for row in values) == Counter(range(40))


STREAM_POINTS = [FaultPoint.AFTER_PLAN, FaultPoint.READER_FETCHED]


def copy_in_a_driver(root: Path, options: dict[str, str]) -> None:
    copy(new_session(), root, options, **{"limits.rows": 20})


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_killing_drivers_loses_and_duplicates_no_record(
    spark: SparkSession, broker: KafkaBroker, topic: str, tmp_path: Path
) -> None:
    NumberedRecords(broker, topic, tmp_path).write(100)
    options = options_of(broker, topic, **{"scan.startup.mode": "earliest-offset"})
    job = functools.partial(copy_in_a_driver, tmp_path, options)
    log = tmp_path / "driver.log"
    for point in STREAM_POINTS:
        once = tmp_path / f"fault-{point}"
        fault = Fault(point, action=FaultAction.KILL_DRIVER, nth=2, once=once)
        assert run_driver(job, log, fault) == -signal.SIGKILL, log.read_text()[-4000:]
        assert fault.fired
        wait_for_survivors(log)
    assert run_driver(job, log) == 0, log.read_text()[-4000:]
    values = spark.read.json(str(tmp_path / "out")).collect()
    assert Counter(int(row.value) for row in values) == Counter(range(100))


def test_a_stream_writes_at_least_once(
    spark: SparkSession, broker: KafkaBroker, topic: str, tmp_path: Path
) -> None:
    source = broker.topics.create(f"{topic}-source")
    NumberedRecords(broker, source, tmp_path).write(30)
    frame = (
        spark.readStream.format(FORMAT)
        .options(**options_of(broker, source, **{"scan.startup.mode": "earliest-offset"}))
        .load()
        .select("value")
    )
    query = (
        frame.writeStream.format(FORMAT)
        .options(**options_of(broker, topic), checkpointLocation=str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(120)
    assert numbers_in(broker, topic) == Counter(range(30))
