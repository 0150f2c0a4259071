# SPDX-License-Identifier: Apache-2.0
"""What the suites of the core need to know: how to fill the system, and what the connector can."""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path

import pyarrow as pa

from connector_elasticsearch.sink import ElasticsearchSink
from connector_elasticsearch.source import ElasticsearchSource
from connector_elasticsearch.testing import LogSystem, Topic
from connectors_core.source import Boundedness
from connectors_core.testing import (
    ROWS,
    Capabilities,
    Capability,
    SinkExternalContext,
    SinkTestSuite,
    SourceExternalContext,
    SourceTestSuite,
    SplitDataWriter,
)

# The release of the suites that these tests are written for: what later ones bring is new.
SUITES = "1.1"
# They select the cases. What the system cannot do at all goes into `cannot={...: "the reason"}`.
SOURCE = Capabilities(
    can=frozenset(
        {
            Capability.BOUNDED,
            Capability.UNBOUNDED,
            Capability.DISCOVERY,
            Capability.GROWING_SPLITS,
            Capability.POISON_READS,
            Capability.REPLAYABLE,
            Capability.DATA_TYPES,
            Capability.SCHEMA_CHANGE,
            Capability.SECRETS,
        }
    )
)
SINK = Capabilities(
    can=frozenset(
        {
            Capability.EXACTLY_ONCE,
            Capability.DATA_TYPES,
            Capability.SCHEMA_CHANGE,
            Capability.SECRETS,
        }
    ),
    cannot={
        Capability.LEASES: "every writer begins a transaction of its own",
        Capability.REWRITING: "a transaction stays open until it is ended",
    },
)


class PartitionWriter(SplitDataWriter):
    """Writes to one partition."""

    def __init__(self, topic: Topic, partition: int) -> None:
        self._topic = topic
        self._partition = partition

    def write(self, rows: pa.Table) -> None:
        self._topic.append(self._partition, rows)

    def write_poison(self) -> None:
        columns = {name: pa.nulls(1, pa.string()) for name in ROWS.names}
        self._topic.append(self._partition, pa.table(columns | {"seq": ["not a number"]}))


class SourceTopic(SourceExternalContext):
    """A topic for one case of a source."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._name = f"suite-{uuid.uuid4().hex}"
        self._token = uuid.uuid4().hex
        self._topic = Topic(address, self._name)
        self._topic.create(ROWS)
        self._partitions = itertools.count()

    def create_split(self) -> PartitionWriter:
        partition = next(self._partitions)
        self._topic.append(partition, ROWS.empty_table())
        return PartitionWriter(self._topic, partition)

    def create_source(self, boundedness: Boundedness) -> ElasticsearchSource:
        endless = boundedness is Boundedness.CONTINUOUS_UNBOUNDED
        interval = timedelta(milliseconds=50) if endless else None
        return ElasticsearchSource(
            self._address,
            self._name,
            token=self._token,
            discovery_interval=interval,
            batch_rows=7,  # so that a split is read in many steps
        )

    def create_typed_source(self, rows: pa.Table) -> ElasticsearchSource:
        name = f"{self._name}-typed"
        topic = Topic(self._address, name)
        topic.create(rows.schema)
        topic.append(0, rows)
        return ElasticsearchSource(self._address, name, token=self._token)

    def secrets(self) -> Sequence[str]:
        return [self._token]


class LogSourceSuite(SourceTestSuite):
    system = LogSystem()
    written_for = SUITES
    capabilities = SOURCE

    def external_context(self, folder: Path) -> SourceTopic:
        return SourceTopic(self.address)


class SinkTopic(SinkExternalContext):
    """A topic for one case of a sink."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._name = f"suite-{uuid.uuid4().hex}"
        self._token = uuid.uuid4().hex
        self._topic = Topic(address, self._name)
        self._topic.create(ROWS)

    def create_sink(self) -> ElasticsearchSink:
        return ElasticsearchSink(self._address, self._name, token=self._token)

    def read_back(self, schema: pa.Schema = ROWS) -> pa.Table:
        return self._topic.rows(schema)

    def leftovers(self) -> Sequence[str]:
        return self._topic.open_transactions()

    def secrets(self) -> Sequence[str]:
        return [self._token]


class LogSinkSuite(SinkTestSuite):
    system = LogSystem()
    written_for = SUITES
    capabilities = SINK

    def external_context(self, folder: Path) -> SinkTopic:
        return SinkTopic(self.address)
