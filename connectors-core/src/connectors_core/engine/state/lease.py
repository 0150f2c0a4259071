# SPDX-License-Identifier: Apache-2.0
"""The lease that keeps a second driver out of a pipeline; driver only."""

from __future__ import annotations

import contextlib
import logging
import os
import secrets
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, asdict, dataclass, fields
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

from connectors_core.engine.state import documents
from connectors_core.engine.state.store import StateStore
from connectors_core.errors import LeaseError, StateLocationError

__all__ = ["LEASE_EXPIRY", "Lease", "LeaseOwner"]

_LOGGER: Final = logging.getLogger(__name__)

_FOLDER: Final = "lease"
_CLAIM: Final = "lease"
_STAMP: Final = "lease-alive"
_RELEASE: Final = "lease-released"
# Lost races for the next incarnation before `acquire` gives up.
_MAX_ATTEMPTS: Final = 8

LEASE_EXPIRY: Final = timedelta(seconds=30)
"""Time without a heartbeat after which a driver counts as dead."""
_BEATS_PER_EXPIRY: Final = 6
# Interval at which a driver that wants to take over checks the holder's heartbeat.
_LOOK_SECONDS: Final = 0.5
_HINT_THIS_PROCESS: Final = (
    "this process holds it: stop the other Pipeline object of this location first"
)
_HINT_ANOTHER: Final = (
    "its last heartbeat is recent: stop that driver; give each pipeline its own location"
)
# Nonces of the claims that this process holds. Any other claim of this process is over, even if its
# release could not be written.
_held_here: Final[set[str]] = set()


def monotonic_with_suspend() -> float:
    """Return monotonic seconds, including suspended time if the system reports it."""
    boottime = getattr(time, "CLOCK_BOOTTIME", None)
    return time.monotonic() if boottime is None else time.clock_gettime(boottime)


Renewer = Callable[[Callable[[], bool], float], Callable[[], None]]
"""Calls a function at an interval in seconds while it returns True; returns a stop function."""


@dataclass(frozen=True, kw_only=True)
class LeaseOwner:
    """The holder of a lease; a driver on the same machine can check that it is still running.

    Attributes:
        host: Name of the machine.
        pid: Process id of the driver.
        process_start: Start time of the process as the operating system reports it. The system can
            reuse a process id, but not the pair.
        boot_id: Identifies one boot of the kernel, if known.
        pid_namespace: Identifies the container's process id namespace, if known.
        description: A name that a person recognizes, such as the application's name.
    """

    host: str
    pid: int
    process_start: str | None = None
    boot_id: str | None = None
    pid_namespace: str | None = None
    description: str = ""

    @classmethod
    def current(cls, description: str = "") -> LeaseOwner:
        """Return the owner that represents this process."""
        pid = os.getpid()
        return cls(
            host=socket.gethostname(),
            pid=pid,
            process_start=_process_start(pid),
            boot_id=_read_text("/proc/sys/kernel/random/boot_id"),
            pid_namespace=_pid_namespace(),
            description=description,
        )

    @classmethod
    def of_claim(cls, claim: Mapping[str, Any]) -> LeaseOwner:
        """Return the owner that a claim names; fields of later versions are ignored."""
        known = {field.name for field in fields(cls)}
        return cls(**{key: value for key, value in claim["owner"].items() if key in known})

    def is_running(self) -> bool | None:
        """Return whether the process runs, None if this machine cannot see it."""
        return _lives(self) if LeaseOwner.current().sees(self) else None

    def sees(self, other: LeaseOwner) -> bool:
        """Return whether both share one process id namespace."""
        return (self.host, self.boot_id, self.pid_namespace) == (
            other.host,
            other.boot_id,
            other.pid_namespace,
        )


@dataclass(eq=False, repr=False)
class Lease:
    """The right of one driver to run a pipeline; a context manager that releases it.

    A driver claims the lease by creating `lease/<incarnation>.json` exclusively. The file stays
    until a higher one exists, so incarnations only grow. A daemon thread keeps the claim alive. A
    claim is over when its driver releases it, when its process is gone (detected at once on the
    same machine), or when it sends no heartbeat for `expiry`. Drivers do not compare clocks: a
    driver that wants to take over watches the holder's heartbeat for that long, on its own
    monotonic clock.

    The holder checks its lease by the same kind of clock. The check only stops a presumed-dead
    driver early. A driver can freeze between the check and the next step, so safety comes from
    fences (`connectors_core.engine.coordinator.fences`).

    Use `Lease.acquire`; do not call the constructor.

    Attributes:
        store: The state location of the pipeline.
        incarnation: Number of this claim, higher than that of any earlier driver.
        owner: The holder.
        expiry: Seconds without a heartbeat after which the holder counts as dead.
        clock: Monotonic seconds.
    """

    store: StateStore
    incarnation: int
    owner: LeaseOwner
    _: KW_ONLY
    expiry: float
    clock: Callable[[], float]

    def __post_init__(self) -> None:
        self._beats = 0
        self._renewed_at = self.clock()
        self._renewing = threading.Lock()
        self._stop_renewal: Callable[[], None] | None = None
        self._over: str | None = None
        self._lock = threading.Lock()

    @classmethod
    def acquire(
        cls,
        store: StateStore,
        owner: LeaseOwner | None = None,
        *,
        expiry: timedelta | None = None,
        fence: bool = True,
        clock: Callable[[], float] = monotonic_with_suspend,
        pause: Callable[[float], None] = time.sleep,
        renewer: Renewer | None = None,
    ) -> Lease:
        """Take the lease, or raise an error that names the holder.

        If a driver on another machine ended without releasing the lease, this call waits until the
        holder has sent no heartbeat for `expiry`.

        Args:
            store: The state location of the pipeline.
            owner: The new holder; this process by default.
            expiry: Time without a heartbeat after which a holder counts as dead. By default, it is
                `LEASE_EXPIRY`, or the holder's, if that is longer. This driver sends six
                heartbeats in that time.
            fence: Whether to take over from a holder that sends no heartbeat. If False, the lease
                is only taken if no holder can be alive.
            clock: Monotonic seconds.
            pause: Sleeps for a number of seconds between two checks of the holder.
            renewer: Runs the renewal; by default a daemon thread.

        Raises:
            LeaseError: If another driver, or another pipeline object of this one, holds it.
            StateLocationError: The storage is full or read-only.
        """
        owner = owner or LeaseOwner.current()
        own = LEASE_EXPIRY if expiry is None else expiry
        for _ in range(_MAX_ATTEMPTS):
            last = _last_incarnation(store)
            if last:
                patience = _patience(store, last, expiry) if fence else None
                _wait_until_over(store, last, owner, patience, clock, pause)
            nonce = secrets.token_hex(8)
            claim = {
                "claimed_at": time.time(),
                "expiry": own.total_seconds(),
                "incarnation": last + 1,
                "nonce": nonce,
                "owner": asdict(owner),
            }
            lease = cls(store, last + 1, owner, expiry=own.total_seconds(), clock=clock)
            with contextlib.ExitStack() as held:
                _held_here.add(nonce)  # first, since another thread may see the claim at once
                held.callback(_held_here.discard, nonce)
                if _created(store, _path(last + 1, "json"), documents.encode(_CLAIM, claim)):
                    lease._begin(held, renewer or _start_thread)
                    return lease
        raise LeaseError(
            f"other drivers took the lease of {store} {_MAX_ATTEMPTS} times in a row",
            hint="find the drivers that keep restarting for this pipeline",
        )

    def _begin(self, held: contextlib.ExitStack, renewer: Renewer) -> None:
        _remove_former(self.store, self.incarnation)
        self._beat()
        held.callback(renewer(self._beat, self.expiry / _BEATS_PER_EXPIRY))
        self._stop_renewal = held.pop_all().close

    @property
    def held(self) -> bool:
        """Whether `check` succeeds: this driver may act."""
        try:
            self.check()
        except LeaseError:
            return False
        return True

    def check(self) -> None:
        """Check by the age of the last heartbeat that this driver still holds the lease.

        The check costs nothing while the heartbeat is recent. A driver that was frozen detects it
        here, sends another heartbeat, and learns whether another driver has taken over meanwhile.

        Raises:
            LeaseError: Another driver has taken over, the lease was released, or it expired and
                cannot be renewed because the state location does not respond.
        """
        if self._over is None and self._age() >= self.expiry / 2:
            try:
                self._renew()
            except Exception as error:
                if self._age() >= self.expiry:
                    raise LeaseError(
                        f"the lease of {self.store} expired: it could not be renewed, and "
                        "another driver may take over",
                        expected=f"a heartbeat every {self.expiry:.0f} s",
                        found=f"the last one {self._age():.0f} s ago",
                        option="state_location",
                        hint="find out why the state location does not respond, then restart",
                    ) from error
        self._refuse_if_over()

    def confirm(self) -> None:
        """Check in the state location that no later driver has taken over.

        After this call, everything that was in the state location before it comes from this driver
        or an earlier one.

        Raises:
            LeaseError: Another driver has taken over, or the lease was released.
        """
        if self._over is None:
            self._look()
        self._refuse_if_over()

    def _refuse_if_over(self) -> None:
        if self._over is None:
            return
        highest = self.incarnation
        with contextlib.suppress(OSError):
            highest = max(highest, _last_incarnation(self.store))
        holder = _holder(self.store, highest) if highest > self.incarnation else {}
        raise LeaseError(
            f"this driver no longer holds the lease of {self.store}: {self._over}",
            holder=holder,
            expected=f"incarnation {self.incarnation}",
            found=f"incarnation {highest} {_shown(holder)}".rstrip(),
            hint="run one driver per pipeline; this one stops and leaves the pipeline to the other",
        )

    def _age(self) -> float:
        return self.clock() - self._renewed_at

    def _look(self) -> None:
        if _last_incarnation(self.store) > self.incarnation and self._over is None:
            self._over = "another driver has taken over the pipeline"
            _LOGGER.error("lease of %s: %s", self.store, self._over)

    def _renew(self) -> None:
        """Send a heartbeat unless a later driver has taken over."""
        with self._renewing:
            began = self.clock()
            self._look()
            if self._over:
                return
            self._beats += 1
            stamp = {"beats": self._beats, "at": time.time()}
            path = _path(self.incarnation, "alive")
            self.store.replace(path, documents.encode(_STAMP, stamp))
            self._renewed_at = began

    def release(self) -> None:
        """Release the lease so that the next driver need not wait. Idempotent.

        Never raises: a failed release must not hide why the pipeline ended. After a failure this
        process can take the lease again at once, another process after the lease has expired.
        """
        with self._lock:
            if self._stop_renewal is None:
                return
            stop, self._stop_renewal = self._stop_renewal, None
            fenced, self._over = self._over, self._over or "it was released"
        stop()
        if fenced is None:
            note = documents.encode(_RELEASE, {"released_at": time.time()})
            try:
                self.store.create(_path(self.incarnation, "released"), note)
            except Exception:
                _LOGGER.warning(
                    "the lease of %s could not be released: a driver in another process must "
                    "wait until it expires",
                    self.store,
                    exc_info=True,
                )

    def _beat(self) -> bool:
        """Send a heartbeat; return whether to continue."""
        if self._over:
            return False
        try:
            self._renew()
        except Exception:
            # The storage may recover. Until then the claim ages, and others may take over at
            # expiry.
            _LOGGER.warning("lease of %s could not be renewed", self.store, exc_info=True)
            return True
        return self._over is None

    def __enter__(self) -> Lease:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

    def __repr__(self) -> str:
        return f"Lease({self.store}, incarnation={self.incarnation})"


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
    """Remove old claims but keep the highest, which determines the next number."""
    for name in store.list(_FOLDER):
        stem = name.partition(".")[0]
        if stem.isdigit() and int(stem) < incarnation - 1:
            store.delete(f"{_FOLDER}/{name}")


def _read(store: StateStore, incarnation: int) -> dict[str, Any] | None:
    path = _path(incarnation, "json")
    data = store.read_or_none(path)
    return None if data is None else documents.decode(_CLAIM, data, path=path)


def _patience(store: StateStore, incarnation: int, expiry: timedelta | None) -> float:
    """Return the seconds without a heartbeat after which a holder counts as dead."""
    if expiry is not None:
        return expiry.total_seconds()
    claim = _read(store, incarnation) or {}
    # A claim of an earlier release does not tell its expiry.
    return max(LEASE_EXPIRY.total_seconds(), float(claim.get("expiry", 0)))


def _wait_until_over(
    store: StateStore,
    incarnation: int,
    owner: LeaseOwner,
    expiry: float | None,
    clock: Callable[[], float],
    pause: Callable[[float], None],
) -> None:
    """Return when a claim is over: at the latest after `expiry` without a heartbeat.

    Without an expiry, only a claim that is released or whose process is gone is over.

    Raises:
        LeaseError: The holder is alive.
    """
    claim = _read(store, incarnation)
    if claim is None:
        return  # a driver two incarnations later removed it; the next attempt sees that one
    holder = LeaseOwner.of_claim(claim)
    began = clock()
    seen = _heartbeat(store, incarnation)
    is_told = False
    while not store.exists(_path(incarnation, "released")):
        if owner.sees(holder):
            if not _lives(holder):
                return
            if _is_this_process(holder):
                if claim.get("nonce") not in _held_here:
                    return  # its release could not be written
                raise _held(store, incarnation, hint=_HINT_THIS_PROCESS)
        if expiry is None:
            raise _held(store, incarnation, hint=_HINT_ANOTHER)
        waited = clock() - began
        if waited >= expiry:
            return
        if not is_told:
            is_told = True
            _LOGGER.warning(
                "%s: %s holds the pipeline; this driver takes over unless it sees a heartbeat "
                "within %.0f s",
                store,
                _shown(_holder(store, incarnation)),
                expiry,
            )
        pause(min(_LOOK_SECONDS, expiry - waited))
        now = _heartbeat(store, incarnation)
        if now != seen or _last_incarnation(store) > incarnation:
            raise _held(store, _last_incarnation(store), hint=_HINT_ANOTHER)


def _heartbeat(store: StateStore, incarnation: int) -> bytes | None:
    """Return the file that the holder replaces with every heartbeat, for comparison only."""
    return store.read_or_none(_path(incarnation, "alive"))


def _held(store: StateStore, incarnation: int, *, hint: str) -> LeaseError:
    who = _holder(store, incarnation)
    return LeaseError(
        f"another driver holds the pipeline at {store}",
        holder=who,
        expected="no other driver",
        found=_shown(who),
        option="state_location",
        hint=hint,
    )


def _created(store: StateStore, path: str, data: bytes) -> bool:
    # After a repeated request, an object store may report our own file as existing.
    try:
        return store.create(path, data) or store.read_or_none(path) == data
    except OSError as error:
        raise StateLocationError(
            f"the lease of {store} cannot be written",
            found=f"{type(error).__name__}: {error}",
            option="state_location",
            hint="free space there or grant write permission, then restart",
        ) from error


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
    """Return the fields of `/proc/<pid>/stat` from the state onward; None if it is missing."""
    try:
        text = Path(f"/proc/{pid}/stat").read_bytes().decode("ascii", "replace")
    except OSError:
        return None
    return text.rpartition(")")[2].split()  # the name in parentheses may contain anything


def _process_start(pid: int) -> str | None:
    stat = _process_stat(pid)
    if stat is not None:
        return stat[19]
    try:
        found = subprocess.run(  # noqa: S603 - only a number varies
            ["ps", "-o", "lstart=", "-p", str(pid)],  # noqa: S607 - its path depends on the system
            capture_output=True,
            text=True,
            check=False,
            timeout=10,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return found.stdout.strip() or None


def _is_this_process(owner: LeaseOwner) -> bool:
    """Return whether the owner, on this machine, is this process."""
    return owner.pid == os.getpid()


def _lives(owner: LeaseOwner) -> bool:
    """Return whether the process of an owner on this machine is still running."""
    try:
        os.kill(owner.pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass  # it exists and belongs to another user
    stat = _process_stat(owner.pid)
    if stat is not None and stat[0] in ("Z", "X"):
        return False  # killed, but its parent has not reaped it yet
    started = _process_start(owner.pid)
    return owner.process_start is None or started is None or started == owner.process_start
