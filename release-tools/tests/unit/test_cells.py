# SPDX-License-Identifier: Apache-2.0
"""Cells are selected, run on the right versions, and repeated only if necessary."""

import os
import platform
import sys
from pathlib import Path

import pytest
from cell_tree import make_testable, pyspark
from click.testing import Result as CommandResult
from git_tree import git
from hypothesis import given
from hypothesis import strategies as st
from matrix_tree import ONE, MatrixTree
from typer.testing import CliRunner

from connector_release_tools.cells import cell_run
from connector_release_tools.cells.cell_run import Expected, problems_of
from connector_release_tools.cells.results import Outcome, Result, Results, Selection
from connector_release_tools.cells.selection import corners, select
from connector_release_tools.cells.subject import subject
from connector_release_tools.cli import app
from connector_release_tools.errors import CellError, HistoryError, MatrixError, ProgramError
from connector_release_tools.git import Repository
from connector_release_tools.matrix.file import MatrixFile
from connector_release_tools.matrix.model import Matrix
from connector_release_tools.programs import follow

MATRIX = "compatibility-matrix.yaml"
PIN = {"commit": "1" * 40, "tree": "2" * 40, "released": "2026-11-01"}


def spark(version: str) -> dict[str, object]:
    return {"pyspark": version, "python": "3.11", "java": "17"}


def major(version: str, status: str, lines: list[str]) -> dict[str, object]:
    return {"version": version, "status": status, "spark": lines, "core": ">=1"}


TWO_MAJORS = Matrix.model_validate(
    {
        "spark": {"4.3": spark("4.3.0"), "3.5": spark("3.5.9")},
        "connectors": {
            ONE: {
                "majors": {
                    "3": major("3.0.0", "features", ["4.3", "3.5"]),
                    "2": {**major("2.1.0", "fixes", ["4.3", "3.5"]), **PIN},
                }
            },
            "connector-two": {"majors": {"1": major("1.0.0", "features", ["4.3"])}},
        },
    }
)


def names(cells) -> list[str]:
    return [str(cell.release) for cell in cells]


# --- Selection of cells ---------------------------------------------------------------------------


def test_the_default_cells_pair_the_newest_with_the_oldest():
    assert names(corners(select(TWO_MAJORS))) == [
        "connector-one 3.0.0-3.5",
        "connector-one 2.1.0-4.3",
        "connector-two 1.0.0-4.3",
    ]


@given(
    connector=st.sampled_from([None, ONE, "connector-two"]),
    lines=st.lists(st.sampled_from(["4.3", "3.5"]), min_size=1, max_size=2, unique=True),
)
def test_every_connector_has_at_most_two_corner_cells(connector, lines):
    cells = [cell for line in lines for cell in TWO_MAJORS.cells() if str(cell.spark) == line]
    cells = [cell for cell in TWO_MAJORS.cells() if cell in cells]
    if connector:
        cells = [cell for cell in cells if cell.connector == connector]
    found = corners(cells)
    assert {cell.connector for cell in found} == {cell.connector for cell in cells}
    assert len(found) <= 2 * len({cell.connector for cell in cells})
    assert all(cell in cells for cell in found)


@pytest.mark.parametrize(
    ("wanted", "cells"),
    [
        ({"connector": ONE, "major": 2}, ["connector-one 2.1.0-4.3", "connector-one 2.1.0-3.5"]),
        ({"spark": "3.5"}, ["connector-one 3.0.0-3.5", "connector-one 2.1.0-3.5"]),
        ({"connector": "connector-two"}, ["connector-two 1.0.0-4.3"]),
    ],
)
def test_cells_are_selected_by_connector_major_and_spark_line(wanted, cells):
    assert names(select(TWO_MAJORS, **wanted)) == cells


@pytest.mark.parametrize(
    ("wanted", "message", "hint"),
    [
        ({"connector": "connector-six"}, "no connector connector-six", f"of {ONE}, connector-two"),
        ({"connector": ONE, "major": 7}, "no major 7", "of 3, 2"),
        ({"connector": "connector-two", "spark": "3.5"}, "no Spark 3.5", "of 4.3"),
    ],
)
def test_unsupported_cells_are_refused(wanted, message, hint):
    with pytest.raises(MatrixError, match=message) as caught:
        select(TWO_MAJORS, **wanted)
    assert hint in caught.value.hint


# --- Inputs of a cell -----------------------------------------------------------------------------


def digest(tree: MatrixTree, *, working_tree: bool = False) -> str:
    repository = Repository(tree.root)
    matrix = MatrixFile.of(repository).matrix()
    return subject(repository, matrix, next(matrix.cells()), working_tree=working_tree).digest


@pytest.mark.parametrize(
    ("name", "text"),
    [
        (f"{ONE}/new.py", "1"),
        ("connectors-core/new.py", "1"),
        ("requirements/spark43.txt", "numpy==2.4.0\n"),
    ],
)
def test_a_change_to_a_tested_file_changes_the_digest(matrix_tree: MatrixTree, name, text):
    before = digest(matrix_tree)
    matrix_tree.commit({name: text})
    assert digest(matrix_tree) != before


def test_a_change_to_any_other_file_keeps_the_digest(matrix_tree: MatrixTree):
    before = digest(matrix_tree)
    matrix_tree.commit({"other.md": "1", "requirements/spark35.txt": "numpy==1.0\n"})
    assert digest(matrix_tree) == before


def test_uncommitted_changes_count_only_on_request(matrix_tree: MatrixTree):
    before = digest(matrix_tree)
    (matrix_tree.root / ONE / "new.py").write_text("1")
    assert digest(matrix_tree) == before
    assert digest(matrix_tree, working_tree=True) != before


def test_a_release_is_tested_from_its_pinned_tree(matrix_tree: MatrixTree):
    matrix_tree.release()
    before = digest(matrix_tree)
    matrix_tree.commit({f"{ONE}/new.py": "1"})
    assert digest(matrix_tree) == before


def test_a_shallow_clone_is_reported(matrix_tree: MatrixTree, tmp_path: Path):
    matrix_tree.release()
    matrix_tree.commit({f"{ONE}/new.py": "1"})
    clone = tmp_path / "clone"
    git(tmp_path, "clone", "--quiet", "--depth", "1", f"file://{matrix_tree.root}", str(clone))
    with pytest.raises(HistoryError) as caught:
        digest(MatrixTree(clone))
    assert caught.value.hint == "the clone is shallow; run `git fetch --unshallow`"


# --- Actual versions ------------------------------------------------------------------------------


def facts(environment: Path, **other: object) -> dict[str, object]:
    package = {"file": str(environment / "lib/x.py"), "url": "file:///wheels/one.whl"}
    return {
        "python": "3.11.4",
        "running": {"spark": "3.5.9", "java": "17.0.9"},
        "packages": {
            ONE: {**package, "version": "2.0.0.3.5"},
            "pyspark": {**package, "url": None, "version": "3.5.9"},
        },
        **other,
    }


def expected(environment: Path) -> Expected:
    wheels = {ONE: Path("/wheels/one.whl")}
    return Expected(environment, wheels, pyspark="3.5.9", python="3.11", java="17")


def test_a_cell_that_ran_on_the_expected_versions_has_no_problem(tmp_path: Path):
    assert list(problems_of(facts(tmp_path), expected(tmp_path))) == []


@pytest.mark.parametrize(
    ("path", "value", "problem"),
    [
        (("python",), "3.12.1", "Python was 3.12, the matrix has 3.11"),
        (("running", "spark"), "4.3.0", "Spark was 4.3.0, the matrix has 3.5.9"),
        (("running", "java"), "21.0.1", "Java was 21, the matrix has 17"),
        (("running",), {}, "no test started Spark, so the cell proves nothing for this line"),
        (("packages", "pyspark", "version"), "3.5.8", "pyspark was 3.5.8, the matrix has 3.5.9"),
        (
            ("packages", ONE, "file"),
            "/src/connector_one/__init__.py",
            f"{ONE} was imported from /src/connector_one/__init__.py, not from the environment of",
        ),
        (
            ("packages", ONE, "url"),
            "file:///wheels/other.whl",
            f"{ONE} was installed from file:///wheels/other.whl, expected /wheels/one.whl",
        ),
    ],
)
def test_a_cell_that_ran_on_other_versions_reports_them(tmp_path: Path, path, value, problem):
    found = facts(tmp_path)
    *way, last = path
    place = found
    for key in way:
        place = place[key]
    place[last] = value
    (said,) = problems_of(found, expected(tmp_path))
    assert problem in said


# --- Results --------------------------------------------------------------------------------------


def result(**other: object) -> Result:
    made = {
        "digest": "a", "tests": "marked", "outcome": "passed", "tree": "1" * 40, "core": "2" * 40,
        "seconds": 1.5, "finished": "2026-11-22T10:00:00Z", "counts": {"passed": 3},
        "new": {"S.young": "failed"},
        "ran_on": {"core": "1.4.0", "spark": "3.5.9", "java": "17.0.9", "python": "3.11.7"},
    }  # fmt: skip
    return Result.model_validate({**made, **other})


@pytest.mark.parametrize(
    ("stored", "tests", "holds"),
    [
        ({}, Selection.MARKED, True),
        ({"tests": "all"}, Selection.MARKED, True),
        ({}, Selection.ALL, False),
        ({"digest": "b"}, Selection.MARKED, False),
        ({"outcome": "failed"}, Selection.MARKED, False),
    ],
)
def test_a_result_is_valid_for_the_same_inputs_and_no_additional_tests(stored, tests, holds):
    assert result(**stored).holds_for("a", tests) is holds


def test_results_are_stored_and_shown_in_a_table(tmp_path: Path):
    path = tmp_path / "results.json"
    assert Results.read(path).cells == {}
    results = Results(cells={"connector-one 2.0.0-3.5": result()})
    results.write(path)
    assert Results.read(path) == results
    assert (tmp_path / "results.md").read_text().splitlines()[2] == (
        "| connector-one 2.0.0-3.5 | passed | 3 passed, 1 new cases (marked) | 1.4.0 | 3.5.9 | "
        "17.0.9 | 3.11.7 | 1111111111 | 2222222222 | 2026-11-22 |"
    )


def test_a_file_without_results_is_refused(tmp_path: Path):
    path = tmp_path / "results.json"
    path.write_text('{"cells": {"x": {}}}')
    with pytest.raises(CellError, match="does not contain cell results"):
        Results.read(path)


def test_a_cell_removed_from_the_matrix_is_removed_from_the_results():
    results = Results(cells={"connector-one 1.0.0-3.5": result()})
    name = "connector-one 2.0.0-3.5"
    assert results.having(name, result(), {name}) == Results(cells={name: result()})


# --- A run ----------------------------------------------------------------------------------------


@pytest.fixture
def cell_tree(matrix_tree: MatrixTree, tmp_path: Path, monkeypatch) -> MatrixTree:
    cache = tmp_path / "cache"
    for version in ("3.5.9", "4.3.0"):
        pyspark(cache / "connectors" / "wheelhouse", version)
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache))
    make_testable(matrix_tree)
    return matrix_tree


def run(tree: MatrixTree, *arguments: str) -> CommandResult:
    return CliRunner().invoke(app, ["test", *arguments, "--root", str(tree.root)])


def stored(tree: MatrixTree) -> dict[str, Result]:
    return Results.read(tree.root / "build/matrix/results.json").cells


def test_a_cell_runs_again_only_after_a_change(cell_tree: MatrixTree):
    done = run(cell_tree, "--spark", "3.5")
    assert done.exit_code == 0, done.output
    found = stored(cell_tree)["connector-one 2.0.0-3.5"]
    assert found.outcome is Outcome.PASSED
    assert found.counts == {"passed": 1}
    assert found.new == {"S.young": "failed"}
    assert found.ran_on["connector-one"] == "2.0.0.3.5"
    assert (found.ran_on["core"], found.ran_on["spark"]) == ("1.4.0", "3.5.9")
    folder = cell_tree.root / "build/matrix/connector-one-2.0.0-3.5"
    assert "test_marked PASSED" in (folder / "log").read_text()
    assert {each.name for each in folder.iterdir()} >= {"junit.xml", "report.json", "facts.json"}
    assert not (folder / "environment").exists()

    assert "already passed with the same inputs" in run(cell_tree, "--spark", "3.5").output
    assert "would run" in run(cell_tree, "--spark", "3.5", "--all-tests", "--dry-run").output
    assert stored(cell_tree)["connector-one 2.0.0-3.5"] == found

    cell_tree.commit({"connectors-core/src/connectors_core/__init__.py": "LEVEL = 2\n"})
    failed = run(cell_tree, "--spark", "3.5")
    assert failed.exit_code == 1
    assert "pytest exited with 1; see " in failed.output
    assert stored(cell_tree)["connector-one 2.0.0-3.5"].outcome is Outcome.FAILED


def test_a_release_is_built_from_its_pin_and_runs_with_the_current_core(cell_tree: MatrixTree):
    commit = cell_tree.release()
    cell_tree.commit(
        {
            f"{ONE}/src/connector_one/__init__.py": "raise ImportError('this is main')\n",
            "connectors-core/pyproject.toml": cell_tree.text(
                "connectors-core/pyproject.toml"
            ).replace("1.4.0", "1.5.0"),
        }
    )
    done = run(cell_tree, ONE, "--major", "2", "--spark", "4.3")
    assert done.exit_code == 0, done.output
    (found,) = stored(cell_tree).values()
    assert found.tree == git(cell_tree.root, "rev-parse", f"{commit}:{ONE}")
    assert found.ran_on["core"] == "1.5.0"


def test_a_cell_that_cannot_be_built_fails_and_the_others_run(cell_tree: MatrixTree):
    cell_tree.change(
        f"{ONE}/hatch_build.py", 'os.environ["CONNECTOR_SPARK"]', '{"3.5": "3.5"}[os.environ'
        '["CONNECTOR_SPARK"]]'
    )  # fmt: skip
    done = run(cell_tree, "--all", "--all-tests")
    assert done.exit_code == 1
    found = stored(cell_tree)
    assert found["connector-one 2.0.0-4.3"].outcome is Outcome.FAILED
    assert "KeyError: '4.3'" in found["connector-one 2.0.0-4.3"].problems[0]
    assert found["connector-one 2.0.0-3.5"].counts == {"passed": 2}


def test_an_incompatible_core_fails_the_cell(cell_tree: MatrixTree):
    cell_tree.change("connectors-core/pyproject.toml", "1.4.0", "2.0.0")
    done = run(cell_tree, "--spark", "4.3")
    assert done.exit_code == 1
    assert "connectors-core>=1.0,<2" in stored(cell_tree)["connector-one 2.0.0-4.3"].problems[0]


def test_an_interrupted_run_keeps_finished_results(cell_tree: MatrixTree, monkeypatch):
    ended = iter([result(digest="first")])

    def run_one(*arguments: object, **options: object) -> Result:
        try:
            return next(ended)
        except StopIteration:
            raise KeyboardInterrupt from None

    monkeypatch.setattr(cell_run, "run", run_one)
    assert run(cell_tree, "--all").exit_code == 130
    assert {name: it.digest for name, it in stored(cell_tree).items()} == {
        "connector-one 2.0.0-4.3": "first"
    }


def test_a_dry_run_runs_nothing(cell_tree: MatrixTree):
    done = run(cell_tree, "--all", "--dry-run")
    assert done.output.splitlines() == [
        "connector-one 2.0.0-4.3: would run",
        "connector-one 2.0.0-3.5: would run",
    ]
    assert not (cell_tree.root / "build").exists()


def test_a_connector_that_is_not_registered_is_tested_as_its_folder_declares_it(
    cell_tree: MatrixTree,
):
    cell_tree.commit(
        {"compatibility-matrix.yaml": cell_tree.text(MATRIX).replace(ONE, "connector-x")}
    )
    before = cell_tree.text(MATRIX)
    done = run(cell_tree, f"{ONE}/", "--dry-run")
    assert done.output.splitlines() == [
        f"{ONE}: not registered, so tested as its pyproject.toml declares it",
        f"{ONE} 2.0.0-3.5: would run",
        f"{ONE} 2.0.0-4.3: would run",
    ]
    done = run(cell_tree, ONE, "--spark", "4.3")
    assert done.exit_code == 0, done.output
    assert stored(cell_tree)[f"{ONE} 2.0.0-4.3"].counts == {"passed": 1}
    assert cell_tree.text(MATRIX) == before


PAGE = "# Tested\n\n<!-- tested -->\n<!-- end -->\n"


def test_a_run_of_all_cells_records_its_results(cell_tree: MatrixTree):
    cell_tree.commit({"docs/reference/tested.md": PAGE})
    done = run(cell_tree, "--all", "--record")
    assert done.exit_code == 0, done.output
    tree = git(cell_tree.root, "rev-parse", f"HEAD:{ONE}")[:10]
    python = platform.python_version()
    assert (
        "| connector-one 2.0.0-4.3 | passed | 1 passed, 1 new cases (marked) | 1.4.0 | 4.3.0 "
        f"| 17.0.9 | {python} | {tree} |"
    ) in cell_tree.text("docs/reference/tested.md")
    assert "docs/reference/tested.md" not in cell_tree.matrix("check").output


def test_a_run_with_a_failed_cell_records_nothing(cell_tree: MatrixTree):
    cell_tree.commit({"docs/reference/tested.md": PAGE})
    cell_tree.change(f"{ONE}/tests/test_one.py", "LEVEL == 1", "LEVEL == 2")
    assert run(cell_tree, "--all", "--record").exit_code == 1
    assert cell_tree.text("docs/reference/tested.md") == PAGE


@pytest.mark.parametrize(
    "others", [[], ["--all", "--spark", "3.5"], ["--all", "--working-tree"], ["--all", ONE]]
)
def test_the_results_of_some_cells_are_not_recorded(cell_tree: MatrixTree, others):
    done = run(cell_tree, "--record", *others)
    assert done.exit_code == 2
    assert "--record needs the results of all cells" in str(done.exception) + done.output


def test_a_run_reports_that_uncommitted_changes_do_not_count(cell_tree: MatrixTree):
    (cell_tree.root / "connectors-core" / "new.py").write_text("1")
    output = run(cell_tree, "--dry-run").output
    assert output.startswith("connectors-core: tested as in HEAD, without uncommitted")


# --- Long programs --------------------------------------------------------------------------------


def test_a_program_is_followed_line_by_line(tmp_path: Path):
    lines: list[str] = []
    program = "print('one'); print('two'); raise SystemExit(3)"
    log = tmp_path / "log"
    code = follow(
        (sys.executable, "-c", program), folder=tmp_path, env={}, log=log, on_line=lines.append
    )
    assert (code, lines, log.read_text()) == (3, ["one\n", "two\n"], "one\ntwo\n")


def test_an_interrupted_run_ends_the_program_and_its_children(tmp_path: Path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    program = (
        "import subprocess, sys, time\n"
        f"held = open({str(pipe)!r}, 'w')\n"
        "wait = 'import time; time.sleep(600)'\n"
        "subprocess.Popen([sys.executable, '-c', wait], pass_fds=[held.fileno()])\n"
        "print('started', flush=True)\n"
        "time.sleep(600)\n"
    )

    def interrupt(text: str) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        follow(
            (sys.executable, "-c", program),
            folder=tmp_path,
            env={},
            log=tmp_path / "log",
            on_line=interrupt,
        )
    os.set_blocking(reader, True)
    assert os.read(reader, 1) == b""  # ends when the last writer has ended
    os.close(reader)


def test_a_missing_program_is_reported(tmp_path: Path):
    with pytest.raises(ProgramError, match="the program no-such-program was not found"):
        follow(("no-such-program",), folder=tmp_path, env={}, log=tmp_path / "log", on_line=print)
