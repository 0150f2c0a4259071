# SPDX-License-Identifier: Apache-2.0
"""The core's test suites for the dynamic source: two clusters of one stream, on one broker."""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
from kafka_suites import (
    GROUP,
    PASSWORD,
    SECURITY,
    SOURCE,
    SUITES,
    KafkaSystem,
    PartitionWriter,
    Topic,
    broker_at,
)

from connector_kafka import (
    DynamicKafkaSource,
    FileMetadataService,
    KafkaRecordDeserializationSchema,
    OffsetsInitializer,
)
from connectors_core.secrets import Secret
from connectors_core.source import Boundedness
from connectors_core.testing import ROWS, SourceExternalContext, SourceTestSuite

CLUSTERS = ("east", "west")
SOON = timedelta(milliseconds=50)


class StreamOfTwoClusters(SourceExternalContext):
    """A stream for one test case. Its splits are in the clusters in turn."""

    def __init__(self, address: str, folder: Path) -> None:
        self._address = address
        self._path = folder / "streams.json"
        self._topics: dict[str, Topic] = {}
        self._splits = 0
        self._add(CLUSTERS[0])

    def create_split(self) -> PartitionWriter:
        number, self._splits = self._splits, self._splits + 1
        cluster = CLUSTERS[number % 2]
        if number >= 2:
            return PartitionWriter(self._topics[cluster], self._topics[cluster].add_partition())
        if cluster not in self._topics:
            self._add(cluster)
        return PartitionWriter(self._topics[cluster], 0)

    def _add(self, cluster: str) -> None:
        """Add a cluster to the stream."""
        self._topics[cluster] = Topic(broker_at(self._address), f"suite-{uuid.uuid4().hex}")
        self._place(self._path, {name: topic.name for name, topic in self._topics.items()})

    def create_source(self, boundedness: Boundedness, **settings: Any) -> DynamicKafkaSource:
        bounded = boundedness is Boundedness.BOUNDED
        return self._source(
            self._path,
            ROWS,
            bounded=OffsetsInitializer.latest() if bounded else None,
            metadata_discovery_interval=SOON,
            discovery_interval=SOON,
            poll_interval=SOON,
            batch_rows=7,
            **settings,
        )

    def unacknowledged(self) -> int:
        return sum(topic.lag(GROUP) for topic in self._topics.values())

    def create_typed_source(self, rows: pa.Table) -> DynamicKafkaSource:
        return self.create_misfit_source(rows.schema, [rows])

    def create_misfit_source(
        self, schema: pa.Schema, parts: Sequence[pa.Table]
    ) -> DynamicKafkaSource:
        topic = Topic(broker_at(self._address), f"suite-{uuid.uuid4().hex}")
        for part in parts:
            PartitionWriter(topic, 0).write(part)
        path = self._path.with_name("typed.json")
        self._place(path, {CLUSTERS[0]: topic.name})
        return self._source(path, schema, bounded=OffsetsInitializer.latest())

    def secrets(self) -> Sequence[str]:
        return [PASSWORD]

    def _place(self, path: Path, topics: Mapping[str, str]) -> None:
        plain = {
            key: value
            for key, value in SECURITY.client_properties().items()
            if not isinstance(value, Secret)
        }
        properties = {"bootstrap.servers": self._address, **plain}
        document = {
            "clusters": {name: {"properties": properties} for name in topics},
            "streams": {"stream": {name: [topic] for name, topic in topics.items()}},
        }
        new = path.with_suffix(".new")
        new.write_text(json.dumps(document))
        os.replace(new, path)

    def _source(self, path: Path, schema: pa.Schema, **settings: Any) -> DynamicKafkaSource:
        secret = {"sasl.password": PASSWORD}
        return DynamicKafkaSource(
            FileMetadataService(str(path), credentials=dict.fromkeys(CLUSTERS, secret)),
            stream_ids="stream",
            deserialization=KafkaRecordDeserializationSchema(value_format="json", schema=schema),
            group_id=GROUP,
            **settings,
        )


class OfDynamicSource:
    """Settings that the suites of the source and of its parts share."""

    system = KafkaSystem()
    written_for = SUITES
    capabilities = SOURCE

    def external_context(self, folder: Path) -> StreamOfTwoClusters:
        return StreamOfTwoClusters(self.address, folder)


class DynamicKafkaSourceSuite(OfDynamicSource, SourceTestSuite):
    pass
