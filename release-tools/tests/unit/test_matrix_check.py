# SPDX-License-Identifier: Apache-2.0
"""Every difference from the matrix is reported with the found and the expected value."""

import shutil
from pathlib import Path

import pytest
from git_tree import git
from matrix_tree import ONE, TABLE, TEMPLATE, MatrixTree

from connector_release_tools.git import Repository
from connector_release_tools.matrix.checks import findings
from connector_release_tools.matrix.file import MatrixFile
from connector_release_tools.matrix.schema import SCHEMA, schema

DOCTOR = "connectors-core/src/connectors_core/cli/doctor.py"
MATRIX = "compatibility-matrix.yaml"


def test_this_repository_matches_its_matrix():
    repository = Repository.around(Path(__file__).parent)
    assert list(findings(repository, MatrixFile.of(repository).matrix())) == []


def test_the_schema_matches_the_classes():
    assert SCHEMA.read_text("utf-8") == schema(), "run `release-tools matrix schema`"


def test_a_tree_without_drift_passes(matrix_tree: MatrixTree):
    result = matrix_tree.matrix("check")
    assert (result.exit_code, result.output) == (
        0,
        "everything agrees with compatibility-matrix.yaml\n",
    )


@pytest.mark.parametrize(
    ("name", "old", "new", "message"),
    [
        ("Makefile", "35 43", "43", 'Makefile: LINES is "43", the matrix has "35 43"'),
        ("Makefile", "LINES", "lines", "Makefile: LINES is missing"),
        (
            f"{ONE}/pyproject.toml",
            'version = "2.0.0"',
            'version = "2.1.0"',
            f'{ONE}/pyproject.toml: [tool.connector] version is "2.1.0", the matrix has "2.0.0"',
        ),
        (
            f"{ONE}/pyproject.toml",
            '"3.5", "4.3"',
            '"4.3"',
            f'{ONE}/pyproject.toml: [tool.connector] spark is ["4.3"], the matrix has '
            '["3.5", "4.3"]',
        ),
        (
            f"{ONE}/pyproject.toml",
            "[project]",
            "[project",
            "pyproject.toml: it is not valid TOML: ",
        ),
        (
            f"{ONE}/pyproject.toml",
            "core>=1.0,<2",
            "core>=1.4,<2",
            f"{ONE}/pyproject.toml: the dependency is connectors-core<2,>=1.4, the matrix has "
            "connectors-core>=1.0,<2",
        ),
        (
            f"{ONE}/pyproject.toml",
            "One_Client",
            "other",
            f"{ONE}/pyproject.toml: the dependency one-client is missing, the matrix has "
            "one-client>=7",
        ),
        (
            f"{ONE}/pyproject.toml",
            ">=3.11",
            ">=3.12",
            f"{ONE}/pyproject.toml: requires-python >=3.12 excludes Python 3.11 of Spark 3.5",
        ),
        (
            f"{ONE}/hatch_build.py",
            "numpy<2",
            "numpy<3",
            f'{ONE}/hatch_build.py: LIBRARIES is {{"3.5": ["numpy<3"], "4.3": ["pandas<3"]}}, the '
            'matrix has {"3.5": ["numpy<2"], "4.3": ["pandas<3"]}',
        ),
        (f"{TEMPLATE}/hatch_build.py", "numpy<2", "numpy<3", f"{TEMPLATE}/hatch_build.py: LIBR"),
        (f"{ONE}/tox.ini", "spark35, ", "", f"{ONE}/tox.ini: env_list is "),
        (f"{ONE}/tox.ini", "SPARK = 4.3", "SPARK = 4.2", f"{ONE}/tox.ini: [pkgenv] set_env is "),
        (f"{ONE}/tox.ini", "[pkgenv]", "[pkg]", f"{ONE}/tox.ini: [pkgenv] set_env is missing"),
        (
            f"{ONE}/README.md",
            "2.0.0-4.3",
            "1.0.0-4.3",
            f"{ONE}/README.md: the table between `<!-- compatibility -->` and `<!-- end -->` is "
            "not that of the matrix",
        ),
        ("README.md", "<!-- compat", "<!-- combat", "README.md: the table"),
        (
            f"{ONE}/.github/workflows/ci.yml",
            "connector: connector-one",
            "connector: connector-two",
            f"{ONE}/.github/workflows/ci.yml: it calls the shared workflow for connector-two, "
            f"expected {ONE}",
        ),
        (
            f"{ONE}/.github/workflows/ci.yml",
            "connector.yml@",
            "other.yml@",
            f"{ONE}/.github/workflows/ci.yml: it does not call a version of the shared",
        ),
        (
            f"{ONE}/src/connector_one/__init__.py",
            "check_spark('connector-one')",
            "check_spark('connector-two')",
            f"{ONE}/src/connector_one/__init__.py: the import does not compare the installed",
        ),
        (
            "pyproject.toml",
            "connector_one",
            "connector_two",
            "pyproject.toml: tool.importlinter: root_packages has no connector_one",
        ),
        (
            "requirements/pyspark35.txt",
            "3.5.9",
            "3.5.8",
            "requirements/pyspark35.txt: it pins pyspark 3.5.8, the matrix has 3.5.9",
        ),
        (
            "requirements/spark35.in",
            "numpy<2",
            "numpy",
            "requirements/spark35.in: it pins [], the matrix has ['numpy<2']",
        ),
        (
            "requirements/spark35.txt",
            "numpy==1.26.4",
            "numpy==2.0.0",
            "requirements/spark35.txt: numpy is 2.0.0, requirements/spark35.in has numpy<2",
        ),
        (
            DOCTOR,
            '"3.5": (8, 17), ',
            "",
            f"{DOCTOR}: SPARK_LINES contains ['4.3'], the matrix has ['3.5', '4.3']",
        ),
        (DOCTOR, "(8, 17)", "(8,)", f"{DOCTOR}: SPARK_LINES has no Java 17 for 3.5"),
        (
            "connectors-core/pyproject.toml",
            "1.4.0",
            "2.0.0",
            f"{MATRIX}: {ONE} 2: core >=1.0,<2 excludes connectors-core 2.0.0 of this tree",
        ),
    ],
)
def test_drift_is_reported(matrix_tree: MatrixTree, name, old, new, message):
    matrix_tree.change(name, old, new)
    result = matrix_tree.matrix("check")
    assert result.exit_code == 1
    assert message in result.output


def test_all_findings_are_reported_at_once(matrix_tree: MatrixTree):
    matrix_tree.change("Makefile", "35 43", "43")
    matrix_tree.change(f"{ONE}/tox.ini", "spark35", "spark34")
    output = matrix_tree.matrix("check").output
    assert "Makefile: " in output
    assert f"{ONE}/tox.ini: " in output


def test_fix_writes_only_content_derived_from_the_matrix(matrix_tree: MatrixTree):
    for name in ("README.md", f"{ONE}/README.md"):
        matrix_tree.change(name, "one 7, 8", "one 9")
    matrix_tree.change(f"{ONE}/pyproject.toml", '"3.5", "4.3"', '"4.3"')
    matrix_tree.change(f"{ONE}/hatch_build.py", '    "3.5": ["numpy<2"],\n', "")
    core = "connectors-core"
    matrix_tree.change(f"{core}/src/connectors_core/compatibility.py", '"4.2"', '"4.1"')
    matrix_tree.change(f"{core}/src/connectors_core/compatibility.py", "pandas<3", "pandas<4")
    matrix_tree.change(f"{core}/pyproject.toml", ">=3.5,<4.4", "")
    result = matrix_tree.matrix("check", "--fix")
    assert result.exit_code == 0, result.output
    assert git(matrix_tree.root, "diff", "HEAD~7", "--stat") == ""
    assert matrix_tree.matrix("check").exit_code == 0


def test_a_connector_that_is_not_registered_is_named_and_no_difference(matrix_tree: MatrixTree):
    shutil.copytree(matrix_tree.root / ONE, matrix_tree.root / "connector-two")
    result = matrix_tree.matrix("check")
    output = result.output
    assert result.exit_code == 0, output
    assert f"connector-two: it is not registered, so {MATRIX} does not cover it" in output
    assert "flip new 'A connector for two' --author HANDLE --connector two --desc" in output
    assert "release-tools flip scaffold NUMBER --sponsor HANDLE" in output


def test_a_missing_core_is_reported(matrix_tree: MatrixTree):
    shutil.rmtree(matrix_tree.root / "connectors-core")
    output = matrix_tree.matrix("check").output
    assert "connectors-core/pyproject.toml: it does not exist, or has no version" in output


def test_a_connector_without_a_folder_is_reported(matrix_tree: MatrixTree):
    shutil.rmtree(matrix_tree.root / ONE)
    assert f"{MATRIX}: {ONE} has no folder with a pyproject" in matrix_tree.matrix("check").output


def test_a_release_in_the_history_passes(matrix_tree: MatrixTree):
    matrix_tree.release()
    assert (
        matrix_tree.matrix("check").output == "everything agrees with compatibility-matrix.yaml\n"
    )
    assert "features |" in matrix_tree.text("README.md")


def test_a_released_version_belongs_to_one_tree(matrix_tree: MatrixTree):
    matrix_tree.release()
    matrix_tree.commit({f"{ONE}/src/new.py": ""})
    assert (
        f"{ONE}/pyproject.toml: version 2.0.0 is released, and {ONE}/src has changed since then"
        in matrix_tree.matrix("check").output
    )
    matrix_tree.change(f"{ONE}/pyproject.toml", 'version = "2.0.0"', 'version = "2.1.0"')
    assert matrix_tree.matrix("check").exit_code == 0


def test_main_may_advance_only_within_the_released_major(matrix_tree: MatrixTree):
    matrix_tree.release()
    matrix_tree.change(f"{ONE}/pyproject.toml", 'version = "2.0.0"', 'version = "2.1.0"')
    assert matrix_tree.matrix("check").exit_code == 0
    matrix_tree.change(f"{ONE}/pyproject.toml", 'version = "2.1.0"', 'version = "3.0.0"')
    assert (
        f"{ONE}/pyproject.toml: version 3.0.0 does not follow 2.0.0, the last release of "
        "major 2" in matrix_tree.matrix("check").output
    )


def test_a_pin_is_checked_against_its_commit(matrix_tree: MatrixTree):
    matrix_tree.change(f"{ONE}/pyproject.toml", "# What it is.", "# What it was.")
    commit = matrix_tree.release()
    other = git(matrix_tree.root, "rev-list", "--max-parents=0", "HEAD")
    other = git(matrix_tree.root, "rev-parse", f"{other}:{ONE}")
    tree = git(matrix_tree.root, "rev-parse", f"{commit}:{ONE}")
    matrix_tree.change(MATRIX, f'tree: "{tree}"', f'tree: "{other}"')
    output = matrix_tree.matrix("check").output
    assert f"contains {ONE} as tree {tree[:10]}, but the pinned tree is {other[:10]}" in output


def test_a_released_commit_must_match_the_matrix(matrix_tree: MatrixTree):
    matrix_tree.release()
    matrix_tree.change(MATRIX, 'version: "2.0.0"', 'version: "2.0.1"')
    matrix_tree.change(f"{ONE}/pyproject.toml", 'version = "2.0.0"', 'version = "2.1.0"')
    output = matrix_tree.matrix("check", "--fix").output
    assert "its version is 2.0.0, the matrix has 2.0.1" in output


def test_a_commit_on_no_branch_is_refused(matrix_tree: MatrixTree):
    git(matrix_tree.root, "switch", "--quiet", "--create", "side")
    commit = matrix_tree.commit({f"{ONE}/fix": "a fix"})
    git(matrix_tree.root, "switch", "--quiet", "main")
    matrix_tree.release(commit)
    output = matrix_tree.matrix("check").output
    assert f"commit {commit[:10]} of {ONE} 2.0.0 cannot be reached from HEAD" in output
    assert f"merge it with `git merge -s ours {commit[:10]}`" in output


def test_a_commit_missing_from_a_shallow_clone_is_reported(matrix_tree: MatrixTree, tmp_path):
    matrix_tree.release()
    clone = tmp_path / "clone"
    git(tmp_path, "clone", "--quiet", "--depth", "1", f"file://{matrix_tree.root}", str(clone))
    result = MatrixTree(clone).matrix("check")
    assert result.exit_code == 1
    assert "the clone is shallow; run `git fetch --unshallow`" in result.output


def test_the_table_has_a_row_for_each_major(matrix_tree: MatrixTree):
    assert matrix_tree.text("README.md") == TABLE
    shown = matrix_tree.matrix("show").output
    assert "2.0.0-4.3" in shown
    assert "2.0.0-3.5" in shown
