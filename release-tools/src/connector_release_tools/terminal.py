# SPDX-License-Identifier: Apache-2.0
"""Shared by commands: the options for the repository and a pull request, and the console."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Final

import typer
from rich.console import Console

__all__ = ["PULL_REQUEST", "Root", "console", "wide_console"]

# The width of a table in a file or a pipe.
_WIDE: Final = 160

Root = Annotated[Path, typer.Option(help="A folder inside the repository.", show_default="here")]

# Its type is Path, or Path | None if git can replace it.
PULL_REQUEST: Final[Any] = typer.Option(
    metavar="FILE.json",
    help="The pull request to check: the response of the GitHub API as JSON, with its files and "
    "reviews. Its author and the approvals of its head show who did something.",
)


def console(*, stderr: bool = False) -> Console:
    """Return a console without markup and line breaks, so that programs can read the output.

    Args:
        stderr: Whether it prints to standard error.
    """
    return Console(stderr=stderr, highlight=False, markup=False, emoji=False, soft_wrap=True)


def wide_console() -> Console:
    """Return a console for tables, which are wide in a file or a pipe."""
    console = Console(highlight=False, markup=False, emoji=False)
    if not console.is_terminal:
        console.width = _WIDE
    return console
