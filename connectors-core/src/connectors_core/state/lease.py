# SPDX-License-Identifier: Apache-2.0
"""The lease that keeps a second driver out of a pipeline; driver only."""

from __future__ import annotations

import contextlib
import logging
import os
import socket
import subprocess
import threading
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, fields
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import TracebackType
from typing import Any, Final

from connectors_core.errors import LeaseError, StateCorruptedError
from connectors_core.state import documents
from connectors_core.state.store import StateStore

__all__ = ["Lease", "LeaseOwner"]

_LOGGER: Final = logging.getLogger(__name__)

_FOLDER: Final = "lease"
_CLAIM: Final = "lease"
_STAMP: Final = "lease-alive"
_RELEASE: Final = "lease-released"
# So often a race for the next incarnation may be lost before this gives up.
_MAX_ATTEMPTS: Final = 8

Renewer = Callable[[Callable[[], bool], float], Callable[[], None]]
"""Calls a function every so many seconds while it returns True; returns how to stop that."""


@dataclass(frozen=True, kw_only=True)
class LeaseOwner:
    """Who holds a lease, precisely enough to see on the same machine whether it still lives.

    Attributes:
        host: Name of the machine.
        pid: Process id of the driver.
        process_start: When that process started, in the words of the operating system; a process
            id is used again, the pair is not.
        boot_id: Identifies one run of one kernel, where that is known.
        pid_namespace: Identifies the container's view of process ids, where that is known.
        description: What a person recognises, e.g. the application's name.
    """

    host: str
    pid: int
    process_start: str | None = None
    boot_id: str | None = None
    pid_namespace: str | None = None
    description: str = ""

    @classmethod
    def current(cls, description: str = "") -> LeaseOwner:
        """Return the owner that is this process."""
        pid = os.getpid()
        return cls(
            host=socket.gethostname(),
            pid=pid,
            process_start=_process_start(pid),
            boot_id=_read_text("/proc/sys/kernel/random/boot_id"),
            pid_namespace=_pid_namespace(),
            description=description,
        )

    def sees(self, other: LeaseOwner) -> bool:
        """Return whether process ids mean the same to both."""
        return (self.host, self.boot_id, self.pid_namespace) == (
            other.host,
            other.boot_id,
            other.pid_namespace,
        )


class Lease:
    """The right of one driver to run a pipeline; a context manager that releases it.

    A claim is created exclusively as `lease/<incarnation>.json` and is never removed before a
    higher one exists, so incarnations only grow. A daemon thread keeps the claim alive. A claim is
    over when it was released, when its process is gone (seen at once on the same machine), or
    when it was not renewed for `expiry`; that last test compares clocks of two machines, which
    must agree to within `expiry`. A driver that was taken for gone but lives is fenced: `check`
    tells it so, and decisions are created exclusively in any case.

    Use `Lease.acquire`; do not call the constructor.
    """

    def __init__(
        self,
        store: StateStore,
        incarnation: int,
        owner: LeaseOwner,
        clock: Callable[[], float],
    ) -> None:
        self._store = store
        self._incarnation = incarnation
        self._owner = owner
        self._clock = clock
        self._beats = 0
        self._stop_renewal: Callable[[], None] | None = None
        self._over: str | None = None
        self._lock = threading.Lock()

    @property
    def incarnation(self) -> int:
        """Number of this claim; higher than that of every driver before."""
        return self._incarnation

    @property
    def owner(self) -> LeaseOwner:
        """Who holds it."""
        return self._owner

    @classmethod
    def acquire(
        cls,
        store: StateStore,
        owner: LeaseOwner | None = None,
        *,
        renew_interval: timedelta = timedelta(seconds=5),
        expiry: timedelta = timedelta(seconds=30),
        clock: Callable[[], float] = time.time,
        renewer: Renewer | None = None,
    ) -> Lease:
        """Take the lease, or say who holds it.

        Args:
            store: The state location of the pipeline.
            owner: Who takes it; by default this process.
            renew_interval: Time between two signs of life.
            expiry: Age of the last sign of life above which a holder counts as gone.
            clock: Wall clock, seconds since the epoch.
            renewer: Runs the renewal; by default a daemon thread.

        Raises:
            LeaseError: If another driver, or another pipeline object of this one, holds it.
        """
        owner = owner or LeaseOwner.current()
        for _ in range(_MAX_ATTEMPTS):
            last = _last_incarnation(store)
            if last:
                _refuse_if_held(store, last, owner, expiry, clock)
            claim = {"claimed_at": clock(), "incarnation": last + 1, "owner": asdict(owner)}
            if store.create(_path(last + 1, "json"), documents.encode(_CLAIM, claim)):
                lease = cls(store, last + 1, owner, clock)
                _remove_former(store, last + 1)
                lease._beat()
                start = renewer or _start_thread
                lease._stop_renewal = start(lease._beat, renew_interval.total_seconds())
                return lease
        raise LeaseError(
            f"the lease of {store} was taken by others {_MAX_ATTEMPTS} times in a row",
            hint="see which drivers are started again and again for this pipeline",
        )

    def check(self) -> None:
        """Make sure that this driver still holds the lease.

        Raises:
            LeaseError: If another driver has taken over, or the lease was released.
        """
        highest = self._incarnation if self._over else _last_incarnation(self._store)
        if highest > self._incarnation:
            self._over = "another driver has taken over the pipeline"
        if self._over:
            holder = _holder(self._store, highest) if highest > self._incarnation else {}
            raise LeaseError(
                f"this driver no longer holds the lease of {self._store}: {self._over}",
                holder=holder,
                expected=f"incarnation {self._incarnation}",
                found=f"incarnation {highest} {_shown(holder)}".rstrip(),
                hint="run one driver per pipeline; this one must stop without committing",
            )

    def release(self) -> None:
        """Give the lease back, so that the next driver need not wait; may be called twice."""
        with self._lock:
            if self._stop_renewal is None:
                return
            stop, self._stop_renewal = self._stop_renewal, None
            fenced, self._over = self._over, self._over or "it was released"
        stop()
        if fenced is None:
            note = documents.encode(_RELEASE, {"released_at": self._clock()})
            self._store.create(_path(self._incarnation, "released"), note)

    def _beat(self) -> bool:
        """Show a sign of life; return whether there is a reason to go on doing so."""
        if self._over:
            return False
        try:
            if _last_incarnation(self._store) > self._incarnation:
                self._over = "another driver has taken over the pipeline"
                _LOGGER.error("lease of %s: %s", self._store, self._over)
                return False
            self._beats += 1
            stamp = {"beats": self._beats, "at": self._clock()}
            path = _path(self._incarnation, "alive")
            self._store.replace(path, documents.encode(_STAMP, stamp))
        except Exception:
            # Storage comes back; until then the claim ages, and others may take over at expiry.
            _LOGGER.warning("lease of %s could not be renewed", self._store, exc_info=True)
        return True

    def __enter__(self) -> Lease:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        self.release()

    def __repr__(self) -> str:
        return f"Lease({self._store}, incarnation={self._incarnation})"


def _path(incarnation: int, suffix: str) -> str:
    return f"{_FOLDER}/{incarnation:010d}.{suffix}"


def _last_incarnation(store: StateStore) -> int:
    numbers = [
        int(stem)
        for stem, _, suffix in (name.partition(".") for name in store.list(_FOLDER))
        if suffix == "json" and stem.isdigit()
    ]
    return max(numbers, default=0)


def _remove_former(store: StateStore, incarnation: int) -> None:
    """Remove claims before the last one; never the highest, which numbers start from."""
    for name in store.list(_FOLDER):
        stem = name.partition(".")[0]
        if stem.isdigit() and int(stem) < incarnation - 1:
            store.delete(f"{_FOLDER}/{name}")


def _read(store: StateStore, incarnation: int) -> dict[str, Any] | None:
    path = _path(incarnation, "json")
    data = store.read_or_none(path)
    return None if data is None else documents.decode(_CLAIM, data, path=path)


def _refuse_if_held(
    store: StateStore,
    incarnation: int,
    owner: LeaseOwner,
    expiry: timedelta,
    clock: Callable[[], float],
) -> None:
    claim = _read(store, incarnation)
    if claim is None or store.exists(_path(incarnation, "released")):
        return  # None: removed by a driver that is two ahead; the next attempt sees it
    known = {field.name for field in fields(LeaseOwner)}
    holder = LeaseOwner(**{key: value for key, value in claim["owner"].items() if key in known})
    if owner.sees(holder) and not _lives(holder):
        return
    seen_at = max(float(claim["claimed_at"]), _last_stamp(store, incarnation))
    age = clock() - seen_at
    if age > expiry.total_seconds():
        return
    who = _holder(store, incarnation)
    if owner.sees(holder) and holder.pid == owner.pid:
        hint = "this very process holds it: stop the other Pipeline object of this location first"
    else:
        hint = (
            f"stop that driver; if it is gone already, wait {expiry.total_seconds():.0f} s and "
            "start again; give two pipelines two locations"
        )
    raise LeaseError(
        f"another driver holds the pipeline at {store}",
        holder=who,
        expected="no other driver",
        found=f"{_shown(who)}, last sign of life {max(age, 0):.0f} s ago",
        option="state_location",
        hint=hint,
    )


def _last_stamp(store: StateStore, incarnation: int) -> float:
    path = _path(incarnation, "alive")
    data = store.read_or_none(path)
    if data is None:
        return 0.0
    try:
        return float(documents.decode(_STAMP, data, path=path)["at"])
    except StateCorruptedError:
        return 0.0  # only a sign of life; the claim itself has a time too


def _holder(store: StateStore, incarnation: int) -> dict[str, object]:
    claim = _read(store, incarnation)
    if claim is None:
        return {"incarnation": incarnation}
    since = datetime.fromtimestamp(claim["claimed_at"], UTC).isoformat(timespec="seconds")
    return {
        "incarnation": incarnation,
        "host": claim["owner"].get("host"),
        "pid": claim["owner"].get("pid"),
        "description": claim["owner"].get("description"),
        "since": since,
    }


def _shown(holder: dict[str, object]) -> str:
    if "host" not in holder:
        return ""
    what = f" ({holder['description']})" if holder["description"] else ""
    return f"host {holder['host']}, pid {holder['pid']}{what}, since {holder['since']}"


def _start_thread(beat: Callable[[], bool], interval: float) -> Callable[[], None]:
    stopped = threading.Event()

    def run() -> None:
        while not stopped.wait(interval) and beat():
            pass

    thread = threading.Thread(target=run, name="connectors-lease", daemon=True)
    thread.start()

    def stop() -> None:
        stopped.set()
        if thread is not threading.current_thread():
            thread.join()

    return stop


# --- Processes -----------------------------------------------------------------------------------


def _read_text(path: str) -> str | None:
    try:
        return Path(path).read_text(encoding="ascii").strip() or None
    except (OSError, UnicodeError):
        return None


def _pid_namespace() -> str | None:
    with contextlib.suppress(OSError):
        return os.readlink("/proc/self/ns/pid")
    return None


def _process_stat(pid: int) -> list[str] | None:
    """Return the fields of `/proc/<pid>/stat` from the state on, None where there is none."""
    try:
        text = Path(f"/proc/{pid}/stat").read_bytes().decode("ascii", "replace")
    except OSError:
        return None
    return text.rpartition(")")[2].split()  # the name in brackets may hold anything


def _process_start(pid: int) -> str | None:
    stat = _process_stat(pid)
    if stat is not None:
        return stat[19]
    try:
        found = subprocess.run(  # noqa: S603 - a number is all that varies
            ["ps", "-o", "lstart=", "-p", str(pid)],  # noqa: S607 - systems keep it elsewhere
            capture_output=True,
            text=True,
            check=False,
            timeout=10,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return found.stdout.strip() or None


def _lives(owner: LeaseOwner) -> bool:
    """Return whether the process still runs; only for an owner on this machine."""
    try:
        os.kill(owner.pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass  # it exists and is somebody else's
    stat = _process_stat(owner.pid)
    if stat is not None and stat[0] in ("Z", "X"):
        return False  # killed, only not yet collected by its parent
    started = _process_start(owner.pid)
    return owner.process_start is None or started is None or started == owner.process_start
