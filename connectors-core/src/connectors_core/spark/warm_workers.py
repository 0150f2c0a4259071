# SPDX-License-Identifier: Apache-2.0
"""What a Python worker of Spark that is used again need not pay for every task.

The worker also runs the user's own code, so this is little, it is done in a worker's first tasks
only, and :data:`SETTING` turns it off:

- **archives.** The worker of Spark 3.5 calls ``importlib.invalidate_caches`` for each task (that of
  Spark 4.3 where its path has changed), and each finder of an archive then reads its whole
  directory again, in Python (CPython's gh-103200, mended in 3.13). Spark puts its core jar on the
  path, with thousands of classes. The finders of Spark's own archives, which do not change while a
  worker lives, are told to keep what they know.
- **acknowledgements.** The JVM sends a task in two writes. Nagle's algorithm (RFC 896) holds the
  second back until the first is acknowledged, and Linux delays that (RFC 1122, 4.2.3.2), by up to
  40 ms. The worker runs ``gc.collect`` behind each task; a callback of the collector then asks the
  kernel to acknowledge at once on the worker's own connection. It changes no other.
- **modules.** ``gc.collect`` goes through all that imported modules hold. In its first task, before
  it reads or writes a row, a worker moves what lives then out of the collector's sight
  (``gc.freeze``), once: modules, and the functions that Spark sent it. What is made later, by
  whomever, is collected as ever.

What each of them saves is measured by ``make bench ONLY=warm-workers``.
"""

from __future__ import annotations

import gc
import os
import re
import socket
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import PurePath
from typing import Any, Final
from zipimport import zipimporter

from connectors_core.spark.internals.workers import task_connection

SETTING: Final = "CONNECTORS_WARM_WORKERS"
"""Environment variable of the workers: what is kept warm, with commas between; ``off`` for nothing.

Set it for all workers of a session by Spark's ``spark.executorEnv.CONNECTORS_WARM_WORKERS``.
"""

FIRST_TASKS: Final = 3
_OF_SPARK: Final = re.compile(r"pyspark\.zip|py4j-.*\.zip|spark-core_.*\.jar")
_LINUX_ONLY: Final[int | None] = getattr(socket, "TCP_QUICKACK", None)
_INTERNET: Final = (socket.AF_INET, socket.AF_INET6)
_FULL_COLLECTION: Final = 2


class Warmth(StrEnum):
    """What can be kept warm; see the module."""

    ARCHIVES = "archives"
    ACKNOWLEDGEMENTS = "acknowledgements"
    MODULES = "modules"


_tasks = 0


def keep_warm() -> None:
    """Keep this worker warm for its next task. Executor; in a worker's first tasks only.

    To be called in every task: what is imported by one is seen in the next.
    """
    global _tasks
    if _tasks >= FIRST_TASKS:
        return
    connection = task_connection()
    if connection is None:
        return
    _tasks += 1
    wanted = _wanted()
    if Warmth.ARCHIVES in wanted:
        _keep_archives()
    if _tasks > 1:
        return
    if Warmth.MODULES in wanted:
        gc.collect()
        gc.freeze()
    if Warmth.ACKNOWLEDGEMENTS in wanted and _LINUX_ONLY is not None:
        # A duplicate: the worker closes its files behind every task, and opens new ones.
        gc.callbacks.append(AcknowledgeAtOnce(socket.socket(fileno=os.dup(connection))))


def _wanted() -> frozenset[Warmth]:
    text = os.environ.get(SETTING)
    if text is None:
        return frozenset(Warmth)
    names = {name.strip() for name in text.lower().split(",")}
    return frozenset(each for each in Warmth if each.value in names)


@dataclass(frozen=True)
class AcknowledgeAtOnce:
    """A callback of the garbage collector, which a worker runs behind every task.

    Args:
        connection: To the JVM.
    """

    connection: socket.socket

    def __call__(self, phase: str, info: Mapping[str, Any]) -> None:
        """Until the next answer: with it the kernel goes back to delaying."""
        full = info["generation"] == _FULL_COLLECTION
        if phase == "start" and full and self.connection.family in _INTERNET:
            assert _LINUX_ONLY is not None
            self.connection.setsockopt(socket.IPPROTO_TCP, _LINUX_ONLY, 1)


def _keep_archives() -> None:
    """Let Spark's archives stay known in this process: they do not change while it lives."""
    for finder in sys.path_importer_cache.values():
        if isinstance(finder, zipimporter) and _OF_SPARK.fullmatch(PurePath(finder.archive).name):
            vars(finder)["invalidate_caches"] = _nothing


def _nothing() -> None:
    pass
