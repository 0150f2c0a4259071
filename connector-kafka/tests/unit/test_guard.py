# SPDX-License-Identifier: Apache-2.0
"""A guarded process ends when it is told to, and when nobody is left to tell it."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from connector_kafka.testing.guard import GuardedProcess

SLEEP = [sys.executable, "-c", "import os, time; print(os.getpid(), flush=True); time.sleep(60)"]


def started(log: Path) -> int:
    deadline = time.monotonic() + 20
    while not (text := log.read_text() if log.exists() else "").endswith("\n"):
        assert time.monotonic() < deadline, "the process did not start"
        time.sleep(0.01)
    return int(text)


def gone(pid: int) -> bool:
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.01)
    return False


def becomes(pid: int, states: str) -> bool:
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in states:
            return True
        time.sleep(0.01)
    return False


def test_it_obeys_signals(tmp_path: Path) -> None:
    process = GuardedProcess.start(SLEEP, tmp_path / "log")
    pid = started(tmp_path / "log")
    process.send(signal.SIGSTOP)
    assert becomes(pid, "T")
    process.send(signal.SIGCONT)
    assert becomes(pid, "SR")
    process.send(signal.SIGTERM)
    process.wait(20)
    assert process.exit_code == 128 + signal.SIGTERM
    assert not process.running


def test_one_that_has_ended_takes_signals_in_silence(tmp_path: Path) -> None:
    process = GuardedProcess.start([sys.executable, "-c", "raise SystemExit(3)"], tmp_path / "log")
    process.guard.wait(20)
    process.send(signal.SIGTERM)
    process.wait()
    assert process.exit_code == 3


def test_it_dies_with_its_parent_even_when_it_hangs(tmp_path: Path) -> None:
    program = (
        "import os, signal, sys; from pathlib import Path\n"
        "from connector_kafka.testing.guard import GuardedProcess\n"
        "process = GuardedProcess.start(sys.argv[2:], Path(sys.argv[1]))\n"
        "sys.stdin.read(1); process.send(signal.SIGSTOP)\n"
        "print('stopped', flush=True); sys.stdin.read()"
    )
    log = tmp_path / "log"
    with subprocess.Popen(
        [sys.executable, "-c", program, str(log), *SLEEP],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as parent:
        pid = started(log)
        assert parent.stdin
        assert parent.stdout
        parent.stdin.write(b".")
        parent.stdin.flush()
        assert parent.stdout.readline() == b"stopped\n"
        assert becomes(pid, "T")
        parent.kill()
    assert gone(pid)
