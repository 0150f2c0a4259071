# SPDX-License-Identifier: Apache-2.0
"""The writer of records: prepares, encodes, sends; with a lease, inside of a transaction."""

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
    """The one transaction that an attempt may write; executor.

    Attributes:
        transaction: Its id and producer.
        receipts: Where its receipt goes.
        context: The attempt.
    """

    transaction: Transaction
    receipts: Receipts
    context: WriterInitContext

    @classmethod
    def claim(cls, receipts: Receipts, context: WriterInitContext) -> WriterTransaction:
        """Claim one of the transactions that were leased to the writers of an epoch.

        No lease, no attempt: two that share an id would end each other's transaction.

        Raises:
            ConfigurationError: More attempts were made than the pool has ids.
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
        """Complete the transaction with its receipt; it waits for its end from now on."""
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
    """Writes the rows of one task of one epoch. Executor, one thread.

    Without a transaction records are visible as they are written, and all brokers have them when
    :meth:`flush` returns. With one they are complete then, together with their receipt, and the
    writer is sealed: what it sent later might become part of nothing or of anything.

    Args:
        config: Properties of the producer.
        producer: Borrowed for this writer; it has begun the transaction, if there is one.
        preparation: Makes records of rows.
        context: What the writer knows of itself.
        transaction: What it has claimed; None for none.
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
        """Send the rows of a batch; returns while some of them are still on their way."""
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
        """Wait until the brokers have all; complete the transaction, if there is one."""
        producer = self._open()
        producer.flush()
        if self._transaction is not None and self._records:
            self._committables = [self._transaction.prepare(producer)]
        self._is_complete = True
        self._context.metric_group.inc("numRecordsSend", self._records)

    def prepare_commit(self) -> Sequence[KafkaCommittable]:
        """Return the transaction that waits for its end; none without rows or without phases."""
        committables, self._committables = self._committables, []
        return committables

    def close(self) -> None:
        """Give the producer back; one that did not get to its end is closed."""
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
            raise FatalError("a writer was used after its end")
        return self._producer
