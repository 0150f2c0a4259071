# SPDX-License-Identifier: Apache-2.0
"""Other programs that the tools run: without a shell, their output kept for the error."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from connector_release_tools.errors import ProgramError

__all__ = ["output"]

_LAST_LINES: Final = 30


def output(
    command: Sequence[str | Path], *, folder: Path, env: Mapping[str, str] | None = None
) -> str:
    """Run a program and give what it prints, errors included.

    Args:
        command: The program and its arguments.
        folder: Where it runs.
        env: Its whole environment; that of this process if None.

    Raises:
        ProgramError: It is not there, or fails; the message ends with the last that it said.
    """
    words = [os.fspath(word) for word in command]
    try:
        done = subprocess.run(  # noqa: S603 (a list of arguments, no shell)
            words,
            cwd=folder,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            errors="replace",
            check=False,
        )
    except FileNotFoundError as error:
        raise ProgramError(f"there is no program {words[0]}") from error
    if done.returncode != 0:
        said = "\n".join(done.stdout.rstrip().splitlines()[-_LAST_LINES:])
        raise ProgramError(f"`{' '.join(words)}` failed ({done.returncode}) in {folder}:\n{said}")
    return done.stdout
