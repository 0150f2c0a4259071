# SPDX-License-Identifier: Apache-2.0
"""Receipts, which record the epoch of a writer's last committed transaction.

A transaction contains, in addition to its rows, an offset of a consumer group of the writer.
Brokers make both visible together, so the offset permanently shows whether the rows were committed.
The response to a request can be lost, or its ID can belong to another transaction by now.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from connector_kafka.client.transactions import Transaction, TransactionClient
from connector_kafka.sink.transactional_ids import SinkTransactions

__all__ = ["RECEIPTS_TOPIC", "Receipts", "last_committed"]

RECEIPTS_TOPIC: Final = "connectors-receipts"
"""The default topic that receipts refer to.

It stays empty, but offsets need an existing topic. One partition is enough for all sinks, because
each writer has its own group.
"""
_PARTITION: Final = 0


@dataclass(frozen=True, kw_only=True)
class Receipts:
    """The receipts of one sink.

    Attributes:
        names: The names of its groups.
        topic: The topic of the offsets.
    """

    names: SinkTransactions
    topic: str

    def add(
        self,
        client: TransactionClient,
        transaction: Transaction,
        *,
        subtask_id: int,
        checkpoint_id: int,
        attempt: str,
    ) -> None:
        """Add the receipt of an epoch to a writer's transaction. Executor."""
        client.commit_offset(
            transaction,
            group=self.names.receipt_group(subtask_id),
            topic=self.topic,
            partition=_PARTITION,
            offset=checkpoint_id + 1,
            metadata=f"{checkpoint_id}/{subtask_id}/{attempt}",
        )


def last_committed(client: TransactionClient, group: str, topic: str) -> int | None:
    """Return the last epoch that a writer committed, or None if it never did. Driver.

    It does not wait for the end of an open transaction, which can belong to a later driver. So a
    driver checks its lease before it retries.

    Args:
        client: The client for the brokers.
        group: The writer's receipt group.
        topic: The topic that the receipt refers to.

    Raises:
        KafkaRetryableError: A transaction with a receipt of this writer is still open.
    """
    offset = client.stable_offset(group, topic, _PARTITION, wait=False)
    return None if offset is None else offset - 1
