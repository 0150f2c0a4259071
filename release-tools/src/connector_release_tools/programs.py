# SPDX-License-Identifier: Apache-2.0
"""Runs other programs without a shell, and keeps their output for errors."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from connector_release_tools.errors import ProgramError

__all__ = ["follow", "output"]

_LAST_LINES: Final = 30
# Time that a program has to end after SIGTERM.
_GRACE_SECONDS: Final = 10


def output(
    command: Sequence[str | Path], *, folder: Path, env: Mapping[str, str] | None = None
) -> str:
    """Run a program and return its output, including standard error.

    Args:
        command: The program and its arguments.
        folder: The working directory.
        env: Its complete environment; None inherits that of this process.

    Raises:
        ProgramError: The program is missing or fails; the message ends with its last output.
    """
    words = [os.fspath(word) for word in command]
    with _started(words, folder, env) as process:
        try:
            text, _ = process.communicate()
        except BaseException:
            process.kill()
            raise
    if process.returncode != 0:
        said = "\n".join(text.rstrip().splitlines()[-_LAST_LINES:])
        raise ProgramError(
            f"`{' '.join(words)}` failed ({process.returncode}) in {folder}:\n{said}"
        )
    return text


def follow(
    command: Sequence[str | Path],
    *,
    folder: Path,
    env: Mapping[str, str],
    log: Path,
    on_line: Callable[[str], None],
) -> int:
    """Run a long program and report its output line by line.

    Args:
        command: The program and its arguments.
        folder: The working directory.
        env: Its complete environment.
        log: The file to append its output to.
        on_line: Called with each line of its output.

    Returns:
        The exit code. If this process is interrupted, it first ends the program and its children.

    Raises:
        ProgramError: The program is missing.
    """
    words = [os.fspath(word) for word in command]
    process = _started(words, folder, env, new_session=True)
    with process, log.open("a", encoding="utf-8") as written:
        try:
            for text in process.stdout or ():
                written.write(text)
                on_line(text)
            return process.wait()
        except BaseException:
            _end(process)
            raise


def _started(
    words: list[str], folder: Path, env: Mapping[str, str] | None, *, new_session: bool = False
) -> subprocess.Popen[str]:
    try:
        return subprocess.Popen(  # noqa: S603 (a list of arguments, no shell)
            words,
            cwd=folder,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            errors="replace",
            start_new_session=new_session,
        )
    except FileNotFoundError as error:
        raise ProgramError(f"the program {words[0]} was not found") from error


def _end(process: subprocess.Popen[str]) -> None:
    """End a program and its process group."""
    os.killpg(process.pid, signal.SIGTERM)
    try:
        process.wait(_GRACE_SECONDS)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
