# SPDX-License-Identifier: Apache-2.0
"""What all servers of tests have in common: they start, end, crash, hang and come back."""

from __future__ import annotations

import signal
import subprocess
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import ClassVar, Final, Self

from connectors_core.testing.servers.errors import ServerError
from connectors_core.testing.servers.guard import GuardedProcess

__all__ = ["ServerProcess"]

_END_SECONDS: Final = 60.0
_POLL_SECONDS: Final = 0.02
_SHOWN: Final = 4000


class ServerProcess(ABC):
    """A server that a test starts; a context manager. Its process dies with ours.

    Attributes:
        called: What people call it.
        error: What it raises.
    """

    called: ClassVar[str] = "server"
    error: ClassVar[type[ServerError]] = ServerError

    _process: GuardedProcess | None = None

    @property
    def running(self) -> bool:
        """Whether its process is there, be it paused."""
        return self._process is not None and self._process.running

    @property
    def _home(self) -> Path:
        """The folder of its data."""
        raise NotImplementedError

    @property
    def _log_path(self) -> Path:
        return self._home / "server.log"

    @property
    def log(self) -> str:
        """What it printed since its data began."""
        return self._log_path.read_text(errors="replace") if self._log_path.exists() else ""

    @abstractmethod
    def start(self) -> None:
        """Start it where it does not run: on the data and the ports that it had, if it had some."""

    def stop(self) -> None:
        """End it in good order; its data stay."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """End it at once, as a crash would; its data stay."""
        self._end(signal.SIGKILL)

    def restart(self) -> None:
        """Stop it, if it runs, and start it on the same data and the same ports."""
        self.stop()
        self.start()

    def pause(self) -> None:
        """Let it hang: its connections stay and nothing answers, until `resume`."""
        self._live_process().send(signal.SIGSTOP)

    def resume(self) -> None:
        """Let it go on after `pause`."""
        self._live_process().send(signal.SIGCONT)

    @abstractmethod
    def close(self) -> None:
        """End it, and remove its data."""

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _wait_until(self, is_ready: Callable[[], bool], deadline: float, printed: int) -> None:
        """Wait for the process that was started.

        Args:
            is_ready: Whether it answers.
            deadline: On the monotonic clock.
            printed: Length of the log before the start.

        Raises:
            ServerError: It is not ready in time, or has ended; says what it printed.
        """
        process = self._process
        assert process is not None  # it was started
        while not is_ready():
            if not process.running or time.monotonic() > deadline:
                code = process.exit_code
                self.kill()
                ended = "did not start" if code is None else f"ended with {code}"
                raise self.error(f"the {self.called} {ended}", found=self.log[printed:][-_SHOWN:])
            time.sleep(_POLL_SECONDS)

    def _ended(self, code: int | None) -> None:
        """The process has ended, with this code."""

    def _end(self, number: signal.Signals) -> None:
        if self._process is None:
            return
        self._process.send(number)
        self._process.send(signal.SIGCONT)  # one that is paused would never see that it is to end
        try:
            self._process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.send(signal.SIGKILL)
            self._process.wait()
        self._ended(self._process.exit_code)
        self._process = None

    def _live_process(self) -> GuardedProcess:
        if self._process is None or not self._process.running:
            raise self.error(f"the {self.called} does not run", hint="start it first")
        return self._process
