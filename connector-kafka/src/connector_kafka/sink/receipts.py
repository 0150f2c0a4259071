# SPDX-License-Identifier: Apache-2.0
"""Receipts: which epoch a writer's last committed transaction belongs to.

A transaction holds, beside its rows, an offset of a consumer group of the writer. Brokers make
both visible together, so the offset tells for ever whether the rows were committed; the answer to
a request may have been lost, or its id may belong to another transaction by now.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from connector_kafka.client.transactions import Transaction, TransactionClient
from connector_kafka.sink.transactional_ids import SinkTransactions

__all__ = ["RECEIPTS_TOPIC", "Receipts", "last_committed"]

RECEIPTS_TOPIC: Final = "connectors-receipts"
"""The topic that receipts refer to by default. It stays empty: brokers want offsets to be of a
topic that exists. One partition is enough for all sinks, as each writer has a group of its own."""
_PARTITION: Final = 0


@dataclass(frozen=True, kw_only=True)
class Receipts:
    """The receipts of one sink.

    Attributes:
        names: How its groups are called.
        topic: The topic that the offsets are of.
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
        """Put the receipt of an epoch into a writer's transaction. Executor."""
        client.commit_offset(
            transaction,
            group=self.names.receipt_group(subtask_id),
            topic=self.topic,
            partition=_PARTITION,
            offset=checkpoint_id + 1,
            metadata=f"{checkpoint_id}/{subtask_id}/{attempt}",
        )


def last_committed(client: TransactionClient, group: str, topic: str) -> int | None:
    """The last epoch that a writer committed; None where it never did. Driver.

    It does not wait for the end of an open transaction: that may be one of a later driver, so a
    driver looks at its lease before it asks again.

    Args:
        client: Asks the brokers.
        group: The writer's receipt group.
        topic: The topic that the receipt refers to.

    Raises:
        KafkaRetryableError: A transaction with a receipt of this writer is still open.
    """
    offset = client.stable_offset(group, topic, _PARTITION, wait=False)
    return None if offset is None else offset - 1
