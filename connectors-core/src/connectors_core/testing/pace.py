# SPDX-License-Identifier: Apache-2.0
"""The current speed of this machine, which stretches the deadlines of tests."""

from __future__ import annotations

import os
import threading
import time
from typing import Final

# What `_work` takes on an idle core of the machine whose deadlines are written in the suites.
_NOMINAL_SECONDS: Final = 0.02
_HANDOVERS: Final = 150
_STEPS: Final = 1_000_000
# A case that hangs must end, too.
_SLOWEST: Final = 8.0


def pace() -> float:
    """How many times as long as on an idle machine work takes now, from 1 to 8.

    Measured by a piece of work, and by how many processes share a core: for a moment a busy system
    can favour a process that has slept.
    """
    began = time.monotonic()
    _work()
    measured = (time.monotonic() - began) / _NOMINAL_SECONDS
    return min(max(1.0, measured, os.getloadavg()[0] / (os.cpu_count() or 1)), _SLOWEST)


def stretched(seconds: float) -> float:
    """Convert seconds of an idle machine to seconds of this one."""
    return seconds * pace()


class Deadline:
    """The end of a wait, in seconds of an idle machine; a busy machine has more of them.

    Args:
        seconds: How long the wait may take on an idle machine.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self.restart()

    def restart(self) -> None:
        """Begin the wait again."""
        self._began = time.monotonic()
        self._allowed = self._seconds

    @property
    def waited(self) -> float:
        """Seconds since the wait began."""
        return time.monotonic() - self._began

    @property
    def left(self) -> float:
        """Seconds until the wait is over; the machine is measured before the answer is 0."""
        if self.waited >= self._allowed:
            self._allowed = max(self._allowed, stretched(self._seconds))
        return max(0.0, self._allowed - self.waited)

    @property
    def passed(self) -> bool:
        """Whether the wait is over."""
        return not self.left

    def __str__(self) -> str:
        return f"{self._allowed:.1f} s"


def _work() -> None:
    """What tests do: compute, and wait for other threads."""
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
