# SPDX-License-Identifier: Apache-2.0
"""A driver in a separate process, which a test can kill.

The test starts the process and sends the pickled job to its standard input.
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
    """A pipeline from one source to some sinks, with its environment.

    Attributes:
        location: The checkpoint location.
        source: The source.
        sinks: The sinks by uid.
        settings: Additional arguments of `Pipeline.from_source`.
        parallelism: The number of readers.
        spark: The settings of its Spark session, or None to run without Spark.
        writers: The number of writers of each sink, or None for the default.
        peak: The file for the peak memory of the process, in bytes.
        clock_ahead: The error of the process's wall clock.
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
        """Return the pipeline, with additional arguments for its constructor."""
        pipeline = environment.pipeline(
            "suite", Path(self.location), parallelism=self.parallelism, **settings
        )
        rows = pipeline.from_source(self.source, uid="source", **self.settings)
        for uid, sink in self.sinks.items():
            pipeline.sink_to(rows, sink, uid=uid, parallelism=self.writers)
        return pipeline

    def __call__(self) -> None:
        """Run the pipeline to its end."""
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
    """Run a job in a separate driver until the driver ends in any way.

    Args:
        job: The job. The driver can import the same modules as this process.
        log: The file for the output of the process.
        *faults: The faults to inject.

    Returns:
        The exit code, or the negative number of the signal that killed the process.
    """
    with running_driver(job, log, *faults) as process:
        process.wait(stretched(RUN_SECONDS))
    return process.returncode


@contextlib.contextmanager
def running_driver(
    job: Callable[[], None], log: Path, *faults: Fault
) -> Iterator[subprocess.Popen[bytes]]:
    """Run a job in a separate driver, and kill the driver at the end of the context.

    Args:
        job: The job. The driver can import the same modules as this process.
        log: The file for the output of the process.
        *faults: The faults to inject.
    """
    from pyspark import cloudpickle

    pickling: Any = cloudpickle
    with log.open("ab") as output:
        process = subprocess.Popen(
            [sys.executable, "-W", "ignore", "-m", "connectors_core.testing.driver"],
            env={
                **os.environ,
                "PYSPARK_PYTHON": sys.executable,
                "PYTHONFAULTHANDLER": "1",  # so that `abort` shows the stacks
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
    """End a hanging driver. Its log then shows the stack of each thread."""
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
    """Wait until the tasks of a killed driver can no longer write."""
    deadline = Deadline(seconds)
    while left := survivors(log):
        assert not deadline.passed, f"processes {left} outlive their driver"
        time.sleep(0.05)


def _peak_memory() -> int:
    # Do not use `ru_maxrss`, which starts with the memory of the parent process.
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) << 10


def main() -> None:
    """Run the job from standard input."""
    from pyspark import cloudpickle

    os.environ[DRIVER_VARIABLE] = str(os.getpid())
    pickling: Any = cloudpickle
    job: Callable[[], None] = pickling.load(sys.stdin.buffer)
    job()
    sys.stdout.flush()
    os._exit(0)  # exit immediately, because the orderly end of a session is not tested


if __name__ == "__main__":
    main()
