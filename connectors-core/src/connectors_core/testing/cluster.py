# SPDX-License-Identifier: Apache-2.0
"""A standalone Spark cluster on this machine: a master, and workers that act as different hosts.

Spark never runs a speculative copy of a task on a host that had an attempt of it, even one that
failed. The workers are therefore 127.0.0.2, 127.0.0.3, and so on. The module ends only processes
that it started.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from connectors_core.testing.pace import Deadline

_WAIT_SECONDS: Final = 100.0  # eight times as long on the slowest machine: see `pace`
SPECULATION: Final = {
    "spark.speculation": "true",
    "spark.speculation.multiplier": "1.2",
    "spark.speculation.quantile": "0.4",
    "spark.speculation.interval": "100ms",
    "spark.speculation.minTaskRuntime": "100ms",
}
"""The settings of a session that starts speculative copies of slow tasks early."""
_END_SECONDS: Final = 30.0


@dataclass(frozen=True)
class Cluster:
    """A running cluster.

    Attributes:
        url: The address of the master.
        workers: The process IDs of the workers.
    """

    url: str
    workers: tuple[int, ...]

    def settings(self) -> dict[str, str]:
        """Return the settings of a session with a one-core executor on each worker.

        The executors can import the same modules as this process.
        """
        return {
            "spark.master": self.url,
            "spark.cores.max": str(len(self.workers)),
            "spark.executor.cores": "1",
            "spark.executor.memory": "600m",
            "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1",
            "spark.executorEnv.PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
            "spark.scheduler.minRegisteredResourcesRatio": "1.0",
        }

    def executors(self) -> list[int]:
        """Return the process IDs of the executors."""
        found = []
        for process in Path("/proc").iterdir():
            try:
                stat = (process / "stat").read_text()
                command = (process / "cmdline").read_bytes()
            except OSError:
                continue
            parent = int(stat.rpartition(")")[2].split()[1])
            if parent in self.workers and b"ExecutorBackend" in command:
                found.append(int(process.name))
        return found


@contextmanager
def running_cluster(folder: Path, *, workers: int = 2) -> Iterator[Cluster]:
    """Start a master and its workers, and end them and their executors after the context.

    A worker has cores for two drivers: one that runs the tests, and one that a test kills.

    Args:
        folder: The folder for the logs: ``master.log``, ``worker-2.log``, ``worker-3.log``, and
            those of the executors in ``work-2`` and ``work-3``.
        workers: The number of workers, and of hosts.
    """
    import pyspark

    home = str(Path(pyspark.__file__).parent)
    env = {
        "SPARK_HOME": home,
        "SPARK_DAEMON_MEMORY": "256m",
        # The master keeps its workers while the machine is suspended.
        "SPARK_DAEMON_JAVA_OPTS": "-XX:TieredStopAtLevel=1 -Dspark.worker.timeout=3600",
        "PYSPARK_PYTHON": sys.executable,
    }
    deploy = [f"{home}/bin/spark-class", "org.apache.spark.deploy"]
    port = _free_port()
    url = f"spark://127.0.0.1:{port}"
    log = folder / "master.log"
    with ExitStack() as stack:

        def start(kind: str, log: Path, *options: str) -> subprocess.Popen[bytes]:
            command = [deploy[0], f"{deploy[1]}.{kind}", "--webui-port", "0", *options]
            return stack.enter_context(running(command, log, env))

        start("master.Master", log, "--host", "127.0.0.1", "--port", str(port))
        wait_for(lambda: "I have been elected leader" in log.read_text(), "the master", log)
        started = [
            start(
                "worker.Worker",
                folder / f"worker-{number}.log",
                *("--host", f"127.0.0.{number}", "-c", "2", "-m", "2g"),
                *("--work-dir", str(folder / f"work-{number}"), url),
            )
            for number in range(2, 2 + workers)
        ]
        wait_for(lambda: log.read_text().count("Registering worker") == workers, "workers", log)
        yield Cluster(url, tuple(worker.pid for worker in started))


@contextmanager
def running(
    command: Sequence[str], log: Path, env: Mapping[str, str]
) -> Iterator[subprocess.Popen[bytes]]:
    """Run a command until the context ends.

    Args:
        command: The command.
        log: The file for its output.
        env: Variables to add to the environment of this process.
    """
    with log.open("ab") as output:
        process = subprocess.Popen(  # noqa: S603  # commands of the tests themselves
            command,
            env={**os.environ, **env},
            stdout=output,
            stderr=output,
            stdin=subprocess.DEVNULL,
        )
        try:
            yield process
        finally:
            process.terminate()
            try:
                process.wait(_END_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def wait_for(condition: Callable[[], bool], what: str, log: Path) -> None:
    """Wait for a condition. The error after a timeout shows the end of a log."""
    deadline = Deadline(_WAIT_SECONDS)
    while not condition():
        text = log.read_text(errors="replace") if log.exists() else ""
        assert not deadline.passed, f"not within {deadline}: {what}\n{text[-6000:]}"
        time.sleep(0.05)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
