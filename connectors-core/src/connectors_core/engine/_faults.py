# SPDX-License-Identifier: Apache-2.0
"""The hook through which crash tests stop the runtime at named points; inactive in production.

`connectors_core.testing.faults` lists the names of the points and builds the environment.
"""

from __future__ import annotations

import errno
import json
import os
import signal
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

__all__ = ["DRIVER_VARIABLE", "ENVIRONMENT_VARIABLE", "FaultInjected", "fault_point", "space_point"]

ENVIRONMENT_VARIABLE: Final = "CONNECTORS_FAULTS"
DRIVER_VARIABLE: Final = "CONNECTORS_FAULTS_DRIVER"
FILE_PREFIX: Final = "@"
"""Marks the name of a file with faults, for processes that outlive a test."""

NO_SPACE: Final = "no-space"
_HANG_POLL_SECONDS: Final = 0.02
_counts: Final[dict[tuple[str, int], int]] = {}
_counts_lock: Final = threading.Lock()


class FaultInjected(RuntimeError):
    """A failure that a test requested; deliberately not a connector error."""


def fault_point(name: str, **labels: object) -> None:
    """Fail here if the environment variable `CONNECTORS_FAULTS` requests it; driver and executor.

    Costs one environment lookup. Do not call it for each record.

    Args:
        name: Name of the point.
        **labels: Labels of this pass, such as `subtask=0`. A fault can require them.

    Raises:
        FaultInjected: If the fault's action is `raise`.
    """
    faults = _asked_for().get(name, [])
    # Every fault counts the pass before the first one fires.
    passes = [
        (fault, _pass_number(name, index, fault.get("once")))
        for index, fault in enumerate(faults)
        if _matches(fault.get("where", {}), labels)
    ]
    for fault, passed in passes:
        once = fault.get("once")
        nth = int(fault.get("nth", 1))
        # With a marker, a later pass can fire too: the marker ensures that only one does.
        if passed == nth if once is None else passed >= nth and _create(once):
            _fail(name, fault, labels)


def space_point() -> None:
    """Fail as full storage does if a fault has left no space; driver and executor.

    Costs one environment lookup. A point with the action `no-space` fills the storage.

    Raises:
        OSError: No space is left.
    """
    for faults in _asked_for().values():
        for fault in faults:
            if fault.get("action") == NO_SPACE and os.path.exists(fault["once"]):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def reset_counts() -> None:
    """Reset the counters of this process to zero; for tests."""
    with _counts_lock:
        _counts.clear()


def _asked_for() -> dict[str, list[dict[str, Any]]]:
    """Return the requested faults, by point."""
    configured = os.environ.get(ENVIRONMENT_VARIABLE)
    if configured and configured.startswith(FILE_PREFIX):
        configured = _read(configured.removeprefix(FILE_PREFIX))
    if not configured:
        return {}
    points: dict[str, Any] = json.loads(configured)
    return {
        name: faults if isinstance(faults, list) else [faults] for name, faults in points.items()
    }


def _read(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8")
    except FileNotFoundError:
        return ""


def _matches(where: Mapping[str, object], labels: Mapping[str, object]) -> bool:
    # Compare text: in JSON, every label except a number became a string.
    return all(key in labels and str(labels[key]) == str(value) for key, value in where.items())


def _pass_number(name: str, index: int, once: str | None) -> int:
    """Return the number of passes, across all processes that share a marker."""
    if once is None:
        with _counts_lock:
            key = (name, index)
            _counts[key] = _counts.get(key, 0) + 1
            return _counts[key]
    folder = f"{once}.passes"
    os.makedirs(folder, exist_ok=True)
    number = 1
    while not _create(os.path.join(folder, f"{name}-{index}-{number}")):
        number += 1
    return number


def _create(path: str) -> bool:
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o644))
    except FileExistsError:
        return False
    return True


def _is_stopping() -> bool:
    """Whether a SIGSTOP of this process waits for a thread that receives it."""
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    pending = int(status.partition("ShdPnd:")[2].split()[0], 16)
    return bool(pending >> (signal.SIGSTOP - 1) & 1)


def _fail(name: str, fault: Mapping[str, Any], labels: Mapping[str, object]) -> None:
    action = fault.get("action", "kill")
    if action == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    elif action == "kill-driver":
        os.kill(int(os.environ[DRIVER_VARIABLE]), signal.SIGKILL)
    elif action == "freeze-driver":
        os.killpg(os.getpgid(int(os.environ[DRIVER_VARIABLE])), signal.SIGSTOP)
        while _is_stopping():
            pass  # any thread may take the signal for all; this one must wait for it
    elif action == "kill-executor":
        # A Python worker of Spark is a child of its daemon, which is a child of the executor.
        daemon = Path(f"/proc/{os.getppid()}/stat").read_text(encoding="utf-8")
        os.kill(int(daemon.rpartition(")")[2].split()[1]), signal.SIGKILL)
    elif action == "hang":
        until = fault.get("until")
        while until is None or not os.path.exists(until):
            time.sleep(_HANG_POLL_SECONDS)
    elif action == "raise":
        raise FaultInjected(f"fault injected at {name} {dict(labels)}")
    elif action != NO_SPACE:  # no-space fails at `space_point` once its marker exists
        raise ValueError(
            f"unknown fault action {action!r} at {name}; "
            "use kill, kill-driver, freeze-driver, kill-executor, raise, hang or no-space"
        )
