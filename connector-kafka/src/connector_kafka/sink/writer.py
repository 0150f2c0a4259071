# SPDX-License-Identifier: Apache-2.0
"""The record writer, which prepares, encodes, and sends, in a transaction if it has a lease."""

from __future__ import annotations

import functools
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import pyarrow as pa

from connector_kafka.client import config as properties
from connector_kafka.client.config import ClientConfig
from connector_kafka.client.producer import Producer
from connector_kafka.client.transactions import Transaction
from connector_kafka.records import Compression, Encoder
from connector_kafka.sink.committable import KafkaCommittable
from connector_kafka.sink.leases import TransactionLease
from connector_kafka.sink.preparation import RecordPreparation
from connector_kafka.sink.producers import PRODUCERS
from connector_kafka.sink.receipts import Receipts
from connectors_core.errors import ConfigurationError, FatalError
from connectors_core.sink import CommittingSinkWriter, WriterInitContext

__all__ = ["KafkaSinkWriter", "WriterTransaction"]


@dataclass(frozen=True)
class WriterTransaction:
    """The only transaction that an attempt can write. Executor.

    Attributes:
        transaction: Its ID and producer.
        receipts: The receipts of the sink.
        context: The attempt.
    """

    transaction: Transaction
    receipts: Receipts
    context: WriterInitContext

    @classmethod
    def claim(cls, receipts: Receipts, context: WriterInitContext) -> WriterTransaction:
        """Claim one of the transactions that were leased to the writers of an epoch.

        An attempt without a lease fails, because two attempts with the same ID would end each
        other's transaction.

        Raises:
            ConfigurationError: There were more attempts than the pool has IDs.
        """
        lease, subtask = context.lease, context.subtask_id
        if not isinstance(lease, TransactionLease) or lease.checkpoint_id != context.checkpoint_id:
            raise FatalError(
                "a writer did not receive the lease of its epoch",
                expected=f"the transactional ids of epoch {context.checkpoint_id}",
                found=lease,
                hint="exactly-once requires Pipeline.sink_to, whose driver leases the ids",
            )
        identities = lease.identities[subtask]
        for slot, producer in enumerate(identities):
            if context.claim(f"{subtask}-{slot}"):
                name = receipts.names.transactional_id(subtask, lease.incarnation, slot)
                return cls(Transaction(name, producer), receipts, context)
        raise ConfigurationError(
            f"no transactional id is left for another attempt of writer {subtask}",
            expected="at least one per attempt of Spark: spark.task.maxFailures, plus one with "
            "speculation",
            found=f"{len(identities)}",
            option="sink.transaction-pool-size",
            hint="first find out why so many attempts failed; then raise it",
        )

    def prepare(self, producer: Producer) -> KafkaCommittable:
        """Complete the transaction with its receipt. It then waits for its commit or abort."""
        context = self.context
        self.receipts.add(
            producer.transactions,
            self.transaction,
            subtask_id=context.subtask_id,
            checkpoint_id=context.checkpoint_id,
            attempt=context.attempt_name,
        )
        return KafkaCommittable(
            transactional_id=self.transaction.transactional_id,
            producer_id=self.transaction.producer.producer_id,
            producer_epoch=self.transaction.producer.epoch,
            subtask_id=context.subtask_id,
            checkpoint_id=context.checkpoint_id,
            receipts_topic=self.receipts.topic,
            prepared_at=datetime.now(UTC),
        )


class KafkaSinkWriter(CommittingSinkWriter[KafkaCommittable]):
    """Writes the rows of one task in one epoch. Executor, one thread.

    Without a transaction, records are visible as soon as they are written, and all brokers have
    them when :meth:`flush` returns. With one, they are then complete, including their receipt, and
    the writer is sealed. Later records could belong to no transaction, or to a wrong one.

    Args:
        config: Properties of the producer.
        producer: Borrowed for this writer. It has started the transaction, if there is one.
        preparation: Converts rows to records.
        context: The context of the writer.
        transaction: The claimed transaction, or None.
    """

    def __init__(
        self,
        config: ClientConfig,
        producer: Producer,
        preparation: RecordPreparation,
        context: WriterInitContext,
        *,
        transaction: WriterTransaction | None = None,
    ) -> None:
        self._config = config
        self._producer: Producer | None = producer
        self._preparation = preparation
        self._context = context
        self._transaction = transaction
        self._encoder = Encoder(
            compression=Compression[config[properties.COMPRESSION_TYPE].upper()],
            batch_size=config[properties.BATCH_SIZE],
            producer_id=producer.identity.producer_id,
            producer_epoch=producer.identity.epoch,
            transactional=transaction is not None,
        )
        self._records = 0
        self._is_complete = False
        self._committables: list[KafkaCommittable] = []

    def write(self, batch: pa.RecordBatch) -> None:
        """Send the rows of a batch. Some can still be in flight on return."""
        producer = self._open()
        for prepared in self._preparation.prepare(batch):
            topic = prepared.topic
            batches = self._encoder.encode(
                prepared.records,
                prepared.partitions,
                now=time.time_ns() // 1_000_000,
                next_sequence=functools.partial(producer.next_sequence, topic)
                if producer.is_idempotent
                else None,
            )
            producer.send({(topic, partition): own for partition, own in batches.items()})
            self._records += prepared.records.num_rows

    def flush(self) -> None:
        """Wait until the brokers have all records, and complete the transaction, if any."""
        producer = self._open()
        producer.flush()
        if self._transaction is not None and self._records:
            self._committables = [self._transaction.prepare(producer)]
        self._is_complete = True
        self._context.metric_group.inc("numRecordsSend", self._records)

    def prepare_commit(self) -> Sequence[KafkaCommittable]:
        """Return the prepared transaction, or none without rows or transactions."""
        committables, self._committables = self._committables, []
        return committables

    def close(self) -> None:
        """Return the producer. An unfinished one is closed instead."""
        producer, self._producer = self._producer, None
        if producer is None:
            return
        if self._is_complete:
            transactional = self._transaction is not None
            PRODUCERS.give_back(self._config, producer, is_transactional=transactional)
        else:
            producer.close()

    def _open(self) -> Producer:
        if self._producer is None or self._is_complete:
            raise FatalError("a writer was used after it ended")
        return self._producer
