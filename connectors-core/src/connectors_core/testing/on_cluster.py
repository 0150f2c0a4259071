# SPDX-License-Identifier: Apache-2.0
"""A connector's suites on a cluster, from its tests."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import ClassVar, Final

import pytest

_KILLED_WORKER: Final = "test_a_worker_that_is_killed_is_replaced"


class SuitesOnCluster:
    """Runs suites on a cluster with two workers, one of which is killed. Derive, and name them.

    Attributes:
        suites: As pytest names them, in files beside its own: ``test_suites.py::TestSource``.
    """

    suites: ClassVar[tuple[str, ...]]

    @pytest.mark.slow
    @pytest.mark.timeout(1800)
    def test_no_case_fails(self, request: pytest.FixtureRequest, tmp_path: Path) -> None:
        """In a process of its own: a process has one Spark."""
        config = request.config
        run = [sys.executable, "-m", "pytest", "-c", str(config.inipath), "-m", "not slow"]
        options = ["--connector-environment", "cluster", "--connector-report"]
        options += [str(tmp_path / "report"), "--rootdir", str(config.rootpath)]
        options += ["--basetemp", str(tmp_path / "run")]
        classes = [str(request.path.parent / suite) for suite in self.suites]
        ended = subprocess.run(  # noqa: S603  # a command of the tests themselves
            [*run, *options, *classes], capture_output=True, text=True, check=False
        )
        assert ended.returncode == 0, ended.stdout[-6000:]
        report = json.loads((tmp_path / "report.json").read_text())
        assert report["passed"]
        assert {
            result["suite"]
            for result in report["results"]
            if result["case"] == _KILLED_WORKER and result["outcome"] == "passed"
        } == {suite.partition("::")[2] for suite in self.suites}
