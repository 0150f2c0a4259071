# SPDX-License-Identifier: Apache-2.0
"""A wrong wall clock, for a driver in a separate process."""

from __future__ import annotations

import ctypes
import gc
import time
from datetime import datetime, timedelta, tzinfo
from typing import Any


def move_wall_clock(ahead: timedelta) -> None:
    """Shift the wall clock of this process. Monotonic clocks do not change.

    Args:
        ahead: The shift. A negative value sets the clock back.
    """
    seconds, nanoseconds, now = time.time, time.time_ns, datetime.now

    def moved(_: type[datetime], tz: tzinfo | None = None) -> datetime:
        return now(tz) + ahead

    time.time = lambda: seconds() + ahead.total_seconds()
    time.time_ns = lambda: nanoseconds() + ahead // timedelta(microseconds=1) * 1_000
    # Modules import the class itself, so it is changed in place.
    attributes: Any = gc.get_referents(datetime.__dict__)[0]
    attributes["now"] = classmethod(moved)
    ctypes.pythonapi.PyType_Modified(ctypes.py_object(datetime))
