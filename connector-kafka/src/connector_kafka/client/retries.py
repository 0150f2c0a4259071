# SPDX-License-Identifier: Apache-2.0
"""Retries temporary failures."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final, TypeVar

from connector_kafka.client import config as properties
from connector_kafka.client.config import ClientConfig
from connectors_core.clients import RetryLog, RetryPolicy

__all__ = ["retry_log", "retry_policy", "retrying"]

T = TypeVar("T")

_JITTER: Final = 0.2


def retry_policy(
    config: ClientConfig, *, initial_backoff: float | None = None, timeout: float | None = None
) -> RetryPolicy:
    """Return the retry policy of a request.

    Args:
        config: Provides `retry.backoff.ms`, `retry.backoff.max.ms`, and `default.api.timeout.ms`.
        initial_backoff: Seconds to use instead of `retry.backoff.ms`.
        timeout: Seconds to use instead of `default.api.timeout.ms`.
    """
    return RetryPolicy(
        initial_backoff=initial_backoff or config[properties.RETRY_BACKOFF_MS] / 1000,
        max_backoff=config[properties.RETRY_BACKOFF_MAX_MS] / 1000,
        jitter=_JITTER,
        timeout=config[properties.API_TIMEOUT_MS] / 1000 if timeout is None else timeout,
    )


def retry_log(doing: str, config: ClientConfig, *, after: float = 0.0) -> RetryLog:
    """Create the log of a retried call. The caller reports its failures and success.

    Args:
        doing: The operation, e.g. `asking`.
        config: Provides the brokers' addresses.
        after: Seconds of failures before the first line.
    """
    brokers = ", ".join(config.servers)
    return RetryLog(f"{doing} Kafka ({brokers})", after=after, forget_after=math.inf)


def retrying(attempt: Callable[[], T], config: ClientConfig, *, timeout: float | None = None) -> T:
    """Call a function until it raises no retryable Kafka error. Blocks meanwhile.

    Args:
        attempt: The function. Each retry repeats it as a whole.
        config: Provides the backoff and the timeout.
        timeout: Seconds after which the last error is raised. The default is
            `default.api.timeout.ms`.
    """
    log = retry_log("asking", config)
    result = retry_policy(config, timeout=timeout).retrying(log)(attempt)
    log.succeeded()
    return result
