# SPDX-License-Identifier: Apache-2.0
"""Tests that each process has one event loop, also after a fork."""

from __future__ import annotations

import asyncio
import os
import threading

from connectors_core.clients.event_loop import event_loop, submit

SECONDS = 20.0


async def answer() -> str:
    await asyncio.sleep(0)
    return threading.current_thread().name


def test_all_threads_of_a_process_share_one_loop_in_a_separate_thread() -> None:
    loops: list[asyncio.AbstractEventLoop] = []
    thread = threading.Thread(target=lambda: loops.append(event_loop()))
    thread.start()
    thread.join()
    assert loops == [event_loop()]
    assert submit(answer()).result(SECONDS) == "event-loop"


def test_a_forked_process_creates_its_own_loop() -> None:
    """Spark's daemon forks its workers, and an inherited loop has no thread that runs it."""
    assert submit(answer()).result(SECONDS)
    readable, writable = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.write(writable, submit(answer()).result(SECONDS).encode())
        finally:
            os._exit(0)
    os.close(writable)
    with os.fdopen(readable, "rb") as pipe:
        found = pipe.read()
    os.waitpid(child, 0)
    assert found == b"event-loop"
