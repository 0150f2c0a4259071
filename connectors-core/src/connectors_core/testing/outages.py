# SPDX-License-Identifier: Apache-2.0
"""External systems that are unavailable for a while."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from enum import StrEnum
from typing import Final

from connectors_core.errors import RetryableError
from connectors_core.testing.pace import stretched

OUTAGE_SECONDS: Final = 0.4
LATE_SECONDS: Final = 2.0


class Outage(StrEnum):
    """A kind of outage of an external system. The data of the system is kept."""

    STOPPED = "stopped"
    """The system is down: its connections end, and new ones fail."""
    DISCONNECTED = "disconnected"
    """The connections end once, in the middle of a response. New ones are accepted."""
    SLOW = "slow"
    """The system responds late."""
    REFUSING = "refusing"
    """The system accepts connections but rejects or closes them."""
    LATE = "late"
    """The first response on each connection takes `LATE_SECONDS`. This is not a failure."""


OUTAGES: Final = tuple(each for each in Outage if each is not Outage.LATE)
"""The outages that a pipeline must survive, with or without a failure."""


FAILING: Final = (Outage.STOPPED, Outage.DISCONNECTED, Outage.REFUSING)
"""The outages during which a call can fail."""


LEAVING: Final = (Outage.DISCONNECTED, Outage.REFUSING)
"""The outages after which a test network has no additional open handles."""


@contextmanager
def passing(
    outage: AbstractContextManager[None], seconds: float = OUTAGE_SECONDS
) -> Iterator[threading.Event]:
    """Start an outage that ends by itself, regardless of waiting callers.

    Args:
        outage: The context of the outage.
        seconds: The maximum duration on an idle machine. The end of this context also ends the
            outage.

    Yields:
        An event that is set when the system is available again, at the latest at the end of this
        context.
    """
    begun, enough, over = threading.Event(), threading.Event(), threading.Event()
    failures: list[BaseException] = []

    def pass_by() -> None:
        try:
            with outage:
                begun.set()
                enough.wait(stretched(seconds))
        except BaseException as error:
            failures.append(error)
        finally:
            over.set()
            begun.set()

    thread = threading.Thread(target=pass_by, name="outage")
    thread.start()
    begun.wait()
    try:
        yield over
    finally:
        enough.set()
        thread.join()
        if failures:
            raise failures[0]


def assert_worth_another_attempt(error: BaseException) -> None:
    """Check that an error in an outage permits a retry.

    Raises:
        AssertionError: The error does not permit it, or is not one of the core's errors.
    """
    assert isinstance(error, RetryableError), (
        f"{type(error).__name__} is not a RetryableError: it would not be retried: {error}"
    )
