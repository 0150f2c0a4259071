# SPDX-License-Identifier: Apache-2.0
"""Tests the Kafka source on Spark: the example in the README, and a batch run with lost records."""

from __future__ import annotations

import re
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from numbered_records import NumberedRecords

from connector_kafka import (
    KafkaRecordDeserializationSchema,
    KafkaSource,
    OffsetsInitializer,
)
from connector_kafka.testing import KafkaBroker
from connectors_core import Pipeline
from connectors_core.testing import DirectorySink

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

README = Path(__file__).parents[2] / "README.md"
CODE = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.mark.cell
def test_the_example_in_the_readme_prints_its_rows(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    code = CODE.findall(README.read_text(encoding="utf-8"))[0]
    variables: dict[str, Any] = {"__name__": "__main__"}
    exec(compile(code, README.name, "exec", dont_inherit=True), variables)
    assert [tuple(row) for row in variables["found"]] == [("B6725", 9, 1, 0), ("UA1545", 2, 0, 0)]


def test_a_batch_run_reports_the_records_that_retention_deleted_before_it_read_them(
    spark: SparkSession,
    broker: KafkaBroker,
    topic: str,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    NumberedRecords(broker, topic, tmp_path).write(100)
    reading = KafkaSource(
        broker.bootstrap_servers,
        topics=[topic],
        on_data_loss="earliest",
        bounded=OffsetsInitializer.offsets({(topic, 0): 80}),
    )
    sink = DirectorySink(tmp_path / "of-the-batch")
    with Pipeline(spark, "batch", checkpoint_location=str(tmp_path / "batch")) as pipeline:
        rows = pipeline.from_source(reading, uid="topic")
        pipeline.sink_to(rows, sink, uid="out")
        broker.topics.delete_records(topic, {0: 60})
        assert pipeline.run()
        (status,) = pipeline.status().sources
    assert sorted(map(int, sink.read()["value"].to_pylist())) == list(range(60, 80))
    assert (status.rows, status.counters["discoveredPartitions"]) == (20, 1)
    assert (status.counters["dataLosses"], status.counters["offsetsLost"]) == (1, 60)
    assert f"records of {topic}-0 are lost (offsets 0 to 60)" in caplog.text


def test_a_query_gets_the_same_rows_with_and_without_pushdown(
    spark: SparkSession, broker: KafkaBroker, topic: str, tmp_path: Path
) -> None:
    broker.topics.delete(topic)
    broker.topics.create(topic, partitions=2)
    NumberedRecords(broker, topic, tmp_path).write(40, partitions=(0, 1))
    columns = KafkaRecordDeserializationSchema(
        value_format="string",
        schema="value STRING",
        metadata_columns=["partition", "offset", "timestamp", "headers"],
    )
    reading = KafkaSource(
        broker.bootstrap_servers,
        topics=[topic],
        deserialization=columns,
        bounded=OffsetsInitializer.latest(),
    )
    found, explained, counted = {}, {}, {}
    for pushdown in ("true", "false"):
        sink = DirectorySink(tmp_path / pushdown)
        spark.conf.set("spark.connectors.pushdown", pushdown)
        try:
            with Pipeline(
                spark, pushdown, checkpoint_location=str(tmp_path / f"of-{pushdown}")
            ) as pipeline:
                rows = pipeline.from_source(reading, uid="topic")
                rows = rows.where("partition = 1 AND offset >= 5 AND value LIKE '%1'")
                pipeline.sink_to(rows.select("value", "offset"), sink, uid="out")
                explained[pushdown] = pipeline.explain()
                assert pipeline.run()
                (status,) = pipeline.status().sources
                counted[pushdown] = status.rows
        finally:
            spark.conf.unset("spark.connectors.pushdown")
        found[pushdown] = sorted(map(str, sink.read().select(["value", "offset"]).to_pylist()))
    assert found["true"] == found["false"]
    assert found["true"]
    assert counted == {"true": 15, "false": 40}  # without partition 0, and from offset 5 on
    assert "the source reads: value, partition, offset" in explained["true"]
    assert "condition: partition = 1 (the source skips rows)" in explained["true"]
    assert "condition: offset >= 5 (the source skips rows)" in explained["true"]
    assert "spark.connectors.pushdown is false" in explained["false"]


def test_a_later_run_without_a_condition_resumes_in_partitions_that_it_excluded(
    spark: SparkSession, broker: KafkaBroker, topic: str, tmp_path: Path
) -> None:
    broker.topics.delete(topic)
    broker.topics.create(topic, partitions=2)
    records = NumberedRecords(broker, topic, tmp_path)
    sink = DirectorySink(tmp_path / "rows")
    for condition in ("partition = 1", "true"):
        records.write(10, partitions=(0, 1))
        source = KafkaSource(broker.bootstrap_servers, topics=[topic])
        location = str(tmp_path / "runs")
        with Pipeline(spark, "runs", checkpoint_location=location) as pipeline:
            rows = pipeline.from_source(source, uid="topic").where(condition)
            pipeline.sink_to(rows.select("value"), sink, uid="out")
            assert pipeline.run(available_now=True)
    numbers = sorted(map(int, sink.read()["value"].to_pylist()))
    assert numbers == [*range(1, 10, 2), *range(10, 20)]
