# SPDX-License-Identifier: Apache-2.0
"""The flights pipeline with faults in everything around it, one driver after another."""

from __future__ import annotations

import contextlib
import math
import os
import re
import shutil
import signal
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

from examples.flights.data import Places, prepare
from examples.flights.feed import Feed
from examples.flights.harness import fetch_outputs, prepare_servers, start_driver
from examples.flights.history import History
from examples.flights.verify import OUTPUTS, verify

from benchmarks.soak import disk
from benchmarks.soak.measurements import Measurements
from benchmarks.soak.processes import Process, jvm, tree, workers
from benchmarks.soak.schedule import TARGETS, Fault, schedule
from connector_elasticsearch.testing import ElasticsearchServer
from connector_kafka.testing import KafkaBroker
from connectors_core.testing.servers import ServerProcess

# A few days are files, a backlog that is soon read. This number of days is sent per minute.
_DAYS_AS_FILES: Final = 7
_DAYS_PER_MINUTE: Final = 6
# Spark and the pipeline keep this number of epochs instead of 100. After twice that number, all
# retained state exists, and measurements count.
_RETAINED: Final = 20
# Spark removes old state every minute. Many drivers do not live that long here.
_SPARK: Final = {
    "spark.sql.streaming.minBatchesToRetain": str(_RETAINED),
    "spark.sql.streaming.stateStore.maintenanceInterval": "5s",
}
_TICK_SECONDS: Final = 0.5
_MEASURE_SECONDS: Final = 2.0
_TELL_SECONDS: Final = 15.0
# A pipeline without progress for this long counts as hanging.
_HANGS_AFTER: Final = 300.0
# If two drivers can both run, one must end within this time.
_SETTLED_AFTER: Final = 90.0
_ENDED_AFTER: Final = 60.0
# Why a driver may end next to another one: a takeover, a full disk in Python's and SQLite's words,
# or a lock of SQLite that the other, frozen one holds.
_EXPLAINED: Final = ("LeaseError", "No space left", "disk is full", "database is locked")
# A line that names an error, and the indented lines below it.
_ERROR: Final = re.compile(
    r"^[\w.]*(?:Error|Exception|Exit|Interrupt)\b.*(?:\n  .*)*", re.MULTILINE
)


@dataclass(eq=False)
class Driver:
    """A driver of the pipeline.

    Attributes:
        number: The number of the driver, starting at 1.
        process: Its Python process.
        log: The file for its output.
        started: The start time, on the monotonic clock.
        killed: How it was killed, if it was.
        out: Whether it is frozen while another driver starts.
    """

    number: int
    process: subprocess.Popen[bytes]
    log: Path
    started: float
    killed: str = ""
    out: bool = False

    @property
    def lives(self) -> bool:
        """Whether the driver is running."""
        return self.process.poll() is None

    def end(self) -> str:
        """Return how the driver ended."""
        errors = _ERROR.findall(self.log.read_text(errors="replace"))
        error = (
            " ".join(errors[-1].split())[:400] if errors else f"status {self.process.returncode}"
        )
        return f"{self.killed}; {error}" if self.killed else error


class Soak:
    """A run of the soak.

    Args:
        root: The folder of its files. `disk` in it is a small disk.
        seconds: How long flights are sent. Faults occur during this time.
        seed: The seed of the faults.
        full_disks: Whether the disk may be filled.
        say: Receives a line for each event.
    """

    def __init__(
        self,
        root: Path,
        seconds: float,
        seed: int,
        *,
        full_disks: bool,
        say: Callable[[str], None],
    ) -> None:
        self.seconds = seconds
        self._root = root
        self._say = say
        targets = tuple(target for target in TARGETS if full_disks or target != "disk")
        self._schedule = schedule(seed, seconds, targets)
        self._seed = seed
        self._places = Places(root / "disk")
        self._history = History(self._places.checkpoint, root / "notes.jsonl")
        self._found = Measurements(begin=seconds)
        self._drivers: list[Driver] = []
        self._ended: list[dict[str, Any]] = []
        self._happened: list[dict[str, Any]] = []
        self._seen: set[Process] = set()
        self._lock = threading.RLock()
        self._over = threading.Event()
        self._began = 0.0
        self._progress = (0, 0.0)
        self._both_since = 0.0

    def run(self) -> tuple[Measurements, dict[str, Any]]:
        """Run the pipeline to its end, and compare the output."""
        days = min(365, _DAYS_AS_FILES + math.ceil(_DAYS_PER_MINUTE * self.seconds / 60))
        for name in ("logs", "broker"):
            shutil.rmtree(self._root / name, ignore_errors=True)
        (self._root / "logs").mkdir(parents=True)
        flights = prepare(self._places, days, _DAYS_AS_FILES)
        # Only files of the pipeline are on the disk that faults fill.
        self._history.notes.unlink(missing_ok=True)
        self._places.notes.symlink_to(self._history.notes)
        options = " ".join(f"--conf {name}={value}" for name, value in _SPARK.items())
        os.environ |= {
            "PYSPARK_SUBMIT_ARGS": f"{options} pyspark-shell",
            "PYTHONFAULTHANDLER": "1",
        }
        with ExitStack() as stack:
            self._broker = stack.enter_context(KafkaBroker(folder=self._root / "broker"))
            self._server = stack.enter_context(ElasticsearchServer())
            stack.callback(self._kill_all)
            prepare_servers(self._places, self._broker, self._server)
            self._say(f"{flights:,} flights of {days} days, {len(self._schedule)} faults")
            feed = Feed(self._places, self._broker.bootstrap_servers, self.seconds)
            feed.send_overlap()
            feed.start()
            self._began = time.monotonic()
            self._drive()
            self._say("comparing the output with the raw tables")
            fetch_outputs(self._places, self._broker, self._server)
            self._check_left_behind()
        return self._found, self._judge_rows(verify(self._places, days), flights)

    # --- the main loop --------------------------------------------------------------------------

    def _drive(self) -> None:
        """Run until a driver has read everything, while faults occur and measurements are taken."""
        measured = counted = told = 0.0
        with ThreadPoolExecutor(len(TARGETS)) as players, self._ending():
            plays = [players.submit(self._play, target) for target in TARGETS]
            while not self._finished():
                time.sleep(_TICK_SECONDS)
                self._history.refresh()
                self._end_what_hangs()
                if self._history.epochs >= 2 * _RETAINED:
                    self._found.begin = min(self._found.begin, self._now())
                for play in plays:
                    if play.done():
                        play.result()
                now = self._now()
                if now - measured >= _MEASURE_SECONDS:
                    measured = now
                    self._measure(now)
                if now - counted >= 5 * _MEASURE_SECONDS:
                    counted = now
                    self._found.count(now, self._places.checkpoint)
                if now - told >= _TELL_SECONDS:
                    told = now
                    self._tell()
        moments = sorted({at for at, uid, _ in self._history.rows if uid == "archive"})
        offset = time.time() - self._now()
        for before, at in pairwise(moments):
            self._found.add("time per epoch (ms)", at - offset, (at - before) * 1000)

    @contextlib.contextmanager
    def _ending(self) -> Iterator[None]:
        """Stop all fault threads at the end of the context."""
        try:
            yield
        finally:
            self._over.set()

    def _now(self) -> float:
        return time.monotonic() - self._began

    def _finished(self) -> bool:
        """Check which drivers have ended, and start one if none is running."""
        with self._lock:
            for driver in [each for each in self._drivers if not each.lives]:
                self._drivers.remove(driver)
                if driver.process.returncode == 0:
                    self._say(f"driver {driver.number} has read all")
                    return True
                self._note_end(driver)
            if not self._drivers:
                self._start_driver()
        return False

    def _note_end(self, driver: Driver) -> None:
        how = driver.end()
        age = time.monotonic() - driver.started
        self._say(f"driver {driver.number} ended after {age:.0f} s: {how}")
        self._ended.append({"driver": driver.number, "at": self._now(), "age": age, "how": how})
        explained = driver.killed or any(error in how for error in _EXPLAINED)
        if self._drivers and not explained:
            self._problem(f"driver {driver.number} does not say that another one has taken over")

    def _start_driver(self) -> Driver:
        number = len(self._ended) + len(self._drivers) + 1
        log = self._root / "logs" / f"driver-{number}.log"
        process = start_driver(self._places, self._broker, self._server, log)
        driver = Driver(number, process, log, time.monotonic())
        self._drivers.append(driver)
        self._say(f"driver {number} starts")
        return driver

    def _processes(self, driver: Driver) -> list[Process]:
        """Return the processes of a driver: its Python first, then its descendants."""
        found = tree(driver.process.pid)
        self._seen.update(found)
        return found

    def _end_what_hangs(self) -> None:
        """Kill drivers that make no progress or that both keep running, and report a problem."""
        now = time.monotonic()
        if self._history.epochs != self._progress[0] or not self._progress[1]:
            self._progress = (self._history.epochs, now)
        with self._lock:
            both = len([driver for driver in self._drivers if not driver.out]) > 1
            self._both_since = (self._both_since or now) if both else now
            if now - self._progress[1] > _HANGS_AFTER:
                self._problem(f"no epoch for {_HANGS_AFTER:.0f} s")
            elif now - self._both_since > _SETTLED_AFTER:
                self._problem(f"two drivers run for {_SETTLED_AFTER:.0f} s")
            else:
                return
            self._progress, self._both_since = (self._history.epochs, now), now
            for driver in self._drivers:
                driver.killed = "killed as it hangs"
                driver.process.send_signal(signal.SIGABRT)  # prints the stacks of its threads
                for process in self._processes(driver)[1:]:
                    process.send(signal.SIGKILL)

    def _problem(self, what: str) -> None:
        self._say(f"PROBLEM: {what}")
        self._found.problems.append(f"{self._now():.0f} s: {what}")

    def _measure(self, now: float) -> None:
        with self._lock:
            free = [driver for driver in self._drivers if not driver.out]
        for driver in free[-1:]:
            self._found.take(now, self._processes(driver), time.monotonic() - driver.started)

    def _tell(self) -> None:
        history = self._history
        counts = f"{history.read['flights']:,} read, {history.written['archive']:,} written"
        self._say(f"{counts} in {history.epochs} epochs; {self._found.newest()}")

    # --- the faults -----------------------------------------------------------------------------

    def _play(self, target: str) -> None:
        """Run all faults of a target, one after another."""
        play = {
            "driver": self._disturb_driver,
            "worker": self._disturb_worker,
            "broker": lambda fault: self._disturb_server(self._broker, fault),
            "Elasticsearch": lambda fault: self._disturb_server(self._server, fault),
            "disk": self._fill_disk,
        }[target]
        for fault in (each for each in self._schedule if each.target == target):
            if self._over.wait(max(0.0, fault.at - self._now())):
                return
            began = self._now()
            self._say(f"{target}: {fault.kind}" + f", {fault.seconds:.1f} s" * bool(fault.seconds))
            hit = play(fault)
            self._happened.append(
                asdict(fault) | {"began": began, "ended": self._now(), "hit": hit}
            )

    def _disturb_driver(self, fault: Fault) -> bool:
        with self._lock:
            driver = self._drivers[-1] if self._drivers else None
        processes = self._processes(driver) if driver else []
        if fault.kind.endswith("its Python"):
            processes = processes[:1]
        elif fault.kind.endswith("its JVM"):
            found = jvm(processes)
            processes = [found] if found else []
        if not driver or not processes:
            return False
        if fault.kind.startswith("kill"):
            driver.killed = fault.kind
            for process in processes:
                process.send(signal.SIGKILL)
            return True
        other = fault.kind.endswith("start another")
        with self._lock:
            driver.out = other
            for process in processes:
                process.send(signal.SIGSTOP)
            if other:
                self._start_driver()
        self._over.wait(fault.seconds)
        for process in processes:
            process.send(signal.SIGCONT)
        driver.out = False
        return True

    def _disturb_worker(self, fault: Fault) -> bool:
        with self._lock:
            free = [driver for driver in self._drivers if not driver.out]
            found = [each for driver in free for each in workers(self._processes(driver))]
        if not found:
            return False
        worker = found[int(fault.choice * len(found))]
        if fault.kind == "kill":
            worker.send(signal.SIGKILL)
        else:
            worker.send(signal.SIGSTOP)
            self._over.wait(fault.seconds)
            worker.send(signal.SIGCONT)
        return True

    def _disturb_server(self, server: ServerProcess, fault: Fault) -> bool:
        if fault.kind == "kill":
            server.kill()
            self._over.wait(fault.seconds)
            server.start()
            self._say(f"{fault.target}: back")
        else:
            server.pause()
            self._over.wait(fault.seconds)
            server.resume()
        return True

    def _fill_disk(self, fault: Fault) -> bool:
        end = time.monotonic() + fault.seconds
        try:
            while time.monotonic() < end:
                disk.fill(self._places.root)
                if self._over.wait(0.2):
                    break
        finally:
            disk.clear(self._places.root)
        return True

    # --- the end --------------------------------------------------------------------------------

    def _kill_all(self) -> None:
        self._over.set()
        for driver in self._drivers:
            for process in self._processes(driver):
                process.send(signal.SIGKILL)
            driver.process.wait()

    def _check_left_behind(self) -> None:
        """Check that no process soon outlives its driver, and no staged file its epoch."""
        deadline = time.monotonic() + _ENDED_AFTER
        while left := [each for each in self._seen if each.lives]:
            if time.monotonic() > deadline:
                self._problem(f"processes of drivers are left: {left}")
                break
            time.sleep(_TICK_SECONDS)
        for sink in (self._places.archive, self._places.delays):
            staged = [path for path in sink.glob("_staging/**/*") if path.is_file()]
            if staged:
                self._problem(f"staged files are left in {sink}: {staged}")

    def _judge_rows(self, verified: dict[str, Any], flights: int) -> dict[str, Any]:
        rows = {name: verified[name] for name in OUTPUTS}
        for output, found in rows.items():
            wrong = {name: found[name] for name in ("missing", "duplicates", "unexpected")}
            self._say(f"{output}: {found['found']:,} of {found['expected']:,} rows, {wrong}")
            if any(wrong.values()):
                self._problem(f"{output} is not exact: {wrong}")
        if self._history.read["flights"] != flights:
            self._problem(f"{self._history.read['flights']:,} of {flights:,} flights were read")
        happened = [each for each in self._happened if each["hit"]]
        return {
            "seed": self._seed,
            "seconds": self.seconds,
            "flights": flights,
            "epochs": self._history.epochs,
            "rows": rows,
            "faults": self._happened,
            "faults_by_kind": Counter(f"{each['target']}: {each['kind']}" for each in happened),
            "drivers": self._ended,
        }
