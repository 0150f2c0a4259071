# SPDX-License-Identifier: Apache-2.0
"""How much an `AsyncSinkWriter` sends at a time (Flink's FLIP-171 and FLIP-242)."""

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

# So many requests that go well make room for one more, whether it has hundreds of entries or
# thousands.
_SUCCESSES_OF_A_REQUEST: Final = 10
# The smallest request is this part of the largest one: a service that takes no more than that needs
# other bounds.
_FLOOR_OF_A_REQUEST: Final = 100
# A service that is at work for other writers may refuse so many requests as a whole, one after the
# other, and take a part of the next.
_REFUSED_BY_CHANCE: Final = 4
_PAUSE: Final = timedelta(milliseconds=50)


class RateLimiting(StrEnum):
    """How a writer limits what it sends to a service that refuses some of it."""

    CONGESTION_CONTROL = "congestion-control"
    """By what the service takes: see `CongestionControlRateLimitingStrategy`."""
    FIXED = "fixed"
    """By the bounds alone, whatever the service takes: see `FixedRateLimitingStrategy`."""


@dataclass(frozen=True)
class RequestInfo:
    """A request that is to be sent.

    Attributes:
        batch_size: Its entries.
    """

    batch_size: int


@dataclass(frozen=True)
class ResultInfo:
    """A request that has been answered.

    Attributes:
        failed_messages: Entries that must be sent again.
        batch_size: All its entries.
    """

    failed_messages: int
    batch_size: int


class RateLimitingStrategy(ABC):
    """Decides when the next request may be sent, and how large it may be.

    It counts, so each writer has one of its own. Executor, always on the same thread.
    """

    @property
    @abstractmethod
    def max_batch_size(self) -> int:
        """Entries of the next request, at most; 1 or more."""

    @abstractmethod
    def should_block(self, request: RequestInfo) -> bool:
        """Whether a request must wait.

        It is asked again when another request is answered, and now and then.
        """

    @abstractmethod
    def register_in_flight_request(self, request: RequestInfo) -> None:
        """A request is sent."""

    @abstractmethod
    def register_completed_request(self, result: ResultInfo) -> None:
        """A request is answered, or has failed."""


class FixedRateLimitingStrategy(RateLimitingStrategy):
    """So many requests at a time, of so many entries.

    Args:
        max_in_flight_requests: Requests on their way at the same time.
        max_batch_size: Entries of a request.
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
    """Decides how much may be on its way after an answer (Flink's FLIP-242). Immutable."""

    @abstractmethod
    def scale_up(self, current: int) -> int:
        """What may be on its way after a success."""

    @abstractmethod
    def scale_down(self, current: int, failed_share: float = 1.0) -> int:
        """What may be on its way after a failure.

        Args:
            current: What may be on its way now.
            failed_share: The part of the request that failed, more than 0 and at most 1.

        Returns:
            1 or more.
        """


@dataclass(frozen=True, kw_only=True)
class AIMDScalingStrategy(ScalingStrategy):
    """Additive increase, multiplicative decrease (Chiu and Jain, 1989), as TCP does.

    Args:
        rate_threshold: The most there may be.
        increase_rate: Added where all went well.
        decrease_factor: What is left where all of a request failed, between 0 and 1; where a part
            of it did, that part of the decrease is made.
        min_rate: The least there may be.
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
                "a decrease must leave something, and less than before",
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
    """Bounds the entries on their way by what the service was seen to take.

    Where the service refuses something for the first time, nothing is sent for a moment, so that it
    can catch up. Where it still refuses, the bound shrinks by the part of a full request that
    failed, once for all requests that were on their way together; so what is sent again by itself
    counts for little. A service that takes a part of what it gets has too many requests, not too
    large ones: two whole ones may always be on their way, so that it has one when it is done with
    the other. Only a service that takes nothing at all, of several requests in a row, gets smaller
    ones; when it takes a part again it gets twice as much each time, up to two whole requests.

    Args:
        max_in_flight_requests: Requests on their way at the same time.
        max_batch_size: Entries of a request.
        scaling: How the bound moves; by default additive increase, multiplicative decrease, between
            a hundredth of a request and what the other two allow.
        initial_max_in_flight_messages: Where it begins; by default all that the first two allow,
            since a writer lives for one epoch only (Flink's lives on and begins with one request).
            More than these allow counts as these.
        pause: How long nothing is sent when something is refused for the first time.
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
        self._is_refused = False  # by the last answer that counted
        self._refused_whole = 0  # requests with no other one on their way, one after the other
        self._sent_before = 0  # requests on their way since before the bound last moved down
        self._max_messages = min(initial, max_in_flight_requests * max_batch_size)
        self._requests = 0
        self._messages = 0
        self._largest = 1  # entries of the largest request

    @property
    def max_in_flight_messages(self) -> int:
        """Entries that may be on their way, as far as was seen."""
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
            self._sent_before -= 1  # it says nothing about the bound that there is now
        elif not result.failed_messages:
            self._is_refused = False
            self._max_messages = self._scaling.scale_up(self._max_messages)
        else:
            is_whole = result.failed_messages == result.batch_size
            self._refused(result.failed_messages, is_whole=is_whole)
            self._refused_whole += is_whole and not self._requests

    def _is_paused(self) -> bool:
        """A service that takes a part is at work: it gets more when it has nothing else."""
        is_over = time.monotonic() >= self._paused_until
        return not is_over and (self._refused_whole > 0 or self._requests > 0)

    def _refused(self, messages: int, *, is_whole: bool) -> None:
        self._sent_before = self._requests
        if not self._is_refused:
            self._is_refused = True
            self._paused_until = time.monotonic() + self._pause
            return
        # Requests may be bounded by their bytes, so that they never come near to the bound.
        current = min(self._max_messages, self._max_requests * self._largest)
        request = min(self._largest, self.max_batch_size)
        share = min(1.0, messages / request)  # of a small request that is refused, a small one
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
