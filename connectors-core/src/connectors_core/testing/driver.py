# SPDX-License-Identifier: Apache-2.0
"""A driver in a separate process, so that it can be killed.

The test that starts it sends its pickled job through standard input.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

from connectors_core.sink import Sink
from connectors_core.source.source import AnySource
from connectors_core.testing.clocks import move_wall_clock
from connectors_core.testing.environment import InProcess, LocalSpark, TestEnvironment
from connectors_core.testing.faults import DRIVER_VARIABLE, Fault, faults_env
from connectors_core.testing.pace import Deadline, stretched

RUN_SECONDS: Final = 240.0


@dataclass(frozen=True, kw_only=True)
class DriverJob:
    """A pipeline from one source to some sinks, and its environment.

    Attributes:
        location: Its checkpoint location.
        source: The source.
        sinks: The sinks by uid.
        settings: Further arguments of `Pipeline.from_source`.
        parallelism: Number of readers.
        spark: Settings of the Spark session that it runs on, None for a run without Spark.
        writers: Number of writers of each sink, None for as many as it has by itself.
        peak: File that takes the most memory that the process ever had, in bytes.
        clock_ahead: By how much the wall clock of the process is wrong.
    """

    location: str
    source: AnySource
    sinks: Mapping[str, Sink]
    settings: Mapping[str, Any] = field(default_factory=dict)
    parallelism: int = 2
    spark: Mapping[str, str] | None = None
    writers: int | None = None
    peak: str | None = None
    clock_ahead: timedelta = timedelta(0)

    def build(self, environment: TestEnvironment, **settings: Any) -> Any:
        """The pipeline, with further arguments of its constructor."""
        pipeline = environment.pipeline(
            "suite", Path(self.location), parallelism=self.parallelism, **settings
        )
        rows = pipeline.from_source(self.source, uid="source", **self.settings)
        for uid, sink in self.sinks.items():
            pipeline.sink_to(rows, sink, uid=uid, parallelism=self.writers)
        return pipeline

    def __call__(self) -> None:
        """Run it to its end."""
        if self.clock_ahead:
            move_wall_clock(self.clock_ahead)
        environment: TestEnvironment = InProcess()
        if self.spark is not None:
            from connectors_core.testing.spark_session import new_session

            environment = LocalSpark(new_session(self.spark))
        with self.build(environment) as pipeline:
            assert pipeline.run()
        if self.peak is not None:
            Path(self.peak).write_text(str(_peak_memory()))


def run_driver(job: Callable[[], None], log: Path, *faults: Fault) -> int:
    """Run a job in a separate driver until it ends in any way.

    Args:
        job: What it runs; modules that are found here are found there.
        log: File that takes the output of the process.
        *faults: What is to happen to it.

    Returns:
        Its exit code; minus the number of the signal that killed it.
    """
    with running_driver(job, log, *faults) as process:
        process.wait(stretched(RUN_SECONDS))
    return process.returncode


@contextlib.contextmanager
def running_driver(
    job: Callable[[], None], log: Path, *faults: Fault
) -> Iterator[subprocess.Popen[bytes]]:
    """Run a job in a separate driver, which is killed at the end of the context.

    Args:
        job: What it runs; modules that are found here are found there.
        log: File that takes the output of the process.
        *faults: What is to happen to it.
    """
    from pyspark import cloudpickle

    pickling: Any = cloudpickle
    with log.open("ab") as output:
        process = subprocess.Popen(
            [sys.executable, "-W", "ignore", "-m", "connectors_core.testing.driver"],
            env={
                **os.environ,
                "PYSPARK_PYTHON": sys.executable,
                "PYTHONFAULTHANDLER": "1",  # so that `abort` shows where it is
                "PYTHONPATH": os.pathsep.join(sys.path),  # for modules of the tests themselves
                **faults_env(*faults),
            },
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
        try:
            assert process.stdin is not None
            with process.stdin as stdin:
                stdin.write(pickling.dumps(job))
            yield process
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()


def is_frozen(process: subprocess.Popen[bytes]) -> bool:
    """Return whether a signal has stopped a driver."""
    stat = Path(f"/proc/{process.pid}/stat").read_text(encoding="utf-8")
    return stat.rpartition(")")[2].split()[0] == "T"


def resume(process: subprocess.Popen[bytes]) -> None:
    """Let a frozen driver continue."""
    os.killpg(process.pid, signal.SIGCONT)


def abort(process: subprocess.Popen[bytes]) -> None:
    """End a hanging driver; its log then shows the stack of each thread."""
    process.send_signal(signal.SIGABRT)
    process.wait()


def survivors(log: Path) -> list[int]:
    """Return the processes that still have the log of a killed driver open."""
    found = []
    for process in Path("/proc").iterdir():
        if process.name.isdigit() and int(process.name) != os.getpid():
            try:
                if any(os.readlink(fd) == str(log) for fd in (process / "fd").iterdir()):
                    found.append(int(process.name))
            except OSError:
                continue
    return found


def wait_for_survivors(log: Path, seconds: float = 60) -> None:
    """Wait until no task of a killed driver can write any more."""
    deadline = Deadline(seconds)
    while left := survivors(log):
        assert not deadline.passed, f"processes {left} outlive their driver"
        time.sleep(0.05)


def _peak_memory() -> int:
    # Not `ru_maxrss`: that begins with the memory of the process that started this one.
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) << 10


def main() -> None:
    """Run the job of the standard input."""
    from pyspark import cloudpickle

    os.environ[DRIVER_VARIABLE] = str(os.getpid())
    pickling: Any = cloudpickle
    job: Callable[[], None] = pickling.load(sys.stdin.buffer)
    job()
    sys.stdout.flush()
    os._exit(0)  # quick: the orderly end of a session is not what is tested


if __name__ == "__main__":
    main()
