# SPDX-License-Identifier: Apache-2.0
"""Tests changelogs on a real broker: several rows for a record, or none."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from kafka import KafkaProducer

from connector_kafka import KafkaRecordDeserializationSchema, KafkaSource, OffsetsInitializer
from connector_kafka.testing import KafkaBroker
from connectors_core import ConnectorError, Pipeline, ReadLimits
from connectors_core.testing import DirectorySink, Fault, FaultAction, injected

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COUNT = 40
Row = tuple[int, int, str]


def debezium(number: int) -> tuple[bytes | None, list[tuple[int, str]]]:
    """Return a message and its rows: their ids and kinds."""
    image, other = {"id": number}, {"id": number + 1000}
    match number % 4:
        case 0:
            return json.dumps({"op": "c", "after": image}).encode(), [(number, "+I")]
        case 1:
            text = json.dumps({"op": "u", "before": image, "after": other})
            return text.encode(), [(number, "-U"), (number + 1000, "+U")]
        case 2:
            return json.dumps({"op": "d", "before": image}).encode(), [(number, "-D")]
    return None, []


def canal(number: int) -> tuple[bytes | None, list[tuple[int, str]]]:
    """Return a message with several rows, and these."""
    ids = [number * 100 + each for each in range(number % 5)]
    rows: dict[str, Any] = {"data": [{"id": str(each)} for each in ids]}
    match number % 4:
        case 0:
            return json.dumps({"type": "INSERT", **rows}).encode(), [(each, "+I") for each in ids]
        case 1:
            old = [{"id": str(-each)} for each in ids]
            text = json.dumps({"type": "UPDATE", **rows, "old": old})
            return text.encode(), [row for each in ids for row in ((-each, "-U"), (each, "+U"))]
        case 2:
            return json.dumps({"type": "DELETE", **rows}).encode(), [(each, "-D") for each in ids]
    return json.dumps({"type": "CREATE", "isDdl": True}).encode(), []


CHANGES = {"debezium-json": debezium, "canal-json": canal}


def written(broker: KafkaBroker, topic: str, value_format: str) -> list[Row]:
    """Write all changes; return the offset, the id, and the kind of each row."""
    producer = KafkaProducer(bootstrap_servers=broker.bootstrap_servers)
    rows = []
    for number in range(COUNT):
        message, found = CHANGES[value_format](number)
        producer.send(topic, message, key=b"k", partition=0)
        rows += [(number, *row) for row in found]
    producer.close()
    return rows


def source_of(broker: KafkaBroker, topic: str, value_format: str) -> KafkaSource:
    return KafkaSource(
        broker.bootstrap_servers,
        topics=[topic],
        bounded=OffsetsInitializer.latest(),
        deserialization=KafkaRecordDeserializationSchema(
            value_format=value_format,
            schema="id BIGINT, _row_kind STRING",
            metadata_columns=["offset"],
        ),
    )


def rows_in(sink: DirectorySink) -> list[Row]:
    found = sink.read().select(["offset", "id", "_row_kind"]).to_pylist()
    return sorted((row["offset"], row["id"], row["_row_kind"]) for row in found)


@pytest.mark.parametrize(
    ("value_format", "rows"), [("canal-json", 2), ("debezium-json", 10), ("canal-json", 30)]
)
def test_plans_that_end_within_a_change_are_exact_after_a_failure(
    spark: SparkSession,
    broker: KafkaBroker,
    topic: str,
    tmp_path: Path,
    value_format: str,
    rows: int,
) -> None:
    expected = written(broker, topic, value_format)
    sink = DirectorySink(tmp_path / "out")

    def run() -> Any:
        with Pipeline(
            spark, "changes", checkpoint_location=str(tmp_path / "c"), streaming=True
        ) as pipeline:
            limits = ReadLimits(rows=rows)
            source = source_of(broker, topic, value_format)
            changes = pipeline.from_source(source, uid="topic", limits=limits)
            pipeline.sink_to(changes, sink, uid="out")
            return pipeline.run()

    fault = Fault("before_decision", action=FaultAction.RAISE, nth=2)
    with injected(fault), pytest.raises(ConnectorError):
        run()
    assert run()
    assert rows_in(sink) == sorted(expected)


@pytest.mark.parametrize(
    ("value_format", "streaming"), [("canal-json", None), ("debezium-json", True)]
)
def test_a_query_gets_the_same_rows_with_and_without_pushdown(
    spark: SparkSession,
    broker: KafkaBroker,
    topic: str,
    tmp_path: Path,
    value_format: str,
    streaming: bool | None,
) -> None:
    expected = written(broker, topic, value_format)
    for pushdown in ("true", "false"):
        sink = DirectorySink(tmp_path / pushdown)
        spark.conf.set("spark.connectors.pushdown", pushdown)
        try:
            with Pipeline(
                spark,
                "changes",
                checkpoint_location=str(tmp_path / f"of-{pushdown}"),
                streaming=streaming,
            ) as pipeline:
                source = source_of(broker, topic, value_format)
                changes = pipeline.from_source(source, uid="topic")
                kept = changes.where("offset >= 10 AND offset < 31 AND _row_kind != '-U'")
                pipeline.sink_to(kept, sink, uid="out")
                assert pipeline.run()
                (status,) = pipeline.status().sources
        finally:
            spark.conf.unset("spark.connectors.pushdown")
        assert rows_in(sink) == sorted(
            row for row in expected if 10 <= row[0] < 31 and row[2] != "-U"
        )
        assert status.rows == len(expected)  # the number of rows is only known after decoding
