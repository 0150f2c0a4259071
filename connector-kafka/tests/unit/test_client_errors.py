# SPDX-License-Identifier: Apache-2.0
"""Tests the mapping from Kafka's errors to the core's errors."""

from __future__ import annotations

import pickle
import ssl

import pytest
from kafka import errors as kafka_errors

from connector_kafka.client.errors import error_of_code, error_of_exception, is_retriable, name_of
from connector_kafka.errors import (
    KafkaAuthenticationError,
    KafkaAuthorizationError,
    KafkaFatalError,
    KafkaRequestError,
    KafkaRetryableError,
)
from connectors_core.errors import (
    ConfigurationError,
    ConnectorError,
    FatalError,
    InvalidOptionError,
    RetryableError,
)
from connectors_core.secrets import Secret


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (3, KafkaRetryableError),  # UNKNOWN_TOPIC_OR_PARTITION
        (6, KafkaRetryableError),  # NOT_LEADER
        (15, KafkaRetryableError),  # COORDINATOR_NOT_AVAILABLE
        (1, KafkaFatalError),  # OFFSET_OUT_OF_RANGE
        (2, KafkaFatalError),  # CORRUPT_MESSAGE
        (90, KafkaFatalError),  # PRODUCER_FENCED
        (29, KafkaAuthorizationError),  # TOPIC_AUTHORIZATION_FAILED
        (58, KafkaAuthenticationError),  # SASL_AUTHENTICATION_FAILED
        (17, KafkaRequestError),  # INVALID_TOPIC_EXCEPTION
        (38, KafkaRequestError),  # INVALID_REPLICATION_FACTOR
        (40, KafkaRequestError),  # INVALID_CONFIG
        (-1, KafkaFatalError),
        (31_999, KafkaFatalError),  # from a newer broker
    ],
)
def test_each_error_code_maps_to_its_error_class(code, expected):
    error = error_of_code(code, "reading flights-0", said="the broker's words")
    assert type(error) is expected
    assert error.kafka_code == code
    assert "reading flights-0" in str(error)
    assert "the broker's words" in str(error)
    assert error.code == f"KAFKA_{name_of(code)}"


def test_every_error_code_of_the_client_is_mapped():
    for code in kafka_errors.kafka_errors:
        error = error_of_code(code, "asking")
        assert isinstance(error, RetryableError if is_retriable(code) else ConnectorError)
        assert isinstance(error, (RetryableError, FatalError, ConfigurationError))


def test_errors_keep_their_code_and_cause_when_pickled():
    error = error_of_code(90, "ending a transaction")
    copy = pickle.loads(pickle.dumps(error))
    assert (copy.kafka_code, copy.code) == (90, "KAFKA_PRODUCER_FENCED")
    assert isinstance(copy.__cause__, Exception)


def test_a_lost_connection_is_retryable():
    assert isinstance(
        error_of_exception(kafka_errors.KafkaConnectionError("reset"), "x"), KafkaRetryableError
    )
    assert isinstance(error_of_exception(ConnectionResetError(104, "reset"), "x"), RetryableError)


def test_an_untrusted_certificate_is_an_authentication_error():
    error = kafka_errors.KafkaConnectionError("Handshake failed")
    error.__context__ = ssl.SSLCertVerificationError(1, "certificate verify failed: self-signed")
    found = error_of_exception(error, "connecting")
    assert isinstance(found, KafkaAuthenticationError)
    assert "self-signed" in str(found)


def test_a_password_that_a_login_cannot_read_keeps_its_error() -> None:
    with pytest.raises(InvalidOptionError) as error:
        Secret("${env:NO_SUCH_VARIABLE}").reveal()
    assert error_of_exception(error.value, "connecting") is error.value
