# SPDX-License-Identifier: Apache-2.0
"""How much an `AsyncSinkWriter` sends at a time (Flink's FLIP-171 and FLIP-242)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Final

from connectors_core.annotations import public
from connectors_core.errors import ConfigurationError

__all__ = [
    "AIMDScalingStrategy",
    "CongestionControlRateLimitingStrategy",
    "FixedRateLimitingStrategy",
    "RateLimitingStrategy",
    "RequestInfo",
    "ResultInfo",
]

# So many requests that go well make room for one more, whether it has hundreds of entries or
# thousands.
_SUCCESSES_OF_A_REQUEST: Final = 10


@public
@dataclass(frozen=True)
class RequestInfo:
    """A request that is to be sent.

    Attributes:
        batch_size: Its entries.
    """

    batch_size: int


@public
@dataclass(frozen=True)
class ResultInfo:
    """A request that has been answered.

    Attributes:
        failed_messages: Entries that must be sent again.
        batch_size: All its entries.
    """

    failed_messages: int
    batch_size: int


@public
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

        It is asked again when another request is answered, and now and then while none is on its
        way.
        """

    @abstractmethod
    def register_in_flight_request(self, request: RequestInfo) -> None:
        """A request is sent."""

    @abstractmethod
    def register_completed_request(self, result: ResultInfo) -> None:
        """A request is answered, or has failed."""


@public
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


@public
@dataclass(frozen=True, kw_only=True)
class AIMDScalingStrategy:
    """Additive increase, multiplicative decrease (Chiu and Jain, 1989), as TCP does.

    Args:
        rate_threshold: The most there may be.
        increase_rate: Added where all went well.
        decrease_factor: What is left where something failed, between 0 and 1.
    """

    rate_threshold: int
    increase_rate: int = 10
    decrease_factor: float = 0.5

    def __post_init__(self) -> None:
        _check_positive(rate_threshold=self.rate_threshold, increase_rate=self.increase_rate)
        if not 0 < self.decrease_factor < 1:
            raise ConfigurationError(
                "a decrease must leave something, and less than there was",
                expected="a number between 0 and 1",
                found=self.decrease_factor,
                option="decrease_factor",
            )

    def scale_up(self, current: int) -> int:
        """What may be on its way after a success."""
        return min(current + self.increase_rate, self.rate_threshold)

    def scale_down(self, current: int) -> int:
        """What may be on its way after a failure; never less than 1."""
        return max(1, round(current * self.decrease_factor))


@public
class CongestionControlRateLimitingStrategy(RateLimitingStrategy):
    """Bounds the entries on their way by what the service was seen to take.

    Args:
        max_in_flight_requests: Requests on their way at the same time.
        max_batch_size: Entries of a request.
        scaling: How the bound moves; by default additive increase, multiplicative decrease, up to
            what the other two allow.
        initial_max_in_flight_messages: Where it begins; by default all that the first two allow,
            since a writer lives for one epoch only (Flink's lives on and begins with one request).
            More than these allow counts as these.
    """

    def __init__(
        self,
        *,
        max_in_flight_requests: int,
        max_batch_size: int,
        scaling: AIMDScalingStrategy | None = None,
        initial_max_in_flight_messages: int | None = None,
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
        )
        self._max_messages = min(initial, max_in_flight_requests * max_batch_size)
        self._requests = 0
        self._messages = 0

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
        )

    def register_in_flight_request(self, request: RequestInfo) -> None:
        """See `RateLimitingStrategy`."""
        self._requests += 1
        self._messages += request.batch_size

    def register_completed_request(self, result: ResultInfo) -> None:
        """See `RateLimitingStrategy`."""
        self._requests -= 1
        self._messages -= result.batch_size
        scale = self._scaling.scale_down if result.failed_messages else self._scaling.scale_up
        self._max_messages = scale(self._max_messages)


def _check_positive(**given: int) -> None:
    for option, value in given.items():
        if value < 1:
            raise ConfigurationError(
                f"{option} must be at least 1", expected="1 or more", found=value, option=option
            )
