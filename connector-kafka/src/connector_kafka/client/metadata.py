# SPDX-License-Identifier: Apache-2.0
"""Reads and writes the cluster's state of topics, partitions, offsets, and groups."""

from __future__ import annotations

import enum
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, TypeAlias

from kafka import errors as kafka_errors
from kafka.protocol.consumer import (
    ListOffsetsRequest,
    OffsetCommitRequest,
    OffsetFetchRequest,
    OffsetForLeaderEpochRequest,
)

from connector_kafka.client.errors import (
    NO_ERROR,
    error_of_code,
    is_retriable,
)
from connector_kafka.client.retries import retrying
from connector_kafka.client.wire import CoordinatorType, Wire
from connector_kafka.errors import KafkaRequestError, KafkaRetryableError

__all__ = [
    "EARLIEST",
    "LATEST",
    "Cluster",
    "IsolationLevel",
    "LogOffset",
    "Topic",
    "TopicPartition",
    "is_topic_name",
]

#: Special times: the first available offset, and the one after the last record.
EARLIEST: Final = -2
LATEST: Final = -1

_TOPIC_NAME: Final = re.compile("(?![.]{1,2}$)[A-Za-z0-9._-]{1,249}")
_MISSING: Final = kafka_errors.UnknownTopicOrPartitionError.errno
# Later versions of these requests identify topics by ID only, or request several groups.
_OFFSET_FETCH: Final = 7
_OFFSET_COMMIT: Final = 8
_LIST_OFFSETS: Final = 7

_Answers: TypeAlias = (
    "tuple[dict[TopicPartition, LogOffset], dict[TopicPartition, KafkaRetryableError]]"
)


def is_topic_name(name: str) -> bool:
    """Return whether a topic can have this name."""
    return _TOPIC_NAME.fullmatch(name) is not None


class IsolationLevel(enum.Enum):
    """Whether to read records of open and aborted transactions (KIP-98)."""

    READ_UNCOMMITTED = "read_uncommitted"
    READ_COMMITTED = "read_committed"

    @property
    def level(self) -> int:
        """The protocol's value."""
        return 1 if self is IsolationLevel.READ_COMMITTED else 0


@dataclass(frozen=True, order=True)
class TopicPartition:
    """A partition of a topic."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


@dataclass(frozen=True)
class Topic:
    """The current state of a topic.

    Attributes:
        name: The name of the topic.
        topic_id: Distinguishes a topic from a later one of the same name. Empty before Kafka 2.8.
        partitions: The numbers of its partitions.
    """

    name: str
    topic_id: str
    partitions: tuple[int, ...]


class LogOffset(NamedTuple):
    """An offset in a log, and a leader epoch that is known for it.

    Attributes:
        offset: The offset, or -1 if there is none.
        leader_epoch: The epoch, or -1 if it is not known.
    """

    offset: int
    leader_epoch: int


class Cluster:
    """Sends requests to the cluster, and commits offsets of a group. Blocks and retries.

    Args:
        wire: The connections, which the owner closes. Fetches must not share them.
    """

    def __init__(self, wire: Wire) -> None:
        self._wire = wire

    def topics(self, names: Iterable[str] | None = None) -> dict[str, Topic]:
        """Return the existing topics of these names.

        Without names, return all except internal ones.

        Raises:
            KafkaAuthorizationError: The user lacks the permission to read a topic.
            KafkaRetryableError: Kafka did not respond within `default.api.timeout.ms`.
        """
        wanted = None if names is None else sorted(set(names))
        return retrying(lambda: self._topics(wanted), self._wire.config)

    def offsets(
        self,
        partitions: Iterable[TopicPartition],
        at: int,
        isolation: IsolationLevel = IsolationLevel.READ_UNCOMMITTED,
    ) -> dict[TopicPartition, int]:
        """Return the offsets of partitions at a time, without partitions that have no later record.

        Args:
            partitions: The partitions, which must all exist.
            at: Milliseconds since the epoch, :data:`EARLIEST` or :data:`LATEST`.
            isolation: With read_committed, the latest offset is the one before the first open
                transaction (the last stable offset).

        Raises:
            KafkaRetryableError: A partition does not exist, or Kafka did not respond in time.
        """
        found = self._until_answered(
            partitions,
            lambda missing: self._ask(missing, lambda p: _list_offsets(p, at, isolation)),
        )
        return {each: at.offset for each, at in found.items() if at.offset >= 0}

    def ends(
        self, partitions: Iterable[TopicPartition], isolation: IsolationLevel
    ) -> dict[TopicPartition, LogOffset]:
        """Return the latest offsets, and the epochs of the leaders; see :meth:`offsets`."""
        return self._until_answered(partitions, lambda missing: self.try_ends(missing, isolation))

    def try_ends(
        self, partitions: Iterable[TopicPartition], isolation: IsolationLevel
    ) -> tuple[dict[TopicPartition, LogOffset], dict[TopicPartition, KafkaRetryableError]]:
        """Request the latest offsets once; see :meth:`ends`.

        Returns:
            The offsets, and the errors of the other partitions.
        """
        return self._ask(partitions, lambda asked: _list_offsets(asked, LATEST, isolation))

    def epoch_ends(self, epochs: Mapping[TopicPartition, int]) -> dict[TopicPartition, LogOffset]:
        """Return where the records of a leader epoch and all earlier ones end (KIP-320).

        Args:
            epochs: The epoch, by partition.

        Returns:
            The end, and the last of these epochs that has records. Both are -1 if the log does not
            know the epoch. Without the partitions whose brokers do not support the request.

        Raises:
            KafkaRetryableError: Kafka did not respond within `default.api.timeout.ms`.
        """
        try:
            return self._until_answered(
                epochs,
                lambda missing: self._ask(missing, lambda asked: _epoch_ends(asked, epochs)),
            )
        except KafkaRequestError as error:
            if isinstance(error.__cause__, kafka_errors.IncompatibleBrokerVersion):
                return {}
            raise

    def _until_answered(
        self,
        partitions: Iterable[TopicPartition],
        attempt: Callable[[Iterable[TopicPartition]], _Answers],
    ) -> dict[TopicPartition, LogOffset]:
        found: dict[TopicPartition, LogOffset] = {}
        missing = set(partitions)

        def ask() -> None:
            answered, errors = attempt(missing)
            found.update(answered)
            missing.intersection_update(errors)
            for error in errors.values():
                raise error

        retrying(ask, self._wire.config)
        return found

    def _ask(
        self,
        partitions: Iterable[TopicPartition],
        request: Callable[[Sequence[TopicPartition]], Any],
    ) -> _Answers:
        """Ask the leaders of partitions once."""
        by_leader: dict[int, list[TopicPartition]] = defaultdict(list)
        found: dict[TopicPartition, LogOffset] = {}
        errors: dict[TopicPartition, KafkaRetryableError] = {}
        for each in partitions:
            try:
                by_leader[self._wire.leader_of(each.topic, each.partition)].append(each)
            except KafkaRetryableError as exc:
                errors[each] = exc
        answers = [
            (asked, self._wire.send(request(asked), node=leader))
            for leader, asked in by_leader.items()
        ]
        for asked, answer in answers:
            try:
                self._take_offsets(answer, found, errors)
            except KafkaRetryableError as exc:
                errors.update(dict.fromkeys(asked, exc))
        for each in errors:
            self._wire.forget_leader(each.topic, each.partition)
        return found, errors

    def committed(
        self, group: str, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, int]:
        """Return a group's committed offsets, without the partitions that have none."""
        request = OffsetFetchRequest(
            group_id=group,
            topics=[
                OffsetFetchRequest.OffsetFetchRequestTopic(name=topic, partition_indexes=numbers)
                for topic, numbers in _by_topic(partitions).items()
            ],
            require_stable=True,
            max_version=_OFFSET_FETCH,
        )
        doing = f"reading the offsets of group {group!r}"

        def ask() -> dict[TopicPartition, int]:
            response = self._ask_coordinator(group, request, doing)
            found = {}
            for topic in response.topics:
                for each in topic.partitions:
                    if each.error_code not in (NO_ERROR, _MISSING):
                        raise error_of_code(each.error_code, doing)
                    if each.committed_offset >= 0:
                        partition = TopicPartition(topic.name, each.partition_index)
                        found[partition] = each.committed_offset
            return found

        return retrying(ask, self._wire.config)

    def commit(
        self,
        group: str,
        offsets: Mapping[TopicPartition, int],
        *,
        timeout: float | None = None,
    ) -> None:
        """Commit offsets of a group without members.

        Args:
            group: The group.
            offsets: The offset of the next record of each partition.
            timeout: The deadline in seconds, including retries. The default is the client's
                `default.api.timeout.ms`.

        Raises:
            KafkaFatalError: The group has members, which commit offsets themselves.
            KafkaAuthorizationError: The user lacks the permission to write to the group.
            KafkaRetryableError: Kafka did not respond in time.
        """
        topics = OffsetCommitRequest.OffsetCommitRequestTopic
        partitions = topics.OffsetCommitRequestPartition
        request = OffsetCommitRequest(
            group_id=group,
            generation_id_or_member_epoch=-1,
            member_id="",
            group_instance_id=None,
            topics=[
                topics(
                    name=topic,
                    partitions=[
                        partitions(
                            partition_index=number,
                            committed_offset=offsets[TopicPartition(topic, number)],
                            committed_leader_epoch=-1,
                            committed_metadata="",
                        )
                        for number in numbers
                    ],
                )
                for topic, numbers in _by_topic(offsets).items()
            ],
            max_version=_OFFSET_COMMIT,
        )
        doing = f"committing offsets of group {group!r}"

        def ask() -> None:
            response = self._ask_coordinator(group, request, doing)
            for topic in response.topics:
                for each in topic.partitions:
                    if each.error_code != NO_ERROR:
                        self._wire.forget_coordinator(CoordinatorType.GROUP, group)
                        raise error_of_code(each.error_code, doing)

        retrying(ask, self._wire.config, timeout=timeout)

    def _topics(self, wanted: list[str] | None) -> dict[str, Topic]:
        found = {}
        for topic in self._wire.refresh_metadata(wanted).topics:
            if topic.error_code == _MISSING or (wanted is None and topic.is_internal):
                continue
            if topic.error_code != NO_ERROR:
                raise error_of_code(topic.error_code, f"looking for the topic {topic.name!r}")
            topic_id = topic.topic_id.hex if topic.topic_id else ""
            numbers = tuple(sorted(each.partition_index for each in topic.partitions))
            found[topic.name] = Topic(topic.name, topic_id, numbers)
        return found

    @staticmethod
    def _take_offsets(
        answer: Future[Any],
        found: dict[TopicPartition, LogOffset],
        errors: dict[TopicPartition, KafkaRetryableError],
    ) -> None:
        for topic in answer.result().topics:
            for each in topic.partitions:
                partition, offset = _answered(topic, each)
                if each.error_code == NO_ERROR:
                    found[partition] = LogOffset(offset, each.leader_epoch)
                    continue
                error = error_of_code(each.error_code, f"reading offsets of {partition}")
                if not isinstance(error, KafkaRetryableError):
                    raise error
                errors[partition] = error

    def _ask_coordinator(self, group: str, request: Any, doing: str) -> Any:
        node = self._wire.coordinator(CoordinatorType.GROUP, group)
        try:
            response = self._wire.request(request, node=node)
        except KafkaRetryableError:
            self._wire.forget_coordinator(CoordinatorType.GROUP, group)
            raise
        code = getattr(response, "error_code", None) or NO_ERROR
        if code != NO_ERROR:
            if is_retriable(code):
                self._wire.forget_coordinator(CoordinatorType.GROUP, group)
            raise error_of_code(code, doing)
        return response


def _by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    grouped: dict[str, list[int]] = defaultdict(list)
    for each in sorted(partitions):
        grouped[each.topic].append(each.partition)
    return grouped


def _answered(topic: Any, each: Any) -> tuple[TopicPartition, int]:
    """Return the partition and the offset of either response."""
    if hasattr(each, "end_offset"):
        return TopicPartition(topic.topic, each.partition), each.end_offset
    return TopicPartition(topic.name, each.partition_index), each.offset


def _epoch_ends(
    partitions: Iterable[TopicPartition], epochs: Mapping[TopicPartition, int]
) -> OffsetForLeaderEpochRequest:
    topics = OffsetForLeaderEpochRequest.OffsetForLeaderTopic
    return OffsetForLeaderEpochRequest(
        replica_id=-1,
        topics=[
            topics(
                topic=name,
                partitions=[
                    topics.OffsetForLeaderPartition(
                        partition=number,
                        current_leader_epoch=-1,
                        leader_epoch=epochs[TopicPartition(name, number)],
                    )
                    for number in numbers
                ],
            )
            for name, numbers in _by_topic(partitions).items()
        ],
    )


def _list_offsets(
    partitions: Iterable[TopicPartition], at: int, isolation: IsolationLevel
) -> ListOffsetsRequest:
    topics = ListOffsetsRequest.ListOffsetsTopic
    return ListOffsetsRequest(
        replica_id=-1,
        isolation_level=isolation.level,
        topics=[
            topics(
                name=topic,
                partitions=[
                    topics.ListOffsetsPartition(
                        partition_index=number, current_leader_epoch=-1, timestamp=at
                    )
                    for number in numbers
                ],
            )
            for topic, numbers in _by_topic(partitions).items()
        ],
        max_version=_LIST_OFFSETS,
    )
