# SPDX-License-Identifier: Apache-2.0
"""The pauses that a server requests."""

from __future__ import annotations

import math
from email.utils import parsedate_to_datetime
from http.client import HTTPMessage
from typing import Final

__all__ = ["is_limited", "requested_pause"]

_REMAINING: Final = ("X-RateLimit-Remaining", "RateLimit-Remaining", "X-Rate-Limit-Remaining")
_RESET: Final = ("X-RateLimit-Reset", "RateLimit-Reset", "X-Rate-Limit-Reset")
# A larger number is a point in time, not a number of seconds.
_LONGEST_SECONDS: Final = 366 * 86_400.0
# A larger number has milliseconds. As seconds, it would be after the year 5000.
_LATEST_SECONDS: Final = 1e11


def is_limited(headers: HTTPMessage) -> bool:
    """Return whether the headers say that a limit of requests is exhausted."""
    return "Retry-After" in headers or any(headers.get(each) == "0" for each in _REMAINING)


def requested_pause(headers: HTTPMessage, now: float) -> float | None:
    """Return the seconds to wait before the next request, or None if the server requests none.

    `Retry-After` (RFC 9110) has seconds or a date. The headers of rate limits have no standard:
    they have seconds, or seconds or milliseconds since 1970.

    Args:
        headers: The headers of the response.
        now: Seconds since 1970.
    """
    after = headers.get("Retry-After")
    if after is not None:
        return _seconds(after, now)
    if not is_limited(headers):
        return None
    return next((_seconds(headers[each], now) for each in _RESET if each in headers), None)


def _seconds(text: str, now: float) -> float | None:
    try:
        seconds = float(text)
    except ValueError:
        try:
            seconds = parsedate_to_datetime(text).timestamp()
        except (ValueError, OverflowError):
            return None
    if not math.isfinite(seconds):
        return None
    if seconds > _LATEST_SECONDS:
        seconds /= 1000
    return max(0.0, seconds if seconds <= _LONGEST_SECONDS else seconds - now)
