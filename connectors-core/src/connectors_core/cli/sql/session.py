# SPDX-License-Identifier: Apache-2.0
"""Runs scripts and the statements of a prompt, one after another. Main thread."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, Protocol

from connectors_core.cli.sql.engine import Engine, Result
from connectors_core.cli.sql.help_text import COMMANDS, HELP
from connectors_core.cli.sql.job_progress import JobProgress, outcome, running
from connectors_core.cli.sql.output import Output
from connectors_core.cli.sql.rendering import error_lines
from connectors_core.cli.sql.statement_thread import StatementCanceledError, StatementThread
from connectors_core.engine.query.status import PipelineState
from connectors_core.errors import FatalError
from connectors_core.table.sql import SqlError
from connectors_core.table.sql.parsing import PlacedStatement, parse_placed

__all__ = ["Prompt", "ScriptFailedError", "Session"]

_VISIBLE: Final = re.compile(r"\S")
_POLL_SECONDS: Final = 0.2
_QUIT: Final = frozenset({"EXIT", "QUIT"})


class ScriptFailedError(Exception):
    """A statement of a script has failed. The cause, its error, has been shown."""


class Prompt(Protocol):
    """Asks the user."""

    def read(self) -> str:
        """Return statements.

        Raises:
            EOFError: The user leaves.
            KeyboardInterrupt: The user discards the text.
        """

    def confirm(self, question: str) -> bool:
        """Return whether the user agrees, or has left."""


@dataclass(eq=False)
class Session:
    """The statements of one user or script.

    Args:
        thread: Runs the statements.
        output: Prints their results.
        changed: Called after each statement, which can change the names that exist.
    """

    thread: StatementThread
    output: Output
    changed: Callable[[], None] = lambda: None
    _in_background: set[str] = field(default_factory=set, init=False)

    # --- scripts ---

    def run_script(self, text: str, name: str | None) -> bool:
        """Run all statements of a text up to an error.

        Args:
            text: The statements.
            name: The name of the file, for errors.

        Returns:
            Whether the script asks to leave.

        Raises:
            ScriptFailedError: A statement is wrong, and none has run; or one has failed.
            KeyboardInterrupt: Ctrl-C has canceled a statement.
        """
        try:
            statements = parse_placed(text)
        except SqlError as error:
            raise self._failed(error, text, name) from error
        for each in statements:
            try:
                if self._run(each, text):
                    return True
            except StatementCanceledError as canceled:
                raise KeyboardInterrupt from canceled
            except BrokenPipeError:
                raise  # no one reads the results any more
            except Exception as error:
                raise self._failed(error, text, name, each.start) from error
        return False

    def await_jobs(self) -> None:
        """Wait for the end of all jobs.

        Raises:
            ScriptFailedError: One has failed. The others run until the engine is closed.
        """
        jobs = self.thread.engine.jobs
        with JobProgress(jobs, self.output.console) as progress:
            while True:
                states = jobs()
                for name in self._in_background:
                    status = states.get(name)
                    if status is not None and status.state is PipelineState.FAILED:
                        error = _failure(name, status.error)
                        raise self._failed(error, "", None) from error
                if not running(states):
                    return
                progress.look()
                time.sleep(_POLL_SECONDS)

    # --- the prompt ---

    def run_prompt(self, prompt: Prompt) -> None:
        """Run the statements of a user until the user leaves."""
        while True:
            self._report_ended()
            try:
                leaves = self.run_script(prompt.read(), None)
            except ScriptFailedError:
                continue
            except KeyboardInterrupt:
                continue
            except EOFError:
                leaves = True
            if leaves and self._may_leave(prompt):
                return

    def _may_leave(self, prompt: Prompt) -> bool:
        found = running(self.thread.engine.jobs())
        if not found:
            return True
        jobs = "1 job is running" if len(found) == 1 else f"{len(found)} jobs are running"
        return prompt.confirm(f"{jobs}, and the same INSERT resumes it later. Stop and leave?")

    def _report_ended(self) -> None:
        """Tell which jobs in the background have ended since the last statement."""
        jobs = self.thread.engine.jobs()
        for name in sorted(self._in_background - running(jobs).keys()):
            self._in_background.remove(name)
            status = jobs.get(name)
            if status is not None:
                style = "red" if status.state is PipelineState.FAILED else None
                self.output.tell(f"the job {name!r} has {outcome(status)}", style)

    # --- one statement ---

    def _run(self, placed: PlacedStatement, text: str) -> bool:
        """Run one statement; return whether it asks to leave."""
        command = placed.text.upper()
        if command in COMMANDS:
            self._command(command)
            return command in _QUIT
        # At its place, so that errors name the line and the column in the whole text.
        statement = _VISIBLE.sub(" ", text[: placed.start]) + placed.text
        jobs, output = self.thread.engine.jobs, self.output

        def run(engine: Engine) -> tuple[Result, list[str]]:
            result = engine.execute(statement)
            return result, output.fetch(result)

        hidden = frozenset(running(jobs()))
        try:
            with JobProgress(jobs, output.console, hidden) as progress:
                result, lines = self.thread.run(run, progress.look)
        finally:
            self.changed()
            # Also after Ctrl-C, which can come after the start of a job.
            self._in_background |= running(jobs()).keys()
        output.show(lines)
        if result.job is not None:
            self._tell_of_job(result.job, told=progress.shown)
        return False

    def _command(self, command: str) -> None:
        if command == "HELP":
            self.output.tell(HELP.rstrip())
        elif command == "CLEAR":
            self.output.console.clear()

    def _tell_of_job(self, name: str, *, told: bool) -> None:
        status = self.thread.engine.jobs()[name]
        if status.state is PipelineState.RUNNING:
            self.output.tell(f"the job {name!r} is running")
        elif status.state is PipelineState.FAILED:
            self._in_background.discard(name)
            raise _failure(name, status.error)
        elif not told:
            self.output.tell(f"the job {name!r} has {outcome(status)}")

    def _failed(
        self, error: Exception, text: str, name: str | None, start: int = 0
    ) -> ScriptFailedError:
        first, *more = error_lines(error, text, name=name, start=start)
        self.output.console.print("error:", style="bold red", end=" ")
        self.output.tell("\n".join([first, *more]))
        return ScriptFailedError(first)


def _failure(name: str, found: str | None) -> FatalError:
    return FatalError(f"the job {name!r} has failed", found=found)
