# SPDX-License-Identifier: Apache-2.0
"""The committer: makes staged rows visible after the epoch's decision. Driver."""

from __future__ import annotations

from collections.abc import Sequence

from connector_elasticsearch.client import Client
from connector_elasticsearch.options import Connection
from connector_elasticsearch.writer import Committable, transactions_of
from connectors_core.errors import DataLossError, RetryableError
from connectors_core.sink import CommitRequest, Committer, CommitterInitContext

__all__ = ["TransactionCommitter"]


class TransactionCommitter(Committer[Committable]):
    """Commits transactions; idempotent, because a restart commits again.

    Replace the calls of the client. What must hold: a commit that was done is recognised, and an
    epoch is swept without touching what other epochs staged.

    Args:
        connection: How the server is reached.
        context: What the committer knows of itself.
    """

    def __init__(self, connection: Connection, context: CommitterInitContext) -> None:
        self._client = Client(connection)
        self._context = context

    def commit(self, requests: Sequence[CommitRequest[Committable]]) -> None:
        """Commit each transaction, or say on its request what happened instead."""
        for request in requests:
            transaction = request.committable.transaction
            try:
                done = self._client.commit(transaction)
            except RetryableError:
                request.retry_later()
                continue
            if done is None:
                request.signal_failed(
                    DataLossError(
                        f"the transaction {transaction!r} of a decided epoch is gone",
                        expected="an open or a committed transaction",
                        found="none",
                        hint="let the server keep open transactions longer than a restart takes",
                    )
                )
            elif not done:
                request.signal_already_committed()

    def sweep(self, checkpoint_id: int) -> None:
        """Abort what attempts of an epoch staged and its decision does not name."""
        ids = (self._context.pipeline_id, self._context.sink_uid)
        for name in self._client.open_transactions(transactions_of(*ids, checkpoint_id)):
            self._client.abort(name)

    def recover(self, last_decided: int) -> None:
        """Abort what epochs after the last decided one staged."""
        begin = transactions_of(self._context.pipeline_id, self._context.sink_uid)
        for name in self._client.open_transactions(begin):
            epoch, _, _ = name.removeprefix(begin).partition("/")
            if int(epoch) > last_decided:
                self._client.abort(name)

    def close(self) -> None:
        """Close the client."""
        self._client.close()
