# SPDX-License-Identifier: Apache-2.0
"""Rate limits for a whole source, applied plan by plan (after Flink's FLIP-238)."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass

from connectors_core.errors import ConfigurationError


class RateLimiter(ABC):
    """Decides how many rows the next plan of a source may read. Driver, one thread.

    All readers of the source share it. The coordinator requests permits for a plan, distributes
    them over the readers, and records what their reports contain before it requests permits for the
    next plan. Only rows that were read use up permits.
    """

    @abstractmethod
    def permits(self, now: float) -> int | None:
        """Return the number of rows that the next plan may read; ``None`` is no limit.

        Args:
            now: Seconds on a clock that never goes backward; always the same one.
        """

    def consumed(self, rows: int) -> None:
        """Record rows that were read; can be called once for every report of a plan.

        Later plans compensate for rows beyond the permits, such as those of a plan from before a
        restart.
        """

    def delay(self, now: float) -> float:
        """Return the seconds until there is at least one permit."""
        return 0.0


@dataclass(frozen=True)
class RateLimiterStrategy:
    """The declaration of a rate limit; creates the limiter on the driver.

    Use the class methods. The limits count rows of the whole source, regardless of the
    parallelism.

    Raises:
        ConfigurationError: A value is out of range, or does not fit the others.
    """

    rows_per_second: float | None = None
    burst: int | None = None
    rows_per_checkpoint: int | None = None

    def __post_init__(self) -> None:
        rate, burst, rows = self.rows_per_second, self.burst, self.rows_per_checkpoint
        if rate is not None and not (math.isfinite(rate) and rate > 0):
            raise ConfigurationError(
                "the rate of a rate limit is out of range",
                expected="rows per second, above 0",
                found=rate,
            )
        if burst is not None and burst < 1:
            raise ConfigurationError(
                "the burst of a rate limit is out of range", expected="at least 1 row", found=burst
            )
        if rows is not None and rows < 1:
            raise ConfigurationError(
                "the rows of a rate limit are out of range", expected="at least 1 row", found=rows
            )
        if (rate is None) != (burst is None) or (rate is not None and rows is not None):
            raise ConfigurationError(
                "the values of a rate limit do not fit together",
                expected="a rate with its burst, rows in each plan, or no value",
                found=self,
                hint="use per_second(), per_checkpoint(), or none()",
            )

    @classmethod
    def per_second(cls, rate: float, burst: int | None = None) -> RateLimiterStrategy:
        """Allow ``rate`` rows a second on average.

        A restart starts with a full burst, so a run reads at most ``rate`` times its seconds plus
        ``burst``.

        Args:
            rate: Rows per second, above 0; may be below 1.
            burst: Rows that can accumulate while the source is idle, at least 1; by default
                those of one second.

        Raises:
            ConfigurationError: A value is out of range.
        """
        if burst is None:
            burst = max(1, math.ceil(rate)) if math.isfinite(rate) else 1
        return cls(rows_per_second=rate, burst=burst)

    @classmethod
    def per_checkpoint(cls, rows: int) -> RateLimiterStrategy:
        """Allow ``rows`` rows in each plan, which is one micro-batch and one epoch.

        Raises:
            ConfigurationError: Fewer than one row.
        """
        return cls(rows_per_checkpoint=rows)

    @classmethod
    def none(cls) -> RateLimiterStrategy:
        """Set no limit."""
        return cls()

    def create(self) -> RateLimiter:
        """Create the limiter for one run of the source."""
        if self.rows_per_second is not None and self.burst is not None:
            return _TokenBucket(self.rows_per_second, self.burst)
        return _PerCheckpoint(self.rows_per_checkpoint)


class _PerCheckpoint(RateLimiter):
    def __init__(self, rows: int | None) -> None:
        self._rows = rows

    def permits(self, now: float) -> int | None:
        return self._rows


class _TokenBucket(RateLimiter):
    def __init__(self, rate: float, burst: int) -> None:
        self._rate = rate
        self._burst = burst
        self._tokens = float(burst)
        self._filled_at: float | None = None

    def permits(self, now: float) -> int | None:
        self._fill(now)
        return max(0, math.floor(self._tokens))

    def consumed(self, rows: int) -> None:
        self._tokens -= rows

    def delay(self, now: float) -> float:
        self._fill(now)
        return max(0.0, (1.0 - self._tokens) / self._rate)

    def _fill(self, now: float) -> None:
        if self._filled_at is not None and now > self._filled_at:
            grown = self._tokens + (now - self._filled_at) * self._rate
            self._tokens = min(grown, float(self._burst))
        if self._filled_at is None or now > self._filled_at:
            self._filled_at = now
