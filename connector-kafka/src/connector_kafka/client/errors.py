# SPDX-License-Identifier: Apache-2.0
"""The only mapping from errors of Kafka and its client to connector errors."""

from __future__ import annotations

import ssl
from typing import Final

from kafka import errors as kafka_errors

from connector_kafka.errors import (
    KafkaAuthenticationError,
    KafkaAuthorizationError,
    KafkaFatalError,
    KafkaRequestError,
    KafkaRetryableError,
)
from connectors_core.clients import causes_of
from connectors_core.errors import ConnectorError

__all__ = [
    "NO_ERROR",
    "error_of_code",
    "error_of_exception",
    "is_missing",
    "is_retriable",
    "missing_topic",
    "name_of",
    "says_why",
]

KafkaError = (
    KafkaRetryableError
    | KafkaFatalError
    | KafkaAuthenticationError
    | KafkaAuthorizationError
    | KafkaRequestError
)

NO_ERROR: Final = 0

_AUTHENTICATION: Final = (
    kafka_errors.SaslAuthenticationFailedError,
    kafka_errors.UnsupportedSaslMechanismError,
    kafka_errors.IllegalSaslStateError,
)
_REQUEST: Final = (
    kafka_errors.InvalidTopicError,
    kafka_errors.InvalidPartitionsError,
    kafka_errors.InvalidReplicationFactorError,
    kafka_errors.InvalidConfigurationError,
    kafka_errors.TopicDeletionDisabledError,
    kafka_errors.InvalidGroupIdError,
    kafka_errors.InvalidTransactionTimeoutError,
    kafka_errors.InvalidRequiredAcksError,
    kafka_errors.PolicyViolationError,
    kafka_errors.UnsupportedCompressionTypeError,
    kafka_errors.UnsupportedForMessageFormatError,
    kafka_errors.UnsupportedVersionError,
    kafka_errors.KafkaConfigurationError,
)
# Java's client also retries these errors, although kafka-python does not mark them.
_RETRYABLE: Final = (
    kafka_errors.RetriableError,
    kafka_errors.UnknownBrokerIdError,
    kafka_errors.BrokerNotAvailableError,
)


_MISSING: Final = frozenset(
    error.errno
    for error in (
        kafka_errors.UnknownTopicOrPartitionError,
        kafka_errors.UnknownTopicIdError,
        kafka_errors.InconsistentTopicIdError,
    )
)


def name_of(code: int) -> str:
    """Return Kafka's name of an error code, such as `NOT_COORDINATOR`."""
    return str(kafka_errors.for_code(code).message)


def is_retriable(code: int) -> bool:
    """Return whether the same request can succeed later, possibly on another broker."""
    return issubclass(kafka_errors.for_code(code), _RETRYABLE)


def is_missing(code: int | None) -> bool:
    """Return whether an error code means that a topic or partition does not exist."""
    return code in _MISSING


def missing_topic(name: str) -> KafkaRequestError:
    """Return the error for a topic of a sink that does not exist."""
    return KafkaRequestError(
        f"the topic {name!r} does not exist",
        option="topic",
        hint="create the topic, or correct its name",
    )


def error_of_code(code: int, doing: str, *, said: str | None = None) -> KafkaError:
    """Return the error to raise for an error code in a response.

    Args:
        code: Kafka's error code, not 0.
        doing: The operation, e.g. `reading the end offsets of flights-0`.
        said: The broker's message for the code.
    """
    return _converted(kafka_errors.for_code(code)(*((said,) if said else ())), doing)


def error_of_exception(error: BaseException, doing: str) -> ConnectorError:
    """Convert an error of the client to a connector error, and keep it as the cause.

    Args:
        error: The error that kafka-python raised or returned. One of this package or of the core,
            such as a password that a login cannot read, is returned as it is.
        doing: The operation.
    """
    return error if isinstance(error, ConnectorError) else _converted(error, doing)


def _converted(error: BaseException, doing: str) -> KafkaError:
    code = getattr(error, "errno", None) if _is_answer(error) else None
    found = _shown(error)
    made: KafkaError
    if isinstance(error, _AUTHENTICATION):
        made = KafkaAuthenticationError(
            f"the broker rejected the login: {doing}",
            found=found,
            option="properties.sasl.*",
            hint="check sasl.mechanism, user, and password; this cluster must know the user",
        )
    elif (refusal := _tls_refusal(error)) is not None:
        made = KafkaAuthenticationError(
            f"the TLS connection failed: {doing}",
            found=refusal,
            option="properties.ssl.*",
            hint="check the certificates; an authority in ssl.truststore.location must have "
            "issued the broker's certificate for the host in bootstrap.servers",
        )
    elif isinstance(error, kafka_errors.AuthorizationError):
        made = KafkaAuthorizationError(
            f"the user lacks a permission: {doing}",
            found=found,
            hint="ask an administrator to grant the permission (ACL) named in the message",
        )
    elif isinstance(error, _REQUEST):
        made = KafkaRequestError(f"the broker rejected the request: {doing}", found=found)
    elif isinstance(error, (*_RETRYABLE, OSError)):
        made = KafkaRetryableError(f"Kafka did not respond: {doing}", found=found)
    else:
        made = KafkaFatalError(f"Kafka permanently rejected the request: {doing}", found=found)
    if code is not None:
        made.kafka_code = code
        made.code = f"KAFKA_{name_of(code)}"
    made.__cause__ = error
    return made


def says_why(error: BaseException) -> bool:
    """Return whether an error contains the broker's reason for rejecting the login."""
    refused = (
        kafka_errors.SaslAuthenticationFailedError,
        kafka_errors.UnsupportedSaslMechanismError,
        ConnectionRefusedError,
    )
    return _tls_refusal(error) is not None or any(
        isinstance(each, refused) for each in causes_of(error)
    )


def _is_answer(error: BaseException) -> bool:
    return isinstance(error, kafka_errors.BrokerResponseError)


def _shown(error: BaseException) -> str:
    if isinstance(error, kafka_errors.BrokerResponseError):
        said = "; ".join(str(each) for each in error.args) or error.description
        return f"{error.message} ({error.errno}): {said}"
    if isinstance(error, ConnectorError):
        return error.message
    kind, said = type(error).__name__, str(error)
    return said if said.startswith(kind) else f"{kind}: {said}"  # kafka-python's include the class


def _tls_refusal(error: BaseException) -> str | None:
    """Return the TLS error for a certificate, if that is the cause."""
    for each in causes_of(error):
        if isinstance(each, ssl.SSLCertVerificationError):
            return getattr(each, "verify_message", None) or str(each)
        if isinstance(each, ssl.SSLError) and "ALERT" in (each.reason or ""):
            return str(each.reason).lower().replace("_", " ")
    return None
