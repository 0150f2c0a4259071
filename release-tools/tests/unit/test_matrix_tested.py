# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from dataclasses import replace

import pytest
from git_tree import git
from matrix_tree import ONE, MatrixTree

from connector_release_tools.matrix.tested import PAGE, Row, written


def row(tree: MatrixTree, spark: str, /, **other: str) -> Row:
    cells = {
        "release": f"connector-one 2.0.0-{spark[:3]}",
        "result": "passed",
        "tests": "3 passed",
        "core": "1.4.0",
        "spark": spark,
        "java": "17.0.9",
        "python": "3.11.7",
        "tree": git(tree.root, "rev-parse", f"HEAD:{ONE}")[:10],
        "core_tree": git(tree.root, "rev-parse", "HEAD:connectors-core")[:10],
        "date": "2026-11-22",
    }
    return Row(**{**cells, **other})


def page(*rows: Row) -> str:
    return written("# Tested\n\n<!-- tested -->\n<!-- end -->\n", [*rows])


def findings(tree: MatrixTree) -> list[str]:
    said = tree.matrix("check").output.splitlines()
    return [line.removeprefix(f"{PAGE}: ") for line in said if line.startswith(PAGE)]


def test_a_table_with_a_true_row_for_every_cell_has_no_finding(matrix_tree: MatrixTree):
    matrix_tree.release()
    rows = [row(matrix_tree, spark) for spark in ("4.3.0", "3.5.9")]
    matrix_tree.commit({PAGE: page(*rows)})
    matrix_tree.change("connectors-core/pyproject.toml", '"1.4.0"', '"1.5.0"')
    assert findings(matrix_tree) == []


@pytest.mark.parametrize(
    ("other", "finding"),
    [
        ({"result": "failed"}, "the result is failed"),
        ({"spark": "3.5.8"}, "it was tested with Spark 3.5.8, the matrix has 3.5.9"),
        ({"java": "21.0.1"}, "it was tested with Java 21, the matrix has 17"),
        ({"python": "3.12.1"}, "it was tested with Python 3.12, the matrix has 3.11"),
        ({"core": "2.0.0"}, "it was tested with core 2.0.0, the matrix has >=1.0,<2"),
        ({"tree": "0000"}, f"no commit in the history of HEAD has {ONE} as tree 0000"),
        ({"core_tree": "0"}, "no commit in the history of HEAD has connectors-core as tree 0"),
    ],
)
def test_a_row_that_is_not_true_is_a_finding(matrix_tree: MatrixTree, other, finding):
    rows = row(matrix_tree, "4.3.0"), row(matrix_tree, "3.5.9", **other)
    matrix_tree.commit({PAGE: page(*rows)})
    assert findings(matrix_tree) == [f"connector-one 2.0.0-3.5: {finding}"]


def test_a_tree_is_named_by_all_digits_of_the_table(matrix_tree: MatrixTree):
    rows = [row(matrix_tree, spark) for spark in ("4.3.0", "3.5.9")]
    matrix_tree.release()
    matrix_tree.commit({PAGE: page(rows[0], replace(rows[1], tree=rows[1].tree[:2]))})
    (said,) = findings(matrix_tree)
    assert f"tree {rows[1].tree[:2]} was tested, the matrix pins {rows[1].tree}" in said


def test_a_row_of_an_unknown_release_is_a_finding(matrix_tree: MatrixTree):
    rows = row(matrix_tree, "4.3.0"), row(matrix_tree, "4.3.0", release=f"{ONE} 1.0.0-4.3")
    matrix_tree.commit({PAGE: page(*rows)})
    assert findings(matrix_tree) == [f"{ONE} 1.0.0-4.3 is not a release of the matrix"]


def test_only_a_test_run_writes_the_table(matrix_tree: MatrixTree):
    matrix_tree.commit({PAGE: page(row(matrix_tree, "4.3.0"))})
    matrix_tree.change(PAGE, "3 passed", "30 passed")
    assert findings(matrix_tree) == ["the table is not the one that a test run wrote"]


def test_another_tree_than_that_of_the_release_is_a_finding(matrix_tree: MatrixTree):
    rows = [row(matrix_tree, spark) for spark in ("4.3.0", "3.5.9")]
    matrix_tree.change(f"{ONE}/tox.ini", "[tox]", "# Changed.\n[tox]")
    matrix_tree.release()
    matrix_tree.commit({PAGE: page(*rows)})
    assert len(findings(matrix_tree)) == 2
    assert "was tested, the matrix pins" in findings(matrix_tree)[0]


def test_only_a_release_needs_a_row(matrix_tree: MatrixTree):
    matrix_tree.commit({PAGE: page(row(matrix_tree, "4.3.0"))})
    assert findings(matrix_tree) == []
    matrix_tree.release()
    assert findings(matrix_tree) == ["it has no result of connector-one 2.0.0-3.5"]


def test_a_page_without_a_table_is_a_finding(matrix_tree: MatrixTree):
    matrix_tree.commit({PAGE: "# Tested\n"})
    (said,) = findings(matrix_tree)
    assert said == "the table between `<!-- tested -->` and `<!-- end -->` is missing"
