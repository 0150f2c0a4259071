# SPDX-License-Identifier: Apache-2.0
"""The writer, which stages the rows of one task in one epoch. Executor."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote

import pyarrow as pa

from connector_redis.client import Client
from connector_redis.options import Connection
from connectors_core.formats import JsonFormat
from connectors_core.records import BadRecord
from connectors_core.sink import CommittingSinkWriter, WriterInitContext

__all__ = ["Committable", "TransactionWriter", "transactions_of"]

_STAGED_ROWS: Final = 1000


@dataclass(frozen=True, kw_only=True)
class Committable:
    """A staged transaction, which the committer commits.

    Attributes:
        transaction: The name of the transaction.
        rows: The number of rows.
    """

    transaction: str
    rows: int


def transactions_of(pipeline_id: str, sink_uid: str, epoch: int | None = None) -> str:
    """Return the prefix of all transactions of a sink, or of one of its epochs."""
    begin = f"{quote(pipeline_id, safe='')}/{quote(sink_uid, safe='')}/"
    return begin if epoch is None else f"{begin}{epoch:010d}/"


class TransactionWriter(CommittingSinkWriter[Committable]):
    """Sends every batch immediately, in one transaction.

    Each attempt has its own transaction name, because another attempt of the same task can run at
    the same time, and a killed attempt can send rows for a few more seconds.

    Args:
        connection: The connection to the server.
        context: The context of the writer.
    """

    def __init__(self, connection: Connection, context: WriterInitContext) -> None:
        self._client = Client(connection)
        begin = transactions_of(context.pipeline_id, context.sink_uid, context.checkpoint_id)
        self._transaction = begin + context.attempt_name
        self._context = context
        self._rows = 0

    def write(self, batch: pa.RecordBatch) -> None:
        """Stage rows."""
        encoded = JsonFormat().encode(batch)
        for bad in encoded.bad:
            record = BadRecord(
                reason=bad.reason,
                source_uid="",  # the runtime knows it
                raw=str(batch.slice(bad.at, 1).to_pylist()[0]).encode(),
            )
            self._context.record_errors.handle(record, cause=bad.cause)
        for start in range(0, len(encoded.messages), _STAGED_ROWS):
            messages = encoded.messages.slice(start, _STAGED_ROWS).to_pylist()
            self._client.stage(self._transaction, messages)
            self._rows += len(messages)

    def flush(self) -> None:
        """Do nothing: `write` has staged all rows."""

    def prepare_commit(self) -> Sequence[Committable]:
        """Return the transaction with the rows staged since the last call."""
        rows, self._rows = self._rows, 0
        return [Committable(transaction=self._transaction, rows=rows)] if rows else []

    def close(self) -> None:
        """Close the client. The sweep aborts the transaction of a failed attempt."""
        self._client.close()
