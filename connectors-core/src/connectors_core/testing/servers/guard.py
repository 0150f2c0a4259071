# SPDX-License-Identifier: Apache-2.0
"""A process that ends with the process that started it, even after a crash.

A guard runs between the two: this file, as a program. The guard starts the command and reads
signals as bytes from its standard input. It forwards each signal and then echoes its byte. When the
input ends, the other end of the pipe is gone, and the guard kills the command. Unlike Linux's
parent-death signal, this does not depend on the thread that started the process. A signal goes to
the command and to all its child processes. None of them outlives the command.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_STOP_SECONDS: Final = 5.0
_POLL_SECONDS: Final = 0.002
_AT_REST: Final = "TtZX"
"""States of a thread in `/proc`: stopped, or ended."""


@dataclass(frozen=True)
class GuardedProcess:
    """A process with a guard.

    Args:
        guard: The guard, with pipes to its input and output.
    """

    guard: subprocess.Popen[bytes]

    @classmethod
    def start(
        cls,
        command: Sequence[str],
        log: Path,
        *,
        environment: Mapping[str, str] | None = None,
        user: int | None = None,
    ) -> GuardedProcess:
        """Start a command.

        Args:
            command: The command.
            log: The file to which the output is appended.
            environment: The environment variables, or None for those of this process.
            user: The ID of the user and group, or None for those of this process.
        """
        identity = "-" if user is None else str(user)
        with log.open("ab") as output:
            return cls(
                subprocess.Popen(  # noqa: S603  # no shell, and nothing in it comes from data
                    [sys.executable, "-I", "-S", __file__, identity, *command],
                    env=environment,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=output,
                    bufsize=0,
                    start_new_session=True,  # Ctrl-C is for the test run
                )
            )

    @property
    def running(self) -> bool:
        """Whether the process is running."""
        return self.guard.poll() is None

    @property
    def exit_code(self) -> int | None:
        """The exit code, as in a shell, or None while it runs."""
        return self.guard.poll()

    def send(self, number: signal.Signals) -> None:
        """Send a signal. On return, it was sent or the process has ended.

        SIGSTOP has also taken effect by then.
        """
        assert self.guard.stdin is not None
        assert self.guard.stdout is not None
        try:
            self.guard.stdin.write(bytes([number]))
        except BrokenPipeError:
            return
        self.guard.stdout.read(1)

    def wait(self, seconds: float | None = None) -> None:
        """Wait for the end of the process.

        Raises:
            subprocess.TimeoutExpired: The process did not end within the timeout.
        """
        self.guard.wait(seconds)
        for pipe in (self.guard.stdin, self.guard.stdout):
            assert pipe is not None
            pipe.close()


def _obey(group: int) -> None:
    while order := os.read(0, 1):
        os.killpg(group, order[0])
        if order[0] == signal.SIGSTOP:
            _wait_until_stopped(group)
        os.write(1, order)
    os.killpg(group, signal.SIGKILL)


def _wait_until_stopped(group: int) -> None:
    """Wait until all threads have stopped, since only one of them handles the signal."""
    deadline = time.monotonic() + _STOP_SECONDS
    while time.monotonic() < deadline:
        if all(state in _AT_REST for state in _states(group)):
            return
        time.sleep(_POLL_SECONDS)


def _states(group: int) -> Iterator[str]:
    """Return the state of each thread of a process group, if the system has `/proc`."""
    for path in Path("/proc").glob("[0-9]*"):
        try:
            if os.getpgid(int(path.name)) == group:
                for thread in path.glob("task/*/stat"):
                    yield thread.read_text().rpartition(")")[2].split()[0]
        except OSError:  # it has ended
            continue


def _main(identity: str, *command: str) -> int:
    user = None if identity == "-" else int(identity)
    process = subprocess.Popen(  # noqa: S603
        command,
        stdin=subprocess.DEVNULL,
        stdout=2,
        process_group=0,
        user=user,
        group=user,
        extra_groups=None if user is None else [],
    )
    threading.Thread(target=_obey, args=(process.pid,), daemon=True).start()
    # Until the guard reaps it, the process keeps its ID, which is also the ID of its group.
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    os.killpg(process.pid, signal.SIGKILL)
    code = process.wait()
    return code if code >= 0 else 128 - code


if __name__ == "__main__":
    sys.exit(_main(*sys.argv[1:]))
