# SPDX-License-Identifier: Apache-2.0
"""Lets the tests import the modules in this folder, and completes the report of the suites."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from not_run import NotRun


def pytest_configure(config: pytest.Config) -> None:
    """Add what a run leaves out to its report."""
    config.pluginmanager.register(NotRun(config))
