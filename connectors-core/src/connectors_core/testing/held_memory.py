# SPDX-License-Identifier: Apache-2.0
"""The memory that a reader holds while no consumer takes its rows."""

from __future__ import annotations

import time
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

import pyarrow as pa

from connectors_core.testing.pace import Deadline

_QUIET_SECONDS: Final = 0.4
_NOISE: Final = 1 << 16
_POLL: Final = 0.02


@contextmanager
def held_memory() -> Iterator[Callable[[], int]]:
    """Count the memory of Python and Arrow that this process allocates in the context.

    Yields:
        A function that returns the bytes that are not released.
    """
    before = pa.total_allocated_bytes()
    tracemalloc.start()
    try:
        yield lambda: tracemalloc.get_traced_memory()[0] + pa.total_allocated_bytes() - before
    finally:
        tracemalloc.stop()


def most_held(held: Callable[[], int], poll: Callable[[], object] | None, enough: int) -> int:
    """Return the memory that stops to grow, or its first value that is more than enough.

    Args:
        held: Returns the memory.
        poll: A call to repeat meanwhile, if any.
        enough: The number of bytes.
    """
    most, quiet = held(), Deadline(_QUIET_SECONDS)
    while most <= enough and not quiet.passed:
        if poll is not None:
            poll()
        time.sleep(_POLL)
        if held() > most + _NOISE:
            most = held()
            quiet.restart()
    return most
