# SPDX-License-Identifier: Apache-2.0
"""Repeats a request that may succeed later, where nothing stands against it."""

from __future__ import annotations

import threading
from datetime import timedelta
from typing import Final

import tenacity

from connectors_core.clients import RetryLog
from connectors_core.errors import RetryableError

__all__ = ["retrying"]

_FIRST_WAIT_SECONDS: Final = 0.1
_LONGEST_WAIT_SECONDS: Final = 10.0


def retrying(timeout: timedelta, ended: threading.Event | None = None) -> tenacity.Retrying:
    """What calls a function again while it raises a `RetryableError`, and raises the last one.

    Args:
        timeout: Time behind which it does not.
        ended: Set when nobody waits any more.
    """
    event = ended or threading.Event()
    return tenacity.Retrying(
        retry=tenacity.retry_if_exception_type(RetryableError),
        stop=tenacity.stop_after_delay(timeout.total_seconds())
        | tenacity.stop_when_event_set(event),
        wait=tenacity.wait_random_exponential(_FIRST_WAIT_SECONDS, _LONGEST_WAIT_SECONDS),
        before_sleep=RetryLog("a request to Elasticsearch"),
        sleep=tenacity.sleep_using_event(event),
        reraise=True,
    )
