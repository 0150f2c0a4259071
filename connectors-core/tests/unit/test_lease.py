# SPDX-License-Identifier: Apache-2.0
"""One driver per pipeline: a second one is kept out, a dead one is replaced, a late one fenced."""

from __future__ import annotations

import dataclasses
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from connectors_core.errors import LeaseError
from connectors_core.state import Lease, LeaseOwner, StateStore

ELSEWHERE = LeaseOwner(host="elsewhere", pid=7, process_start="1", boot_id="b", description="app")


class Time:
    """A clock and a renewal that move only when a test says so."""

    def __init__(self) -> None:
        self.now = 1_000_000.0
        self.beats: list[Callable[[], bool]] = []
        self.intervals: list[float] = []

    def clock(self) -> float:
        return self.now

    def renewer(self, beat: Callable[[], bool], interval: float) -> Callable[[], None]:
        self.beats.append(beat)
        self.intervals.append(interval)
        return lambda: self.beats.remove(beat)

    def acquire(self, store: StateStore, owner: LeaseOwner | None = None) -> Lease:
        return Lease.acquire(store, owner, clock=self.clock, renewer=self.renewer)


@pytest.fixture
def store(tmp_path: Path) -> StateStore:
    return StateStore(str(tmp_path))


@pytest.fixture
def time() -> Time:
    return Time()


def test_a_second_driver_is_refused_and_told_who_holds_the_pipeline(
    store: StateStore, time: Time
) -> None:
    time.acquire(store, ELSEWHERE)
    time.now += 20
    with pytest.raises(LeaseError) as caught:
        time.acquire(store)
    assert caught.value.holder == {
        "incarnation": 1,
        "host": "elsewhere",
        "pid": 7,
        "description": "app",
        "since": "1970-01-12T13:46:40+00:00",
    }
    for part in ("elsewhere", "pid 7", "1970-01-12T13:46:40", "20 s ago", "stop that driver"):
        assert part in str(caught.value)


def test_a_second_pipeline_of_this_process_is_refused_with_its_own_remedy(
    store: StateStore, time: Time
) -> None:
    time.acquire(store)
    time.now += 29

    with pytest.raises(LeaseError, match="this very process"):
        time.acquire(store)


def test_a_released_lease_is_free_at_once_and_incarnations_only_grow(
    store: StateStore, time: Time
) -> None:
    for incarnation in range(1, 6):
        with time.acquire(store, ELSEWHERE) as lease:
            assert lease.incarnation == incarnation
            lease.check()
        lease.release()
        with pytest.raises(LeaseError, match="released"):
            lease.check()
    assert time.beats == []
    assert len([name for name in store.list("lease") if name.endswith(".json")]) <= 2


def test_a_driver_that_shows_signs_of_life_is_never_taken_over(
    store: StateStore, time: Time
) -> None:
    lease = time.acquire(store, ELSEWHERE)
    assert time.intervals == [5.0]
    for _ in range(20):
        time.now += 29
        assert time.beats[0]()
        with pytest.raises(LeaseError):
            time.acquire(store)
    lease.check()


def test_a_silent_driver_is_taken_over_after_expiry_and_then_fenced(
    store: StateStore, time: Time
) -> None:
    first = time.acquire(store, ELSEWHERE)
    time.now += 30.5
    second = time.acquire(store)
    assert second.incarnation == 2
    second.check()
    with pytest.raises(LeaseError, match="taken over") as caught:
        first.check()
    assert caught.value.holder["pid"] == second.owner.pid
    assert not time.beats[0]()  # it gives no more signs of life
    first.release()
    assert not store.exists("lease/0000000001.released")


def test_a_renewal_finds_out_that_the_driver_is_fenced(store: StateStore, time: Time) -> None:
    first = time.acquire(store, ELSEWHERE)
    time.now += 31
    time.acquire(store)
    assert time.beats[0]() is False
    with pytest.raises(LeaseError, match="taken over"):
        first.check()


def test_storage_that_fails_for_a_while_does_not_end_the_renewal(
    store: StateStore, time: Time, monkeypatch: pytest.MonkeyPatch
) -> None:
    lease = time.acquire(store, ELSEWHERE)

    def broken(path: str, data: bytes) -> None:
        raise OSError("unreachable")

    with monkeypatch.context() as patch:
        patch.setattr(store, "replace", broken)
        assert time.beats[0]()
    time.now += 25
    assert time.beats[0]()
    time.now += 25
    with pytest.raises(LeaseError):
        time.acquire(store)
    lease.check()


def test_a_torn_sign_of_life_counts_as_none(store: StateStore, time: Time) -> None:
    time.acquire(store, ELSEWHERE)
    store.replace("lease/0000000001.alive", b"{")
    with pytest.raises(LeaseError):
        time.acquire(store)
    time.now += 31
    assert time.acquire(store).incarnation == 2


def test_a_process_id_that_was_used_again_does_not_hold_the_pipeline(
    store: StateStore, time: Time
) -> None:
    before = dataclasses.replace(LeaseOwner.current(), process_start="long ago")
    time.acquire(store, before)
    assert time.acquire(store).incarnation == 2


@pytest.mark.parametrize("difference", ["host", "boot_id", "pid_namespace"])
def test_process_ids_of_another_machine_or_container_prove_nothing(
    store: StateStore, time: Time, difference: str
) -> None:
    gone = dataclasses.replace(LeaseOwner.current(), process_start="long ago")
    other: dict[str, Any] = {difference: "other"}
    time.acquire(store, dataclasses.replace(gone, **other))
    with pytest.raises(LeaseError):
        time.acquire(store)


def test_of_many_drivers_that_start_together_exactly_one_runs(store: StateStore) -> None:
    drivers = 8
    together = threading.Barrier(drivers)
    leases: list[Lease] = []
    refused: list[LeaseError] = []

    def start(number: int) -> None:
        together.wait()
        try:
            owner = dataclasses.replace(ELSEWHERE, host=f"host-{number}")
            leases.append(Time().acquire(store, owner))
        except LeaseError as exc:
            refused.append(exc)

    threads = [threading.Thread(target=start, args=(number,)) for number in range(drivers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(leases) == 1
    assert len(refused) == drivers - 1


def test_the_thread_gives_signs_of_life_until_release(store: StateStore) -> None:

    beats = threading.Semaphore(0)
    replace = store.replace

    class Watched(StateStore):
        def replace(self, path: str, data: bytes) -> None:
            replace(path, data)
            beats.release()

    lease = Lease.acquire(Watched(store.url), renew_interval=timedelta(milliseconds=1))
    for _ in range(3):
        assert beats.acquire(timeout=30)
    lease.release()
    assert "connectors-lease" not in [thread.name for thread in threading.enumerate()]


def test_a_driver_killed_by_sigkill_is_taken_over_at_once(store: StateStore) -> None:
    program = (
        "import sys\n"
        "from connectors_core.state import Lease, StateStore\n"
        f"lease = Lease.acquire(StateStore({store.url!r}))\n"
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
