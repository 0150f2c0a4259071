# SPDX-License-Identifier: Apache-2.0
"""The internals of Spark's Python workers."""

from __future__ import annotations

import sys
from types import FrameType


def task_connection() -> int | None:
    """Return the descriptor from which a worker reads its current task; None without a task."""
    frame: FrameType | None = sys._getframe()
    while frame is not None:
        if frame.f_code.co_name == "main" and "infile" in frame.f_locals:
            module = str(frame.f_globals.get("__name__"))
            if module.startswith("pyspark."):
                return int(frame.f_locals["infile"].fileno())
        frame = frame.f_back
    return None
