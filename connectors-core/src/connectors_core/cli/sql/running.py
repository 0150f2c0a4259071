# SPDX-License-Identifier: Apache-2.0
"""Runs the shell from the start of Spark to its end."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.util import find_spec
from types import FrameType
from typing import Any

from rich.console import Console

from connectors_core.cli.sql.engine import Engine
from connectors_core.cli.sql.formats import Format
from connectors_core.cli.sql.job_progress import summary
from connectors_core.cli.sql.names import EngineNames, help_of
from connectors_core.cli.sql.output import MOST_ROWS, Output, page
from connectors_core.cli.sql.session import Prompt, Session
from connectors_core.cli.sql.statement_thread import StatementThread
from connectors_core.errors import MissingDependencyError
from connectors_core.spark.termination import STATUS

__all__ = ["Script", "ShellSettings", "run_shell"]


@dataclass(frozen=True, kw_only=True)
class Script:
    """Statements to run.

    Attributes:
        text: The statements.
        name: The name of their file, if any.
    """

    text: str = field(repr=False)
    name: str | None = None


@dataclass(frozen=True, kw_only=True)
class ShellSettings:
    """How the shell runs.

    Attributes:
        init: Runs first.
        script: Runs then. None asks for statements on the terminal.
        format: The format of results.
        max_rows: The most rows of a result; None for the default, 0 for all.
        spark_conf: Spark's own options.
        environment: The arguments of the table environment.
    """

    init: Script | None
    script: Script | None
    format: Format
    max_rows: int | None
    spark_conf: Mapping[str, str] = field(repr=False)
    environment: Mapping[str, Any] = field(repr=False)


def run_shell(settings: ShellSettings) -> None:
    """Run the shell to its end. Then all jobs have stopped.

    Raises:
        MissingDependencyError: A package is not installed.
        ScriptFailedError: A statement of a script has failed.
        KeyboardInterrupt: Ctrl-C has ended a script.
        SystemExit: SIGTERM has ended the shell.
    """
    is_interactive = settings.script is None
    if is_interactive:
        _check_prompt()
    console = Console(stderr=True)
    output = Output(
        stdout=sys.stdout,
        console=console,
        format=settings.format,
        max_rows=_most_rows(settings),
        pager=page if is_interactive and sys.stdout.isatty() else None,
    )
    with _sigterm():
        with console.status("starting Spark"):
            thread = StatementThread(lambda: _opened(settings), output.tell)
        try:
            _run(settings, thread, output)
        finally:
            thread.close()


def _run(settings: ShellSettings, thread: StatementThread, output: Output) -> None:
    session = Session(thread, output)
    if settings.init is not None:
        session.run_script(settings.init.text, settings.init.name)
    if settings.script is not None:
        session.run_script(settings.script.text, settings.script.name)
        session.await_jobs()
        return
    names, prompt = _prompt(thread)
    session.changed = names.forget
    output.tell("HELP lists the statements. QUIT leaves.")
    session.run_prompt(prompt)


def _opened(settings: ShellSettings) -> Engine:
    try:
        from connectors_core.spark.tables.shell_engine import ShellEngine
    except ModuleNotFoundError as error:
        if not (error.name or "").startswith("pyspark"):
            raise
        raise MissingDependencyError(
            "pyspark", install="pip install 'connectors-core[spark]'", feature="connectors sql"
        ) from error
    return ShellEngine.open(settings.spark_conf, **settings.environment)


def _prompt(thread: StatementThread) -> tuple[EngineNames, Prompt]:
    # Imported late: they need the extra `sql` and pyspark.
    from connectors_core.cli.sql.history import StatementHistory
    from connectors_core.cli.sql.prompt import TerminalPrompt
    from connectors_core.spark.tables.session_options import SessionOptions

    names = EngineNames(thread, help_of(SessionOptions.OPTIONS))
    prompt = TerminalPrompt(
        names,
        StatementHistory.of_user(),
        database=names.current_database,
        jobs=lambda: summary(thread.engine.jobs()),
    )
    return names, prompt


def _check_prompt() -> None:
    if find_spec("prompt_toolkit") is None:
        raise MissingDependencyError(
            "prompt_toolkit",
            install="pip install 'connectors-core[sql]'",
            feature="the prompt of connectors sql",
        )


def _most_rows(settings: ShellSettings) -> int | None:
    if settings.max_rows is None:
        return MOST_ROWS if settings.format is Format.TABLE else None
    return settings.max_rows or None


@contextmanager
def _sigterm() -> Iterator[None]:
    """End the program on SIGTERM as a pipeline does, once its jobs have stopped."""

    def leave(_number: int, _frame: FrameType | None) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        raise SystemExit(STATUS)

    before = signal.signal(signal.SIGTERM, leave)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
