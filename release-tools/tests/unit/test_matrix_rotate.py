# SPDX-License-Identifier: Apache-2.0
"""A rotation changes the matrix and the files that depend on it in one step."""

import datetime
import json

import pytest
from git_tree import git
from matrix_tree import ONE, TEMPLATE, MatrixTree

from connector_release_tools import dates
from connector_release_tools.git import Repository
from connector_release_tools.matrix.file import MatrixFile
from connector_release_tools.matrix.model import Status

MATRIX = "compatibility-matrix.yaml"
TODAY = "2026-01-31"


@pytest.fixture(autouse=True)
def fixed_date(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(dates, "today", lambda: datetime.date.fromisoformat(TODAY))


def read(tree: MatrixTree):
    return MatrixFile.of(Repository(tree.root)).matrix()


def test_a_new_spark_line_ends_the_oldest(matrix_tree: MatrixTree):
    output = matrix_tree.matrix("rotate", "--spark", "5.0", "--java", "21").output
    found = read(matrix_tree)
    assert [str(line) for line in found.spark_lines] == ["5.0", "4.3"]
    assert found.spark["5.0"].model_dump() == {
        "pyspark": "5.0.0",
        "python": "3.11",
        "java": "21",
        "pins": ("pandas<3",),
        "works": {"spark": (), "python": ()},
        "end_of_life": None,
    }
    assert str(found.spark["3.5"].end_of_life) == TODAY
    assert [str(cell.release) for cell in found.cells()] == [
        "connector-one 2.0.0-5.0",
        "connector-one 2.0.0-4.3",
    ]
    assert "Required releases:\n  connector-one 2.0.0-5.0\n  connector-one 2.0.0-4.3\n" in output
    assert "End of life:\n  Spark 3.5\n" in output


def test_a_new_spark_line_is_added_to_every_list_of_spark_lines(matrix_tree: MatrixTree):
    matrix_tree.matrix("rotate", "--spark", "5.0")
    text = matrix_tree.text
    assert text("Makefile") == "# Oldest first.\nLINES := 43 50\n"
    assert text("requirements/spark50.in").endswith("-r pyspark50.txt\npandas<3\n")
    for folder in (TEMPLATE, ONE):
        assert 'spark = ["4.3", "5.0"] # oldest first' in text(f"{folder}/pyproject.toml")
        assert text(f"{folder}/hatch_build.py").splitlines()[1:] == [
            "LIBRARIES = {",
            '    "4.3": ["pandas<3"],',
            '    "5.0": ["pandas<3"],',
            "}",
            "AFTER = 1",
        ]
        assert text(f"{folder}/tox.ini") == (
            "[tox]\nenv_list = lint, types, spark43, spark50\n\n[pkgenv]\nset_env =\n"
            "    spark43: CONNECTOR_SPARK = 4.3\n    types, spark50: CONNECTOR_SPARK = 5.0\n"
        )
    assert "| Spark 5.0 | Spark 4.3 |" in text("README.md")
    checked = text("connectors-core/src/connectors_core/compatibility.py")
    assert '"5.0": {"spark": ["5.0"], "python": ["3.11"]},' in checked
    assert '    "5.0": ["pandas<3"],' in checked
    core = text("connectors-core/pyproject.toml")
    assert 'spark = ["pandas<3", "pyspark>=4.3,<5.1"]' in core


def test_manual_steps_are_listed_with_a_reason(matrix_tree: MatrixTree):
    output = matrix_tree.matrix("rotate", "--spark", "5.0").output
    left = output.partition("Manual steps:\n")[2]
    assert "requirements/pyspark50.txt: it pins pyspark not at all, the matrix has 5.0.0" in left
    assert "requirements/spark50.txt: it does not exist\n    run `make requirements`" in left
    assert "SPARK_LINES contains ['3.5', '4.3'], the matrix has ['4.3', '5.0']" in left


def test_comments_survive(matrix_tree: MatrixTree):
    matrix_tree.matrix("rotate", "--spark", "5.0")
    text = matrix_tree.text(MATRIX)
    for comment in ("# What works together.", '"3.5": # the old one', "# numpy 2 is too new"):
        assert comment in text
    assert f"    end_of_life: {TODAY}\n    pins" in text


def test_a_dry_run_shows_the_change_and_writes_nothing(matrix_tree: MatrixTree):
    output = matrix_tree.matrix("rotate", "--spark", "5.0", "--dry-run").output
    assert '+  "5.0":\n' in output
    assert "-LINES := 35 43\n+LINES := 43 50\n" in output
    assert git(matrix_tree.root, "status", "--porcelain") == ""


def test_a_released_connector_needs_another_release_for_the_new_spark_line(matrix_tree: MatrixTree):
    matrix_tree.release()
    output = matrix_tree.matrix("rotate", "--spark", "5.0").output
    assert "  connector-one 2.1.0-5.0\n  connector-one 2.1.0-4.3\n" in output
    pyproject = matrix_tree.text(f"{ONE}/pyproject.toml")
    assert 'version = "2.1.0"\nspark = ["4.3", "5.0"]' in pyproject
    assert read(matrix_tree).connectors[ONE].majors["2"].spark == ("4.3", "3.5")  # unchanged


def test_an_older_spark_line_is_refused(matrix_tree: MatrixTree):
    result = matrix_tree.matrix("rotate", "--spark", "4.2")
    assert result.exit_code == 2
    assert "Spark 4.2 is not newer than 4.3, the newest line of the matrix" in result.output


def test_majors_are_rotated_one_after_the_other(matrix_tree: MatrixTree):
    matrix_tree.release()
    matrix_tree.change(
        f"{ONE}/pyproject.toml", "connectors-core>=1.0,<2", "connectors-core>=1.2,<2"
    )
    output = matrix_tree.matrix("rotate", "--major", ONE).output
    assert "Required releases:\n  connector-one 3.0.0-4.3\n  connector-one 3.0.0-3.5\n" in output
    assert "End of life" not in output
    majors = read(matrix_tree).connectors[ONE].majors
    assert [(each, major.status) for each, major in majors.items()] == [
        ("3", Status.FEATURES),
        ("2", Status.FIXES),
    ]
    assert majors["3"].client == majors["2"].client
    assert (majors["3"].core, majors["2"].core) == (">=1.2,<2", ">=1.0,<2")
    assert 'version = "3.0.0"' in matrix_tree.text(f"{ONE}/pyproject.toml")
    assert '"2": # on its way' in matrix_tree.text(MATRIX)
    assert matrix_tree.matrix("check").exit_code == 0

    matrix_tree.change(f"{ONE}/CHANGELOG.md", "## 2", "## 3.0.0 (2026-11-02)\n\n## 2")
    matrix_tree.release(released=datetime.date.fromisoformat(TODAY))
    output = matrix_tree.matrix("rotate", "--major", ONE).output
    assert "End of life:\n  connector-one 2\n" in output
    last = "Last releases, which announce the end:\n"
    assert f"{last}  connector-one 2.0.1-4.3\n  connector-one 2.0.1-3.5\n" in output
    majors = read(matrix_tree).connectors[ONE].majors
    assert [(each, major.status) for each, major in majors.items()] == [
        ("4", Status.FEATURES),
        ("3", Status.FIXES),
        ("2", Status.END_OF_LIFE),
    ]
    assert str(majors["2"].end_of_life) == TODAY
    assert matrix_tree.matrix("check").exit_code == 0


def test_a_major_gets_fixes_for_as_long_as_the_matrix_promises(matrix_tree: MatrixTree):
    matrix_tree.release()
    matrix_tree.matrix("rotate", "--major", ONE)
    matrix_tree.commit({})
    pin = f'commit: "{"1" * 40}"\n        tree: "{"2" * 40}"\n        released: 2025-10-01\n'
    matrix_tree.change(MATRIX, '"3.0.0"\n', f'"3.0.0"\n        {pin}')
    matrix_tree.change(MATRIX, "\nspark:", "\nsupport: {fix_days: 180}\nspark:")
    result = matrix_tree.matrix("rotate", "--major", ONE)
    assert result.exit_code == 2
    assert "connector-one 2 gets fixes until 2026-03-30: 180 days after" in result.output
    matrix_tree.change(MATRIX, "fix_days: 180", "fix_days: 122")
    assert (
        "End of life:\n  connector-one 2\n" in matrix_tree.matrix("rotate", "--major", ONE).output
    )


def test_fixes_of_the_next_major_do_not_prolong_the_support_of_a_major(matrix_tree: MatrixTree):
    matrix_tree.release()
    matrix_tree.matrix("rotate", "--major", ONE)
    pin = f'commit: "{"1" * 40}"\n        tree: "{"2" * 40}"\n        released: 2026-01-30\n'
    matrix_tree.commit(matrix_tree.replaced(MATRIX, '"3.0.0"\n', f'"3.0.1"\n        {pin}'))
    matrix_tree.change(MATRIX, "\nspark:", "\nsupport: {fix_days: 122}\nspark:")
    assert matrix_tree.matrix("rotate", "--major", ONE).exit_code == 2
    first = matrix_tree.text(f"releases/{ONE}-2.0.0.yaml").replace("2.0.0", "3.0.0")
    first = first.replace("2026-11-01", "2025-10-01")
    matrix_tree.commit({f"releases/{ONE}-3.0.0.yaml": first})
    said = matrix_tree.matrix("rotate", "--major", ONE).output
    assert "End of life:\n  connector-one 2\n" in said


def test_the_matrix_says_how_many_spark_lines_are_supported(matrix_tree: MatrixTree):
    matrix_tree.change(MATRIX, "\nspark:", "\nsupport: {spark_lines: 3}\nspark:")
    assert "End of life" not in matrix_tree.matrix("rotate", "--spark", "5.0").output
    assert [str(line) for line in read(matrix_tree).spark_lines] == ["5.0", "4.3", "3.5"]


def test_a_new_major_supports_the_spark_lines_of_main(matrix_tree: MatrixTree):
    matrix_tree.release()
    matrix_tree.change(f"{ONE}/pyproject.toml", '["3.5", "4.3"]', '["4.3"]')
    output = matrix_tree.matrix("rotate", "--major", ONE).output
    assert "Required releases:\n  connector-one 3.0.0-4.3\nshow the changes" in output
    assert read(matrix_tree).connectors[ONE].majors["3"].spark == ("4.3",)


def test_a_major_cannot_start_before_its_predecessor_is_released(matrix_tree: MatrixTree):
    result = matrix_tree.matrix("rotate", "--major", ONE)
    assert result.exit_code == 2
    assert (
        "connector-one 2.0.0 is not released yet, so the next major cannot start" in result.output
    )


@pytest.mark.parametrize(
    "arguments",
    [(), ("--spark", "5.0", "--major", ONE), ("--major", ONE, "--java", "21")],
)
def test_a_rotation_needs_exactly_one_target(matrix_tree: MatrixTree, arguments):
    assert matrix_tree.matrix("rotate", *arguments).exit_code == 2


def test_the_github_format_prints_all_cells_on_one_line(matrix_tree: MatrixTree):
    commit = matrix_tree.release()
    (line,) = matrix_tree.matrix("show", "--format", "github").stdout.splitlines()
    newest, oldest = json.loads(line)["include"]
    assert newest == {
        "name": "connector-one 2.0.0-4.3",
        "connector": ONE,
        "major": "2",
        "version": "2.0.0",
        "spark": "4.3",
        "pyspark": "4.3.0",
        "python": "3.11",
        "java": "17",
        "commit": commit,
        "tree": git(matrix_tree.root, "rev-parse", f"{commit}:{ONE}"),
    }
    assert oldest["pyspark"] == "3.5.9"


def test_the_json_format_prints_the_whole_matrix(matrix_tree: MatrixTree):
    said = json.loads(matrix_tree.matrix("show", "--format", "json").stdout)
    assert said["connectors"][ONE]["majors"]["2"]["servers"] == {"one": ["7", "8"]}
    assert [cell["name"] for cell in said["cells"]] == [
        "connector-one 2.0.0-4.3",
        "connector-one 2.0.0-3.5",
    ]
