# SPDX-License-Identifier: Apache-2.0
"""The Kafka sink, optionally exactly once."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Final

import pyarrow as pa

from connector_kafka.client import config as properties
from connector_kafka.client.cluster import check_reachable
from connector_kafka.client.config import PRODUCER_PROPERTIES, ClientConfig
from connector_kafka.sink.committable import KafkaCommittable
from connector_kafka.sink.committer import KafkaCommitter
from connector_kafka.sink.non_transactional_committer import NonTransactionalCommitter
from connector_kafka.sink.options import KafkaSinkOptions
from connector_kafka.sink.partition_assigner import PartitionAssigner
from connector_kafka.sink.partitioners import KafkaPartitioner
from connector_kafka.sink.preparation import RecordPreparation
from connector_kafka.sink.producers import PRODUCERS
from connector_kafka.sink.receipts import Receipts
from connector_kafka.sink.timeouts import check_timeouts
from connector_kafka.sink.transactional_ids import SinkTransactions
from connector_kafka.sink.writer import KafkaSinkWriter, WriterTransaction
from connectors_core.clients import SupportsConnectionCheck
from connectors_core.errors import ConfigurationError, InvalidOptionError
from connectors_core.lineage import LineageDataset, LineageVertexProvider, kafka_datasets
from connectors_core.serialization import JsonDataclassSerializer, VersionedSerializer
from connectors_core.sink import (
    ROW_KIND_COLUMN,
    Committer,
    CommitterInitContext,
    DeliveryGuarantee,
    SupportsRewriting,
    TwoPhaseCommittingSink,
    WriterInitContext,
)

__all__ = ["KafkaSink"]


class KafkaSink(
    KafkaSinkOptions,
    TwoPhaseCommittingSink[KafkaCommittable],
    SupportsRewriting,
    SupportsConnectionCheck,
    LineageVertexProvider,
):
    """Writes rows as records to Kafka, like Flink's `KafkaSink`.

    *Exactly once*: the rows of each writer and epoch form a transaction, which ends after the
    epoch's decision. Readers with `isolation.level=read_committed` see each row once. *At least
    once*: brokers have all rows when an epoch ends, each once unless an epoch is written again.
    *None*: only the leader of a partition has acknowledged them.

    Immutable and picklable. The constructor does no I/O.

    Raises:
        ConfigurationError: The settings contradict each other.
    """

    def __post_init__(self) -> None:
        given = {key.lower(): value for key, value in self.properties.items()}
        if self.delivery_guarantee is DeliveryGuarantee.NONE:
            given.setdefault("acks", "1")
        given["bootstrap.servers"] = self.bootstrap_servers
        self._config = ClientConfig.of(given, PRODUCER_PROPERTIES)
        acks = self._config[properties.ACKS]
        if self.delivery_guarantee is not DeliveryGuarantee.NONE and acks not in ("all", "-1"):
            raise InvalidOptionError(
                f"{self.delivery_guarantee} needs the acknowledgement of all replicas",
                expected="all",
                found=acks,
                option="properties.acks",
                hint="remove it, or choose the delivery guarantee none",
            )
        serialization = self.serialization
        if self.upsert is not None and serialization.value_format and not serialization.key_fields:
            raise ConfigurationError(
                "an upsert needs a key",
                expected="columns of the key",
                found="none",
                option="key.fields",
            )
        if self.upsert is not None and serialization.writes_changelog:
            raise InvalidOptionError(
                "an upsert cannot have a format for changelogs",
                expected="a format of single rows",
                found=type(serialization.value_format).__name__,
                option="value.format",
                hint="remove sink.upsert, or choose another format",
            )
        if self.upsert is not None and self.partitioner is not KafkaPartitioner.DEFAULT:
            raise InvalidOptionError(
                "an upsert needs the default partitioner",
                expected=KafkaPartitioner.DEFAULT,
                found=self.partitioner,
                option="sink.partitioner",
            )

    def lineage_datasets(self) -> tuple[LineageDataset, ...]:
        """Its topic; none if a column names the topic of each row."""
        topic = self.serialization.topic
        return () if topic is None else kafka_datasets(self.bootstrap_servers, [topic])

    def __repr__(self) -> str:
        topic = self.serialization.topic
        where = repr(topic) if topic is not None else f"column {self.serialization.topic_column!r}"
        return (
            f"KafkaSink({', '.join(self.bootstrap_servers)!r}, topic={where}, "
            f"delivery_guarantee={self.delivery_guarantee.value!r})"
        )

    def validate(self, schema: pa.Schema) -> None:
        """Refuse a schema whose rows can never be written. Driver.

        Raises:
            ConfigurationError: A column is missing, unused, or has a wrong type.
        """
        writes_kinds = self.upsert is not None or self.serialization.writes_changelog
        if ROW_KIND_COLUMN in schema.names and not writes_kinds:
            raise ConfigurationError(
                "a changelog contains updates and deletions, which cannot be written as plain "
                "inserts",
                expected="no column '_row_kind'",
                found="one",
                option="sink.upsert",
                hint="set how to write a changelog, choose a format for changelogs, or drop the "
                "column",
            )
        self.serialization.validate(schema)

    def check_connection(self, timeout: float) -> None:
        """Check that the brokers respond and have the topic. See `SupportsConnectionCheck`. Driver.

        Brokers never create it, because the sink forbids that.
        """
        check_reachable(self._config, timeout, topic=self.serialization.topic)

    def writer_parallelism(self) -> int | None:
        """Return `parallelism`."""
        return self.parallelism

    def writer_keys(self) -> Sequence[str]:
        """Return the columns of the key if rows are changes."""
        if self.upsert is not None:
            return self.serialization.key_fields or ("key",)
        return self.serialization.key_fields if self.serialization.writes_changelog else ()

    def create_writer(self, context: WriterInitContext) -> KafkaSinkWriter:
        """Create the writer of one task in one epoch. Executor."""
        transaction = None
        if self._is_exactly_once:
            receipts = self._receipts(context.pipeline_id, context.sink_uid)
            transaction = WriterTransaction.claim(receipts, context)
        assigner = PartitionAssigner(
            self.partitioner,
            subtask_id=context.subtask_id,
            batch_size=self._config[properties.BATCH_SIZE],
        )
        producer = PRODUCERS.borrow(self._config, is_transactional=transaction is not None)
        try:
            if transaction is not None:
                producer.begin(transaction.transaction)
            elif self.delivery_guarantee is DeliveryGuarantee.AT_LEAST_ONCE:
                producer.be_idempotent()
        except BaseException:
            producer.close()
            raise
        preparation = RecordPreparation(
            self.serialization,
            upsert=self.upsert,
            max_request_size=self._config[properties.MAX_REQUEST_SIZE],
            assigner=assigner,
            partitions_of=producer.partitions_of,
            context=context,
        )
        return KafkaSinkWriter(
            self._config, producer, preparation, context, transaction=transaction
        )

    def create_committer(self, context: CommitterInitContext) -> Committer[KafkaCommittable]:
        """Create the committer. Driver."""
        receipts = self._receipts(context.pipeline_id, context.sink_uid)
        if not self._is_exactly_once:
            return NonTransactionalCommitter(
                self._config, receipts.names, incarnation=context.incarnation
            )
        timeout = timedelta(milliseconds=self._config[properties.TRANSACTION_TIMEOUT_MS])
        check_timeouts(timeout, context.trigger_interval, self.restart_time)
        return KafkaCommitter(
            self._config,
            receipts,
            incarnation=context.incarnation,
            pool_size=self.transaction_pool_size,
        )

    def committable_serializer(self) -> VersionedSerializer[KafkaCommittable]:
        """Return the serializer of committables: JSON, layout 1."""
        return JsonDataclassSerializer(KafkaCommittable, version=1)

    @property
    def _is_exactly_once(self) -> bool:
        return self.delivery_guarantee is DeliveryGuarantee.EXACTLY_ONCE

    def _receipts(self, pipeline_id: str, sink_uid: str) -> Receipts:
        names = SinkTransactions(
            prefix=self.transactional_id_prefix, pipeline_id=pipeline_id, sink_uid=sink_uid
        )
        return Receipts(names=names, topic=self.receipts_topic)


KAFKA_SINK_OPTIONS: Final = KafkaSink.OPTIONS
"""The options of `KafkaSink.from_options`."""
