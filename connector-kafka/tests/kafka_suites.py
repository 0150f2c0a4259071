# SPDX-License-Identifier: Apache-2.0
"""The core's test suites for the Kafka source, with their test data and capabilities."""

from __future__ import annotations

import itertools
import logging
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from datetime import timedelta
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

from connector_kafka import (
    KafkaRecordDeserializationSchema,
    KafkaSource,
    OffsetsInitializer,
)
from connector_kafka.testing import BrokerSecurity, KafkaBroker, KafkaProxy
from connectors_core.formats import JsonFormat
from connectors_core.secrets import Secret
from connectors_core.source import Boundedness
from connectors_core.testing import (
    ROWS,
    Capabilities,
    Capability,
    Outage,
    SourceExternalContext,
    SourceFormatTestSuite,
    SourceTestSuite,
    SplitDataWriter,
    TestSystem,
)

# The suite release that these tests are written for. Cases of later releases count as new.
SUITES = "1.5"
SOURCE = Capabilities(
    can=frozenset(
        {
            Capability.BOUNDED,
            Capability.UNBOUNDED,
            Capability.DISCOVERY,
            Capability.GROWING_SPLITS,
            Capability.LATE_COMMITS,
            Capability.ACKNOWLEDGED_READS,
            Capability.INPUT_VERSION,
            Capability.POISON_READS,
            Capability.MISFITS,
            Capability.REPLAYABLE,
            Capability.DATA_TYPES,
            Capability.SCHEMA_CHANGE,
            Capability.SECRETS,
            Capability.OUTAGES,
        }
    ),
    cannot={
        Capability.CUT_SPLITS: "a running broker keeps its logs; test_source_faults.py cuts them",
        Capability.REPLACED_SPLITS: "a log keeps its records",
        Capability.SKIPPED_SPLITS: "no option skips what cannot be read",
        Capability.REFUSALS: "the broker of the tests has no rules for its users",
    },
    cannot_carry={
        "float": "JSON has no infinity",
        "double": "JSON has no infinity",
        "day-time interval": "JSON has no lengths of time",
    },
)
PASSWORD = "canary-7c41"  # pragma: allowlist secret
SECURITY = BrokerSecurity(mechanism="PLAIN", password=Secret(PASSWORD))
GROUP = "suite"


class KafkaSystem(TestSystem):
    """One broker that requires a login, shared by the whole run."""

    name = "kafka"
    variable = "CONNECTORS_KAFKA_ADDRESS"

    def embedded(self) -> AbstractContextManager[str]:
        return self._broker()

    @contextmanager
    def _broker(self) -> Iterator[str]:
        with KafkaProxy() as proxy, KafkaBroker(security=SECURITY, proxy=proxy) as broker:
            _running[proxy.bootstrap_servers] = proxy, broker.bootstrap_servers
            yield proxy.bootstrap_servers
            # A client that outlives the broker tries to reconnect, and logs each attempt.
            producer_of(broker.bootstrap_servers).close()
            producer_of.cache_clear()
            admin_of.cache_clear()

    def outage(self, address: str, outage: Outage) -> AbstractContextManager[None]:
        proxy, _ = _running[address]
        return proxy.outage(outage)


_running: dict[str, tuple[KafkaProxy, str]] = {}


def broker_at(address: str) -> str:
    """Return the broker's own address, which bypasses the network."""
    return _running[address][1] if address in _running else address


def confluent_properties(address: str) -> dict[str, Any]:
    """Return the properties of Confluent's clients, which rename two of Kafka's properties."""
    return {
        "bootstrap.servers": address,
        "security.protocol": SECURITY.protocol,
        "sasl.mechanism": SECURITY.mechanism,
        "sasl.username": SECURITY.user,
        "sasl.password": SECURITY.password.reveal(),
        # With a logger, pytest shows the client's messages only for tests that fail.
        "logger": logging.getLogger("confluent_kafka"),
    }


@cache
def producer_of(address: str) -> Producer:
    """Return a producer that sends one request at a time.

    A broker accepts any sequence number as the first one of a new partition. With several requests
    in flight, the broker can reject the first one while it creates the partition, and accept the
    second one. It then drops the retry of the first request as a duplicate but acknowledges it.
    """
    given = {"linger.ms": 0, "enable.idempotence": True, "max.in.flight": 1}
    return Producer(confluent_properties(address) | given)


@cache
def admin_of(address: str) -> AdminClient:
    return AdminClient(confluent_properties(address))


class Topic:
    """A topic that a third-party client fills."""

    def __init__(self, address: str, name: str, partitions: int = 1) -> None:
        self.name = name
        self._address = address
        self._partitions = partitions
        self._done(admin_of(self._address).create_topics([NewTopic(name, partitions, 1)]))
        self._wait_for_partitions()

    def add_partition(self) -> int:
        """Add a partition and return its number."""
        self._partitions += 1
        more = NewPartitions(self.name, self._partitions)
        self._done(admin_of(self._address).create_partitions([more]))
        self._wait_for_partitions()
        return self._partitions - 1

    def write(self, partition: int, values: Sequence[bytes | None]) -> None:
        errors, offsets = [], []
        producer = producer_of(self._address)

        def delivered(error: Any, message: Any) -> None:
            if error is not None:
                errors.append(error)
            else:
                offsets.append(message.offset())

        for value in values:
            while True:
                try:
                    producer.produce(self.name, value, partition=partition, on_delivery=delivered)
                    break
                except BufferError:
                    producer.poll(0.1)
        assert not producer.flush(60)
        assert not errors, errors[0]
        behind = offsets[-1] + 1 if offsets else 0
        assert offsets == list(range(behind - len(values), behind)), "the topic lacks records"

    @contextmanager
    def transaction(self, partition: int, values: Sequence[bytes]) -> Iterator[None]:
        """Write values in a transaction that is committed at the end of the context."""
        given = {"transactional.id": f"late-{self.name}-{partition}"}
        producer = Producer(confluent_properties(self._address) | given)
        producer.init_transactions(60)
        producer.begin_transaction()
        for value in values:
            producer.produce(self.name, value, partition=partition)
        assert not producer.flush(60)
        yield
        producer.commit_transaction(60)
        producer.close()

    def lag(self, group: str) -> int:
        """Return the number of records that a consumer group has not acknowledged."""
        consumer = Consumer(confluent_properties(self._address) | {"group.id": group})
        partitions = [TopicPartition(self.name, number) for number in range(self._partitions)]
        acknowledged = consumer.committed(partitions, 60)
        ends = [consumer.get_watermark_offsets(each, 60)[1] for each in partitions]
        consumer.close()
        return sum(ends) - sum(max(each.offset, 0) for each in acknowledged)

    @staticmethod
    def _done(futures: Any) -> None:
        for future in futures.values():
            future.result(30)

    def _wait_for_partitions(self) -> None:
        for _ in range(600):
            try:
                found = producer_of(self._address).list_topics(self.name, 10).topics[self.name]
            except KafkaException:
                continue
            if len(found.partitions) == self._partitions and all(
                each.leader >= 0 for each in found.partitions.values()
            ):
                return
        raise AssertionError(f"the partitions of {self.name} have no leaders")


class PartitionWriter(SplitDataWriter):
    """Writes rows as JSON to a partition."""

    def __init__(self, topic: Topic, partition: int) -> None:
        self._topic = topic
        self._partition = partition

    def write(self, rows: pa.Table) -> None:
        self._topic.write(self._partition, self._values(rows))

    @staticmethod
    def _values(rows: pa.Table) -> list[bytes]:
        batches = rows.to_batches()
        return [each for b in batches for each in JsonFormat().encode(b).messages.to_pylist()]

    def late(self, rows: pa.Table) -> AbstractContextManager[None]:
        return self._topic.transaction(self._partition, self._values(rows))

    def write_poison(self) -> None:
        self._topic.write(self._partition, [b'{"split": 1, "seq": "not a number"}'])


class SourceTopic(SourceExternalContext):
    """A topic for one test case of the source."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._topic = Topic(broker_at(address), f"suite-{uuid.uuid4().hex}")
        self._splits = itertools.count()

    def create_split(self) -> PartitionWriter:
        first = next(self._splits) == 0
        return PartitionWriter(self._topic, 0 if first else self._topic.add_partition())

    def create_source(self, boundedness: Boundedness, **settings: Any) -> KafkaSource:
        bounded = boundedness is Boundedness.BOUNDED
        usual: dict[str, Any] = {
            "bounded": OffsetsInitializer.latest() if bounded else None,
            "discovery_interval": timedelta(milliseconds=50),
            # The batches are small, so that the reader needs many of them for a split.
            "poll_interval": timedelta(milliseconds=50),
            "batch_rows": 7,
        }
        return self._source(self._topic.name, ROWS, **usual | settings)

    def changed_sources(self, boundedness: Boundedness) -> Mapping[str, KafkaSource]:
        changed: dict[str, Any] = {
            "starting_offsets": OffsetsInitializer.latest(),
            "batch_rows": 5,
            "poll_interval": timedelta(milliseconds=20),
            "discovery_interval": timedelta(milliseconds=80),
        }
        return {
            name: self.create_source(boundedness, **{name: value})
            for name, value in changed.items()
        }

    def format_options(self, boundedness: Boundedness) -> Mapping[str, str]:
        bounded = boundedness is Boundedness.BOUNDED
        return {
            **{f"properties.{key}": str(value) for key, value in self._login().items()},
            "properties.bootstrap.servers": self._address,
            "topic": self._topic.name,
            "value.format": "json",
            "schema": "split BIGINT, seq BIGINT, at TIMESTAMP, text STRING",
            "scan.startup.mode": "earliest-offset",
            **({"scan.bounded.mode": "latest-offset"} if bounded else {}),
        }

    @staticmethod
    def _login() -> Mapping[str, str]:
        properties = SECURITY.client_properties()
        return {k: v.reveal() if isinstance(v, Secret) else v for k, v in properties.items()}

    def unacknowledged(self) -> int:
        return self._topic.lag(GROUP)

    def create_typed_source(self, rows: pa.Table) -> KafkaSource:
        return self.create_misfit_source(rows.schema, [rows])

    def create_misfit_source(self, schema: pa.Schema, parts: Sequence[pa.Table]) -> KafkaSource:
        topic = Topic(broker_at(self._address), f"{self._topic.name}-typed")
        for part in parts:
            PartitionWriter(topic, 0).write(part)
        return self._source(topic.name, schema, bounded=OffsetsInitializer.latest())

    def _source(self, topic: str, schema: pa.Schema, **settings: Any) -> KafkaSource:
        properties = SECURITY.client_properties()
        return KafkaSource(
            self._address,
            topics=topic,
            deserialization=KafkaRecordDeserializationSchema(value_format="json", schema=schema),
            group_id=GROUP,
            properties=properties,
            **settings,
        )

    def secrets(self) -> Sequence[str]:
        return [PASSWORD]


class OfSource:
    """Settings that the suites of the source and of its parts share."""

    system = KafkaSystem()
    written_for = SUITES
    capabilities = SOURCE

    def external_context(self, folder: Path) -> SourceTopic:
        return SourceTopic(self.address)


class KafkaSourceSuite(OfSource, SourceTestSuite):
    pass


class KafkaSourceFormatSuite(OfSource, SourceFormatTestSuite):
    format = "connector_kafka"
