# SPDX-License-Identifier: Apache-2.0
"""Tests that a guarded process ends on request, and when its parent ends."""

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from connectors_core.testing.servers import GuardedProcess

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


def test_a_guarded_process_obeys_signals(tmp_path: Path) -> None:
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


def test_no_thread_runs_once_the_process_has_reported_its_stop(tmp_path: Path) -> None:
    code = (
        "import hashlib, os, threading\n"
        "def work():\n"
        "    while True: hashlib.sha256(bytes(1 << 20)).digest()\n"
        "for _ in range(8): threading.Thread(target=work).start()\n"
        "print(os.getpid(), flush=True)\n"
    )
    process = GuardedProcess.start([sys.executable, "-c", code], tmp_path / "log")
    pid = started(tmp_path / "log")
    try:
        for _ in range(5):
            process.send(signal.SIGSTOP)
            threads = [each.read_text() for each in Path(f"/proc/{pid}/task").glob("*/stat")]
            states = {each.rpartition(")")[2].split()[0] for each in threads}
            assert states == {"T"}
            process.send(signal.SIGCONT)
    finally:
        process.send(signal.SIGKILL)
        process.wait(20)


def test_a_process_that_has_ended_ignores_signals(tmp_path: Path) -> None:
    process = GuardedProcess.start([sys.executable, "-c", "raise SystemExit(3)"], tmp_path / "log")
    process.guard.wait(20)
    process.send(signal.SIGTERM)
    process.wait()
    assert process.exit_code == 3


def test_a_guarded_process_dies_with_its_parent_even_if_it_hangs(tmp_path: Path) -> None:
    program = (
        "import os, signal, sys; from pathlib import Path\n"
        "from connectors_core.testing.servers import GuardedProcess\n"
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


def test_child_processes_end_with_the_guarded_process(tmp_path: Path) -> None:
    parent = f"import subprocess; subprocess.run({SLEEP!r})"
    process = GuardedProcess.start([sys.executable, "-c", parent], tmp_path / "log")
    child = started(tmp_path / "log")
    process.send(signal.SIGKILL)
    process.wait(20)
    assert process.exit_code == 128 + signal.SIGKILL
    assert gone(child)


def test_orphaned_descendants_end_too(tmp_path: Path) -> None:
    parent = f"import subprocess; print(subprocess.Popen({SLEEP!r}, stdout=-3).pid, flush=True)"
    process = GuardedProcess.start([sys.executable, "-c", parent], tmp_path / "log")
    child = started(tmp_path / "log")
    process.guard.wait(20)
    process.wait()
    assert process.exit_code == 0
    assert gone(child)


def test_a_guarded_process_gets_only_the_given_environment(tmp_path: Path) -> None:
    program = "import os; print(os.getpid()); print(sorted(os.environ))"
    command = [sys.executable, "-I", "-c", program]
    process = GuardedProcess.start(command, tmp_path / "log", environment={"ONLY": "this"})
    process.guard.wait(20)
    process.wait()
    names = (tmp_path / "log").read_text().splitlines()[1]
    assert "'ONLY'" in names
    assert "'PATH'" not in names


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be another user")
def test_a_guarded_process_runs_as_the_given_user(tmp_path: Path) -> None:
    shell = shutil.which("sh")
    assert shell
    process = GuardedProcess.start([shell, "-c", "id -u; id -G"], tmp_path / "log", user=65534)
    process.guard.wait(20)
    process.wait()
    assert (tmp_path / "log").read_text().split() == ["65534", "65534"]
