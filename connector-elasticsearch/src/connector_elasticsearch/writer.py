# SPDX-License-Identifier: Apache-2.0
"""The writer: stages the rows of one task of one epoch. Executor."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import quote

import pyarrow as pa

from connector_elasticsearch.client import Client
from connector_elasticsearch.options import Connection
from connectors_core.sink import CommittingSinkWriter, WriterInitContext

__all__ = ["Committable", "TransactionWriter", "transactions_of"]


@dataclass(frozen=True, kw_only=True)
class Committable:
    """What a writer staged and the committer makes visible.

    Replace it by the name that your system gives to something staged: a transaction, a temporary
    table, an upload.

    Attributes:
        transaction: Name of the transaction.
        rows: Rows in it.
    """

    transaction: str
    rows: int


def transactions_of(pipeline_id: str, sink_uid: str, epoch: int | None = None) -> str:
    """How the names of all transactions of a sink begin, or of one epoch of it."""
    begin = f"{quote(pipeline_id, safe='')}/{quote(sink_uid, safe='')}/"
    return begin if epoch is None else f"{begin}{epoch:010d}/"


class TransactionWriter(CommittingSinkWriter[Committable]):
    """Sends every batch as it comes, within one transaction.

    The name of the transaction belongs to this attempt alone: another attempt of the same task
    may run at the same time, and a killed one may send rows for some seconds more.

    Args:
        connection: How the server is reached.
        context: What the writer knows of itself.
    """

    def __init__(self, connection: Connection, context: WriterInitContext) -> None:
        self._client = Client(connection)
        begin = transactions_of(context.pipeline_id, context.sink_uid, context.checkpoint_id)
        self._transaction = begin + context.attempt_name
        self._partition = context.subtask_id
        self._rows = 0

    def write(self, batch: pa.RecordBatch) -> None:
        """Stage rows."""
        if batch.num_rows:
            self._client.stage(self._transaction, self._partition, batch)
            self._rows += batch.num_rows

    def flush(self) -> None:
        """Nothing waits here: `write` staged all rows."""

    def prepare_commit(self) -> Sequence[Committable]:
        """Name what was staged since the last call."""
        rows, self._rows = self._rows, 0
        return [Committable(transaction=self._transaction, rows=rows)] if rows else []

    def close(self) -> None:
        """Close the client; what a failed attempt staged is left to the sweep."""
        self._client.close()
