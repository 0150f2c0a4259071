# SPDX-License-Identifier: Apache-2.0
"""When what failed for now is tried again: by commits and by lookups."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import tenacity

from connectors_core.errors import RetryableError

IF_RETRYABLE: Final = tenacity.retry_if_exception_type(RetryableError)


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
