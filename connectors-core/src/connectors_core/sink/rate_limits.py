# SPDX-License-Identifier: Apache-2.0
"""Strategies that limit how much an `AsyncSinkWriter` sends (Flink's FLIP-171 and FLIP-242)."""

from __future__ import annotations

import math
import time
from abc import ABC, abstractmethod
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import Final

from connectors_core.errors import ConfigurationError

__all__ = [
    "AIMDScalingStrategy",
    "CongestionControlRateLimitingStrategy",
    "FixedRateLimitingStrategy",
    "RateLimiting",
    "RateLimitingStrategy",
    "RequestInfo",
    "ResultInfo",
    "ScalingStrategy",
]

# After this many successful requests, one more may be in flight, whether requests have hundreds of
# entries or thousands.
_SUCCESSES_OF_A_REQUEST: Final = 10
# The smallest request is this fraction of the largest one: a service that accepts less than that
# needs other limits.
_FLOOR_OF_A_REQUEST: Final = 100
# A service that is busy with other writers may reject this many consecutive requests completely
# before it accepts part of the next.
_REFUSED_BY_CHANCE: Final = 4
_PAUSE: Final = timedelta(milliseconds=50)


class RateLimiting(StrEnum):
    """How a writer limits requests to a service that rejects some of them."""

    CONGESTION_CONTROL = "congestion-control"
    "Based on what the service accepts: see `CongestionControlRateLimitingStrategy`."
    FIXED = "fixed"
    "Based only on the limits: see `FixedRateLimitingStrategy`."


@dataclass(frozen=True)
class RequestInfo:
    """A request before it is sent.

    Attributes:
        batch_size: Its entries.
    """

    batch_size: int


@dataclass(frozen=True)
class ResultInfo:
    """A request with a response.

    Attributes:
        failed_messages: Entries to retry.
        batch_size: All its entries.
    """

    failed_messages: int
    batch_size: int


class RateLimitingStrategy(ABC):
    """Decides when to send the next request, and its maximum size.

    It keeps counts, so each writer has its own. Executor, always on the same thread.
    """

    @property
    @abstractmethod
    def max_batch_size(self) -> int:
        """Maximum number of entries in the next request; 1 or more."""

    @abstractmethod
    def should_block(self, request: RequestInfo) -> bool:
        """Return whether a request must wait.

        The writer asks again after each response, and periodically.
        """

    @abstractmethod
    def register_in_flight_request(self, request: RequestInfo) -> None:
        """A request is being sent."""

    @abstractmethod
    def register_completed_request(self, result: ResultInfo) -> None:
        """A request has a response or failed."""


class FixedRateLimitingStrategy(RateLimitingStrategy):
    """Allows a fixed number of concurrent requests of a fixed size.

    Args:
        max_in_flight_requests: Maximum number of concurrent requests.
        max_batch_size: Maximum number of entries in a request.
    """

    def __init__(self, *, max_in_flight_requests: int, max_batch_size: int) -> None:
        _check_positive(
            max_in_flight_requests=max_in_flight_requests, max_batch_size=max_batch_size
        )
        self._max_requests = max_in_flight_requests
        self._max_batch_size = max_batch_size
        self._requests = 0

    @property
    def max_batch_size(self) -> int:
        """See `RateLimitingStrategy`."""
        return self._max_batch_size

    def should_block(self, request: RequestInfo) -> bool:
        """See `RateLimitingStrategy`."""
        return self._requests >= self._max_requests

    def register_in_flight_request(self, request: RequestInfo) -> None:
        """See `RateLimitingStrategy`."""
        self._requests += 1

    def register_completed_request(self, result: ResultInfo) -> None:
        """See `RateLimitingStrategy`."""
        self._requests -= 1


class ScalingStrategy(ABC):
    """Adjusts the amount in flight after a response (Flink's FLIP-242). Immutable."""

    @abstractmethod
    def scale_up(self, current: int) -> int:
        """Return the amount allowed in flight after a success."""

    @abstractmethod
    def scale_down(self, current: int, failed_share: float = 1.0) -> int:
        """Return the amount allowed in flight after a failure.

        Args:
            current: The amount currently allowed in flight.
            failed_share: The failed part of the request, more than 0 and at most 1.

        Returns:
            1 or more.
        """


@dataclass(frozen=True, kw_only=True)
class AIMDScalingStrategy(ScalingStrategy):
    """Additive increase, multiplicative decrease (Chiu and Jain, 1989), as in TCP.

    Args:
        rate_threshold: The maximum.
        increase_rate: Added after a success.
        decrease_factor: The remaining share if all of a request failed, between 0 and 1. If
            part of it failed, the decrease is proportional.
        min_rate: The minimum.
    """

    rate_threshold: int
    increase_rate: int = 10
    decrease_factor: float = 0.5
    min_rate: int = 1

    def __post_init__(self) -> None:
        _check_positive(
            rate_threshold=self.rate_threshold,
            increase_rate=self.increase_rate,
            min_rate=self.min_rate,
        )
        if self.min_rate > self.rate_threshold:
            raise ConfigurationError(
                "the minimum is greater than the maximum",
                expected=f"at most {self.rate_threshold}",
                found=self.min_rate,
                option="min_rate",
            )
        if not 0 < self.decrease_factor < 1:
            raise ConfigurationError(
                "the decrease factor must be between 0 and 1",
                expected="a number between 0 and 1",
                found=self.decrease_factor,
                option="decrease_factor",
            )

    def scale_up(self, current: int) -> int:
        """See `ScalingStrategy`."""
        return min(current + self.increase_rate, self.rate_threshold)

    def scale_down(self, current: int, failed_share: float = 1.0) -> int:
        """See `ScalingStrategy`; never less than `min_rate`."""
        left = 1 - failed_share * (1 - self.decrease_factor)
        return max(self.min_rate, round(current * left))


class CongestionControlRateLimitingStrategy(RateLimitingStrategy):
    """Limits the entries in flight by what the service accepts.

    After the first rejection, the writer sends nothing for a moment, so that the service can catch
    up. If the service still rejects entries, the limit decreases by the rejected share of a full
    request, once for all requests that were in flight together. Small retried requests therefore
    have little effect. A service that accepts part of each request has too many requests, not too
    large ones. Two whole requests may always be in flight, so that the service has the next one
    when it finishes the first. Only if the service rejects several consecutive requests completely
    do requests become smaller. When it accepts a part again, their size doubles each time, up to
    two whole requests.

    Args:
        max_in_flight_requests: Maximum number of concurrent requests.
        max_batch_size: Maximum number of entries in a request.
        scaling: Adjusts the limit; by default additive increase, multiplicative decrease,
            between a hundredth of a request and what the other two allow.
        initial_max_in_flight_messages: The initial limit; by default everything that the first
            two allow, because a writer lives for only one epoch (Flink's lives on and starts with
            one request). Larger values are reduced to that.
        pause: How long nothing is sent after the first rejection.
    """

    def __init__(
        self,
        *,
        max_in_flight_requests: int,
        max_batch_size: int,
        scaling: ScalingStrategy | None = None,
        initial_max_in_flight_messages: int | None = None,
        pause: timedelta = _PAUSE,
    ) -> None:
        initial = initial_max_in_flight_messages
        if initial is None:
            initial = max_in_flight_requests * max_batch_size
        _check_positive(
            max_in_flight_requests=max_in_flight_requests,
            max_batch_size=max_batch_size,
            initial_max_in_flight_messages=initial,
        )
        self._max_requests = max_in_flight_requests
        self._max_batch_size = max_batch_size
        self._scaling = scaling or AIMDScalingStrategy(
            rate_threshold=max_in_flight_requests * max_batch_size,
            increase_rate=max(1, max_batch_size // _SUCCESSES_OF_A_REQUEST),
            min_rate=max(1, max_batch_size // _FLOOR_OF_A_REQUEST),
        )
        self._pause = pause.total_seconds()
        self._paused_until = -math.inf
        self._is_refused = False  # from the last response that counted
        self._refused_whole = 0  # consecutive requests with no other one in flight
        self._sent_before = 0  # requests in flight since before the last decrease
        self._max_messages = min(initial, max_in_flight_requests * max_batch_size)
        self._requests = 0
        self._messages = 0
        self._largest = 1  # entries of the largest request

    @property
    def max_in_flight_messages(self) -> int:
        """The current limit of entries in flight."""
        return self._max_messages

    @property
    def max_batch_size(self) -> int:
        """See `RateLimitingStrategy`."""
        return min(self._max_batch_size, self._max_messages)

    def should_block(self, request: RequestInfo) -> bool:
        """See `RateLimitingStrategy`."""
        return (
            self._requests >= self._max_requests
            or self._messages + request.batch_size > self._max_messages
            or self._is_paused()
        )

    def register_in_flight_request(self, request: RequestInfo) -> None:
        """See `RateLimitingStrategy`."""
        self._requests += 1
        self._messages += request.batch_size
        self._largest = max(self._largest, request.batch_size)

    def register_completed_request(self, result: ResultInfo) -> None:
        """See `RateLimitingStrategy`."""
        self._requests -= 1
        self._messages -= result.batch_size
        if result.failed_messages < result.batch_size:
            self._refused_whole = 0
        if self._sent_before:
            self._sent_before -= 1  # it says nothing about the current limit
        elif not result.failed_messages:
            self._is_refused = False
            self._max_messages = self._scaling.scale_up(self._max_messages)
        else:
            is_whole = result.failed_messages == result.batch_size
            self._refused(result.failed_messages, is_whole=is_whole)
            self._refused_whole += is_whole and not self._requests

    def _is_paused(self) -> bool:
        """A service that accepts a part is busy: it gets more when it is idle."""
        is_over = time.monotonic() >= self._paused_until
        return not is_over and (self._refused_whole > 0 or self._requests > 0)

    def _refused(self, messages: int, *, is_whole: bool) -> None:
        self._sent_before = self._requests
        if not self._is_refused:
            self._is_refused = True
            self._paused_until = time.monotonic() + self._pause
            return
        # Requests that are limited by bytes may never have the maximum number of entries.
        current = min(self._max_messages, self._max_requests * self._largest)
        request = min(self._largest, self.max_batch_size)
        share = min(1.0, messages / request)  # small for a small request
        if self._refused_whole >= _REFUSED_BY_CHANCE:
            least = 1
        else:
            most = self._max_requests * self._max_batch_size
            least = min(current if is_whole else 2 * current, 2 * self._largest, most)
        self._max_messages = max(least, self._scaling.scale_down(current, share))


def _check_positive(**given: int) -> None:
    for option, value in given.items():
        if value < 1:
            raise ConfigurationError(
                f"{option} must be at least 1", expected="1 or more", found=value, option=option
            )
