# SPDX-License-Identifier: Apache-2.0
"""Prints results on standard output, and everything else on standard error."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final, TextIO

from rich.cells import cell_len
from rich.console import Console

from connectors_core.cli.sql.engine import Result
from connectors_core.cli.sql.formats import Format
from connectors_core.cli.sql.rendering import csv_line, table_lines, text_lines

__all__ = ["MOST_ROWS", "Output", "page"]

MOST_ROWS: Final = 1_000
"""The rows of a table, unless the user sets another number."""


@dataclass(frozen=True, kw_only=True)
class Output:
    """Where and how results are printed.

    Attributes:
        stdout: Receives results.
        console: Receives messages.
        format: The format of results.
        max_rows: The most rows of a result; None for all.
        pager: Shows long tables; None prints them.
    """

    stdout: TextIO
    console: Console
    format: Format
    max_rows: int | None
    pager: Callable[[str], None] | None = None

    def fetch(self, result: Result) -> list[str]:
        """Print the rows of a result, or return its lines if people read them.

        Runs on the thread of the statements, because it waits for Spark.
        """
        if not result.columns:
            return []
        if self.format is Format.TABLE:
            return list(self._table(result))
        if self.format is Format.JSON:
            self._print(result.json_rows(self.max_rows))
        else:
            self._print([csv_line(result.columns)])
            self._print(map(csv_line, result.rows(self.max_rows)))
        return []

    def show(self, lines: list[str]) -> None:
        """Print the lines of a table, in a pager if they do not fit on the screen."""
        width, height = self.console.size
        fits = len(lines) < height and all(cell_len(line) <= width for line in lines)
        if self.pager is None or fits:
            self._print(lines)
        else:
            self.pager("\n".join([*lines, ""]))

    def tell(self, message: str, style: str | None = None) -> None:
        """Print a message, of which no terminal takes a part as a command."""
        shown = "\n".join(text_lines(message))
        self.console.print(shown, style=style, markup=False, highlight=False, soft_wrap=True)

    def _table(self, result: Result) -> Iterable[str]:
        limit = self.max_rows
        found = list(result.rows(None if limit is None else limit + 1))
        if len(found) == 1 and len(found[0]) == 1 and "\n" in (found[0][0] or ""):
            yield from text_lines(found[0][0] or "")
            return
        shown = found[:limit]
        yield from table_lines(result.columns, shown, result.numbers)
        more = len(shown) < len(found)
        rows = "1 row" if len(shown) == 1 else f"{len(shown):,} rows"
        yield f"({f'the first {rows}; there are more' if more else rows})"

    def _print(self, lines: Iterable[str]) -> None:
        for line in lines:
            self.stdout.write(f"{line}\n")
        self.stdout.flush()


def page(text: str) -> None:
    """Show a text in the pager of the user, which scrolls long lines if it is less."""
    command = shlex.split(os.environ.get("PAGER") or "less")
    environment = {"LESS": "-FRSX", **os.environ}
    before = signal.signal(signal.SIGINT, lambda *_: None)  # Ctrl-C belongs to the pager
    try:
        subprocess.run(command, input=text, text=True, env=environment, check=False)  # noqa: S603
    except FileNotFoundError:
        print(text, end="")
    finally:
        signal.signal(signal.SIGINT, before)
