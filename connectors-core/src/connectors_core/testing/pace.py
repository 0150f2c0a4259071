# SPDX-License-Identifier: Apache-2.0
"""The current speed of this machine, which extends the deadlines of tests."""

from __future__ import annotations

import os
import threading
import time
from typing import Final

# The time of `_work` on an idle core of the machine for which the deadlines of the suites are set.
_NOMINAL_SECONDS: Final = 0.02
_HANDOVERS: Final = 150
_STEPS: Final = 1_000_000
# A hanging case must also end.
_SLOWEST: Final = 8.0


def pace() -> float:
    """Return how much slower this machine is than an idle one, from 1 to 8.

    It times a piece of work, and counts the processes per core, because a busy system can briefly
    favor a process that has slept.
    """
    began = time.monotonic()
    _work()
    measured = (time.monotonic() - began) / _NOMINAL_SECONDS
    return min(max(1.0, measured, os.getloadavg()[0] / (os.cpu_count() or 1)), _SLOWEST)


def stretched(seconds: float) -> float:
    """Convert seconds of an idle machine to seconds of this machine."""
    return seconds * pace()


class Deadline:
    """A deadline in seconds of an idle machine, which a busy machine extends.

    Args:
        seconds: The timeout on an idle machine.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self.restart()

    def restart(self) -> None:
        """Restart the wait."""
        self._began = time.monotonic()
        self._allowed = self._seconds

    @property
    def waited(self) -> float:
        """Seconds since the start of the wait."""
        return time.monotonic() - self._began

    @property
    def left(self) -> float:
        """Seconds until the deadline. The machine is measured before this returns 0."""
        if self.waited >= self._allowed:
            self._allowed = max(self._allowed, stretched(self._seconds))
        return max(0.0, self._allowed - self.waited)

    @property
    def passed(self) -> bool:
        """Whether the deadline has passed."""
        return not self.left

    def __str__(self) -> str:
        return f"{self._allowed:.1f} s"


def _work() -> None:
    """Do what tests do: compute, and wait for other threads."""
    sum(range(_STEPS))
    there, back = threading.Event(), threading.Event()

    def answer() -> None:
        for _ in range(_HANDOVERS):
            there.wait()
            there.clear()
            back.set()

    other = threading.Thread(target=answer, name="pace")
    other.start()
    for _ in range(_HANDOVERS):
        there.set()
        back.wait()
        back.clear()
    other.join()
