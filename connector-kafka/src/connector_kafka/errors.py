# SPDX-License-Identifier: Apache-2.0
"""Kafka's errors as subclasses of the core's errors."""

from __future__ import annotations

from connectors_core.errors import ConfigurationError, FatalError, RetryableError

__all__ = [
    "CorruptRecordsError",
    "KafkaAuthenticationError",
    "KafkaAuthorizationError",
    "KafkaFatalError",
    "KafkaRequestError",
    "KafkaRetryableError",
]


class _FromKafka:
    """Keeps Kafka's error code.

    Attributes:
        kafka_code: Kafka's error code, or None if the client failed and not the broker.
    """

    kafka_code: int | None = None


class KafkaRetryableError(_FromKafka, RetryableError):
    """Kafka is unavailable for now: no leader, coordinator loading, lost connection, or timeout."""

    code = "KAFKA_RETRYABLE"


class KafkaFatalError(_FromKafka, FatalError):
    """A permanent rejection by Kafka: fenced, corrupt, out of range, or an unexpected response."""

    code = "KAFKA_FATAL"


class KafkaAuthenticationError(_FromKafka, ConfigurationError):
    """The broker rejects the login, or the client rejects the broker's certificate.

    It never contains the password.
    """

    code = "KAFKA_AUTHENTICATION"


class KafkaAuthorizationError(_FromKafka, ConfigurationError):
    """The user lacks a permission, which an administrator must grant."""

    code = "KAFKA_AUTHORIZATION"


class KafkaRequestError(_FromKafka, ConfigurationError):
    """The broker rejects a setting, or is too old for it."""

    code = "KAFKA_REQUEST"


class CorruptRecordsError(FatalError):
    """A record batch of a topic is damaged, or in a format that no client reads. Executor.

    The records before it were read. Continuing after it would skip records silently.

    Args:
        reason: The problem with the bytes.
        topic: The topic.
        partition: The partition.
        offset: The base offset of the batch, or the start of the read if no batch was found.
        last_offset: The last offset of the batch, if it is known.
        is_too_large: Whether the batch can be valid, but expands beyond the limit.
    """

    code = "KAFKA_CORRUPT_RECORDS"

    def __init__(
        self,
        reason: str,
        *,
        topic: str,
        partition: int,
        offset: int,
        last_offset: int | None = None,
        is_too_large: bool = False,
    ) -> None:
        self.topic: str = topic
        self.partition: int = partition
        self.offset: int = offset
        following = (offset if last_offset is None else last_offset) + 1
        super().__init__(
            f"the record batch at offset {offset} of {topic}-{partition} cannot be read: {reason}",
            option="source.max-record-size" if is_too_large else None,
            hint="increase the option if such a record is expected"
            if is_too_large
            else "inspect it with kafka-dump-log.sh on the broker; if no replica has it intact, "
            "continue after its last offset: `connectors state rewind LOCATION --to-start --at "
            f"'UID={topic}:{partition}={following}'`, where UID is the source, and ';' separates "
            "the offsets of further partitions",
        )
