# SPDX-License-Identifier: Apache-2.0
"""Runs modules of the repository as separate programs."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]


def run_module(name: str, *options: str, timeout: float) -> subprocess.CompletedProcess[str]:
    """Run a module with the Python of the tests, on the driver and on executors.

    Raises:
        AssertionError: The program ran for longer than ``timeout`` seconds. It has the output.
    """
    command = [sys.executable, "-m", name, *options]
    with subprocess.Popen(
        command,
        cwd=ROOT,
        env={**os.environ, "PYSPARK_PYTHON": sys.executable, "PYTHONUNBUFFERED": "1"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as program:
        try:
            output, _ = program.communicate(timeout=timeout)
        except subprocess.TimeoutExpired as error:
            program.terminate()  # it ends the processes that it has started
            output, _ = program.communicate()
            raise AssertionError(f"{name} ran for over {timeout:.0f} s:\n{output}") from error
    return subprocess.CompletedProcess(command, program.returncode, output)
