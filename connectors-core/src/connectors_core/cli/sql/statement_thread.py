# SPDX-License-Identifier: Apache-2.0
"""Runs statements on a thread of their own, so that Ctrl-C reaches the shell and not Spark.

Spark's session is created on this thread too. Its own handler of Ctrl-C would cancel all jobs.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import suppress
from typing import Final, TypeVar

from connectors_core.cli.sql.engine import Engine

__all__ = ["StatementCanceledError", "StatementThread"]

T = TypeVar("T")

POLL_SECONDS: Final = 0.1
_CANCEL_SECONDS: Final = 0.5


class StatementCanceledError(Exception):
    """Ctrl-C has canceled the statement."""


class StatementThread:
    """The thread of an engine.

    Args:
        open_engine: Creates the engine; called on the thread.
        tell: Shows a message.
    """

    def __init__(self, open_engine: Callable[[], Engine], tell: Callable[[str], None]) -> None:
        self._executor = ThreadPoolExecutor(1, thread_name_prefix="connectors-sql")
        self._tell = tell
        self.engine = self._executor.submit(open_engine).result()

    def submit(self, function: Callable[[Engine], T]) -> Future[T]:
        """Call a function on the thread, after those that were submitted before."""
        return self._executor.submit(function, self.engine)

    def run(self, function: Callable[[Engine], T], meanwhile: Callable[[], None]) -> T:
        """Call a function on the thread, and wait for it. Main thread.

        Args:
            function: Runs a statement.
            meanwhile: Called again and again until then.

        Raises:
            StatementCanceledError: Ctrl-C has canceled it.
        """
        future = self.submit(function)
        try:
            while not wait([future], POLL_SECONDS).done:
                meanwhile()
        except KeyboardInterrupt:
            self._cancel(future)
            raise StatementCanceledError from future.exception()
        except BaseException:  # SIGTERM
            self._cancel(future)
            raise
        return future.result()

    def close(self) -> None:
        """Close the engine, which stops its jobs after their micro-batches."""
        closing = self.submit(lambda engine: engine.close())
        self._wait(closing.done, lambda: wait([closing]))
        self._executor.shutdown()
        closing.result()

    def _cancel(self, future: Future[T]) -> None:
        self._tell("canceling")
        # On another thread: it may wait for a micro-batch, and the statement may end by itself.
        canceling = threading.Thread(target=self._cancel_until_done, args=(future,), daemon=True)
        canceling.start()
        # Also for its last call, which could otherwise cancel the next statement.
        self._wait(lambda: not canceling.is_alive(), canceling.join)

    def _cancel_until_done(self, future: Future[T]) -> None:
        """Cancel again and again: a statement can start what there is to cancel at any time."""
        while not future.done():
            with suppress(Exception):  # the statement itself tells what has failed
                self.engine.cancel()
            wait([future], _CANCEL_SECONDS)

    def _wait(self, is_over: Callable[[], bool], join: Callable[[], object]) -> None:
        while not is_over():
            try:
                join()
            except KeyboardInterrupt:
                self._tell("still waiting for Spark; Ctrl-\\ ends the shell at once")
