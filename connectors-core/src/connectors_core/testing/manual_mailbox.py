# SPDX-License-Identifier: Apache-2.0
"""A coordinator's mailbox without threads. The test triggers every step."""

from __future__ import annotations

import heapq
import itertools
from collections import deque
from collections.abc import Callable

from connectors_core.engine.coordinator.mailbox import Action, Mailbox


class ManualClock:
    """A clock that advances only on request."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        """Return the time."""
        return self.now


class ManualMailbox(Mailbox):
    """Runs its actions, timers, and asynchronous calls on request, on the caller's thread.

    Args:
        name: As in `Mailbox`.
        on_error: The handler of the error that stopped the mailbox.
        clock: The clock of the timers.
    """

    def __init__(
        self, name: str, on_error: Callable[[BaseException], None], clock: ManualClock
    ) -> None:
        super().__init__(name, on_error)
        self.clock = clock
        self.actions: deque[Action] = deque()
        self.timers: list[tuple[float, int, Action]] = []
        self.calls: deque[Action] = deque()
        self.closed = False
        self._numbers = itertools.count()

    def start(self) -> None:
        """Do nothing, because there is no thread."""

    def execute(self, action: Action) -> None:
        """Keep an action for :meth:`run`."""
        if not self.closed:
            self.actions.append(action)

    def schedule(self, delay: float, action: Action) -> None:
        """Keep an action until its time."""
        if not self.closed:
            heapq.heappush(self.timers, (self.clock() + delay, next(self._numbers), action))

    def close(self) -> None:
        """Drop all waiting actions."""
        self.closed = True
        self.actions.clear()
        self.timers.clear()
        self.calls.clear()

    def run(self, limit: int = 10_000) -> None:
        """Run the waiting actions, and the actions that they cause."""
        for _ in range(limit):
            while self.timers and self.timers[0][0] <= self.clock():
                self.actions.append(heapq.heappop(self.timers)[2])
            if not self.actions:
                return
            try:
                self.actions.popleft()()
            except BaseException as error:
                self.close()
                self._on_error(error)
                return
        raise AssertionError("the mailbox never comes to rest")

    def run_calls(self) -> None:
        """Run the waiting actions, and then the asynchronous calls that wait."""
        self.run()
        while self.calls:
            self.calls.popleft()()
        self.run()

    def to_next_timer(self) -> bool:
        """Advance to the next timer; return False if there is none."""
        if not self.timers:
            return False
        self.clock.now = max(self.clock.now, self.timers[0][0])
        self.run()
        return True

    def _submit(self, run: Action) -> None:
        self.calls.append(run)
