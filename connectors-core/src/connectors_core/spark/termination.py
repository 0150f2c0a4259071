# SPDX-License-Identifier: Apache-2.0
"""Stops the pipelines of a process on SIGTERM, then ends the process. Driver.

A signal handler can do very little, because the interrupted code may hold any lock. It only starts
a thread that stops the pipelines. When they have stopped, the main thread raises ``SystemExit``,
similar to ``KeyboardInterrupt`` on Ctrl-C. ``finally`` blocks run, and the exit status of the
process shows the signal.
"""

from __future__ import annotations

import logging
import os
import signal
import threading
from collections.abc import Callable
from types import FrameType
from typing import Final

STATUS: Final = 128 + signal.SIGTERM
"""The exit status of the process, in a shell's convention."""

_LOGGER: Final = logging.getLogger(__name__)


class Termination:
    """Stops one pipeline on SIGTERM.

    Args:
        stop: Stops the pipeline; called on a separate thread.
    """

    def __init__(self, stop: Callable[[], None]) -> None:
        self._stop = stop
        self._asked = False
        self._stopping: threading.Thread | None = None

    def install(self) -> None:
        """Handle the signal if this is the main thread and no other handler is installed."""
        if threading.current_thread() is not threading.main_thread():
            return
        handler = signal.getsignal(signal.SIGTERM)
        if handler is signal.SIG_DFL:
            signal.signal(signal.SIGTERM, _on_signal)
        elif handler is not _on_signal:
            return
        if self not in _active:
            _active.append(self)

    def restore(self) -> None:
        """Restore the default handler after the last pipeline."""
        if self._asked:
            return  # the thread that stops pipelines ends the process
        if self in _active:
            _active.remove(self)
        if (
            not _active
            and threading.current_thread() is threading.main_thread()
            and signal.getsignal(signal.SIGTERM) is _on_signal
        ):
            signal.signal(signal.SIGTERM, signal.SIG_DFL)

    @property
    def asked(self) -> bool:
        """Whether the process has received the signal."""
        return self._asked

    def end(self) -> None:
        """After the signal, wait until all pipelines have stopped, and end the process.

        Has no effect outside of the main thread, since only that can end the process.

        Raises:
            SystemExit: The process has received the signal.
        """
        if self._stopping is None or threading.current_thread() is not threading.main_thread():
            return
        self._stopping.join()
        _leave()

    def ask(self, stopping: threading.Thread) -> None:
        """Record the signal and the thread that stops the pipelines."""
        self._asked, self._stopping = True, stopping

    def stop(self) -> None:
        """Stop the pipeline; log an error so that the others still stop."""
        try:
            self._stop()
        except Exception:
            _LOGGER.exception("a pipeline could not be stopped")


_active: Final[list[Termination]] = []


def _on_signal(_number: int, _frame: FrameType | None) -> None:
    if any(each.asked for each in _active):
        if not _stopping.is_set():
            return  # a repeated signal: the pipelines are already stopping
        _leave()
    if not _active:  # the last pipeline ended on another thread
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGTERM)
        return
    _stopping.clear()
    thread = threading.Thread(target=_stop_all, args=(list(_active),), name="sigterm")
    for each in _active:
        each.ask(thread)
    thread.start()


_stopping: Final = threading.Event()
"""Set once the pipelines have stopped."""


def _stop_all(pipelines: list[Termination]) -> None:
    _LOGGER.warning("SIGTERM: stopping after the current micro-batches")
    for each in pipelines:
        each.stop()
    _stopping.set()
    if _active:  # interrupts the main thread wherever it is
        os.kill(os.getpid(), signal.SIGTERM)


def _leave() -> None:
    _active.clear()
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    raise SystemExit(STATUS)
