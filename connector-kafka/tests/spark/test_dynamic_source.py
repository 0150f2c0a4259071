# SPDX-License-Identifier: Apache-2.0
"""Tests streams whose topics move between two real clusters."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from numbered_records import wait

from connector_kafka import (
    DynamicKafkaSource,
    FetchOptions,
    FileMetadataService,
    KafkaRecordDeserializationSchema,
    OffsetsInitializer,
)
from connector_kafka.errors import KafkaRetryableError
from connector_kafka.testing import BrokerSecurity, KafkaBroker
from connectors_core.secrets import Secret
from connectors_core.testing import DirectorySink, LocalPipeline

PASSWORD = "canary-91fd"  # pragma: allowlist secret
SOON = timedelta(milliseconds=50)
STREAM = "numbers"


@pytest.fixture(scope="module")
def other() -> Iterator[KafkaBroker]:
    """Start another cluster, which requires a login."""
    security = BrokerSecurity(mechanism="PLAIN", password=Secret(PASSWORD))
    with KafkaBroker(security=security) as broker:
        yield broker


class Moving:
    """A stream of the numbers from 0, in a topic that moves between two clusters."""

    def __init__(self, west: KafkaBroker, east: KafkaBroker, topic: str, folder: Path) -> None:
        self.brokers = {"west": west, "east": east}
        self.topic = topic
        self.folder = folder
        self.sink = DirectorySink(folder / "out")
        self.written = 0
        east.topics.create(topic, partitions=2)

    def place(self, **topics: Sequence[str]) -> None:
        """Say which topics of which clusters the stream has."""
        clusters = {}
        for name, broker in self.brokers.items():
            properties = broker.client_properties()
            clusters[name] = {
                "properties": {
                    key: value for key, value in properties.items() if isinstance(value, str)
                }
            }
        document = {"clusters": clusters, "streams": {STREAM: topics}}
        path = self.folder / "streams.json.new"
        path.write_text(json.dumps(document))
        os.replace(path, self.path)

    @property
    def path(self) -> Path:
        return self.folder / "streams.json"

    def source(self, **settings: Any) -> DynamicKafkaSource:
        secrets = {
            name: {
                key: value
                for key, value in broker.client_properties().items()
                if isinstance(value, Secret)
            }
            for name, broker in self.brokers.items()
        }
        given: Mapping[str, Any] = {
            "stream_ids": STREAM,
            "metadata_discovery_interval": SOON,
            "discovery_interval": SOON,
            "fetch": FetchOptions(poll_interval=timedelta(milliseconds=20)),
            "deserialization": KafkaRecordDeserializationSchema(
                metadata_columns=["value", "kafka_cluster", "topic", "partition", "offset"]
            ),
            **settings,
        }
        service = FileMetadataService(str(self.path), credentials=secrets)
        return DynamicKafkaSource(service, **given)

    def write(self, cluster: str, count: int, topic: str | None = None) -> None:
        producer = KafkaProducer(
            bootstrap_servers=self.brokers[cluster].internal_servers, acks="all"
        )
        with closing(producer):
            for number in range(self.written, self.written + count):
                producer.send(topic or self.topic, str(number).encode(), partition=number % 2)
        self.written += count

    def pipeline(self, **settings: Any) -> LocalPipeline:
        location = str(self.folder / "checkpoint")
        pipeline = LocalPipeline("moving", checkpoint_location=location, parallelism=2)
        rows = pipeline.from_source(self.source(**settings), uid="stream")
        pipeline.sink_to(rows, self.sink, uid="out")
        return pipeline

    def wait_for_all(self, pipeline: LocalPipeline) -> None:
        wait(lambda: len(self.read()) >= self.written, f"{self.written} records", pipeline)

    def read(self) -> list[int]:
        rows = self.sink.read()
        return [*map(int, rows["value"].to_pylist())] if rows.num_columns else []

    def assert_complete(self) -> None:
        found = Counter(self.read())
        assert found == Counter(range(self.written))


@pytest.fixture
def moving(broker: KafkaBroker, other: KafkaBroker, tmp_path: Path, request: Any) -> Moving:
    name = "".join(each if each.isalnum() else "-" for each in request.node.name)
    broker.topics.create(name, partitions=2)
    return Moving(broker, other, name, tmp_path)


def test_a_topic_moves_there_and_back(moving: Moving) -> None:
    moving.place(west=[moving.topic])
    moving.write("west", 100)
    with moving.pipeline() as pipeline:
        pipeline.start()
        moving.wait_for_all(pipeline)
        moving.write("west", 50)
        moving.place(east=[moving.topic])
        moving.write("east", 100)
        moving.wait_for_all(pipeline)
        moving.place(west=[moving.topic])
        moving.write("west", 10)
        moving.wait_for_all(pipeline)
        pipeline.stop()
    moving.assert_complete()
    found = moving.sink.read().to_pylist()
    assert Counter(each["kafka_cluster"] for each in found) == {"west": 160, "east": 100}
