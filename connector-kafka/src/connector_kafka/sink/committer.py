# SPDX-License-Identifier: Apache-2.0
"""Ends transactions of decided epochs, settles unclear outcomes, and leases IDs."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final, TypeVar

from connector_kafka.client import config as properties
from connector_kafka.client.cluster import broker_setting, ensure_topic
from connector_kafka.client.config import ClientConfig
from connector_kafka.client.transactions import ProducerIdentity, Transaction, TransactionClient
from connector_kafka.client.wire import Wire
from connector_kafka.errors import KafkaRequestError, KafkaRetryableError
from connector_kafka.sink.committable import KafkaCommittable
from connector_kafka.sink.leases import TransactionLease, TransactionPool
from connector_kafka.sink.receipts import Receipts, last_committed
from connector_kafka.sink.transactional_ids import TransactionalId
from connectors_core.errors import CommitError, ConnectorError, InvalidOptionError
from connectors_core.sink import (
    CommitRequest,
    Committer,
    SupportsCommittedEpoch,
    SupportsLeases,
)

__all__ = ["KafkaCommitter"]

_T = TypeVar("_T")
_logger = logging.getLogger(__name__)

_INVALID_TRANSACTION_TIMEOUT: Final = 50
_LONGEST_TIMEOUT: Final = "transaction.max.timeout.ms"
_IDS_KEPT: Final = "transactional.id.expiration.ms"
_RECEIPTS_KEPT: Final = "offsets.retention.minutes"
_DEFAULT_RECEIPTS_KEPT: Final = timedelta(days=7)


@dataclass(frozen=True, kw_only=True)
class _Connected:
    """The open connections of a committer."""

    wire: Wire
    client: TransactionClient
    pool: TransactionPool


class KafkaCommitter(Committer[KafkaCommittable], SupportsLeases, SupportsCommittedEpoch):
    """Commits prepared transactions and leases transactional IDs. Driver.

    A separate thread talks to Kafka, one task after another. It initializes the IDs of the next
    epoch and aborts the losers of the last one while Spark continues.

    Args:
        config: Properties of the producer.
        receipts: The receipts of the sink, with its names.
        incarnation: The number of the driver.
        pool_size: The number of transactional IDs per writer.
    """

    def __init__(
        self, config: ClientConfig, receipts: Receipts, *, incarnation: int, pool_size: int
    ) -> None:
        self._config = config
        self._receipts = receipts
        self._incarnation = incarnation
        self._pool_size = pool_size
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="kafka-committer")
        self._connected: _Connected | None = None
        self._has_started = False

    def commit(self, requests: Sequence[CommitRequest[KafkaCommittable]]) -> None:
        """End the transaction of each request, or record the outcome on the request.

        `NoError` from the broker, in a first or a repeated response, means that it is committed. A
        temporary error is retried. After any other error, the transaction is over, and its receipt
        shows the outcome. Either it was committed before, or it was aborted after its timeout and
        its rows are lost.

        Raises:
            KafkaRetryableError: Kafka does not respond.
        """
        self._do(lambda: self._commit(requests))

    def sweep(self, checkpoint_id: int) -> None:
        """Abort the open transactions of the epoch's attempts, in the background."""
        self._thread.submit(self._renew)

    def recover(self, last_decided: int) -> None:
        """Fence all writers of former drivers and abort their open transactions.

        Raises:
            ConfigurationError: The cluster rejects a request that the sink needs.
            KafkaRetryableError: Kafka does not respond.
        """
        self._do(self._start)

    def newest_committed_epoch(self) -> int | None:
        """Return the newest epoch in the receipts of all writers that have transactional IDs.

        Raises:
            KafkaRetryableError: Kafka does not respond.
        """
        return self._do(self._newest)

    def lease(self, checkpoint_id: int, number_of_writers: int) -> TransactionLease:
        """Lease fresh IDs to the writers of an epoch. Most of them are already initialized.

        Raises:
            ConfigurationError: The cluster rejects the IDs.
            KafkaRetryableError: Kafka does not respond.
        """

        def work() -> TransactionLease:
            if not self._has_started:
                self._start()
            return self._open().pool.lease(checkpoint_id, number_of_writers)

        return self._do(work)

    def close(self) -> None:
        """Finish background tasks, and disconnect."""
        with contextlib.suppress(RuntimeError):  # already closed
            self._thread.submit(self._disconnect)
        self._thread.shutdown()

    # --- On the Kafka thread ----------------------------------------------------------------------

    def _do(self, work: Callable[[], _T]) -> _T:
        future: Future[_T] = self._thread.submit(work)
        return future.result()

    def _open(self) -> _Connected:
        if self._connected is None:
            wire = Wire(self._config)
            client = TransactionClient(wire)
            pool = TransactionPool(
                self._receipts.names,
                incarnation=self._incarnation,
                size=self._pool_size,
                client=client,
                timeout_ms=self._config[properties.TRANSACTION_TIMEOUT_MS],
            )
            self._connected = _Connected(wire=wire, client=client, pool=pool)
        return self._connected

    def _disconnect(self) -> None:
        if self._connected is not None:
            self._connected.wire.close()
            self._connected = None

    def _start(self) -> None:
        connected = self._open()
        ensure_topic(connected.wire, self._receipts.topic, settings={"cleanup.policy": "compact"})
        try:
            connected.pool.renew()
        except KafkaRequestError as error:
            if error.kafka_code == _INVALID_TRANSACTION_TIMEOUT:
                raise self._timeout_is_too_long(connected.wire) from error
            raise
        kept = broker_setting(connected.wire, _IDS_KEPT)
        if kept is not None:
            connected.pool.forgotten_after = int(kept) / 1000
        self._has_started = True

    def _newest(self) -> int | None:
        client, names = self._open().client, self._receipts.names
        own = (names.own(each.transactional_id) for each in client.list_transactions())
        found = [
            last_committed(client, group, self._receipts.topic)
            for group in {each.writer for each in own if each is not None}
        ]
        return max((epoch for epoch in found if epoch is not None), default=None)

    def _timeout_is_too_long(self, wire: Wire) -> InvalidOptionError:
        longest = broker_setting(wire, _LONGEST_TIMEOUT)
        return InvalidOptionError(
            "the broker's limit is below transaction.timeout.ms",
            expected=f"at most the broker's {_LONGEST_TIMEOUT}"
            + (f", {longest}" if longest is not None else ""),
            found=self._config[properties.TRANSACTION_TIMEOUT_MS],
            option=f"properties.{properties.TRANSACTION_TIMEOUT_MS.key}",
            hint="lower it, or raise the broker's limit",
        )

    def _renew(self) -> None:
        try:
            self._open().pool.renew()
        except ConnectorError as error:
            # The next lease repeats it, and fails with the reason if it cannot.
            _logger.info("the transactional ids are not initialized yet: %s", error)

    def _commit(self, requests: Sequence[CommitRequest[KafkaCommittable]]) -> None:
        answers = self._open().client.end(
            [_transaction(request.committable) for request in requests], commit=True
        )
        # All winners first: readers see the epoch, and open transactions of others can no longer be
        # mistaken for one of these.
        for request, answer in zip(requests, answers, strict=True):
            if isinstance(answer, KafkaRetryableError):
                request.retry_later()
            elif answer is not None:
                self._settle(request, answer)

    def _settle(self, request: CommitRequest[KafkaCommittable], answer: ConnectorError) -> None:
        """Determine the outcome of a transaction that the broker no longer lists as open."""
        committable, connected = request.committable, self._open()
        name = TransactionalId.parse(committable.transactional_id)
        assert name is not None, "a writer of this sink prepared it"
        try:
            # Any open transaction under the IDs of this writer would keep its receipt unstable.
            connected.pool.renew_writer(name)
            last = last_committed(connected.client, name.writer, committable.receipts_topic)
        except KafkaRetryableError:
            request.retry_later()
            return
        if last is not None and last >= committable.checkpoint_id:
            request.signal_already_committed()
        elif last is None and self._receipt_may_be_gone(committable):
            error = CommitError(
                f"it is unknown whether epoch {committable.checkpoint_id} of writer "
                f"{committable.subtask_id} was committed",
                expected=f"a restart before the broker's {_RECEIPTS_KEPT} expires",
                found=f"prepared at {committable.prepared_at:%Y-%m-%d %H:%M} UTC, no receipt",
                hint="check whether the topic contains the rows, and then restore or reset the "
                "pipeline",
            )
            error.__cause__ = answer
            request.signal_failed(error)
        else:
            _logger.warning(
                "epoch %d of writer %d was not committed in time (%s): writing its rows again; if "
                "this happens often, raise transaction.timeout.ms",
                committable.checkpoint_id,
                committable.subtask_id,
                answer.message,
            )
            request.signal_lost()

    def _receipt_may_be_gone(self, committable: KafkaCommittable) -> bool:
        minutes = broker_setting(self._open().wire, _RECEIPTS_KEPT)
        kept = _DEFAULT_RECEIPTS_KEPT if minutes is None else timedelta(minutes=int(minutes))
        return datetime.now(UTC) - committable.prepared_at >= kept


def _transaction(committable: KafkaCommittable) -> Transaction:
    return Transaction(
        committable.transactional_id,
        ProducerIdentity(committable.producer_id, committable.producer_epoch),
    )
