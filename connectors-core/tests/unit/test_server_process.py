# SPDX-License-Identifier: Apache-2.0
"""Tests of servers that derive from `ServerProcess`."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from connectors_core.testing.servers import GuardedProcess, ServerError, ServerProcess

READY = "print('ready', flush=True); import time; time.sleep(60)"


class Printing(ServerProcess):
    """A server that is ready as soon as it has printed so."""

    called = "printing server"

    def __init__(self, code: str = READY) -> None:
        self._code = code
        self.codes: list[int | None] = []

    def start(self) -> None:
        starts = self.log.count("ready\n")
        self.launch([sys.executable, "-c", self._code], lambda: self.log.count("ready\n") > starts)

    def ended(self, code: int | None) -> None:
        self.codes.append(code)


class WrittenForCore10(ServerProcess):
    """A server of a released connector, which uses private names."""

    def __init__(self, folder: Path) -> None:
        self._given = folder
        self.codes: list[int | None] = []

    @property
    def _home(self) -> Path:
        return self._given

    def start(self) -> None:
        self._process = GuardedProcess.start([sys.executable, "-c", READY], self._log_path)
        self._wait_until(lambda: "ready" in self.log, time.monotonic() + 60, 0)

    def close(self) -> None:
        self.kill()

    def _ended(self, code: int | None) -> None:
        self.codes.append(code)


@pytest.fixture
def server() -> Iterator[Printing]:
    with Printing() as server:
        yield server


def test_a_server_keeps_its_folder_until_its_end() -> None:
    with Printing() as server:
        home = server.home
        server.restart()
        assert (server.home, server.log) == (home, "ready\nready\n")
    assert not home.exists()
    assert not server.running


def test_a_running_server_is_not_launched_again(server: Printing) -> None:
    server.start()
    assert server.log == "ready\n"


def test_a_server_learns_how_its_process_ended(server: Printing) -> None:
    server.kill()
    assert server.codes == [128 + 9]


def test_a_server_that_ends_early_shows_its_output_and_leaves_nothing() -> None:
    server = Printing("print('no port'); raise SystemExit(3)")
    home = server.home
    with pytest.raises(ServerError, match="printing server ended with 3") as failure, server:
        pass
    assert failure.value.found == "no port\n"
    assert not home.exists()


class Unlucky(Printing):
    """A server whose port another process takes before its first starts."""

    def __init__(self, failures: int) -> None:
        super().__init__()
        self.failures = failures

    def start(self) -> None:
        self.failures -= 1
        taken = "raise SystemExit('Address already in use')"
        self._code = taken if self.failures >= 0 else READY
        super().start()


def test_a_server_whose_port_is_taken_starts_on_another() -> None:
    with Unlucky(2) as server:
        assert server.log == "ready\n"
    with pytest.raises(ServerError, match="ended with 1"), Unlucky(3):
        pass


def test_a_server_that_is_never_ready_is_ended() -> None:
    server = Printing()
    with pytest.raises(ServerError, match="did not start"):
        server.launch([sys.executable, "-c", READY], lambda: False, seconds=0.1)
    assert not server.running
    server.close()


def test_a_server_that_was_written_for_core_1_0_works(tmp_path: Path) -> None:
    with WrittenForCore10(tmp_path) as server:
        assert server.home == tmp_path
        assert server.log == "ready\n"
    assert server.codes == [128 + 9]
