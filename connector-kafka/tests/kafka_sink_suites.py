# SPDX-License-Identifier: Apache-2.0
"""The core's test suites for the Kafka sink, both in this process and on Spark."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pytest
from kafka import KafkaConsumer, TopicPartition

from connector_kafka.client.config import ClientConfig
from connector_kafka.client.transactions import ProducerIdentity, Transaction, TransactionClient
from connector_kafka.client.wire import Wire
from connector_kafka.sink import (
    KafkaCommittable,
    KafkaPartitioner,
    KafkaRecordSerializationSchema,
    KafkaSink,
)
from connector_kafka.testing import KafkaBroker, KafkaProxy
from connectors_core.formats import JsonFormat
from connectors_core.secrets import Secret
from connectors_core.sink import DeliveryGuarantee
from connectors_core.testing import (
    ROWS,
    Capabilities,
    Capability,
    Outage,
    SinkExternalContext,
    SinkFormatTestSuite,
    SinkTestSuite,
    passing,
)

SUITES: Final = "1.5"
PASSWORD: Final = "canary-3d1c"  # pragma: allowlist secret
PARTITIONS: Final = 3
_numbers = itertools.count()

CAN: Final = frozenset(
    {Capability.DATA_TYPES, Capability.SCHEMA_CHANGE, Capability.SECRETS, Capability.OUTAGES}
)
PLAIN: Final = {
    Capability.WRITER_STATE: "writers keep nothing from one epoch to the next",
    Capability.TOPOLOGIES: "rows and transactions go to the broker as they are",
}
IN_JSON: Final = {
    "float": "JSON has no infinity",
    "double": "JSON has no infinity",
    "day-time interval": "JSON has no intervals",
    "map": "written as a JSON object, which cannot be read back as a map",
}
EXACTLY_ONCE: Final = Capabilities(
    can=CAN
    | {
        Capability.EXACTLY_ONCE,
        Capability.COMMITTED_EPOCHS,
        Capability.LEASES,
        Capability.REWRITING,
    },
    cannot=PLAIN,
    cannot_carry=IN_JSON,
)
AT_LEAST_ONCE: Final = Capabilities(
    can=CAN,
    cannot={
        Capability.EXACTLY_ONCE: "records are visible as they are written",
        Capability.COMMITTED_EPOCHS: "there are no transactions",
        Capability.LEASES: "there are no transactions",
        Capability.REWRITING: "there is no second phase",
        **PLAIN,
    },
    cannot_carry=IN_JSON,
)


class KafkaTopic(SinkExternalContext):
    """A new topic that receives rows as JSON objects."""

    def __init__(
        self, broker: KafkaBroker, network: KafkaProxy, guarantee: DeliveryGuarantee
    ) -> None:
        self._broker = broker
        self._network = network
        self._guarantee = guarantee
        self._topic = broker.topics.create(f"sink-suite-{next(_numbers)}", partitions=PARTITIONS)

    def create_sink(self, **settings: Any) -> KafkaSink:
        usual: dict[str, Any] = {
            "serialization": KafkaRecordSerializationSchema(
                topic=self._topic, value_format=JsonFormat()
            ),
            "delivery_guarantee": self._guarantee,
            "transactional_id_prefix": self._topic,
            "properties": {"ssl.key.password": Secret(PASSWORD)},
        }
        return KafkaSink(self._network.bootstrap_servers, **usual | settings)

    def changed_sinks(self) -> Mapping[str, KafkaSink]:
        guarantees = set(DeliveryGuarantee) - {self._guarantee, DeliveryGuarantee.NONE}
        changed: dict[str, Any] = {
            "delivery_guarantee": guarantees.pop(),
            "transactional_id_prefix": f"{self._topic}-2",
            "transaction_pool_size": 3,
            "receipts_topic": "other-receipts",
            "partitioner": KafkaPartitioner.ROUND_ROBIN,
            "properties": {"compression.type": "gzip"},
            "parallelism": 1,
        }
        return {name: self.create_sink(**{name: value}) for name, value in changed.items()}

    def format_options(self) -> Mapping[str, str]:
        return {
            "properties.bootstrap.servers": self._network.bootstrap_servers,
            "topic": self._topic,
            "value.format": "json",
            "sink.delivery-guarantee": self._guarantee.value,
        }

    def read_back(self, schema: pa.Schema = ROWS) -> pa.Table:
        messages = pa.array(read_committed(self._broker, self._topic), pa.binary())
        decoded = JsonFormat().decode(messages, schema)
        assert not decoded.bad, decoded.bad
        return pa.Table.from_batches([decoded.rows])

    def lose(self, committables: Sequence[KafkaCommittable]) -> None:
        """Abort the transactions, as the broker does after their timeout."""
        wire = Wire(ClientConfig.of({"bootstrap.servers": self._broker.bootstrap_servers}))
        transactions = [
            Transaction(c.transactional_id, ProducerIdentity(c.producer_id, c.producer_epoch))
            for c in committables
        ]
        assert TransactionClient(wire).end(transactions, commit=False) == [None] * len(committables)
        wire.close()

    def leftovers(self) -> list[str]:
        """Return the open transactions.

        The committer aborts the transactions of losing attempts in the background. This method
        waits up to two seconds for it.
        """
        deadline = time.monotonic() + 2
        while open_transactions(self._broker, self._topic) and time.monotonic() < deadline:
            time.sleep(0.02)
        return open_transactions(self._broker, self._topic)

    def secrets(self) -> list[str]:
        return [PASSWORD]


def open_transactions(broker: KafkaBroker, prefix: str) -> list[str]:
    """Return the transactional IDs with this prefix that have an open transaction."""
    wire = Wire(ClientConfig.of({"bootstrap.servers": broker.bootstrap_servers}))
    found = TransactionClient(wire).list_transactions(states=["Ongoing"])
    wire.close()
    return [t.transactional_id for t in found if t.transactional_id.startswith(f"{prefix}-")]


def read_committed(broker: KafkaBroker, topic: str) -> list[bytes | None]:
    """Return the values of all committed records."""
    consumer = KafkaConsumer(
        bootstrap_servers=broker.bootstrap_servers,
        isolation_level="read_committed",
        auto_offset_reset="earliest",
        group_id=None,
    )
    partitions = [TopicPartition(topic, number) for number in broker.topics.end_offsets(topic)]
    consumer.assign(partitions)
    ends = consumer.end_offsets(partitions)
    values = []
    while any(consumer.position(each) < ends[each] for each in partitions):
        for messages in consumer.poll(timeout_ms=100).values():
            values += [message.value for message in messages]
    consumer.close()
    return values


class WithBroker:
    """A suite whose clients reach the shared broker through its network."""

    guarantee = DeliveryGuarantee.EXACTLY_ONCE

    @pytest.fixture(autouse=True)
    def _with_broker(self, broker: KafkaBroker, network: KafkaProxy) -> None:
        self.broker = broker
        self.network = network

    def outage(self, outage: Outage) -> AbstractContextManager[threading.Event]:
        return passing(self.network.outage(outage))

    def late_first_responses(self) -> AbstractContextManager[None]:
        return self.network.outage(Outage.LATE)

    def lost_response(self, nth: int) -> AbstractContextManager[threading.Event]:
        return self.network.lost_response(nth)

    def external_context(self, folder: Path) -> KafkaTopic:
        return KafkaTopic(self.broker, self.network, self.guarantee)


class KafkaSinkSuite(WithBroker, SinkTestSuite):
    written_for = SUITES
    capabilities = EXACTLY_ONCE


class AtLeastOnceSuite(KafkaSinkSuite):
    capabilities = AT_LEAST_ONCE
    guarantee = DeliveryGuarantee.AT_LEAST_ONCE


class KafkaSinkFormatSuite(WithBroker, SinkFormatTestSuite):
    written_for = SUITES
    capabilities = AT_LEAST_ONCE
    guarantee = DeliveryGuarantee.AT_LEAST_ONCE
    format = "connector_kafka"
