# SPDX-License-Identifier: Apache-2.0
"""Tests the Kafka sink on Spark: the documented example in batch mode, and a stream."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from kafka_sink_suites import open_transactions, read_committed

from connector_kafka import KafkaRecordSerializationSchema, KafkaSink
from connector_kafka.testing import KafkaBroker
from connectors_core import Pipeline
from connectors_core.formats import JsonFormat
from connectors_core.sink import DeliveryGuarantee
from connectors_core.source import NumberSequenceSource, ReadLimits

PAGE = Path(__file__).parents[2] / "docs" / "sink.md"


@pytest.mark.cell
def test_the_example_in_the_docs_writes_each_row_once(
    spark: Any, broker: KafkaBroker, tmp_path: Path
) -> None:
    broker.topics.create("numbers", partitions=3)
    example, *_ = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    example = example.replace("localhost:9092", broker.bootstrap_servers)
    example = example.replace("/data/", f"{tmp_path}/")
    exec(compile(example, str(PAGE), "exec"), {})
    found = read_committed(broker, "numbers")
    assert sorted(json.loads(value or b"")["id"] for value in found) == list(range(1, 101))


@pytest.mark.parametrize(
    "guarantee", [DeliveryGuarantee.EXACTLY_ONCE, DeliveryGuarantee.AT_LEAST_ONCE]
)
def test_a_stream_writes_each_row_once_over_several_epochs(
    spark: Any, broker: KafkaBroker, topic: str, tmp_path: Path, guarantee: DeliveryGuarantee
) -> None:
    sink = KafkaSink(
        broker.bootstrap_servers,
        serialization=KafkaRecordSerializationSchema(topic=topic, value_format=JsonFormat()),
        delivery_guarantee=guarantee,
        transactional_id_prefix=topic,
    )
    location = str(tmp_path)
    with Pipeline(spark, "stream", checkpoint_location=location, streaming=True) as pipeline:
        source = NumberSequenceSource(1, 60)
        numbers = pipeline.from_source(source, uid="numbers", limits=ReadLimits(rows=20))
        pipeline.sink_to(numbers, sink, uid="out")
        pipeline.run()
        assert pipeline.status().sinks[0].guarantee is guarantee
    found = read_committed(broker, topic)
    assert sorted(json.loads(value or b"")["value"] for value in found) == list(range(1, 61))
    assert open_transactions(broker, topic) == []
