# SPDX-License-Identifier: Apache-2.0
"""Runs a connector's suites on a cluster, from its tests."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar, Final

import pytest

_KILLED_WORKER: Final = "test_a_worker_that_is_killed_is_replaced"


class SuitesOnCluster:
    """Runs suites on a cluster with two workers, one of which is killed.

    Derive from this class and list the suites.

    Attributes:
        suites: The suites as pytest names them, in files next to this one:
            ``test_suites.py::TestSource``.
    """

    suites: ClassVar[tuple[str, ...]]

    @pytest.mark.slow
    @pytest.mark.timeout(1800)
    def test_no_case_fails(self, request: pytest.FixtureRequest, tmp_path: Path) -> None:
        """None of the named suites."""
        named = (suite.split("::") for suite in self.suites)
        suites = {name: request.path.parent / file for file, name in named}
        run_suites_on_cluster(suites, request.config, tmp_path)


def run_suites_on_cluster(suites: Mapping[str, Path], config: pytest.Config, folder: Path) -> None:
    """Run suites on a cluster with two workers, in a separate process with its own Spark.

    Args:
        suites: The names of the classes, with their files.
        config: The pytest configuration of the calling test.
        folder: The folder for the report and for the files of the suites.

    Raises:
        AssertionError: A case failed, or a suite saw no killed worker.
    """
    run = [sys.executable, "-m", "pytest", "-c", str(config.inipath), "-m", "not slow"]
    options = ["--connector-environment", "cluster", "--connector-report", str(folder / "report")]
    options += ["--rootdir", str(config.rootpath), "--basetemp", str(folder / "run")]
    classes = [f"{path}::{name}" for name, path in suites.items()]
    ended = subprocess.run(  # noqa: S603  # a command of the tests themselves
        [*run, *options, *classes], capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stdout[-6000:]
    report = json.loads((folder / "report.json").read_text())
    assert report["passed"]
    assert {
        result["suite"]
        for result in report["results"]
        if result["case"] == _KILLED_WORKER and result["outcome"] == "passed"
    } == suites.keys()
