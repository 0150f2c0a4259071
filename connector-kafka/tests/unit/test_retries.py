# SPDX-License-Identifier: Apache-2.0
"""Tests that requests to Kafka are retried according to the client properties."""

from __future__ import annotations

import pytest

from connector_kafka.client.config import ClientConfig
from connector_kafka.client.retries import retry_policy, retrying
from connector_kafka.errors import KafkaRequestError, KafkaRetryableError

CONFIG = ClientConfig.of(
    {
        "bootstrap.servers": "one:9092",
        "retry.backoff.ms": 1,
        "retry.backoff.max.ms": 4,
        "default.api.timeout.ms": 40,
        "request.timeout.ms": 10,
    }
)


def failing(*errors: Exception):
    answers = iter(errors)

    def ask() -> str:
        error = next(answers, None)
        if error is not None:
            raise error
        return "answer"

    return ask


def test_pauses_follow_the_backoff_properties_with_jitter() -> None:
    policy = retry_policy(CONFIG)
    for tries, longest in ((1, 0.001), (2, 0.002), (3, 0.004), (9, 0.004)):
        assert 0.8 * longest <= policy.pause(tries) <= longest
    assert policy.timeout == 0.04


def test_a_request_is_retried_until_it_succeeds() -> None:
    assert retrying(failing(KafkaRetryableError("a"), KafkaRetryableError("b")), CONFIG) == "answer"


def test_the_last_error_is_raised_after_the_timeout() -> None:
    tries = []

    def ask() -> None:
        tries.append(1)
        raise KafkaRetryableError(str(len(tries)))

    with pytest.raises(KafkaRetryableError) as last:
        retrying(ask, CONFIG)
    assert last.value.message == str(len(tries))
    assert len(tries) > 2


def test_a_request_that_cannot_succeed_is_not_retried() -> None:
    with pytest.raises(KafkaRequestError):
        retrying(failing(KafkaRequestError("no")), CONFIG)
