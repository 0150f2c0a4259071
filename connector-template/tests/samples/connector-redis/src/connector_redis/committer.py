# SPDX-License-Identifier: Apache-2.0
"""The committer, which makes staged rows visible after the epoch's decision. Driver."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from connector_redis.client import Client
from connector_redis.options import Connection
from connector_redis.writer import Committable, transactions_of
from connectors_core.errors import DataLossError, RetryableError
from connectors_core.sink import CommitRequest, Committer, CommitterInitContext

__all__ = ["TransactionCommitter"]

# A restart repeats the commits of the last epochs, and must recognize them.
_KEPT_EPOCHS: Final = 100


class TransactionCommitter(Committer[Committable]):
    """Commits transactions. It is idempotent, because a restart commits again.

    Args:
        connection: The connection to the server.
        context: The context of the committer.
    """

    def __init__(self, connection: Connection, context: CommitterInitContext) -> None:
        self._client = Client(connection)
        self._context = context

    def commit(self, requests: Sequence[CommitRequest[Committable]]) -> None:
        """Commit each transaction, or record on its request why that failed."""
        for request in requests:
            each = request.committable
            transaction = each.transaction
            try:
                done = self._client.commit(transaction, each.rows)
            except RetryableError:
                request.retry_later()
                continue
            if done is None:
                request.signal_failed(
                    DataLossError(
                        f"the transaction {transaction!r} of a decided epoch is not complete",
                        expected=f"{each.rows} staged rows, or the record of their commit",
                        hint="do not let the server evict keys",
                    )
                )
            elif not done:
                request.signal_already_committed()

    def sweep(self, checkpoint_id: int) -> None:
        """Abort the transactions of an epoch that its decision does not contain."""
        ids = (self._context.pipeline_id, self._context.sink_uid)
        for name in self._client.open_transactions(transactions_of(*ids, checkpoint_id)):
            self._client.abort(name)
        old = max(0, checkpoint_id - _KEPT_EPOCHS)
        self._client.forget_commits(transactions_of(*ids), transactions_of(*ids, old))

    def close(self) -> None:
        """Close the client."""
        self._client.close()
