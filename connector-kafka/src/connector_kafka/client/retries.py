# SPDX-License-Identifier: Apache-2.0
"""Tries again what may succeed later."""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable, Iterator
from typing import TypeVar

from connector_kafka.client import config as properties
from connector_kafka.client.config import ClientConfig
from connector_kafka.errors import KafkaRetryableError
from connectors_core.clients import RetryLog

__all__ = ["backoffs", "retry_log", "retrying"]

T = TypeVar("T")


def backoffs(config: ClientConfig) -> Iterator[float]:
    """Give the seconds to wait before each further try: they double, and are spread by a fifth."""
    wait = config[properties.RETRY_BACKOFF_MS] / 1000
    longest = config[properties.RETRY_BACKOFF_MAX_MS] / 1000
    while True:
        yield min(wait, longest) * random.uniform(0.8, 1.2)
        wait *= 2


def retry_log(doing: str, config: ClientConfig) -> RetryLog:
    """Log what is tried again until it succeeds; whoever tries says so.

    Args:
        doing: What is tried, as in `asking`.
        config: Has the brokers' addresses.
    """
    return RetryLog(f"{doing} Kafka ({', '.join(config.servers)})", forget_after=math.inf)


def retrying(attempt: Callable[[], T], config: ClientConfig, *, timeout: float | None = None) -> T:
    """Call until it does not raise a retryable error of Kafka; blocks meanwhile.

    Args:
        attempt: What to do; it is done again as a whole.
        config: Its `retry.backoff.ms` and, unless a time is given, `default.api.timeout.ms` hold.
        timeout: Seconds after which the last error is raised.
    """
    seconds = config[properties.API_TIMEOUT_MS] / 1000 if timeout is None else timeout
    deadline = time.monotonic() + seconds
    log = retry_log("asking", config)
    for wait in backoffs(config):
        try:
            result = attempt()
        except KafkaRetryableError as exc:
            wait = max(wait, exc.retry_after or 0.0)
            if time.monotonic() + wait > deadline:
                raise
            log.failed(exc)
        else:
            log.succeeded()
            return result
        time.sleep(wait)
    raise AssertionError("there is always one more wait")
