# SPDX-License-Identifier: Apache-2.0
"""When to retry after temporary failures, and how to log retries."""

from __future__ import annotations

import logging
import math
import random
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final
from weakref import WeakKeyDictionary

import tenacity

from connectors_core.errors import ConnectorError, RetryableError
from connectors_core.secrets import mask_text

__all__ = ["LOG_EVERY_SECONDS", "RetryLog", "RetryPolicy"]

LOG_EVERY_SECONDS: Final = 30.0

_LOGGER: Final = logging.getLogger(__name__)
_MAX_DOUBLINGS: Final = 32


@dataclass(frozen=True, kw_only=True)
class RetryPolicy:
    """Decides when to retry after a `RetryableError`.

    Pauses double and are random. If a system requests a longer pause, the policy respects it, but
    the last attempt is not later than the timeout. All times are seconds of the monotonic clock.

    Attributes:
        initial_backoff: Longest pause before the first retry.
        max_backoff: Longest pause before any retry.
        jitter: Random share of a pause.
        max_attempts: Maximum number of attempts; None for no limit.
        timeout: Seconds from the first attempt to the last.
        longest_request: The longest pause that a system may request. Pauses from the timeout up to
            this one are not counted; 0 counts all.
    """

    initial_backoff: float
    max_backoff: float
    jitter: float = 1.0
    max_attempts: int | None = None
    timeout: float = math.inf
    longest_request: float = 0.0

    def is_over(self, tries: int, elapsed: float) -> bool:
        """Return whether there is no further attempt.

        Args:
            tries: Number of failed attempts.
            elapsed: Seconds since the first attempt.
        """
        return elapsed >= self.timeout or tries == self.max_attempts

    def pause(self, tries: int, error: BaseException | None = None, elapsed: float = 0.0) -> float:
        """Return the seconds to wait before the next attempt.

        Args:
            tries: Number of failed attempts.
            error: The last error.
            elapsed: Seconds since the first attempt.
        """
        doubled: float = self.initial_backoff * 2 ** min(tries - 1, _MAX_DOUBLINGS)
        pause = min(self.max_backoff, doubled) * random.uniform(1 - self.jitter, 1)
        if isinstance(error, RetryableError):
            pause = max(pause, error.retry_after or 0.0)
        return max(self.uncounted(error), min(pause, self.timeout - elapsed))

    def uncounted(self, error: BaseException | None) -> float:
        """Return the seconds that a system requests and that the timeout does not count."""
        requested = (isinstance(error, RetryableError) and error.retry_after) or 0.0
        return requested if self.timeout < requested <= self.longest_request else 0.0

    def retrying(
        self,
        log: RetryLog,
        *,
        ended: threading.Event | None = None,
        sleep: Callable[[float], None] | None = None,
    ) -> tenacity.Retrying:
        """Return a caller that retries a function until it succeeds, and raises its last error.

        Args:
            log: Logs the retries.
            ended: Set when the result is no longer needed; there is no further attempt
                then.
            sleep: Waits for some seconds.
        """
        ended = ended or threading.Event()
        failed = threading.local()  # several threads may use the caller

        def before_sleep(state: tenacity.RetryCallState) -> None:
            failed.error = _error(state)
            log(state)

        def wait(seconds: float) -> None:
            if ended.wait(seconds):
                raise failed.error

        return tenacity.Retrying(**self._arguments(before_sleep, ended), sleep=sleep or wait)

    def async_retrying(self, log: RetryLog) -> tenacity.AsyncRetrying:
        """Return a caller that retries a coroutine function, and raises its last error.

        Args:
            log: Logs the retries.
        """
        return tenacity.AsyncRetrying(**self._arguments(log, threading.Event()))

    def _arguments(
        self, before_sleep: Callable[[tenacity.RetryCallState], None], ended: threading.Event
    ) -> dict[str, Any]:
        uncounted: WeakKeyDictionary[tenacity.RetryCallState, float] = WeakKeyDictionary()

        def elapsed(state: tenacity.RetryCallState) -> float:
            return _elapsed(state) - uncounted.get(state, 0.0)

        def is_over(state: tenacity.RetryCallState) -> bool:
            return ended.is_set() or self.is_over(state.attempt_number, elapsed(state))

        def pause(state: tenacity.RetryCallState) -> float:
            return self.pause(state.attempt_number, _error(state), elapsed(state))

        def begin_pause(state: tenacity.RetryCallState) -> None:
            uncounted[state] = uncounted.get(state, 0.0) + self.uncounted(_error(state))
            before_sleep(state)

        return {
            "retry": tenacity.retry_if_exception_type(RetryableError),
            "stop": is_over,
            "wait": pause,
            "before_sleep": begin_pause,
            "reraise": True,
        }


def _elapsed(state: tenacity.RetryCallState) -> float:
    return state.seconds_since_start or 0.0


def _error(state: tenacity.RetryCallState) -> BaseException | None:
    return state.outcome.exception() if state.outcome is not None else None


class RetryLog:
    """Logs retries: when they begin, and periodically while they continue.

    Tenacity calls it as ``before_sleep``; other loops call :meth:`failed`, and :meth:`succeeded` to
    log the end too. Failures belong together until an attempt succeeds, or until there is none for
    ``forget_after`` seconds. Driver and executor; threads that retry at the same time may share it.

    Args:
        what: The operation, as in ``a commit of sink 'out'``.
        after: Seconds of failures before the first line; 0 for the first failure.
        every: Seconds between two lines.
        forget_after: Seconds after which another failure is a new one; by default `every`. Use
            infinity if :meth:`succeeded` is called.
        clock: Monotonic seconds.
    """

    def __init__(
        self,
        what: str,
        *,
        after: float = 0.0,
        every: float = LOG_EVERY_SECONDS,
        forget_after: float | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._what = what
        self._after = after
        self._every = every
        self._forget_after = every if forget_after is None else forget_after
        self._clock = clock
        self._last: float | None = None
        self._began = 0.0
        self._next = 0.0
        self._tries = 0
        self._told = False

    @property
    def failing(self) -> bool:
        """Whether the last attempt failed."""
        return self._tries > 0

    def __call__(self, state: tenacity.RetryCallState) -> None:
        """Log before tenacity waits for the next attempt."""
        self.failed(_error(state))

    def failed(self, reason: BaseException | str | None) -> None:
        """Record a failed attempt that will be retried.

        Args:
            reason: The error.
        """
        now = self._clock()
        if self._last is None or now - self._last > self._forget_after:
            self._next, self._tries = now, 0
        if self._tries == 0:
            self._began, self._next = now, max(self._next, now + self._after)
        self._last = now
        self._tries += 1
        if now < self._next:
            return
        self._next = now + self._every
        self._told = True
        if self._tries == 1:
            _LOGGER.warning("%s failed; retrying: %s", self._what, _shown(reason))
            return
        _LOGGER.warning(
            "%s still fails after %.0f s and %d attempts; retrying: %s",
            self._what,
            now - self._began,
            self._tries,
            _shown(reason),
        )

    def succeeded(self) -> None:
        """Record a success, and log it if failures were logged.

        If failures and successes alternate, they are logged once in ``every`` seconds.
        """
        if self._told:
            _LOGGER.warning(
                "%s works again after %.0f s and %d failed attempts",
                self._what,
                self._clock() - self._began,
                self._tries,
            )
        self._tries, self._told = 0, False


def _shown(reason: BaseException | str | None) -> str:
    if isinstance(reason, ConnectorError):
        return reason.message if reason.found is None else f"{reason.message} ({reason.found})"
    return mask_text(str(reason))
