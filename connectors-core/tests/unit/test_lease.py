# SPDX-License-Identifier: Apache-2.0
"""Tests that a pipeline has one driver: others are rejected, replaced, or fenced."""

from __future__ import annotations

import dataclasses
import signal
import subprocess
import sys
import threading
import time as clocks
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from connectors_core.engine.state import Lease, LeaseOwner, StateStore
from connectors_core.engine.state.lease import _start_thread as start_thread
from connectors_core.errors import LeaseError, StateLocationError

ELSEWHERE = LeaseOwner(host="elsewhere", pid=7, process_start="1", boot_id="b", description="app")


class Time:
    """A clock, a renewal, and a wait that advance only on request."""

    def __init__(self) -> None:
        self.now = 1_000_000.0
        self.beats: list[Callable[[], bool]] = []
        self.intervals: list[float] = []
        self.waited = 0.0
        self.meanwhile: Callable[[], object] = lambda: None

    def pause(self, seconds: float) -> None:
        assert 0 < seconds <= 30
        self.waited += seconds
        self.now += seconds
        self.meanwhile()

    def clock(self) -> float:
        return self.now

    def renewer(self, beat: Callable[[], bool], interval: float) -> Callable[[], None]:
        self.beats.append(beat)
        self.intervals.append(interval)
        return lambda: self.beats.remove(beat)

    def acquire(self, store: StateStore, owner: LeaseOwner | None = None) -> Lease:
        return Lease.acquire(store, owner, clock=self.clock, pause=self.pause, renewer=self.renewer)


def often(beat: Callable[[], bool], _interval: float) -> Callable[[], None]:
    """Renew from a thread, but more often than the lease requests."""
    return start_thread(beat, 0.01)


@pytest.fixture
def store(tmp_path: Path) -> StateStore:
    return StateStore(str(tmp_path))


@pytest.fixture
def time() -> Time:
    return Time()


def test_a_second_driver_is_refused_at_a_heartbeat_and_learns_who_holds_the_pipeline(
    store: StateStore, time: Time
) -> None:
    time.acquire(store, ELSEWHERE)
    time.meanwhile = lambda: time.waited < 5 or time.beats[0]()
    with pytest.raises(LeaseError) as caught:
        time.acquire(store)
    assert caught.value.holder.pop("since")
    assert caught.value.holder == {
        "incarnation": 1,
        "host": "elsewhere",
        "pid": 7,
        "description": "app",
    }
    for part in ("elsewhere", "pid 7", "last heartbeat is recent", "stop that driver"):
        assert part in str(caught.value)
    assert 5 <= time.waited < 6


def test_a_second_pipeline_in_this_process_is_refused_at_once_with_its_own_hint(
    store: StateStore, time: Time
) -> None:
    time.acquire(store)

    with pytest.raises(LeaseError, match="this process holds it"):
        time.acquire(store)
    assert time.waited == 0


def test_a_released_lease_is_free_at_once_and_incarnations_only_grow(
    store: StateStore, time: Time
) -> None:
    for incarnation in range(1, 6):
        with time.acquire(store, ELSEWHERE) as lease:
            assert lease.incarnation == incarnation
            lease.check()
            lease.confirm()
        lease.release()
        for look in (lease.check, lease.confirm):
            with pytest.raises(LeaseError, match="released"):
                look()
        assert not lease.held
    assert time.beats == []
    assert time.waited == 0
    assert len([name for name in store.list("lease") if name.endswith(".json")]) <= 2


def test_a_driver_with_heartbeats_is_never_taken_over(store: StateStore, time: Time) -> None:
    lease = time.acquire(store, ELSEWHERE)
    assert time.intervals == [5.0]
    looks = 0

    def beat_late() -> None:
        nonlocal looks
        looks += 1
        if looks % 58 == 0:  # every 29 s
            assert time.beats[0]()

    time.meanwhile = beat_late
    for _ in range(20):
        with pytest.raises(LeaseError):
            time.acquire(store)
    lease.check()


def test_a_silent_driver_is_taken_over_after_one_expiry_and_then_refused(
    store: StateStore, time: Time
) -> None:
    first = time.acquire(store, ELSEWHERE)
    second = time.acquire(store)
    assert second.incarnation == 2
    assert 30 <= time.waited < 31
    second.check()
    for look in (first.check, first.confirm):
        with pytest.raises(LeaseError, match="taken over") as caught:
            look()
        assert caught.value.holder["pid"] == second.owner.pid
    assert not time.beats[0]()  # it sends no more heartbeats
    first.release()
    assert not store.exists("lease/0000000001.released")


def test_a_command_waits_for_the_longer_expiry_of_the_holder(store: StateStore, time: Time) -> None:
    Lease.acquire(
        store,
        ELSEWHERE,
        expiry=timedelta(minutes=5),
        clock=time.clock,
        pause=time.pause,
        renewer=time.renewer,
    )
    Lease.acquire(store, clock=time.clock, pause=time.pause, renewer=time.renewer)
    assert 300 <= time.waited < 301


@pytest.mark.parametrize("owner", [ELSEWHERE, LeaseOwner.current()])
def test_a_silent_driver_keeps_its_lease_if_nobody_may_fence_it(
    store: StateStore, time: Time, owner: LeaseOwner, monkeypatch: pytest.MonkeyPatch
) -> None:
    lease = time.acquire(store, owner)
    monkeypatch.setattr("connectors_core.engine.state.lease._is_this_process", lambda _: False)
    time.now += 3600
    with pytest.raises(LeaseError):
        Lease.acquire(store, fence=False, clock=time.clock, pause=time.pause)
    lease.confirm()
    lease.release()
    with Lease.acquire(store, fence=False) as later:
        assert later.incarnation == 2


@pytest.mark.parametrize("wrong", [-3600.0, -120.0, 120.0, 3600.0])
def test_the_wall_clock_of_the_holder_does_not_matter(
    store: StateStore, time: Time, monkeypatch: pytest.MonkeyPatch, wrong: float
) -> None:
    true = clocks.time
    with monkeypatch.context() as patch:
        patch.setattr(clocks, "time", lambda: true() + wrong)
        time.acquire(store, ELSEWHERE)
        time.meanwhile = lambda: time.waited < 5 or time.beats[0]()
        with pytest.raises(LeaseError):
            time.acquire(store)  # alive, however old its last heartbeat looks
    time.waited, time.meanwhile = 0.0, lambda: None
    assert time.acquire(store).incarnation == 2  # dead, however recent its heartbeat looks
    assert 30 <= time.waited < 31


def test_a_lease_released_during_the_wait_is_taken_at_once(store: StateStore, time: Time) -> None:
    first = time.acquire(store, ELSEWHERE)
    time.meanwhile = first.release
    assert time.acquire(store).incarnation == 2
    assert time.waited < 1


def test_a_driver_that_was_frozen_learns_at_its_next_check_that_it_was_taken_over(
    store: StateStore, time: Time
) -> None:
    first = time.acquire(store, ELSEWHERE)
    time.acquire(store)
    time.now += 16  # its thread did not run, so it does not know yet
    with pytest.raises(LeaseError, match="taken over"):
        first.check()


def test_a_driver_that_was_frozen_but_not_replaced_continues(store: StateStore, time: Time) -> None:
    lease = time.acquire(store, ELSEWHERE)
    before = store.read("lease/0000000001.alive")
    time.now += 3600
    lease.check()
    assert store.read("lease/0000000001.alive") != before
    time.meanwhile = lambda: time.waited < 5 or time.beats[0]()
    with pytest.raises(LeaseError):
        time.acquire(store)


def test_a_check_makes_no_request_while_the_last_heartbeat_is_recent(
    store: StateStore, time: Time, monkeypatch: pytest.MonkeyPatch
) -> None:
    lease = time.acquire(store, ELSEWHERE)
    monkeypatch.setattr(store, "list", None)
    monkeypatch.setattr(store, "replace", None)
    time.now += 14
    lease.check()


def test_a_lease_that_cannot_be_renewed_ends_when_it_expires(
    store: StateStore, time: Time, monkeypatch: pytest.MonkeyPatch
) -> None:
    lease = time.acquire(store, ELSEWHERE)

    def broken(*_: object, **__: object) -> None:
        raise OSError("unreachable")

    with monkeypatch.context() as patch:
        patch.setattr(store, "replace", broken)
        assert time.beats[0]()
        time.now += 29
        lease.check()
        time.now += 1
        with pytest.raises(LeaseError, match="could not be renewed") as caught:
            lease.check()
        assert isinstance(caught.value.__cause__, OSError)
        assert not lease.held
    lease.check()  # renewal works again, and no other driver took over


def test_a_failed_release_hides_no_error_and_does_not_block_this_process(
    store: StateStore,
    time: Time,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    def full(*_: object, **__: object) -> bool:
        raise OSError(28, "No space left on device")

    lease = time.acquire(store)
    monkeypatch.setattr(StateStore, "create", full)
    lease.release()
    assert "could not be released" in caplog.text
    monkeypatch.undo()
    assert not store.exists("lease/0000000001.released")
    assert time.acquire(store).incarnation == 2
    assert time.waited == 0


def test_a_start_that_fails_after_its_claim_does_not_block_this_process(
    store: StateStore, time: Time, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(2):
        time.acquire(store).release()

    def unreachable(*_: object) -> None:
        raise OSError("unreachable")

    with monkeypatch.context() as patch:
        patch.setattr(store, "delete", unreachable)
        with pytest.raises(OSError, match="unreachable"):
            time.acquire(store)
    assert time.acquire(store).incarnation == 4
    assert time.waited == 0


def test_a_driver_says_once_for_whom_it_waits(
    store: StateStore, time: Time, caplog: pytest.LogCaptureFixture
) -> None:
    def clock() -> float:
        time.now += 0.001  # time passes between two calls
        return time.now

    time.acquire(store, ELSEWHERE)
    Lease.acquire(store, clock=clock, pause=time.pause, renewer=time.renewer)
    assert caplog.text.count("host elsewhere, pid 7 (app)") == 1
    assert "unless it sees a heartbeat within 30 s" in caplog.text


def test_a_lease_that_cannot_be_written_names_the_storage_and_a_hint(
    store: StateStore, time: Time, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> bool:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(store, "create", full)
        with pytest.raises(StateLocationError, match="cannot be written") as caught:
            time.acquire(store)
    assert "No space left on device" in str(caught.value)
    assert caught.value.option == "state_location"
    assert isinstance(caught.value.__cause__, OSError)
    assert time.acquire(store).incarnation == 1


def test_a_truncated_heartbeat_counts_as_a_heartbeat(store: StateStore, time: Time) -> None:
    time.acquire(store, ELSEWHERE)
    time.meanwhile = lambda: time.waited < 5 or store.replace("lease/0000000001.alive", b"{")
    with pytest.raises(LeaseError):
        time.acquire(store)
    time.meanwhile = lambda: None
    assert time.acquire(store).incarnation == 2


def test_a_reused_process_id_does_not_hold_the_pipeline(store: StateStore, time: Time) -> None:
    before = dataclasses.replace(LeaseOwner.current(), process_start="long ago")
    time.acquire(store, before)
    assert time.acquire(store).incarnation == 2


@pytest.mark.parametrize("difference", ["host", "boot_id", "pid_namespace"])
def test_process_ids_of_another_machine_or_container_are_ignored(
    store: StateStore, time: Time, difference: str
) -> None:
    gone = dataclasses.replace(LeaseOwner.current(), process_start="long ago")
    other: dict[str, Any] = {difference: "other"}
    time.acquire(store, dataclasses.replace(gone, **other))
    time.meanwhile = lambda: time.beats[0]()
    with pytest.raises(LeaseError):
        time.acquire(store)


def test_exactly_one_of_many_drivers_that_start_together_runs(store: StateStore) -> None:
    drivers = 8
    together = threading.Barrier(drivers)
    leases: list[Lease] = []
    refused: list[LeaseError] = []

    def start(number: int) -> None:
        together.wait()
        try:
            owner = dataclasses.replace(ELSEWHERE, host=f"host-{number}")
            leases.append(Lease.acquire(store, owner, renewer=often))
        except LeaseError as exc:
            refused.append(exc)

    threads = [threading.Thread(target=start, args=(number,)) for number in range(drivers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for lease in leases:
        lease.release()
    assert len(leases) == 1
    assert len(refused) == drivers - 1


def test_the_thread_sends_heartbeats_until_release(store: StateStore) -> None:

    beats = threading.Semaphore(0)
    replace = store.replace

    class Watched(StateStore):
        def replace(self, path: str, data: bytes) -> None:
            replace(path, data)
            beats.release()

    lease = Lease.acquire(Watched(store.url), renewer=often)
    for _ in range(3):
        assert beats.acquire(timeout=30)
    lease.release()
    assert "connectors-lease" not in [thread.name for thread in threading.enumerate()]


def test_a_driver_killed_by_sigkill_is_taken_over_at_once(store: StateStore) -> None:
    program = (
        "import sys\n"
        "from connectors_core.engine.state.lease import _start_thread as start\n"
        "from connectors_core.engine.state import Lease, StateStore\n"
        "often = lambda beat, _: start(beat, 0.05)\n"
        f"lease = Lease.acquire(StateStore({store.url!r}), renewer=often)\n"
        "print(lease.incarnation, flush=True)\n"
        "sys.stdin.read()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as driver:
        assert driver.stdout is not None
        assert driver.stdout.readline() == "1\n"
        with pytest.raises(LeaseError, match=f"pid {driver.pid}"):
            Lease.acquire(store)
        driver.send_signal(signal.SIGKILL)
        driver.wait(30)
        with Lease.acquire(store) as lease:
            assert lease.incarnation == 2
