# SPDX-License-Identifier: Apache-2.0
"""The processes of a driver and their resources, from `/proc`."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

_PAGE = os.sysconf("SC_PAGE_SIZE")
_DAEMON = b"pyspark.daemon"


@dataclass(frozen=True)
class Process:
    """A process. Its ID can be reused, but the ID and start time together are unique.

    Attributes:
        pid: The process ID.
        started: The start time, in ticks.
        parent: The process ID of the parent.
        name: The name of the program.
    """

    pid: int
    started: int
    parent: int = field(compare=False)  # another process after the end of this one
    name: str = field(compare=False)

    @property
    def lives(self) -> bool:
        """Whether the process still exists."""
        return _read(self.pid) == self

    def send(self, number: signal.Signals) -> None:
        """Send a signal to the process, if it still exists."""
        if self.lives:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)


@dataclass(frozen=True)
class Usage:
    """The resources of a process: resident megabytes, threads, and open files."""

    memory: float
    threads: int
    handles: int

    @classmethod
    def of(cls, pid: int) -> Usage | None:
        """Return the resources of a process, or None if it has ended."""
        folder = Path(f"/proc/{pid}")
        try:
            resident = int((folder / "statm").read_text().split()[1]) * _PAGE / 2**20
            return cls(resident, len(os.listdir(folder / "task")), len(os.listdir(folder / "fd")))
        except (OSError, IndexError):
            return None


def tree(pid: int) -> list[Process]:
    """Return a process and all its descendants, the oldest first."""
    by_parent: dict[int, list[Process]] = {}
    for name in os.listdir("/proc"):
        if name.isdigit() and (found := _read(int(name))):
            by_parent.setdefault(found.parent, []).append(found)
    root = _read(pid)
    trees = [root] if root else []
    for each in trees:
        trees += by_parent.get(each.pid, [])
    return trees


def jvm(processes: Iterable[Process]) -> Process | None:
    """Return Spark's JVM from these processes."""
    return next((each for each in processes if each.name == "java"), None)


def workers(processes: Iterable[Process]) -> list[Process]:
    """Return the Python workers from these processes: the children of Spark's daemons."""
    daemons = {each.pid for each in processes if _DAEMON in _command(each.pid)}
    return [each for each in processes if each.pid in daemons and each.parent in daemons]


def _read(pid: int) -> Process | None:
    try:
        text = Path(f"/proc/{pid}/stat").read_bytes().decode(errors="replace")
    except OSError:
        return None
    head, _, tail = text.rpartition(")")
    fields = tail.split()
    if fields[0] in "ZX":  # ended but not reaped
        return None
    return Process(pid, int(fields[19]), int(fields[1]), head.partition("(")[2])


def _command(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""
