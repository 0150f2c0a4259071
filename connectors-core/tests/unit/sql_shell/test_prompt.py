# SPDX-License-Identifier: Apache-2.0
"""Tests the prompt: with typed keys, and as a program on a terminal of its own."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import stat
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from prompt_toolkit.completion import CompleteEvent
from prompt_toolkit.document import Document
from prompt_toolkit.history import InMemoryHistory
from prompt_toolkit.input import PipeInput, create_pipe_input
from prompt_toolkit.output import DummyOutput
from simulated_sql_engine import SimulatedEngine

from connectors_core.cli.sql.history import StatementHistory
from connectors_core.cli.sql.names import EngineNames, help_of
from connectors_core.cli.sql.prompt import TerminalPrompt
from connectors_core.cli.sql.statement_thread import StatementThread
from connectors_core.options import OptionSet, option

PATIENCE_SECONDS = 60.0
_WHERE_IS_THE_CURSOR = "\x1b[6n"
_AT_THE_START = "\x1b[1;1R"
_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


@pytest.fixture
def typed() -> Iterator[PipeInput]:
    with create_pipe_input() as keys:
        yield keys


@pytest.fixture
def names() -> Iterator[EngineNames]:
    thread = StatementThread(SimulatedEngine, print)
    yield EngineNames(thread, help_of(OptionSet(option("a.b", bool, default=False, doc="Is it?"))))
    thread.close()


def prompt_of(names: EngineNames, typed: PipeInput) -> TerminalPrompt:
    return TerminalPrompt(
        names,
        InMemoryHistory(),
        database=names.current_database,
        jobs=str,
        input=typed,
        output=DummyOutput(),
    )


@pytest.mark.parametrize(
    ("keys", "read"),
    [
        ("SELECT 1;\r", "SELECT 1;"),
        ("SELECT\r1;\r", "SELECT\n1;"),
        ("SELECT ';\r';\r", "SELECT ';\n';"),
        ("quit\r", "quit"),
        ("SELECT 1\x1b\r", "SELECT 1"),
    ],
)
def test_enter_runs_what_is_complete(
    names: EngineNames, typed: PipeInput, keys: str, read: str
) -> None:
    typed.send_text(keys)
    assert prompt_of(names, typed).read() == read


@pytest.mark.parametrize(("keys", "error"), [("SEL\x03", KeyboardInterrupt), ("\x04", EOFError)])
def test_ctrl_c_discards_the_text_and_ctrl_d_leaves(
    names: EngineNames, typed: PipeInput, keys: str, error: type[BaseException]
) -> None:
    typed.send_text(keys)
    with pytest.raises(error):
        prompt_of(names, typed).read()


@pytest.mark.parametrize(
    ("keys", "agrees"), [("y\r", True), ("\r", False), ("\x03", False), ("\x04", True)]
)
def test_only_a_yes_or_the_end_of_the_input_agrees(
    names: EngineNames, typed: PipeInput, keys: str, agrees: bool
) -> None:
    typed.send_text(keys)
    assert prompt_of(names, typed).confirm("Leave?") is agrees


def test_completion_knows_the_names_of_the_engine(names: EngineNames, typed: PipeInput) -> None:
    completer: Any = prompt_of(names, typed)._session.completer
    (found,) = completer.get_completions(Document("SET 'a"), CompleteEvent())
    assert (found.text, found.start_position, found.display_meta_text) == ("a.b' = '", -1, "Is it?")
    assert {"connector"} <= {each.key for each in names.table_options(None)}


def test_the_history_has_no_secrets_and_belongs_to_the_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    secret = "CREATE TABLE t WITH ('password' = 'canary-77');"  # pragma: allowlist secret
    history = StatementHistory.of_user()
    for each in ("SELECT 1;", secret):
        history.append_string(each)
    assert secret in history.get_strings()
    assert list(StatementHistory.of_user().load_history_strings()) == ["SELECT 1;"]
    (file,) = tmp_path.rglob("sql_history")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


PROGRAM = """
import sys
from rich.console import Console
from simulated_sql_engine import SimulatedEngine
from connectors_core.cli.sql.formats import Format
from connectors_core.cli.sql.history import StatementHistory
from connectors_core.cli.sql.job_progress import summary
from connectors_core.cli.sql.names import EngineNames
from connectors_core.cli.sql.output import Output
from connectors_core.cli.sql.prompt import TerminalPrompt
from connectors_core.cli.sql.session import Session
from connectors_core.cli.sql.statement_thread import StatementThread

class Telling(SimulatedEngine):
    def execute(self, text):
        if text == "BLOCK":
            print("executing")
        return super().execute(text)

output = Output(stdout=sys.stdout, console=Console(), format=Format.TABLE, max_rows=10)
thread = StatementThread(Telling, output.tell)
names = EngineNames(thread, [])
prompt = TerminalPrompt(
    names,
    StatementHistory.of_user(),
    database=names.current_database,
    jobs=lambda: summary(thread.engine.jobs()),
)
Session(thread, output, names.forget).run_prompt(prompt)
thread.close()
print("closed", thread.engine.closed)
"""


class Terminal:
    """A program on a terminal of its own."""

    def __init__(self, state: Path) -> None:
        self._end, program_end = pty.openpty()
        path = os.pathsep.join([str(Path(__file__).parents[1]), *sys.path])
        self.process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM],
            stdin=program_end,
            stdout=program_end,
            stderr=program_end,
            start_new_session=True,
            preexec_fn=_take_terminal,
            env={**os.environ, "PYTHONPATH": path, "XDG_STATE_HOME": str(state), "TERM": "xterm"},
        )
        os.close(program_end)
        termios.tcsetwinsize(self._end, (24, 80))
        self._seen = ""

    def sees(self, pattern: str) -> None:
        """Wait until the program has printed a text."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not (match := re.search(pattern, self._seen)):
            ready, _, _ = select.select([self._end], [], [], deadline - time.monotonic())
            assert ready, f"no {pattern!r} in {self._seen!r}"
            read = os.read(self._end, 65536).decode()
            self.type(read.count(_WHERE_IS_THE_CURSOR) * _AT_THE_START)
            self._seen = _ESCAPES.sub("", self._seen + read)
        self._seen = self._seen[match.end() :]

    def type(self, keys: str) -> None:
        os.write(self._end, keys.encode())

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self._end)


def _take_terminal() -> None:
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)  # Ctrl-C then becomes a signal


def test_the_shell_survives_ctrl_c_on_a_terminal(tmp_path: Path) -> None:
    terminal = Terminal(tmp_path)
    try:
        terminal.sees(r"catalog\.database>")
        terminal.type("START one running;\r")
        terminal.sees("the job 'one' is running")
        terminal.sees("one: 30 rows read, 20 rows written, epoch 7, 5 rows behind")
        terminal.type("BLOCK;\r")
        terminal.sees("executing")
        terminal.type("\x03")
        terminal.sees("canceling")
        terminal.sees(r"catalog\.database>")
        terminal.type("SELECT 7;\r")
        terminal.sees(r"\(1 row\)")
        terminal.sees(r"catalog\.database>")
        terminal.type("\x04")
        terminal.sees(r"Stop and leave\? \[y/N\]")
        terminal.type("y\r")
        terminal.sees("closed True")
        assert terminal.process.wait(PATIENCE_SECONDS) == 0
    finally:
        terminal.close()
