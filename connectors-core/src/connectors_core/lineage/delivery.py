# SPDX-License-Identifier: Apache-2.0
"""Delivers the events of a pipeline to its listeners, without ever delaying it. Driver."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Sequence
from typing import Final

from connectors_core.lineage.events import JobStatusChangedEvent, JobStatusChangedListener

__all__ = ["EventDelivery"]

MOST_WAITING: Final = 100
CLOSES_WITHIN_SECONDS: Final = 5.0
_LOGGER: Final = logging.getLogger(__name__)
# Threads of listeners for which a close has waited in vain, by the identity of the listener. While
# such a thread lives, no other run waits for that listener.
_stuck: Final[dict[int, threading.Thread]] = {}


class EventDelivery:
    """One thread for each listener, so that none waits for another one. Thread-safe.

    Args:
        listeners: The listeners.
    """

    def __init__(self, listeners: Sequence[JobStatusChangedListener]) -> None:
        self._mailboxes = [_Mailbox(listener) for listener in listeners]

    def send(self, event: JobStatusChangedEvent) -> None:
        """Deliver an event soon. Returns immediately."""
        for mailbox in self._mailboxes:
            mailbox.put(event)

    def close(self, timeout: float = CLOSES_WITHIN_SECONDS) -> None:
        """Wait until the events are delivered, or for some seconds.

        A listener that still delivers the events of an earlier run is not waited for.

        Args:
            timeout: Seconds for all listeners together.
        """
        deadline = time.monotonic() + timeout
        for mailbox in self._mailboxes:
            mailbox.close()
        for mailbox in self._mailboxes:
            mailbox.join(max(0.0, deadline - time.monotonic()))


class _Mailbox:
    def __init__(self, listener: JobStatusChangedListener) -> None:
        self._listener = listener
        self._changed = threading.Condition()
        self._waiting: deque[JobStatusChangedEvent] = deque()
        self._closed = False
        self._thread: threading.Thread | None = None

    def put(self, event: JobStatusChangedEvent) -> None:
        with self._changed:
            if self._closed:
                return
            if len(self._waiting) == MOST_WAITING:
                self._waiting.popleft()
                _LOGGER.warning(
                    "%s is too slow: the oldest of %d waiting events is dropped",
                    type(self._listener).__name__,
                    MOST_WAITING,
                )
            self._waiting.append(event)
            if self._thread is None:  # a daemon, so that a dead backend cannot keep the process
                name = f"lineage-{type(self._listener).__name__}"
                self._thread = threading.Thread(target=self._deliver, name=name, daemon=True)
                self._thread.start()
            self._changed.notify()

    def close(self) -> None:
        with self._changed:
            self._closed = True
            self._changed.notify()

    def join(self, timeout: float) -> None:
        if self._thread is None:
            return
        former = _stuck.get(id(self._listener))
        if former is self._thread:
            return  # it is closed again
        self._thread.join(0 if former is not None and former.is_alive() else timeout)
        if self._thread.is_alive():
            _stuck[id(self._listener)] = self._thread
            _LOGGER.warning(
                "%s does not accept events: those after the last one are lost",
                type(self._listener).__name__,
            )

    def _deliver(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting or self._closed)
                if not self._waiting:
                    return
                event = self._waiting.popleft()
            try:
                self._listener.on_event(event)
            except Exception:
                _LOGGER.warning(
                    "%s failed on an event of pipeline %r",
                    type(self._listener).__name__,
                    event.job_name,
                    exc_info=True,
                )
