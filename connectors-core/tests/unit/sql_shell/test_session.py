# SPDX-License-Identifier: Apache-2.0
"""Tests scripts and the loop of the prompt, with an engine that needs no Spark."""

from __future__ import annotations

import io
import os
import signal
import threading
from collections.abc import Callable, Iterator

import pytest
from rich.console import Console
from simulated_sql_engine import FixedResult, SimulatedEngine

from connectors_core.cli.sql.formats import Format
from connectors_core.cli.sql.output import Output
from connectors_core.cli.sql.session import ScriptFailedError, Session
from connectors_core.cli.sql.statement_thread import StatementThread
from connectors_core.engine.query.status import PipelineState, PipelineStatus


class Shell:
    """A session whose output is text."""

    def __init__(self, format_: Format = Format.TABLE, max_rows: int | None = None) -> None:
        self.engine = SimulatedEngine()
        self.out, self.err, self.paged = io.StringIO(), io.StringIO(), []
        self.output = Output(
            stdout=self.out,
            console=Console(file=self.err, width=80, height=10),
            format=format_,
            max_rows=max_rows,
            pager=self.paged.append,
        )
        self.thread = StatementThread(lambda: self.engine, self.output.tell)
        self.session = Session(self.thread, self.output)

    def run(self, text: str) -> str:
        """Run a script, and return what it prints."""
        self.session.run_script(text, "x.sql")
        return self.out.getvalue()


class Typed:
    """A user who types texts, then answers yes to each question."""

    def __init__(
        self, *texts: str | type[BaseException] | Callable[[], str], agrees: bool = True
    ) -> None:
        self.texts = list(texts)
        self.agrees = agrees
        self.questions: list[str] = []

    def read(self) -> str:
        text = self.texts.pop(0) if self.texts else EOFError
        if isinstance(text, str):
            return text
        if isinstance(text, type):
            raise text
        return text()

    def confirm(self, question: str) -> bool:
        self.questions.append(question)
        return self.agrees


@pytest.fixture
def shell() -> Iterator[Shell]:
    made = Shell()
    yield made
    made.thread.close()


def test_a_script_runs_all_statements_on_one_other_thread(shell: Shell) -> None:
    assert shell.run("USE a; SELECT 1, 2; -- the end") == "n\n-\n1\n2\n(2 rows)\n"
    assert shell.engine.executed == ["USE a", "SELECT 1, 2"]


def test_a_wrong_statement_is_found_before_any_has_run(shell: Shell) -> None:
    with pytest.raises(ScriptFailedError):
        shell.run("USE a;\nUSE b c;")
    assert shell.engine.executed == []
    assert shell.err.getvalue().startswith("error: x.sql:2:7: [SQL]")


def test_a_failing_statement_ends_the_script_with_its_place(shell: Shell) -> None:
    with pytest.raises(ScriptFailedError) as caught:
        shell.run("USE a;\n  FAIL;\nSELECT 1")
    assert "SELECT 1" not in shell.engine.executed
    assert shell.err.getvalue() == "error: x.sql:2:3: [CONFIGURATION] it failed\n"
    assert caught.value.__cause__ is not None


def test_an_error_of_the_engine_names_its_place_in_the_script(shell: Shell) -> None:
    with pytest.raises(ScriptFailedError):
        shell.run("USE a;\n  WRONG AT here;")
    first, *_, line, caret = shell.err.getvalue().splitlines()
    assert first == "error: x.sql:2:9: [SQL] it is wrong"
    assert (line, caret) == ("2 |   WRONG AT here;", "            ^")


def test_ctrl_c_cancels_the_statement_and_not_the_shell(shell: Shell) -> None:
    def interrupt() -> None:
        assert shell.engine.blocked.wait(30)
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=interrupt).start()
    shell.session.run_prompt(Typed("BLOCK;", KeyboardInterrupt, "SELECT 3;"))
    assert shell.out.getvalue() == "n\n-\n3\n(1 row)\n"
    assert "canceling" in shell.err.getvalue()
    assert "it was canceled" not in shell.err.getvalue()


def test_a_job_that_has_started_when_ctrl_c_comes_is_in_the_background(shell: Shell) -> None:
    execute = shell.engine.execute

    def interrupted(text: str) -> FixedResult:
        result = execute(text)
        if "START" in text:
            os.kill(os.getpid(), signal.SIGINT)
            assert shell.engine.canceled.wait(30)
        return result

    shell.engine.execute = interrupted  # type: ignore[method-assign]
    shell.session.run_prompt(Typed("START one running;", _ending(shell, "one"), "SELECT 3;"))
    assert "the job 'one' has finished" in shell.err.getvalue()


def _ending(shell: Shell, job: str) -> Callable[[], str]:
    def end() -> str:
        shell.engine.states[job] = PipelineState.FINISHED
        return "SELECT 1;"

    return end


def test_an_error_does_not_end_the_prompt(shell: Shell) -> None:
    shell.session.run_prompt(Typed("FAIL;", "SELECT 3;", "QUIT", "SELECT 4;"))
    assert shell.engine.executed == ["FAIL", "SELECT 3"]


def test_help_lists_statements_and_is_not_executed(shell: Shell) -> None:
    shell.session.run_prompt(Typed("help", "CLEAR"))
    assert "STOP JOB" in shell.err.getvalue()
    assert shell.engine.executed == []


def test_leaving_with_a_running_job_needs_an_answer(shell: Shell) -> None:
    prompt = Typed("START one running;", "QUIT", EOFError, "SELECT 1;", agrees=False)
    with pytest.raises(IndexError):
        shell.session.run_prompt(_Impatient(prompt, 2))
    assert (
        prompt.questions
        == ["1 job is running, and the same INSERT resumes it later. Stop and leave?"] * 2
    )
    shell.session.run_prompt(Typed("QUIT"))
    assert "the job 'one' is running" in shell.err.getvalue()


class _Impatient:
    """A user who is gone after some questions."""

    def __init__(self, prompt: Typed, questions: int) -> None:
        self.prompt = prompt
        self.questions = questions

    def read(self) -> str:
        if len(self.prompt.questions) == self.questions:
            raise IndexError
        return self.prompt.read()

    def confirm(self, question: str) -> bool:
        return self.prompt.confirm(question)


def test_the_prompt_tells_when_a_job_has_ended_in_the_background(shell: Shell) -> None:
    shell.run("START one running; START two running")
    shell.engine.states |= {"one": PipelineState.FAILED, "two": PipelineState.FINISHED}
    shell.session.run_prompt(Typed("SELECT 1;"))
    told = shell.err.getvalue()
    assert told.count("the job 'one' has failed: disk full") == 1
    assert "the job 'two' has finished: 30 rows read, 20 rows written" in told


def test_a_job_that_is_not_known_any_more_ends_neither_prompt_nor_script(shell: Shell) -> None:
    shell.run("START one running")
    del shell.engine.states["one"]
    shell.session.await_jobs()
    shell.session.run_prompt(Typed("SELECT 3;"))
    assert "3" in shell.out.getvalue()


def test_a_script_waits_for_its_jobs(shell: Shell) -> None:
    shell.run("START one running")
    finish = threading.Timer(0.3, lambda: shell.engine.states.update(one=PipelineState.FINISHED))
    finish.start()
    shell.session.await_jobs()
    assert shell.engine.states["one"] is PipelineState.FINISHED


@pytest.mark.parametrize("when", ["at once", "later"])
def test_a_failed_job_fails_the_script(shell: Shell, when: str) -> None:
    if when == "later":
        shell.run("START one running; START two running")
        shell.engine.states["one"] = PipelineState.FAILED
    with pytest.raises(ScriptFailedError):
        shell.session.await_jobs() if when == "later" else shell.run("START one failed")
    assert "the job 'one' has failed\n  found: disk full" in shell.err.getvalue()


def test_messages_have_no_commands_for_the_terminal(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    shell.run("START one running; START two running")
    error = "bad value \x1b]0;title\x07\n  at \x1b[2J"
    status = PipelineStatus(name="one", state=PipelineState.FAILED, queries=(), error=error)
    monkeypatch.setattr(shell.engine, "jobs", lambda: {"one": status})
    shell.session.run_prompt(Typed("SELECT 1;"))
    with pytest.raises(ScriptFailedError):
        shell.run("START one failed")
    told = shell.err.getvalue()
    assert told.count("bad value \\x1b]0;title\\x07\n  at \\x1b[2J\n") == 2
    assert "\x1b" not in told


def test_a_long_table_is_cut_and_goes_to_the_pager() -> None:
    shell = Shell(max_rows=12)
    shell.run("SELECT " + ", ".join(map(str, range(20))))
    shell.thread.close()
    (text,) = shell.paged
    assert text.splitlines()[-2:] == ["11", "(the first 12 rows; there are more)"]


def test_other_formats_have_only_the_rows() -> None:
    shell = Shell(Format.CSV)
    assert shell.run("USE a; SELECT 1, 2;") == "n\n1\n2\n"
    shell.thread.close()
    shell = Shell(Format.JSON, max_rows=1)
    assert shell.run("SELECT 1, 2; SELECT 3") == "{'n': '1'}\n{'n': '3'}\n"
    shell.thread.close()
    assert shell.engine.closed
