# SPDX-License-Identifier: Apache-2.0
"""Saves costs that a reused Python worker of Spark would otherwise pay in every task.

The worker also runs user code. These changes are therefore small, happen only in a worker's first
tasks, and can be turned off with :data:`SETTING`:

- **archives.** The worker of Spark 3.5 calls ``importlib.invalidate_caches`` for each task; that of
  Spark 4.3 does so if its path has changed. Each archive finder then rereads its whole directory in
  Python (CPython's gh-103200, fixed in 3.13). Spark's core jar on the path has thousands of
  classes. Spark's own archives do not change during a worker's life, so their finders keep their
  caches.
- **acknowledgements.** The JVM sends a task in two writes. Nagle's algorithm (RFC 896) holds the
  second write back until the first is acknowledged, and Linux delays the acknowledgement (RFC 1122,
  4.2.3.2) by up to 40 ms. The worker runs ``gc.collect`` after each task. A callback of the
  collector then asks the kernel to acknowledge at once, on the worker's own connection only.
- **modules.** ``gc.collect`` traverses all objects of imported modules. In its first task, before
  it reads or writes a row, a worker excludes the live objects from collection (``gc.freeze``):
  modules, and the functions that Spark sent. Later objects are collected as usual.

``make bench ONLY=warm-workers`` measures the savings.
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
"""Environment variable of the workers: a comma-separated list of :class:`Warmth`, or ``off``.

Set it for all workers of a session with Spark's ``spark.executorEnv.CONNECTORS_WARM_WORKERS``.
"""

FIRST_TASKS: Final = 3
_OF_SPARK: Final = re.compile(r"pyspark\.zip|py4j-.*\.zip|spark-core_.*\.jar")
_LINUX_ONLY: Final[int | None] = getattr(socket, "TCP_QUICKACK", None)
_INTERNET: Final = (socket.AF_INET, socket.AF_INET6)
_FULL_COLLECTION: Final = 2


class Warmth(StrEnum):
    """The parts that can be kept warm; see the module."""

    ARCHIVES = "archives"
    ACKNOWLEDGEMENTS = "acknowledgements"
    MODULES = "modules"


_tasks = 0


def keep_warm() -> None:
    """Keep this worker warm for its next task. Executor; in a worker's first tasks only.

    Call it in every task, because the effects of one task's imports show in the next.
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
        # A duplicate, since the worker closes its files after every task and opens new ones.
        gc.callbacks.append(AcknowledgeAtOnce(socket.socket(fileno=os.dup(connection))))


def _wanted() -> frozenset[Warmth]:
    text = os.environ.get(SETTING)
    if text is None:
        return frozenset(Warmth)
    names = {name.strip() for name in text.lower().split(",")}
    return frozenset(each for each in Warmth if each.value in names)


@dataclass(frozen=True)
class AcknowledgeAtOnce:
    """A callback of the garbage collector, which a worker runs after every task.

    Args:
        connection: The connection to the JVM.
    """

    connection: socket.socket

    def __call__(self, phase: str, info: Mapping[str, Any]) -> None:
        """Acknowledge at once until the next response, after which the kernel delays again."""
        full = info["generation"] == _FULL_COLLECTION
        if phase == "start" and full and self.connection.family in _INTERNET:
            assert _LINUX_ONLY is not None
            self.connection.setsockopt(socket.IPPROTO_TCP, _LINUX_ONLY, 1)


def _keep_archives() -> None:
    """Keep the caches of Spark's archives, which do not change during the process's life."""
    for finder in sys.path_importer_cache.values():
        if isinstance(finder, zipimporter) and _OF_SPARK.fullmatch(PurePath(finder.archive).name):
            vars(finder)["invalidate_caches"] = _nothing


def _nothing() -> None:
    pass
