# SPDX-License-Identifier: Apache-2.0
"""Checks the versions of cases that no release has.

They must be newer than the released suites. Otherwise, a released connector would have to declare
capabilities that it cannot know.
"""

from __future__ import annotations

import re
from pathlib import Path

from packaging.version import Version

import connectors_core.testing
from connector_release_tools.matrix.file import MATRIX, MatrixFile
from connector_release_tools.programs import output
from connectors_core.testing import SUITE_VERSION, ConnectorSuite

ROOT = Path(__file__).parents[2]
FOLDER = "connectors-core/src/connectors_core/testing"


def test_cases_that_are_not_released_are_newer_than_the_released_suites() -> None:
    majors = MatrixFile.read(ROOT / MATRIX).matrix().core.majors.values()
    commit = next(each.commit for each in majors if each.commit is not None)
    wanted = r"def test_|^SUITE_VERSION"
    released = output(("git", "grep", "-h", "-E", wanted, commit, "--", FOLDER), folder=ROOT)
    found = re.search(r'^SUITE_VERSION.*"(.*)"', released, re.MULTILINE)
    assert found is not None
    known = set(re.findall(r"def (test_\w+)", released))
    exported = [getattr(connectors_core.testing, name) for name in connectors_core.testing.__all__]
    suites = [
        each for each in exported if isinstance(each, type) and issubclass(each, ConnectorSuite)
    ]
    cases = {each for suite in suites for each in suite.cases()}
    assert len(cases) > 200
    new = {name: Version(case.since) for name, case in cases if name not in known}
    assert {name for name, since in new.items() if since <= Version(found[1])} == set()
    assert all(Version(case.since) <= Version(SUITE_VERSION) for _, case in cases)
