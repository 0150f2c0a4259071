# SPDX-License-Identifier: Apache-2.0
"""Runs a suite on a broken connector."""

from __future__ import annotations

import json
from pathlib import Path

SHORT_DEADLINE = """
import sys
sys.path.insert(0, {folder!r})
import connectors_core.testing.trial as trial
trial.DEADLINE = {deadline}
"""


def failed_cases(pytester, module, only="test"):
    """Return the failing cases in a test module, without their parameters.

    Args:
        pytester: The fixture of pytest.
        module: The text of the module.
        only: A part of the names of the cases to run.
    """
    found = results(pytester, module, pytester.runpytest, only)
    return {each["case"].partition("[")[0] for each in found if each["outcome"] == "failed"}


def failed_cases_by_suite(pytester, module):
    """Return the failing cases of each suite in a test module, without their parameters."""
    failed = {}
    for each in results(pytester, module, pytester.runpytest):
        cases = failed.setdefault(each["suite"], set())
        if each["outcome"] == "failed":
            cases.add(each["case"].partition("[")[0])
    return failed


def results(pytester, module, run, only="test"):
    """Return the outcomes of the cases in a test module."""
    deadline = 25.0 if only == "test" else 6.0
    head = SHORT_DEADLINE.format(folder=str(Path(__file__).parent), deadline=deadline)
    pytester.makeini("[pytest]\nconnector_suites = true")
    pytester.makepyfile(test_broken=head + module)
    run("-q", "-m", "not slow", "-k", only, "--connector-report", "report")
    found = json.loads((pytester.path / "report.json").read_text())["results"]
    assert found
    return found


def table_with(broken, table):
    """Return a broken table: the class itself, or the toy table with this broken function."""
    if issubclass(broken, table):
        return broken
    name = broken.__name__
    made = type(name, (table,), {"function": broken})
    made.__module__, made.__qualname__ = broken.__module__, f"{name}.table"
    broken.table = made  # where pickle finds it
    return made
