# SPDX-License-Identifier: Apache-2.0
"""A process that cannot outlive the one that started it, however that ends.

Between the two stands a guard: this file, run as a program. It starts the command, obeys the bytes
that come through its standard input (each is a signal to pass on, and is sent back when that is
done), and kills the command when the input ends: a pipe whose other end is gone. Unlike the signal
that Linux can send to orphans, that does not depend on the thread that started the process. A
signal goes to the command and all that it started itself; none of these is left when it has ended.
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
"""Of a thread, as `/proc` says: stopped, or ended."""


@dataclass(frozen=True)
class GuardedProcess:
    """A process behind its guard.

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
            log: File that its output is added to.
            environment: All its environment variables; those of this process if None.
            user: Number of the user and the group that it runs as; those of this process if None.
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
                    start_new_session=True,  # Ctrl-C is for those who run the tests
                )
            )

    @property
    def running(self) -> bool:
        """Whether it has not ended."""
        return self.guard.poll() is None

    @property
    def exit_code(self) -> int | None:
        """How it ended, as a shell says it; None while it runs."""
        return self.guard.poll()

    def send(self, number: signal.Signals) -> None:
        """Send it a signal; it has been sent, or the process has ended, when this returns.

        SIGSTOP has taken effect then, too.
        """
        assert self.guard.stdin is not None
        assert self.guard.stdout is not None
        try:
            self.guard.stdin.write(bytes([number]))
        except BrokenPipeError:
            return
        self.guard.stdout.read(1)

    def wait(self, seconds: float | None = None) -> None:
        """Wait for its end.

        Raises:
            subprocess.TimeoutExpired: It did not end in that time.
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
    """A busy machine may run other threads of a process before the one that takes the signal."""
    deadline = time.monotonic() + _STOP_SECONDS
    while time.monotonic() < deadline:
        if all(state in _AT_REST for state in _states(group)):
            return
        time.sleep(_POLL_SECONDS)


def _states(group: int) -> Iterator[str]:
    """The state of each thread of a group, where the system has `/proc`."""
    for path in Path("/proc").glob("[0-9]*"):
        try:
            if os.getpgid(int(path.name)) == group:
                for thread in path.glob("task/*/stat"):
                    yield thread.read_text().rpartition(")")[2].split()[0]
        except OSError:  # it has ended meanwhile
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
    # Not reaped yet, it keeps its number, which is that of the group.
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    os.killpg(process.pid, signal.SIGKILL)
    code = process.wait()
    return code if code >= 0 else 128 - code


if __name__ == "__main__":
    sys.exit(_main(*sys.argv[1:]))
