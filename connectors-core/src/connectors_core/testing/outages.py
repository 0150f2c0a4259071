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


class Outage(StrEnum):
    """A kind of outage of an external system. Its data is kept."""

    STOPPED = "stopped"
    """It is not there: its connections end, and new ones fail."""
    DISCONNECTED = "disconnected"
    """Its connections end in the middle of an answer, once; new ones are welcome."""
    SLOW = "slow"
    """It answers late."""
    REFUSING = "refusing"
    """It accepts connections but rejects or closes them."""


FAILING: Final = (Outage.STOPPED, Outage.DISCONNECTED, Outage.REFUSING)
"""Outages in which a call can fail."""


LEAVING: Final = (Outage.DISCONNECTED, Outage.REFUSING)
"""Outages after which a test network has no additional open handles."""


@contextmanager
def passing(
    outage: AbstractContextManager[None], seconds: float = OUTAGE_SECONDS
) -> Iterator[threading.Event]:
    """Start an outage that ends by itself, whatever waits for it.

    Args:
        outage: The system is unavailable within it.
        seconds: How long, at most, on an idle machine: the end of this context ends it, too.

    Yields:
        An event that is set when the system is back; at the end of this context it is.
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
        AssertionError: It says something else, or is not of the tree of errors.
    """
    assert isinstance(error, RetryableError), (
        f"{type(error).__name__} is no RetryableError: it would not be tried again: {error}"
    )
