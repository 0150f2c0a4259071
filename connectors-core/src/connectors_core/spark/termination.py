# SPDX-License-Identifier: Apache-2.0
"""SIGTERM stops the pipelines of a process like ``Pipeline.stop``, then ends the process. Driver.

A signal handler may do next to nothing: the code that it interrupts may hold any lock. So it only
starts a thread that stops the pipelines. When they have stopped, the main thread raises
``SystemExit``, as it does at Ctrl-C with ``KeyboardInterrupt``: ``finally`` blocks run, and the
status of the process says what ended it.
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
"""The status with which the process ends, as a shell would show it."""

_LOGGER: Final = logging.getLogger(__name__)


class Termination:
    """Stops one pipeline at SIGTERM.

    Args:
        stop: Stops it; called on a thread of its own.
    """

    def __init__(self, stop: Callable[[], None]) -> None:
        self._stop = stop
        self._asked = False
        self._stopping: threading.Thread | None = None

    def install(self) -> None:
        """Handle the signal, unless the user or a library does, or this is not the main thread."""
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
        """Leave the signal to whom it was before, once no pipeline is left."""
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
        """Whether the signal has come."""
        return self._asked

    def end(self) -> None:
        """Where the signal has come: wait until all has stopped, and end the process.

        Of no effect on other threads than the main one, which alone can end it.

        Raises:
            SystemExit: The signal has come.
        """
        if self._stopping is None or threading.current_thread() is not threading.main_thread():
            return
        self._stopping.join()
        _leave()

    def ask(self, stopping: threading.Thread) -> None:
        """The signal has come, and this thread is about to stop the pipelines."""
        self._asked, self._stopping = True, stopping

    def stop(self) -> None:
        """Stop the pipeline; an error of that must not keep others from being stopped."""
        try:
            self._stop()
        except Exception:
            _LOGGER.exception("a pipeline could not be stopped")


_active: Final[list[Termination]] = []


def _on_signal(_number: int, _frame: FrameType | None) -> None:
    if any(each.asked for each in _active):
        if not _stopping.is_set():
            return  # sent again: the pipelines are being stopped
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
    _LOGGER.warning("SIGTERM: stopping after the micro-batches that run now")
    for each in pipelines:
        each.stop()
    _stopping.set()
    if _active:  # the main thread is elsewhere: the signal reaches it there
        os.kill(os.getpid(), signal.SIGTERM)


def _leave() -> None:
    _active.clear()
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    raise SystemExit(STATUS)
