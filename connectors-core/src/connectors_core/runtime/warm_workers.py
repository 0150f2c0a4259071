# SPDX-License-Identifier: Apache-2.0
"""What a Python worker of Spark that is used again need not pay for every task.

Three things are most of what a small task costs in a worker that has run one before:

- **Archives.** The worker calls ``importlib.invalidate_caches`` for each task, and each finder of
  an archive then reads its whole directory anew, in Python (CPython's gh-103200, mended in 3.13).
  Spark puts its core jar on the path, with thousands of classes.
- **Garbage.** Behind each task Spark's daemon calls ``gc.collect``, which goes through all that the
  imported modules hold, while the driver wants the cores for its commits.
- **Acknowledgements.** The JVM sends a task in two writes. Nagle's algorithm (RFC 896) holds the
  second back until the first is acknowledged, and a kernel delays that (RFC 1122, 4.2.3.2), by up
  to 40 ms on Linux, on a connection on which answers are common.
"""

from __future__ import annotations

import gc
import os
import re
import socket
import sys
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePath
from types import FrameType
from typing import Any, Final
from zipimport import zipimporter

_OF_SPARK: Final = re.compile(r"pyspark\.zip|py4j-.*\.zip|spark-core_.*\.jar")
_LINUX_ONLY: Final[int | None] = getattr(socket, "TCP_QUICKACK", None)
_INTERNET: Final = (socket.AF_INET, socket.AF_INET6)
_FULL_COLLECTION: Final = 2


def keep_warm() -> None:
    """Keep this worker as it is for its next task. Executor; without effect elsewhere.

    To be called in every task: what is imported by one is seen in the next.
    """
    connection = _connection()
    if connection is None:
        return
    _keep_archives()
    if not any(isinstance(each, BetweenTasks) for each in gc.callbacks):
        # A duplicate: the worker closes its files behind every task, and opens new ones.
        gc.callbacks.append(BetweenTasks(socket.socket(fileno=os.dup(connection))))


@dataclass
class BetweenTasks:
    """A callback of the garbage collector, which a worker runs behind every task.

    Args:
        connection: To the JVM.
    """

    connection: socket.socket
    modules: int = 0

    def __call__(self, phase: str, info: Mapping[str, Any]) -> None:
        """Prepare for the next task, where no task is running."""
        if info["generation"] != _FULL_COLLECTION or not _between_tasks():
            return
        if phase == "start":
            self._acknowledge_at_once()
        elif self.modules != len(sys.modules):
            self.modules = len(sys.modules)
            gc.freeze()  # what was garbage has just been collected

    def _acknowledge_at_once(self) -> None:
        """Until the next answer: with it the kernel goes back to delaying."""
        if _LINUX_ONLY is not None and self.connection.family in _INTERNET:
            self.connection.setsockopt(socket.IPPROTO_TCP, _LINUX_ONLY, 1)


def _between_tasks() -> bool:
    """A worker runs its tasks, and the collection behind them, on its main thread."""
    return threading.current_thread() is threading.main_thread() and _connection() is None


def _connection() -> int | None:
    """The descriptor from which a worker reads the task that runs; None where none runs."""
    frame: FrameType | None = sys._getframe()
    while frame is not None:
        if frame.f_code.co_name == "main" and "infile" in frame.f_locals:
            module = str(frame.f_globals.get("__name__"))
            if module.startswith("pyspark."):
                return int(frame.f_locals["infile"].fileno())
        frame = frame.f_back
    return None


def _keep_archives() -> None:
    """Let Spark's archives stay known in this process: they do not change while it lives."""
    for finder in sys.path_importer_cache.values():
        if isinstance(finder, zipimporter) and _OF_SPARK.fullmatch(PurePath(finder.archive).name):
            vars(finder)["invalidate_caches"] = _nothing


def _nothing() -> None:
    pass
