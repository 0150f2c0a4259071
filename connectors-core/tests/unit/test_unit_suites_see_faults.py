# SPDX-License-Identifier: Apache-2.0
"""Tests the unit suites: only the intended case detects each fault."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pytest
from broken_units import SEEN_BY

HERE = Path(__file__).parent
RUN = """
import sys
sys.path.insert(0, {folder!r})
from broken_units import suites
globals().update(suites())
"""


@pytest.fixture(scope="module")
def failed(tmp_path_factory):
    """Return the failed cases by suite, from one run with all broken parts."""
    folder = tmp_path_factory.mktemp("broken")
    (folder / "test_broken.py").write_text(RUN.format(folder=str(HERE)))
    command = [sys.executable, "-m", "pytest", "-q", "--tb=short", "-p", "no:cacheprovider"]
    command += ["-o", "connector_suites=true", "-k", "not fill_the_memory or TestFetches"]
    run = subprocess.run(
        [*command, "--connector-report", "report", "test_broken.py"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == pytest.ExitCode.TESTS_FAILED, run.stdout[-4000:] + run.stderr
    failed = defaultdict(dict)
    for each in json.loads((folder / "report.json").read_text())["results"]:
        if each["outcome"] == "failed":
            failed[each["suite"]][each["case"].partition("[")[0]] = each["reason"]
    return failed


@pytest.mark.slow
@pytest.mark.line("4.3", only=True)  # without Spark
@pytest.mark.timeout(1800)  # one run has all broken parts
@pytest.mark.parametrize("suite", sorted(SEEN_BY))
def test_a_fault_is_detected_only_by_its_case(suite, failed):
    assert failed[suite].keys() == SEEN_BY[suite], failed[suite]
