# SPDX-License-Identifier: Apache-2.0
"""The single thread of a coordinator, and worker threads for blocking calls. Driver."""

from __future__ import annotations

import heapq
import itertools
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import TypeVar

from connectors_core.source.enumerator import CallHandler

T = TypeVar("T")
Action = Callable[[], None]


class Mailbox:
    """Runs actions one after another on its own thread, like Flink's coordinator thread.

    Its actions need no locks. An action that raises an error stops the mailbox, which passes the
    error to ``on_error``.

    Args:
        name: Name of the thread.
        on_error: Called once, on the mailbox's thread, with the error that stopped it.
    """

    def __init__(self, name: str, on_error: Callable[[BaseException], None]) -> None:
        self._name = name
        self._on_error = on_error
        self._condition = threading.Condition()
        self._actions: deque[Action] = deque()
        self._timers: list[tuple[float, int, Action]] = []
        self._sequence = itertools.count()
        self._closed = False
        self._thread: threading.Thread | None = None
        self._workers: ThreadPoolExecutor | None = None

    def start(self) -> None:
        """Start the thread."""
        self._workers = ThreadPoolExecutor(max_workers=4, thread_name_prefix=f"{self._name}-async")
        self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
        self._thread.start()

    def execute(self, action: Action) -> None:
        """Run an action soon. From any thread; dropped after :meth:`close`."""
        with self._condition:
            if not self._closed:
                self._actions.append(action)
                self._condition.notify()

    def schedule(self, delay: float, action: Action) -> None:
        """Run an action after ``delay`` seconds. From any thread."""
        with self._condition:
            if not self._closed:
                due = time.monotonic() + delay
                heapq.heappush(self._timers, (due, next(self._sequence), action))
                self._condition.notify()

    def call_async(
        self,
        call: Callable[[], T],
        handler: CallHandler[T],
        *,
        initial_delay: timedelta = timedelta(0),
        period: timedelta | None = None,
    ) -> None:
        """Run ``call`` on a worker thread and its handler here; see ``SplitEnumeratorContext``.

        A periodic call starts ``period`` after the previous call's handler, so calls never overlap.
        """

        def run() -> None:
            try:
                result, error = call(), None
            except BaseException as exc:  # the handler must receive every error
                result, error = None, exc
            self.execute(lambda: finish(result, error))

        def finish(result: T | None, error: BaseException | None) -> None:
            handler(result, error)
            if period is not None:
                self.schedule(period.total_seconds(), submit)

        def submit() -> None:
            self._submit(run)

        if initial_delay:
            self.schedule(initial_delay.total_seconds(), submit)
        else:
            self.execute(submit)

    def close(self) -> None:
        """Stop after the current action; wait for it unless it calls this method."""
        with self._condition:
            self._closed = True
            self._actions.clear()
            self._timers.clear()
            self._condition.notify()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()
        if self._workers is not None:
            self._workers.shutdown(wait=False, cancel_futures=True)

    def _submit(self, run: Action) -> None:
        if self._workers is not None:
            self._workers.submit(run)

    def _run(self) -> None:
        while (action := self._next()) is not None:
            try:
                action()
            except BaseException as exc:  # the pipeline must receive every error
                with self._condition:
                    self._closed = True
                self._on_error(exc)
                return

    def _next(self) -> Action | None:
        with self._condition:
            while True:
                if self._closed:
                    return None
                now = time.monotonic()
                if self._timers and self._timers[0][0] <= now:
                    return heapq.heappop(self._timers)[2]
                if self._actions:
                    return self._actions.popleft()
                self._condition.wait(self._timers[0][0] - now if self._timers else None)
