# SPDX-License-Identifier: Apache-2.0
"""A process in which Ctrl-C interrupts, as in a terminal."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def terminal() -> Iterator[None]:
    """A shell starts processes in the background with SIGINT ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)
