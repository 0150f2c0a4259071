# SPDX-License-Identifier: Apache-2.0
"""Retries requests whose errors can be temporary."""

from __future__ import annotations

import threading
from datetime import timedelta

import tenacity

from connectors_core.clients import RetryLog, RetryPolicy

__all__ = ["retrying"]


def retrying(timeout: timedelta, ended: threading.Event | None = None) -> tenacity.Retrying:
    """Return a retry policy for temporary errors.

    It calls a function again while it raises a `RetryableError`, and finally raises the last one.

    Args:
        timeout: The time from the first call to the last.
        ended: Set when no one waits for the response.
    """
    policy = RetryPolicy(initial_backoff=0.1, max_backoff=10.0, timeout=timeout.total_seconds())
    return policy.retrying(RetryLog("a request to Elasticsearch"), ended=ended)
