# SPDX-License-Identifier: Apache-2.0
"""Tests the changelog suite: a correct table passes, and broken ones fail one case each."""

from __future__ import annotations

import pytest
from broken_connectors import failed_cases_by_suite
from toy_changelog import BROKEN, ChangesSuite

pytest_plugins = ["pytester"]
pytestmark = pytest.mark.line("4.3")  # without Spark

RUN_BROKEN = """
from toy_changelog import BROKEN, broken_suite
globals().update({f"Test{name}": broken_suite(name) for name in BROKEN})
"""


class TestChanges(ChangesSuite):
    pass


@pytest.mark.slow
def test_each_broken_changelog_fails_the_intended_case(pytester):
    found = failed_cases_by_suite(pytester, RUN_BROKEN)
    assert found == {f"Test{name}": {each.seen_by} for name, each in BROKEN.items()}
