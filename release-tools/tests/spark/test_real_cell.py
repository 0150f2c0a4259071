# SPDX-License-Identifier: Apache-2.0
"""A cell of the matrix as it is: connector-filesystem on the Spark line of this lane."""

from __future__ import annotations

import subprocess
from importlib.metadata import version
from pathlib import Path

import pytest
from typer.testing import CliRunner

from connector_release_tools.cells.results import Outcome, Results
from connector_release_tools.cli import app

ROOT = Path(__file__).parents[3]
LINE = ".".join(version("pyspark").split(".")[:2])
CONNECTOR = "connector-filesystem"


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_the_marked_tests_of_a_connector_pass_in_its_cells(tmp_path: Path) -> None:
    clone = tmp_path / "clone"
    subprocess.run(["git", "clone", "--quiet", ROOT, clone], check=True)
    arguments = ["test", CONNECTOR, "--spark", LINE, "--root", str(clone)]
    done = CliRunner().invoke(app, arguments)
    results = Results.read(clone / "build" / "matrix" / "results.json").cells
    for release, result in results.items():
        log = clone / "build" / "matrix" / release.replace(" ", "-") / "log"
        print(log.read_text("utf-8"))  # shown where a cell fails
        assert result.outcome is Outcome.PASSED, result.problems
        assert result.counts["passed"] >= 20
        assert "failed" not in result.counts
        assert result.ran_on["spark"] == version("pyspark")
        assert result.ran_on[CONNECTOR].endswith(f".{LINE}")
    assert results
    assert done.exit_code == 0, done.output
    assert "has passed with the same inputs" in CliRunner().invoke(app, arguments).output
