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
# Time in which a terminated program must end.
_GRACE_SECONDS: Final = 10


def output(
    command: Sequence[str | Path], *, folder: Path, env: Mapping[str, str] | None = None
) -> str:
    """Run a program and return its output, including standard error.

    Args:
        command: The program and its arguments.
        folder: Where it runs.
        env: Its whole environment; that of this process if None.

    Raises:
        ProgramError: It is not there, or fails; the message ends with the last that it said.
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
    """Run a long program and pass on its lines as they arrive.

    Args:
        command: The program and its arguments.
        folder: Where it runs.
        env: Its whole environment.
        log: The file that its output is added to.
        on_line: Is given each line of its output.

    Returns:
        Its exit code. When this process is interrupted, the program and what it has started end
        first.

    Raises:
        ProgramError: It is not there.
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
        raise ProgramError(f"there is no program {words[0]}") from error


def _end(process: subprocess.Popen[str]) -> None:
    """End a program that leads its own group, and the group with it."""
    os.killpg(process.pid, signal.SIGTERM)
    try:
        process.wait(_GRACE_SECONDS)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
