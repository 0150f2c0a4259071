# SPDX-License-Identifier: Apache-2.0
"""When what failed for now is tried again, and how that is logged."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Final

import tenacity

from connectors_core.errors import ConnectorError, RetryableError

__all__ = ["IF_RETRYABLE", "LOG_EVERY_SECONDS", "RetryLog", "backoff"]

IF_RETRYABLE: Final = tenacity.retry_if_exception_type(RetryableError)
LOG_EVERY_SECONDS: Final = 30.0

_LOGGER: Final = logging.getLogger(__name__)


def backoff(first: float, longest: float) -> Callable[[tenacity.RetryCallState], float]:
    """Pauses with jitter, longer each time, and as long as the external system asks for.

    Args:
        first: Seconds before the first repetition, at most.
        longest: Seconds before any, unless the system asks for more.
    """
    pause = tenacity.wait_random_exponential(first, longest)

    def wait(state: tenacity.RetryCallState) -> float:
        error = state.outcome.exception() if state.outcome is not None else None
        asked = error.retry_after if isinstance(error, RetryableError) else None
        return max(pause(state), asked or 0.0)

    return wait


class RetryLog:
    """Logs that something is tried again: when that begins, and now and then while it continues.

    Tenacity calls it as ``before_sleep``; other loops call :meth:`failed`, and :meth:`succeeded` to
    have the end logged too. Failures belong together until one try succeeds, or there is none for
    ``forget_after`` seconds. Driver and executor; what several threads try at the same time may
    share it.

    Args:
        what: What is tried, as in ``a commit of sink 'out'``.
        after: Seconds of failures before the first line; 0 for the first failure.
        every: Seconds between two lines.
        forget_after: Seconds after which another failure is a new one; by default `every`. Infinity
            where :meth:`succeeded` tells.
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
        """Whether there were failures, and no success since."""
        return self._tries > 0

    def __call__(self, state: tenacity.RetryCallState) -> None:
        """Tenacity is about to wait for the next try."""
        self.failed(state.outcome.exception() if state.outcome is not None else None)

    def failed(self, reason: BaseException | str | None) -> None:
        """A try failed, and there will be another.

        Args:
            reason: What it failed with.
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
        """A try succeeded: says so where failures were logged.

        What fails and succeeds in turns is logged once in ``every`` seconds.
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
    return str(reason)
