# SPDX-License-Identifier: Apache-2.0
"""What Kafka's errors are in the tree of errors of the core."""

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
    """Remembers which of Kafka's errors it stands for.

    Attributes:
        kafka_code: Kafka's error code, or None where the client failed and not the broker.
    """

    kafka_code: int | None = None


class KafkaRetryableError(_FromKafka, RetryableError):
    """Kafka cannot answer now: no leader, coordinator loading, connection lost, time-out."""

    code = "KAFKA_RETRYABLE"


class KafkaFatalError(_FromKafka, FatalError):
    """Kafka refused for good: fenced, corrupt, out of range, an answer nobody expected."""

    code = "KAFKA_FATAL"


class KafkaAuthenticationError(_FromKafka, ConfigurationError):
    """The broker does not accept who we are, or we do not accept its certificate.

    It never contains the password.
    """

    code = "KAFKA_AUTHENTICATION"


class KafkaAuthorizationError(_FromKafka, ConfigurationError):
    """The user may not do this; an administrator has to allow it."""

    code = "KAFKA_AUTHORIZATION"


class KafkaRequestError(_FromKafka, ConfigurationError):
    """The broker finds something wrong with what was configured, or is too old for it."""

    code = "KAFKA_REQUEST"


class CorruptRecordsError(FatalError):
    """A record batch of a topic is damaged, or written in a way that no client reads; executor.

    What stands before it was read. To read on behind it would skip records without a word.

    Args:
        reason: What is wrong with the bytes.
        topic: The topic.
        partition: The partition.
        offset: The base offset of the batch, or where reading began if no batch was found.
        is_too_large: It may be sound, but expands to more than is allowed.
    """

    code = "KAFKA_CORRUPT_RECORDS"

    def __init__(
        self, reason: str, *, topic: str, partition: int, offset: int, is_too_large: bool = False
    ) -> None:
        self.topic: str = topic
        self.partition: int = partition
        self.offset: int = offset
        super().__init__(
            f"the record batch at offset {offset} of {topic}-{partition} cannot be read: {reason}",
            option="source.max-record-size" if is_too_large else None,
            hint="raise the option if such a record is expected"
            if is_too_large
            else "inspect it with kafka-dump-log.sh on the broker; if no replica has it intact, "
            "start after it with explicit offsets",
        )
