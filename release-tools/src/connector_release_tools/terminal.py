# SPDX-License-Identifier: Apache-2.0
"""What all commands share: the folder that they work on, and the console that they print to."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

__all__ = ["Root", "console"]

Root = Annotated[Path, typer.Option(help="A folder in the repository.", show_default="here")]


def console(*, stderr: bool = False) -> Console:
    """A console that marks nothing up and breaks no line, so that output can be read by programs.

    Args:
        stderr: Whether it prints where errors go.
    """
    return Console(stderr=stderr, highlight=False, markup=False, emoji=False, soft_wrap=True)
