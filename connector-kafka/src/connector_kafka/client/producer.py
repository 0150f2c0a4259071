# SPDX-License-Identifier: Apache-2.0
"""Writes record batches, in order within a partition, to several partitions at a time."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import dataclass, field
from typing import Any, Final

from kafka.protocol.producer import InitProducerIdRequest, ProduceRequest

from connector_kafka.client import config as properties
from connector_kafka.client.config import ClientConfig
from connector_kafka.client.errors import NO_ERROR, error_of_code
from connector_kafka.client.metadata import Cluster
from connector_kafka.client.retries import retry_policy, retrying
from connector_kafka.client.transactions import ProducerIdentity, Transaction, TransactionClient
from connector_kafka.client.wire import Wire
from connector_kafka.errors import KafkaRequestError, KafkaRetryableError
from connector_kafka.records import EncodedBatch, halves
from connectors_core.errors import ConnectorError

__all__ = ["NOT_IDEMPOTENT", "Producer"]

NOT_IDEMPOTENT: Final = ProducerIdentity(-1, -1)
"""The identity of a producer without idempotence, whose duplicates brokers cannot detect."""

_DUPLICATE_SEQUENCE: Final = 46
_TOO_LARGE: Final = frozenset({10, 18})  # MESSAGE_TOO_LARGE, RECORD_LIST_TOO_LARGE
_SEQUENCES: Final = 1 << 31
_FIRST_BACKOFF: Final = 0.005
# The limit of bytes waiting to be sent in addition to those in flight, because batches can arrive
# faster than brokers accept them.
_MAX_PENDING_BYTES: Final = 32 << 20

# In newer versions, the broker changes the epoch by itself (Kafka's KIP-890).
_PRODUCE_VERSION: Final = 11

_Place = tuple[str, int]


@dataclass
class _Waiting:
    """A batch that no broker has acknowledged yet."""

    batch: EncodedBatch
    deadline: float


@dataclass
class _Partition:
    """The batches to write to one partition. The first one can be in flight."""

    queue: deque[_Waiting] = field(default_factory=deque)
    next_sequence: int = 0
    not_before: float = 0.0
    failures: int = 0


class Producer:
    """Writes encoded batches to partitions, with bounded memory. Executor, one thread.

    Each partition has one batch in flight at a time, so batches keep their order even after a
    retry. Brokers use the producer ID and the sequence number to drop duplicate batches. A producer
    can be reused for many transactions or epochs, but not after an error.

    Args:
        config: Properties of the producer.
    """

    def __init__(self, config: ClientConfig) -> None:
        self._config = config
        self._retries = retry_policy(config, initial_backoff=_FIRST_BACKOFF)
        self._wire = Wire(config)
        self._cluster = Cluster(self._wire)
        self.transactions = TransactionClient(self._wire)
        self.identity = NOT_IDEMPOTENT
        self._transaction: Transaction | None = None
        self._joined: set[_Place] = set()
        self._partitions: dict[_Place, _Partition] = {}
        self._counts: dict[str, tuple[int, float]] = {}
        # Partitions whose first batch can be sent, in the order of service.
        self._ready: dict[_Place, None] = {}
        self._on_their_way: dict[Future[Any], tuple[int, list[_Place]]] = {}
        self._pending_bytes = 0
        self._acks = -1 if config[properties.ACKS] == "all" else int(config[properties.ACKS])

    @property
    def is_idempotent(self) -> bool:
        """Whether brokers detect duplicates."""
        return self.identity != NOT_IDEMPOTENT

    def be_idempotent(self) -> None:
        """Get a producer ID once, after which brokers detect duplicates.

        Raises:
            KafkaRetryableError: No broker responds.
        """
        if self.is_idempotent:
            return
        request = InitProducerIdRequest(
            transactional_id=None,
            transaction_timeout_ms=0,
            producer_id=-1,
            producer_epoch=-1,
            max_version=4,
        )

        def ask() -> Any:
            response = self._wire.request(request)
            if response.error_code != NO_ERROR:
                raise error_of_code(response.error_code, "getting a producer id")
            return response

        response = retrying(ask, self._config)  # a broker that has just started has none yet
        self.identity = ProducerIdentity(response.producer_id, response.producer_epoch)
        self._partitions.clear()

    def begin(self, transaction: Transaction) -> None:
        """Start a transaction, which contains everything sent from now on.

        Args:
            transaction: The transaction, with an identity that has never been used.
        """
        assert not self._pending_bytes, "a transaction starts only after a flush"
        self._transaction = transaction
        self.identity = transaction.producer
        self._joined.clear()
        self._partitions.clear()

    def partitions_of(self, topics: Iterable[str]) -> dict[str, int]:
        """Return the number of partitions of topics, at most `metadata.max.age.ms` old.

        Args:
            topics: Valid names. Topics that do not exist are omitted.

        Raises:
            KafkaAuthorizationError: The user lacks access to a topic.
            KafkaRetryableError: Kafka does not respond.
        """
        now = time.monotonic()
        oldest = now - self._config[properties.METADATA_MAX_AGE_MS] / 1000
        wanted = set(topics)
        fresh = {name for name in wanted if self._counts.get(name, (0, oldest))[1] > oldest}
        if wanted - fresh:
            found = self._cluster.topics(wanted - fresh)
            self._counts.update({n: (len(topic.partitions), now) for n, topic in found.items()})
            fresh |= found.keys()
        return {name: self._counts[name][0] for name in fresh}

    def next_sequence(self, topic: str, partition: int) -> int:
        """Return the sequence number of a partition's next record, for the encoder."""
        return self._partition((topic, partition)).next_sequence

    def send(self, batches: Mapping[_Place, Iterable[EncodedBatch]]) -> None:
        """Send batches. Blocks while too many bytes are waiting.

        Args:
            batches: The batches by topic and partition, created with :attr:`identity` and
                :meth:`next_sequence`.

        Raises:
            KafkaFatalError: The producer is fenced, or a broker permanently rejects a batch.
            KafkaRetryableError: A batch was not acknowledged within `delivery.timeout.ms`.
            ConfigurationError: A broker rejects a setting.
        """
        self._join(batches.keys())
        deadline = time.monotonic() + self._config[properties.DELIVERY_TIMEOUT_MS] / 1000
        for place, encoded in batches.items():
            partition = self._partition(place)
            is_idle = not partition.queue
            for batch in encoded:
                partition.queue.append(_Waiting(batch, deadline))
                partition.next_sequence = (partition.next_sequence + batch.records) % _SEQUENCES
                self._pending_bytes += len(batch.data)
            if is_idle and partition.queue:
                self._ready[place] = None
        self._pump()
        while self._pending_bytes > _MAX_PENDING_BYTES:
            self._await_one()

    def flush(self) -> None:
        """Wait until brokers have acknowledged all batches.

        Raises the same errors as :meth:`send`.
        """
        while self._pending_bytes:
            self._await_one()

    def close(self) -> None:
        """Disconnect and discard batches that are not acknowledged."""
        self._wire.close()

    # --- Rounds
    # ------------------------------------------------------------------------------------

    def _partition(self, place: _Place) -> _Partition:
        return self._partitions.setdefault(place, _Partition())

    def _join(self, places: Iterable[_Place]) -> None:
        if self._transaction is None:
            return
        new = set(places) - self._joined
        if new:
            self.transactions.add_partitions(self._transaction, sorted(new))
            self._joined |= new

    def _pump(self) -> None:
        """Send the first waiting batch of each partition, in requests to each leader."""
        limit = self._config[properties.MAX_REQUEST_SIZE]
        now = time.monotonic()
        filling: dict[int, list[_Place]] = {}
        sizes: dict[int, int] = {}
        for place in [each for each in self._ready if self._partitions[each].not_before <= now]:
            leader = self._leader_of(place)
            if leader is None or self._is_busy(leader):
                continue
            size = len(self._partitions[place].queue[0].batch.data)
            if leader in filling and sizes[leader] + size > limit:
                self._send_request(leader, filling.pop(leader))
                if self._is_busy(leader):
                    continue
            sizes[leader] = size if leader not in filling else sizes[leader] + size
            filling.setdefault(leader, []).append(place)
        for leader, places in filling.items():
            self._send_request(leader, places)

    def _leader_of(self, place: _Place) -> int | None:
        try:
            return self._wire.leader_of(*place)
        except KafkaRetryableError as error:
            self._try_later(place, error)
            return None

    def _is_busy(self, leader: int) -> bool:
        sent = sum(node == leader for node, _ in self._on_their_way.values())
        return sent >= self._config[properties.MAX_IN_FLIGHT]

    def _send_request(self, leader: int, places: list[_Place]) -> None:
        of_topic = ProduceRequest.TopicProduceData
        topics: dict[str, list[Any]] = {}
        for place in places:
            topic, number = place
            batch = self._partitions[place].queue[0].batch
            entry = of_topic.PartitionProduceData(index=number, records=batch.data)
            topics.setdefault(topic, []).append(entry)
            del self._ready[place]
        transaction = self._transaction
        request = ProduceRequest(
            transactional_id=transaction.transactional_id if transaction is not None else None,
            acks=self._acks,
            timeout_ms=self._config[properties.REQUEST_TIMEOUT_MS],
            topic_data=[of_topic(name=n, partition_data=data) for n, data in topics.items()],
            max_version=_PRODUCE_VERSION,
        )
        self._on_their_way[self._wire.send(request, node=leader)] = leader, places

    def _await_one(self) -> None:
        """Wait for a response or the end of a back-off, and handle it."""
        now = time.monotonic()
        backoffs = [self._partitions[place].not_before - now for place in self._ready]
        left = min((each for each in backoffs if each > 0), default=None)
        if self._on_their_way:
            done, _ = wait(self._on_their_way, timeout=left, return_when=FIRST_COMPLETED)
            for future in done:
                self._finish(future)
        elif left is not None:
            time.sleep(left)
        self._pump()

    def _finish(self, future: Future[Any]) -> None:
        _, places = self._on_their_way.pop(future)
        try:
            response = future.result()
        except KafkaRetryableError as error:
            for place in places:
                self._wire.forget_leader(*place)
                self._try_later(place, error)
            return
        if response is None:  # acks=0: there is no response
            for place in places:
                self._acknowledged(place)
            return
        for topic in response.responses:
            for answer in topic.partition_responses:
                self._answered((topic.name, answer.index), answer)

    def _answered(self, place: _Place, answer: Any) -> None:
        code = answer.error_code
        if code in (NO_ERROR, _DUPLICATE_SEQUENCE):
            self._acknowledged(place)
            return
        topic, partition = place
        error = error_of_code(code, f"writing to {topic}-{partition}", said=answer.error_message)
        if isinstance(error, KafkaRetryableError):
            self._wire.forget_leader(topic, partition)
            self._try_later(place, error)
            return
        if code in _TOO_LARGE:
            if self._partitions[place].queue[0].batch.records > 1:
                self._split(place)
                return
            raise KafkaRequestError(
                f"a record is too large for the topic {topic!r}",
                expected="at most the topic's max.message.bytes",
                found=f"{len(self._partitions[place].queue[0].batch.data)} bytes",
                option="properties.max.request.size",
                hint="raise the topic's max.message.bytes, or lower max.request.size to it, so "
                "that larger records are bad records",
            ) from error
        raise error

    def _split(self, place: _Place) -> None:
        """Divide the first batch of a partition, which is larger than its topic allows."""
        queue = self._partitions[place].queue
        whole = queue.popleft()
        parts = halves(whole.batch)
        queue.extendleft(_Waiting(part, whole.deadline) for part in reversed(parts))
        self._pending_bytes += sum(len(part.data) for part in parts) - len(whole.batch.data)
        self._ready[place] = None

    def _acknowledged(self, place: _Place) -> None:
        partition = self._partitions[place]
        self._pending_bytes -= len(partition.queue.popleft().batch.data)
        partition.failures = 0
        if partition.queue:
            self._ready[place] = None

    def _try_later(self, place: _Place, error: ConnectorError) -> None:
        partition = self._partitions[place]
        now = time.monotonic()
        if now > partition.queue[0].deadline:
            raise error
        partition.failures += 1
        partition.not_before = now + self._retries.pause(partition.failures, error)
        self._ready[place] = None
