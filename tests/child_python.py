# SPDX-License-Identifier: Apache-2.0
"""Runs modules of the repository as separate programs."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]


def run_module(name: str, *options: str, timeout: float) -> subprocess.CompletedProcess[str]:
    """Run a module with the Python of the tests, on the driver and on executors."""
    return subprocess.run(
        [sys.executable, "-m", name, *options],
        cwd=ROOT,
        env={**os.environ, "PYSPARK_PYTHON": sys.executable},
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )
