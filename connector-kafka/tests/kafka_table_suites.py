# SPDX-License-Identifier: Apache-2.0
"""The core's test suites for tables and changelogs, with their topics and capabilities."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from kafka import KafkaConsumer, KafkaProducer, TopicPartition

from connector_kafka import KafkaRecordDeserializationSchema, KafkaSource, OffsetsInitializer
from connector_kafka.catalog import KafkaCatalog
from connector_kafka.sink import KafkaSink
from connector_kafka.table_factory import KafkaTableFactory
from connector_kafka.testing import KafkaBroker
from connectors_core.catalog import FileCatalogStore
from connectors_core.schema import ROW_KIND_COLUMN, RowKind
from connectors_core.table import CatalogTable, MetadataColumn
from connectors_core.testing import (
    CHANGES,
    Capabilities,
    Capability,
    CatalogExternalContext,
    CatalogTestSuite,
    ChangelogExternalContext,
    ChangelogTestSuite,
    TableExternalContext,
    TableTestSuite,
    table_schema,
)

SUITES: Final = "1.5"
PASSWORD: Final = "canary-77aa"  # pragma: allowlist secret
_NOWHERE: Final = "127.0.0.1:9"
_numbers = itertools.count()


class KafkaTables(TableExternalContext):
    """A topic of JSON records. Without a broker, it is never read or written."""

    def __init__(self, broker: KafkaBroker | None) -> None:
        self._servers, self._topic = _NOWHERE, f"tables-{next(_numbers)}"
        if broker is not None:
            self._servers = broker.bootstrap_servers
            broker.topics.create(self._topic, partitions=2)

    def definition(self) -> CatalogTable:
        options = {
            "connector": "kafka",
            "properties.bootstrap.servers": self._servers,
            "topic": self._topic,
            "value.format": "json",
            "scan.startup.mode": "earliest-offset",
            "scan.bounded.mode": "latest-offset",
        }
        return CatalogTable(schema=table_schema(), options=options)

    def metadata(self) -> Sequence[MetadataColumn]:
        return [
            MetadataColumn("number", pa.int64(), "offset", virtual=True),
            MetadataColumn("place", pa.int32(), "partition", virtual=True),
            MetadataColumn("written_at", pa.timestamp("ms", tz="UTC"), "timestamp", virtual=True),
        ]

    def secret_options(self) -> Mapping[str, str]:
        return {
            "properties.security.protocol": "SASL_PLAINTEXT",
            "properties.sasl.mechanism": "PLAIN",
            "properties.sasl.username": "alice",
            "properties.sasl.password": PASSWORD,
        }


class KafkaTableSuite(TableTestSuite):
    written_for = SUITES
    factory = KafkaTableFactory
    capabilities = Capabilities(
        can=frozenset(
            {
                Capability.SCAN,
                Capability.INSERT,
                Capability.METADATA_COLUMNS,
                Capability.SECRETS,
            }
        ),
        cannot={Capability.LOOKUP: "a topic is not searched by key"},
    )

    def external_context(self, folder: Path) -> KafkaTables:
        return KafkaTables(None)


class ChangedTopic(ChangelogExternalContext):
    """A topic with the newest record of each key, or with records of Debezium."""

    def __init__(self, broker: KafkaBroker) -> None:
        self._broker = broker
        self._topic = broker.topics.create(f"changes-{next(_numbers)}", partitions=3)

    def create_sink(self) -> KafkaSink:
        return KafkaSink.from_options(
            {
                "properties.bootstrap.servers": self._broker.bootstrap_servers,
                "topic": self._topic,
                "key.format": "json",
                "key.fields": "id",
                "value.format": "json",
                "sink.upsert": "every-row",
                "sink.delivery-guarantee": "exactly-once",
                "sink.transactional-id-prefix": self._topic,
            }
        )

    def read_back(self) -> pa.Table:
        rows: dict[bytes, dict[str, Any]] = {}
        for key, value in self._records():
            if value is None:
                rows.pop(key, None)
            else:
                rows[key] = {"id": None, "text": None, "version": None} | json.loads(value)
        return pa.Table.from_pylist(list(rows.values()))

    def create_source(self, changes: pa.Table) -> KafkaSource:
        producer = KafkaProducer(bootstrap_servers=self._broker.bootstrap_servers)
        for record in _debezium(changes.to_pylist()):
            producer.send(self._topic, json.dumps(record).encode(), partition=0)
        producer.close()
        return KafkaSource(
            self._broker.bootstrap_servers,
            topics=[self._topic],
            bounded=OffsetsInitializer.latest(),
            deserialization=KafkaRecordDeserializationSchema(
                value_format="debezium-json", schema=CHANGES
            ),
        )

    def _records(self) -> Iterator[tuple[bytes, bytes | None]]:
        consumer = KafkaConsumer(
            bootstrap_servers=self._broker.bootstrap_servers,
            isolation_level="read_committed",
            auto_offset_reset="earliest",
            group_id=None,
        )
        parts = [
            TopicPartition(self._topic, n) for n in self._broker.topics.end_offsets(self._topic)
        ]
        consumer.assign(parts)
        ends = consumer.end_offsets(parts)
        while any(consumer.position(each) < ends[each] for each in parts):
            for messages in consumer.poll(timeout_ms=100).values():
                yield from ((message.key, message.value) for message in messages)
        consumer.close()


def _debezium(changes: Sequence[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Return a record for each change; an update is one."""
    before = None
    for change in changes:
        kind = RowKind(change.pop(ROW_KIND_COLUMN))
        match kind:
            case RowKind.INSERT:
                yield {"op": "c", "after": change}
            case RowKind.UPDATE_BEFORE:
                before = change
            case RowKind.UPDATE_AFTER:
                yield {"op": "u", "before": before, "after": change}
            case RowKind.DELETE:
                yield {"op": "d", "before": change}


class KafkaChangelogSuite(ChangelogTestSuite):
    written_for = SUITES
    capabilities = Capabilities(
        can=frozenset({Capability.CHANGELOG_SOURCE, Capability.CHANGELOG_SINK})
    )


class Topics(CatalogExternalContext):
    """The topics of a cluster, which other cases leave without those of this one."""

    def __init__(self, broker: KafkaBroker, folder: Path) -> None:
        self._broker = broker
        self._store = FileCatalogStore(folder)

    def create_catalog(self, name: str) -> KafkaCatalog:
        return self._new_catalog(name, {"drop-topics": "true"})

    def create_default_catalog(self, name: str) -> KafkaCatalog:
        return self._new_catalog(name, {})

    def _new_catalog(self, name: str, options: Mapping[str, str]) -> KafkaCatalog:
        servers = {"properties.bootstrap.servers": self._broker.bootstrap_servers}
        catalog = KafkaCatalog(name, {**servers, **options})
        catalog.definitions = self._store.tables_of("topics")
        return catalog

    def add_table(self, name: str) -> None:
        self._broker.topics.create(name, partitions=1)
        producer = KafkaProducer(bootstrap_servers=self._broker.bootstrap_servers)
        for number in (1, 2):
            producer.send(name, json.dumps({"id": number, "text": "a"}).encode())
        producer.close()

    def stored(self, name: str) -> dict[int, int]:
        return self._broker.topics.end_offsets(name)

    def definition(self) -> CatalogTable:
        return CatalogTable(schema=table_schema(), options={"value.format": "json"}, comment="made")

    def close(self) -> None:
        consumer = KafkaConsumer(bootstrap_servers=self._broker.bootstrap_servers)
        for name in {"things", "a", "b", "made"} & consumer.topics():
            self._broker.topics.delete(name)
        consumer.close()


class KafkaCatalogSuite(CatalogTestSuite):
    written_for = SUITES
    capabilities = Capabilities(
        can=frozenset(
            {
                Capability.CREATE_TABLES,
                Capability.ALTER_TABLES,
                Capability.DROP_TABLES,
                Capability.PERSISTENT,
            }
        ),
        cannot={
            Capability.CREATE_DATABASES: "a cluster has no databases",
            Capability.RENAME_TABLES: "a topic keeps its name",
            Capability.VIEWS: "a cluster keeps no queries",
            Capability.PARTITIONS: "partitions of a topic hold no values of a column",
            Capability.STATISTICS: "a topic does not count its records",
            Capability.SECRETS: "the tests need no login",  # pragma: allowlist secret
        },
    )
