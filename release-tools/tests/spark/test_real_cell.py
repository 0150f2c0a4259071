# SPDX-License-Identifier: Apache-2.0
"""Tests real cells on the Spark line of this run; two corners of the matrix are not slow."""

from __future__ import annotations

import subprocess
from importlib.metadata import version
from pathlib import Path

import pytest
from typer.testing import CliRunner

from connector_release_tools.cells.results import Outcome, Results
from connector_release_tools.cells.selection import corners
from connector_release_tools.cli import app
from connector_release_tools.git import Repository
from connector_release_tools.matrix.file import MatrixFile
from connector_release_tools.matrix.model import Cell

ROOT = Path(__file__).parents[3]
LINE = ".".join(version("pyspark").split(".")[:2])
CELLS = list(MatrixFile.of(Repository(ROOT)).matrix().cells())
# The corners of one connector; a full run tests all cells.
CORNERS = [cell for cell in corners(CELLS) if cell.connector == "connector-kafka"]
OF_THIS_LANE = [
    pytest.param(cell, id=str(cell.release), marks=() if cell in CORNERS else [pytest.mark.slow])
    for cell in CELLS
    if str(cell.spark) == LINE
]


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    clone = tmp_path_factory.mktemp("cells") / "clone"
    subprocess.run(["git", "clone", "--quiet", ROOT, clone], check=True)
    return clone


@pytest.mark.timeout(900)
@pytest.mark.parametrize("cell", OF_THIS_LANE)
def test_the_marked_tests_of_a_connector_pass_in_its_cell(clone: Path, cell: Cell) -> None:
    major, name = str(cell.release.version.version.major), str(cell.release)
    arguments = [
        "test", cell.connector, "--major", major, "--spark", LINE, "--root", str(clone)
    ]  # fmt: skip
    done = CliRunner().invoke(app, arguments)
    result = Results.read(clone / "build" / "matrix" / "results.json").cells[name]
    print((clone / "build" / "matrix" / name.replace(" ", "-") / "log").read_text("utf-8"))
    assert result.outcome is Outcome.PASSED, result.problems
    assert done.exit_code == 0, done.output
    assert result.counts["passed"] >= 10
    assert "failed" not in result.counts
    assert result.ran_on["spark"] == version("pyspark")
    assert result.ran_on[cell.connector] == cell.release.version.package_version
    if cell.major.tree is not None:
        assert result.tree == cell.major.tree
    assert "already passed with the same inputs" in CliRunner().invoke(app, arguments).output
