# SPDX-License-Identifier: Apache-2.0
"""Tries again what may succeed later."""

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
    """When a request is sent again.

    Args:
        config: Its `retry.backoff.ms`, `retry.backoff.max.ms` and `default.api.timeout.ms` hold.
        initial_backoff: Seconds that hold instead of `retry.backoff.ms`.
        timeout: Seconds that hold instead of `default.api.timeout.ms`.
    """
    return RetryPolicy(
        initial_backoff=initial_backoff or config[properties.RETRY_BACKOFF_MS] / 1000,
        max_backoff=config[properties.RETRY_BACKOFF_MAX_MS] / 1000,
        jitter=_JITTER,
        timeout=config[properties.API_TIMEOUT_MS] / 1000 if timeout is None else timeout,
    )


def retry_log(doing: str, config: ClientConfig, *, after: float = 0.0) -> RetryLog:
    """Make the log of a call that is retried; the caller reports its failures and success.

    Args:
        doing: The action in progress, such as `asking`.
        config: Has the brokers' addresses.
        after: Seconds of failures before the first line.
    """
    brokers = ", ".join(config.servers)
    return RetryLog(f"{doing} Kafka ({brokers})", after=after, forget_after=math.inf)


def retrying(attempt: Callable[[], T], config: ClientConfig, *, timeout: float | None = None) -> T:
    """Call until it does not raise a retryable error of Kafka; blocks meanwhile.

    Args:
        attempt: What to do; it is done again as a whole.
        config: Says how long and how often.
        timeout: Seconds after which the last error is raised; `default.api.timeout.ms` without it.
    """
    log = retry_log("asking", config)
    result = retry_policy(config, timeout=timeout).retrying(log)(attempt)
    log.succeeded()
    return result
