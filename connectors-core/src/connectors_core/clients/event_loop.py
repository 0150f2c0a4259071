# SPDX-License-Identifier: Apache-2.0
"""One asyncio event loop per process, on its own thread.

A Spark task runs on the main thread of its worker and is not a coroutine. Code with several
concurrent requests runs on this loop, while the task continues. Spark's daemon forks its workers,
so the first task that needs the loop creates it, never an import, and a forked process creates its
own.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Coroutine
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, TypeVar

T = TypeVar("T")


@dataclass(frozen=True)
class _Background:
    pid: int
    loop: asyncio.AbstractEventLoop


_lock = threading.Lock()
_background: _Background | None = None


def event_loop() -> asyncio.AbstractEventLoop:
    """Return the running loop of this process. Executor and driver, any thread.

    It lives as long as the process, so tasks can reuse the clients of earlier tasks.
    """
    global _background
    with _lock:
        if _background is None or _background.pid != os.getpid():
            loop = asyncio.new_event_loop()
            threading.Thread(target=loop.run_forever, name="event-loop", daemon=True).start()
            _background = _Background(os.getpid(), loop)
        return _background.loop


def submit(coroutine: Coroutine[Any, Any, T]) -> Future[T]:
    """Run a coroutine on the loop. Any thread except the loop's."""
    return asyncio.run_coroutine_threadsafe(contained(coroutine), event_loop())


async def contained(coroutine: Coroutine[Any, Any, T]) -> T:
    """Return the result of a coroutine. Loop's thread.

    Raises:
        RuntimeError: The coroutine ended its process or was interrupted. asyncio would end the
            loop, for which every other task of the process waits.
    """
    try:
        return await coroutine
    except (SystemExit, KeyboardInterrupt) as exc:
        raise RuntimeError(f"a coroutine raised {type(exc).__name__}") from exc
