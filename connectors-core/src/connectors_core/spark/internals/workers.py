# SPDX-License-Identifier: Apache-2.0
"""Spark's Python workers from within."""

from __future__ import annotations

import sys
from types import FrameType


def task_connection() -> int | None:
    """The descriptor from which a worker reads the task that runs; None where none runs."""
    frame: FrameType | None = sys._getframe()
    while frame is not None:
        if frame.f_code.co_name == "main" and "infile" in frame.f_locals:
            module = str(frame.f_globals.get("__name__"))
            if module.startswith("pyspark."):
                return int(frame.f_locals["infile"].fileno())
        frame = frame.f_back
    return None
