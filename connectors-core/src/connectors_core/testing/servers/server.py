# SPDX-License-Identifier: Apache-2.0
"""The base of all test servers: they start, stop, crash, hang, and restart."""

from __future__ import annotations

import shutil
import signal
import subprocess
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import ClassVar, Final, Self

from connectors_core.testing.servers.errors import ServerError
from connectors_core.testing.servers.guard import GuardedProcess

__all__ = ["ServerProcess"]

_END_SECONDS: Final = 60.0
_POLL_SECONDS: Final = 0.02
_SHOWN: Final = 4000
_ATTEMPTS: Final = 3
_TAKEN: Final = "Address already in use"


class ServerProcess(ABC):
    """A server that a test starts, as a context manager. Its process ends with this process.

    `start` of a subclass prepares the server and calls `launch`.

    Attributes:
        called: The display name.
        error: The class of its errors.
    """

    called: ClassVar[str] = "server"
    error: ClassVar[type[ServerError]] = ServerError

    _process: GuardedProcess | None = None
    _folder: Path | None = None

    @property
    def running(self) -> bool:
        """Whether the process exists, even if it is paused."""
        return self._process is not None and self._process.running

    @property
    def home(self) -> Path:
        """The folder of the server's data and log. It is temporary, and `close` deletes it."""
        return self._home

    @property
    def log_path(self) -> Path:
        """The file of the server's output."""
        return self.home / "server.log"

    @property
    def log(self) -> str:
        """The output of the server since its data was created."""
        return self.log_path.read_text(errors="replace") if self.log_path.exists() else ""

    @abstractmethod
    def start(self) -> None:
        """Start the server if it is not running, with its former data and ports."""

    def launch(
        self,
        command: Sequence[str],
        is_ready: Callable[[], bool],
        *,
        seconds: float = 60.0,
        environment: Mapping[str, str] | None = None,
        user: int | None = None,
    ) -> None:
        """Run a command if the server is not running, and wait until it is ready.

        Args:
            command: The command. Its output is appended to the log.
            is_ready: Returns whether the server responds.
            seconds: The timeout until the server is ready.
            environment: The environment variables, or None for those of this process.
            user: The ID of the user and group, or None for those of this process.

        Raises:
            ServerError: The server is not ready in time, or has ended. The error shows its output.
        """
        if self.running:
            return
        deadline = time.monotonic() + seconds
        printed = len(self.log)
        self._process = GuardedProcess.start(
            command, self.log_path, environment=environment, user=user
        )
        self._wait_until(is_ready, deadline, printed)

    def stop(self) -> None:
        """Stop the server in an orderly way and keep its data."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """Kill the server, as a crash would, and keep its data."""
        self._end(signal.SIGKILL)

    def restart(self) -> None:
        """Stop the server if it is running, and start it with the same data and ports."""
        self.stop()
        self.start()

    def pause(self) -> None:
        """Freeze the server until `resume`: connections stay open, but it does not respond."""
        self._live_process().send(signal.SIGSTOP)

    def resume(self) -> None:
        """Let the server continue after `pause`."""
        self._live_process().send(signal.SIGCONT)

    def close(self) -> None:
        """Stop the server and delete its data."""
        self.kill()
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None

    def ended(self, code: int | None) -> None:
        """Handle the end of the process, before its data can be deleted.

        Args:
            code: The exit code, as in a shell.
        """

    def __enter__(self) -> Self:
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                self.start()
                break
            except BaseException as error:
                # Between choosing a port and binding it, another process can take it.
                is_taken = isinstance(error, ServerError) and _TAKEN in self.log
                self.close()
                if not is_taken or attempt == _ATTEMPTS:
                    raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _wait_until(self, is_ready: Callable[[], bool], deadline: float, printed: int) -> None:
        """Wait until the started process is ready.

        Args:
            is_ready: Returns whether the server responds.
            deadline: The deadline, on the monotonic clock.
            printed: The length of the log before the start.

        Raises:
            ServerError: The server is not ready in time, or has ended. The error shows its output.
        """
        process = self._process
        assert process is not None  # set by the start
        while not is_ready():
            if not process.running or time.monotonic() > deadline:
                code = process.exit_code
                self.kill()
                ended = "did not start" if code is None else f"ended with {code}"
                raise self.error(f"the {self.called} {ended}", found=self.log[printed:][-_SHOWN:])
            time.sleep(_POLL_SECONDS)

    def _end(self, number: signal.Signals) -> None:
        if self._process is None:
            return
        self._process.send(number)
        self._process.send(signal.SIGCONT)  # a paused process would not handle the signal
        try:
            self._process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.send(signal.SIGKILL)
            self._process.wait()
        self._ended(self._process.exit_code)
        self._process = None

    def _live_process(self) -> GuardedProcess:
        if self._process is None or not self._process.running:
            raise self.error(f"the {self.called} is not running", hint="start it first")
        return self._process

    # Subclasses of connectors that need core 1.0 use or replace these names, and `_wait_until`.

    @property
    def _home(self) -> Path:
        if self._folder is None:
            self._folder = Path(tempfile.mkdtemp(prefix=f"{type(self).__name__.lower()}-"))
        return self._folder

    @property
    def _log_path(self) -> Path:
        return self.log_path

    def _ended(self, code: int | None) -> None:
        self.ended(code)
