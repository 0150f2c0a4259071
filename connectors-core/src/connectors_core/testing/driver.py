# SPDX-License-Identifier: Apache-2.0
"""A driver in a separate process, which a test can kill.

The process is forked from a server that has imported the core, so that it starts at once.
"""

from __future__ import annotations

import contextlib
import faulthandler
import functools
import multiprocessing
import os
import signal
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from multiprocessing.context import ForkServerContext
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, Final

from connectors_core.sink import Sink
from connectors_core.source.source import AnySource
from connectors_core.testing.clocks import move_wall_clock
from connectors_core.testing.environment import InProcess, LocalSpark, TestEnvironment
from connectors_core.testing.faults import DRIVER_VARIABLE, Fault, faults_env
from connectors_core.testing.pace import Deadline, stretched

RUN_SECONDS: Final = 240.0
# The modules that every driver needs. A fork also imports the main module of the tests, pytest.
_IMPORTED: Final = (
    "connectors_core.testing.driver",
    "connectors_core.testing.local_pipeline",
    "connectors_core.testing.spark_session",
    "pandas",
    "pyarrow.compute",
    "pyspark.cloudpickle",
    "pytest",
)


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
    seconds = stretched(RUN_SECONDS)
    with running_driver(job, log, *faults) as process:
        process.join(seconds)
        code = process.exitcode
    if code is None:
        raise TimeoutError(f"the driver did not end within {seconds:.0f} s")
    return code


@contextlib.contextmanager
def running_driver(job: Callable[[], None], log: Path, *faults: Fault) -> Iterator[BaseProcess]:
    """Run a job in a separate driver, and kill the driver at the end of the context.

    Args:
        job: The job. The driver can import the same modules as this process.
        log: The file for the output of the process.
        *faults: The faults to inject.
    """
    from pyspark import cloudpickle

    pickling: Any = cloudpickle
    start = _Start(
        job=pickling.dumps(job),
        log=str(log),
        folder=os.getcwd(),
        modules=tuple(sys.path),
        variables={
            **os.environ,
            "PYSPARK_PYTHON": sys.executable,
            "PYTHONPATH": os.pathsep.join(sys.path),  # for modules of the tests themselves
            **faults_env(*faults),
        },
    )
    process = _forks().Process(target=start)
    process.start()
    try:
        yield process
    finally:
        if process.is_alive():
            _kill(process)


@functools.cache
def _forks() -> ForkServerContext:
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(list(_IMPORTED))
    return context


@dataclass(frozen=True, kw_only=True)
class _Start:
    """The start of a driver in a forked process.

    Attributes:
        job: The pickled job.
        log: The file for its output.
        folder: Its working directory.
        modules: Its path of modules.
        variables: Its environment.
    """

    job: bytes
    log: str
    folder: str
    modules: tuple[str, ...]
    variables: Mapping[str, str]

    def __call__(self) -> None:
        """Run the job in this process, and end the process."""
        from pyspark import cloudpickle

        os.setsid()
        os.environ.clear()
        os.environ.update(self.variables, **{DRIVER_VARIABLE: str(os.getpid())})
        os.chdir(self.folder)
        sys.path[:] = self.modules
        _write_to(self.log)
        warnings.simplefilter("ignore")
        faulthandler.enable(2)  # so that `abort` shows the stacks
        pickling: Any = cloudpickle
        job: Callable[[], None] = pickling.loads(self.job)
        job()
        sys.stdout.flush()
        os._exit(0)  # exit immediately, because the orderly end of a session is not tested


def _write_to(log: str) -> None:
    output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    for stream in (1, 2):
        os.dup2(output, stream)
    os.close(output)


def is_frozen(process: BaseProcess | subprocess.Popen[bytes]) -> bool:
    """Return whether a signal has stopped a driver."""
    stat = Path(f"/proc/{process.pid}/stat").read_text(encoding="utf-8")
    return stat.rpartition(")")[2].split()[0] == "T"


def resume(process: BaseProcess | subprocess.Popen[bytes]) -> None:
    """Let a frozen driver continue."""
    assert process.pid is not None
    os.killpg(process.pid, signal.SIGCONT)


def abort(process: BaseProcess) -> None:
    """End a hanging driver. Its log then shows the stack of each thread."""
    assert process.pid is not None
    os.kill(process.pid, signal.SIGABRT)
    process.join()


def _kill(process: BaseProcess) -> None:
    assert process.pid is not None
    for kill in (os.kill, os.killpg):  # at first, the process has no group of its own
        with contextlib.suppress(ProcessLookupError):
            kill(process.pid, signal.SIGKILL)
    process.join()


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
