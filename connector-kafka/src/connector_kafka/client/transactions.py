# SPDX-License-Identifier: Apache-2.0
"""Starts, extends, and ends transactions through their coordinators, from any process.

It uses the request versions of brokers before Kafka's KIP-890, which newer brokers still support.
With them, an epoch changes only when the driver requests a new one.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, Final

from kafka.protocol.admin import DescribeTransactionsRequest, ListTransactionsRequest
from kafka.protocol.consumer import OffsetFetchRequest
from kafka.protocol.producer import (
    AddOffsetsToTxnRequest,
    AddPartitionsToTxnRequest,
    EndTxnRequest,
    InitProducerIdRequest,
    TxnOffsetCommitRequest,
)

from connector_kafka.client.errors import NO_ERROR, error_of_code
from connector_kafka.client.retries import retry_log, retry_policy, retrying
from connector_kafka.client.wire import CoordinatorType, Wire
from connector_kafka.errors import KafkaRetryableError
from connectors_core.errors import ConnectorError

__all__ = [
    "ListedTransaction",
    "ProducerIdentity",
    "Transaction",
    "TransactionClient",
    "TransactionDescription",
]

_COORDINATOR_MOVED: Final = frozenset({15, 16})  # COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR
_OPERATION_NOT_ATTEMPTED: Final = 55
_UNSTABLE_OFFSET_COMMIT: Final = 88
_TRANSACTIONAL_ID_NOT_FOUND: Final = 105
_NO_OFFSET: Final = -1
# A coordinator that is still writing the markers of the last transaction reports this. It takes a
# few milliseconds, so the first retries come sooner than `retry.backoff.ms`.
_FIRST_BACKOFF: Final = 0.002


@dataclass(frozen=True)
class ProducerIdentity:
    """The identity of a producer: brokers accept only records of its newest epoch."""

    producer_id: int
    epoch: int


@dataclass(frozen=True)
class Transaction:
    """A transaction of a producer. Every identity writes only one."""

    transactional_id: str
    producer: ProducerIdentity


@dataclass(frozen=True, kw_only=True)
class ListedTransaction:
    """A transactional ID in the coordinator's list. `state` is Kafka's name, e.g. Ongoing."""

    transactional_id: str
    producer_id: int
    state: str


@dataclass(frozen=True, kw_only=True)
class TransactionDescription:
    """The coordinator's description of a transactional ID.

    Attributes:
        transaction: The ID and its newest producer.
        state: Kafka's name of the state: Empty, Ongoing, PrepareCommit, CompleteCommit, ...
        timeout_ms: The age at which the broker aborts it.
        started_ms: The start of the open transaction in milliseconds since 1970, or None.
        partitions: The topics and partitions that the open transaction wrote to.
    """

    transaction: Transaction
    state: str
    timeout_ms: int
    started_ms: int | None
    partitions: tuple[tuple[str, int], ...]


@dataclass(frozen=True)
class _Ask:
    """A request to a coordinator, and how to read the error code of its response.

    A response with the code ``not_awaited`` can change later, but is not retried here.
    """

    kind: CoordinatorType
    key: str
    request: Callable[[], Any]
    code: Callable[[Any], int]
    doing: str
    not_awaited: int = NO_ERROR


class TransactionClient:
    """Sends requests for many IDs at a time to coordinators of transactions and groups.

    It retries temporary errors until `default.api.timeout.ms`: the coordinator moves, loads, or is
    busy with the last transaction. It never requests a new epoch by itself. Driver and executor,
    one thread at a time.

    Args:
        wire: The connection, which the caller closes.
    """

    def __init__(self, wire: Wire) -> None:
        self._wire = wire

    def init_producer_ids(
        self, transactional_ids: Sequence[str], *, timeout_ms: int
    ) -> dict[str, ProducerIdentity]:
        """Give each ID a new epoch, which fences its producer and aborts its open transaction.

        Args:
            transactional_ids: The IDs.
            timeout_ms: The age in milliseconds at which brokers abort a transaction.

        Raises:
            KafkaRetryableError: A coordinator did not respond in time.
            ConfigurationError: The broker rejects the IDs or the timeout.
        """

        def ask(name: str) -> _Ask:
            return _Ask(
                CoordinatorType.TRANSACTION,
                name,
                lambda: InitProducerIdRequest(
                    transactional_id=name,
                    transaction_timeout_ms=timeout_ms,
                    producer_id=-1,
                    producer_epoch=-1,
                    max_version=4,
                ),
                _top_level,
                f"initializing the transactional id {name!r}",
            )

        answers = _all(self._ask([ask(name) for name in transactional_ids]))
        return {
            name: ProducerIdentity(answer.producer_id, answer.producer_epoch)
            for name, answer in zip(transactional_ids, answers, strict=True)
        }

    def end(
        self, transactions: Sequence[Transaction], *, commit: bool
    ) -> list[ConnectorError | None]:
        """Commit or abort transactions that any process prepared.

        Returns:
            For each transaction, None if the broker has ended it, now or before. Otherwise, the
            broker's error. Only a retryable error means that nothing happened yet.
        """

        def ask(transaction: Transaction) -> _Ask:
            return _Ask(
                CoordinatorType.TRANSACTION,
                transaction.transactional_id,
                lambda: EndTxnRequest(
                    transactional_id=transaction.transactional_id,
                    producer_id=transaction.producer.producer_id,
                    producer_epoch=transaction.producer.epoch,
                    committed=commit,
                    max_version=4,
                ),
                _top_level,
                f"ending the transaction of {transaction.transactional_id!r}",
            )

        answers = self._ask([ask(each) for each in transactions])
        return [answer if isinstance(answer, ConnectorError) else None for answer in answers]

    def add_partitions(
        self, transaction: Transaction, partitions: Iterable[tuple[str, int]]
    ) -> None:
        """Tell the coordinator which partitions a transaction will write to.

        Raises:
            KafkaFatalError: The producer is fenced.
            KafkaRetryableError: The coordinator did not respond in time.
        """
        topics: dict[str, list[int]] = {}
        for topic, partition in partitions:
            topics.setdefault(topic, []).append(partition)
        entry = AddPartitionsToTxnRequest.AddPartitionsToTxnTopic

        def code(response: Any) -> int:
            codes = {
                result.partition_error_code
                for topic in response.results_by_topic_v3_and_below
                for result in topic.results_by_partition
            } - {NO_ERROR}
            # One partition has the error, and the coordinator did not attempt the others.
            return min(codes - {_OPERATION_NOT_ATTEMPTED} or codes, default=NO_ERROR)

        self._ask_one(
            _Ask(
                CoordinatorType.TRANSACTION,
                transaction.transactional_id,
                lambda: AddPartitionsToTxnRequest(
                    v3_and_below_transactional_id=transaction.transactional_id,
                    v3_and_below_producer_id=transaction.producer.producer_id,
                    v3_and_below_producer_epoch=transaction.producer.epoch,
                    v3_and_below_topics=[
                        entry(name=name, partitions=numbers) for name, numbers in topics.items()
                    ],
                    max_version=3,
                ),
                code,
                f"adding partitions to the transaction of {transaction.transactional_id!r}",
            )
        )

    def commit_offset(
        self,
        transaction: Transaction,
        *,
        group: str,
        topic: str,
        partition: int,
        offset: int,
        metadata: str,
    ) -> None:
        """Commit an offset of a group within a transaction.

        Raises:
            KafkaFatalError: The producer is fenced.
            KafkaRetryableError: A coordinator did not respond in time, or the topic does not exist.
        """
        name, producer = transaction.transactional_id, transaction.producer
        doing = f"adding a receipt to the transaction of {name!r}"
        self._ask_one(
            _Ask(
                CoordinatorType.TRANSACTION,
                name,
                lambda: AddOffsetsToTxnRequest(
                    transactional_id=name,
                    producer_id=producer.producer_id,
                    producer_epoch=producer.epoch,
                    group_id=group,
                    max_version=3,
                ),
                _top_level,
                doing,
            )
        )
        of_topic = TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic
        of_partition = of_topic.TxnOffsetCommitRequestPartition
        self._ask_one(
            _Ask(
                CoordinatorType.GROUP,
                group,
                lambda: TxnOffsetCommitRequest(
                    transactional_id=name,
                    group_id=group,
                    producer_id=producer.producer_id,
                    producer_epoch=producer.epoch,
                    generation_id=-1,
                    member_id="",
                    group_instance_id=None,
                    topics=[
                        of_topic(
                            name=topic,
                            partitions=[
                                of_partition(
                                    partition_index=partition,
                                    committed_offset=offset,
                                    committed_leader_epoch=-1,
                                    committed_metadata=metadata,
                                )
                            ],
                        )
                    ],
                    max_version=3,
                ),
                lambda response: response.topics[0].partitions[0].error_code,
                doing,
            )
        )

    def stable_offset(
        self, group: str, topic: str, partition: int, *, wait: bool = True
    ) -> int | None:
        """Return the offset of a group that no open transaction can change, or None without one.

        Args:
            group: The group.
            topic: The topic.
            partition: The partition.
            wait: Whether to wait until the deadline for the end of an open transaction.

        Raises:
            KafkaRetryableError: An open transaction can still change the offset.
        """
        entry = OffsetFetchRequest.OffsetFetchRequestTopic

        def code(response: Any) -> int:
            return int(response.error_code or response.topics[0].partitions[0].error_code)

        response = self._ask_one(
            _Ask(
                CoordinatorType.GROUP,
                group,
                lambda: OffsetFetchRequest(
                    group_id=group,
                    topics=[entry(name=topic, partition_indexes=[partition])],
                    require_stable=True,
                    min_version=7,
                    max_version=7,
                ),
                code,
                f"reading the receipt of {group!r}",
                not_awaited=NO_ERROR if wait else _UNSTABLE_OFFSET_COMMIT,
            )
        )
        offset = int(response.topics[0].partitions[0].committed_offset)
        return None if offset == _NO_OFFSET else offset

    def list_transactions(self, *, states: Sequence[str] = ()) -> list[ListedTransaction]:
        """Return all transactional IDs that this user can see, with Kafka's state.

        Args:
            states: Only IDs in these states. An empty sequence selects all.
        """
        doing = "listing transactions"
        brokers = [broker.node_id for broker in self._wire.refresh_metadata().brokers]
        return [
            ListedTransaction(
                transactional_id=each.transactional_id,
                producer_id=each.producer_id,
                state=each.transaction_state,
            )
            for broker in brokers
            for each in self._ask_broker(
                broker,
                lambda: ListTransactionsRequest(
                    state_filters=list(states), producer_id_filters=[], max_version=0
                ),
                doing,
            ).transaction_states
        ]

    def describe_transactions(
        self, transactional_ids: Sequence[str]
    ) -> list[TransactionDescription]:
        """Return the coordinators' descriptions of IDs, without those removed meanwhile."""

        def ask(name: str) -> _Ask:
            return _Ask(
                CoordinatorType.TRANSACTION,
                name,
                lambda: DescribeTransactionsRequest(transactional_ids=[name]),
                lambda response: response.transaction_states[0].error_code,
                f"describing the transactional id {name!r}",
            )

        found = []
        for answer in self._ask([ask(name) for name in transactional_ids]):
            if isinstance(answer, ConnectorError):
                if getattr(answer, "kafka_code", None) == _TRANSACTIONAL_ID_NOT_FOUND:
                    continue
                raise answer
            found.append(_description(answer.transaction_states[0]))
        return found

    # --- Requests and retries --------------------------------------------------------------------

    def _ask_one(self, ask: _Ask) -> Any:
        return _all(self._ask([ask]))[0]

    def _ask(self, asks: Sequence[_Ask]) -> list[Any]:
        """Send all requests at once and retry temporary errors.

        Return responses or errors in order.
        """
        answers: list[Any] = [None] * len(asks)
        open_asks = list(range(len(asks)))

        def turn() -> None:
            on_their_way = [(index, self._begin(asks[index])) for index in open_asks]
            open_asks.clear()
            for index, future in on_their_way:
                answers[index] = answer = self._answer(asks[index], future)
                if (
                    isinstance(answer, KafkaRetryableError)
                    and answer.kafka_code != asks[index].not_awaited
                ):
                    open_asks.append(index)
            if open_asks:
                raise answers[open_asks[0]]

        with contextlib.suppress(KafkaRetryableError):  # each request has its own response
            config = self._wire.config
            policy = retry_policy(config, initial_backoff=_FIRST_BACKOFF)
            policy.retrying(retry_log("asking", config, after=1.0))(turn)
        return answers

    def _begin(self, ask: _Ask) -> Future[Any] | ConnectorError:
        try:
            node = self._wire.coordinator(ask.kind, ask.key)
            return self._wire.send(ask.request(), node=node)
        except ConnectorError as error:
            return error

    def _answer(self, ask: _Ask, future: Future[Any] | ConnectorError) -> Any:
        if isinstance(future, ConnectorError):
            return future
        try:
            response = future.result()
        except ConnectorError as error:
            self._wire.forget_coordinator(ask.kind, ask.key)
            return error
        code = ask.code(response)
        if code == NO_ERROR:
            return response
        if code in _COORDINATOR_MOVED:
            self._wire.forget_coordinator(ask.kind, ask.key)
        return error_of_code(code, ask.doing)

    def _ask_broker(self, node: int, request: Callable[[], Any], doing: str) -> Any:
        def attempt() -> Any:
            response = self._wire.request(request(), node=node)
            if response.error_code != NO_ERROR:
                raise error_of_code(response.error_code, doing)
            return response

        return retrying(attempt, self._wire.config)


def _top_level(response: Any) -> int:
    return int(response.error_code)


def _all(answers: list[Any]) -> list[Any]:
    for answer in answers:
        if isinstance(answer, ConnectorError):
            raise answer
    return answers


def _description(state: Any) -> TransactionDescription:
    started = state.transaction_start_time_ms
    return TransactionDescription(
        transaction=Transaction(
            state.transactional_id, ProducerIdentity(state.producer_id, state.producer_epoch)
        ),
        state=state.transaction_state,
        timeout_ms=state.transaction_timeout_ms,
        started_ms=started if started >= 0 else None,
        partitions=tuple(
            (topic.topic, partition) for topic in state.topics for partition in topic.partitions
        ),
    )
