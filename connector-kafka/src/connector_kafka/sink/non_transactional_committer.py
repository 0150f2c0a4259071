# SPDX-License-Identifier: Apache-2.0
"""The committer for records that are visible as soon as they are written."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

from connector_kafka.client import config as properties
from connector_kafka.client.config import ClientConfig
from connector_kafka.client.transactions import TransactionClient
from connector_kafka.client.wire import Wire
from connector_kafka.sink.committable import KafkaCommittable
from connector_kafka.sink.leases import TransactionPool
from connector_kafka.sink.transactional_ids import SinkTransactions
from connectors_core.errors import CommitError
from connectors_core.sink import CommitRequest, Committer

__all__ = ["NonTransactionalCommitter"]


class NonTransactionalCommitter(Committer[KafkaCommittable]):
    """Replaces the committer if the delivery guarantee is not exactly-once. Driver.

    Args:
        config: Properties of the producer.
        names: The names that the sink would give its transactions.
        incarnation: The number of the driver.
    """

    def __init__(self, config: ClientConfig, names: SinkTransactions, *, incarnation: int) -> None:
        self._config = config
        self._names = names
        self._incarnation = incarnation

    def commit(self, requests: Sequence[CommitRequest[KafkaCommittable]]) -> None:
        """Refuse transactions that an earlier run decided to commit.

        The sink was exactly-once then, and only that sink can end them.
        """
        for request in requests:
            request.signal_failed(
                CommitError(
                    "a transaction of an earlier run is still open",
                    expected="the original delivery guarantee exactly-once",
                    option="sink.delivery-guarantee",
                    hint="start once with exactly-once, then change the delivery guarantee",
                )
            )

    def recover(self, last_decided: int) -> None:
        """Abort transactions of runs in which the sink was exactly-once.

        Consumers that read only committed records stop at an open transaction.

        Raises:
            KafkaRetryableError: Kafka does not respond.
        """
        with contextlib.closing(Wire(self._config)) as wire:
            TransactionPool(
                self._names,
                incarnation=self._incarnation,
                size=0,
                client=TransactionClient(wire),
                timeout_ms=self._config[properties.TRANSACTION_TIMEOUT_MS],
            ).fence_others()
