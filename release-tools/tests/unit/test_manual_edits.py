# SPDX-License-Identifier: Apache-2.0
"""`matrix check` reports manual edits of the matrix, and of everything that follows from it."""

from __future__ import annotations

import re

import pytest
from git_tree import git
from matrix_tree import ONE, TEMPLATE, MatrixTree

from connector_release_tools.matrix.tested import PAGE

MATRIX = "compatibility-matrix.yaml"
CORE = "connectors-core"
CHECK = f"{CORE}/src/connectors_core/compatibility.py"
DOCTOR = f"{CORE}/src/connectors_core/cli/doctor.py"
CI = ".github/workflows/ci.yml"
SHARED = "release-tools/.github/workflows/connector.yml"
RECORDS = "releases/connector-one-2.0"
GUIDE = "docs/guide.md"
CORE_PIN, PIN = r"(?s)(\ncore:.*?\n +{}: ).*?\n", r'(?s)("2\.0\.1".*?\n +{}: ).*?\n'
NEXT = r'(?s)("3\.0\.0".*?\n +{}: ).*?\n'
ROW = r"(?m)^\| connector-one 2\.0\.1-3\.5 (\|[^|\n]*){{{}}}\|[^|\n]*"
UNSEALED = f"{PAGE}: the table is not the one that a test run wrote"


def a_job(name: str) -> str:
    return rf"(?s)\n  {name}:\n.*?(?=\n\n|\Z)"


# The file, what is replaced in it, the new text, and the start of a finding.
EDITS = {
    "pyspark": (MATRIX, '"4.3.0"', '"4.3.1"', "requirements/pyspark43.txt: it pins pyspark 4.3.0"),
    "python": (MATRIX, 'python: "3.11"', 'python: "3.10"', f"{CHECK}: LINES is"),
    "java": (MATRIX, 'java: "17"', 'java: "11"', f"{DOCTOR}: SPARK_LINES has no Java 11"),
    "pins": (MATRIX, "pandas<3", "pandas<4", f"{CHECK}: LIBRARIES is"),
    "works with Spark": (MATRIX, r'\["4.2"\]', '["4.1"]', f"{CHECK}: LINES is"),
    "works with Python": (MATRIX, r'\["3.12"\]', '["3.13"]', f"{CHECK}: LINES is"),
    "core version": (MATRIX, '"1.4.0"', '"1.4.1"', "releases/connectors-core-1.4.1.yaml: it does"),
    "core commit": (
        MATRIX,
        CORE_PIN.format("commit"),
        rf'\1"{"0" * 40}"\n',
        "releases/connectors-core-1.4.0.yaml: commit is",
    ),
    "core tree": (
        MATRIX,
        CORE_PIN.format("tree"),
        rf'\1"{"0" * 40}"\n',
        "releases/connectors-core-1.4.0.yaml: tree is",
    ),
    "core date": (
        MATRIX,
        CORE_PIN.format("released"),
        r"\g<1>2026-11-02\n",
        "releases/connectors-core-1.4.0.yaml: released is 2026-11-01, ",
    ),
    "the core": (
        MATRIX,
        r"(?s)\ncore:.*?(?=\nconnectors:)",
        "\n",
        f"releases/connectors-core-1.4.0.yaml: {MATRIX} has no connectors-core 1",
    ),
    "next version": (
        MATRIX,
        '"3.0.0"',
        '"3.1.0"',
        f'{ONE}/pyproject.toml: [tool.connector] version is "3.0.0"',
    ),
    "next Spark lines": (
        MATRIX,
        NEXT.format("spark"),
        r'\1["4.3"]\n',
        f"{ONE}/pyproject.toml: [tool.connector] spark is",
    ),
    "next core": (
        MATRIX,
        NEXT.format("core"),
        r'\1">=1.1,<2"\n',
        f"{ONE}/pyproject.toml: the dependency is connectors-core<2,>=1.0",
    ),
    "next client": (
        MATRIX,
        NEXT.format("one-client"),
        r'\1">=8"\n',
        f"{ONE}/pyproject.toml: the dependency is one-client>=7",
    ),
    "next servers": (MATRIX, '"8"', '"9"', "README.md: the table between"),
    "status": (
        MATRIX,
        "status: fixes",
        "status: end-of-life\n        end_of_life: 2026-11-01",
        "README.md: the table between",
    ),
    "released version": (MATRIX, '"2.0.1"', '"2.0.2"', f"releases/{ONE}-2.0.2.yaml: it does not"),
    "older version": (MATRIX, '"2.0.1"', '"2.0.0"', f"{RECORDS}.1.yaml: {MATRIX} does not have"),
    "released Spark lines": (
        MATRIX,
        PIN.format("spark"),
        r'\1["4.3"]\n',
        f"{RECORDS}.1.yaml: spark is ['3.5', '4.3'], {MATRIX} has ['4.3']",
    ),
    "released core": (
        MATRIX,
        PIN.format("core"),
        r'\1">=1.1,<2"\n',
        f"{RECORDS}.1.yaml: core is >=1.0,<2, {MATRIX} has >=1.1,<2",
    ),
    "released client": (
        MATRIX,
        PIN.format("one-client"),
        r'\1">=8"\n',
        f"{ONE}/pyproject.toml of tree",
    ),
    "commit": (MATRIX, PIN.format("commit"), rf'\1"{"0" * 40}"\n', f"{RECORDS}.1.yaml: commit is"),
    "tree": (MATRIX, PIN.format("tree"), rf'\1"{"0" * 40}"\n', f"{RECORDS}.1.yaml: tree is"),
    "date": (
        MATRIX,
        PIN.format("released"),
        r"\g<1>2026-11-02\n",
        f"{RECORDS}.1.yaml: released is",
    ),
    "a major": (
        MATRIX,
        r'(?s)\n +"2": .*',
        "\n",
        f"{RECORDS}.1.yaml: {MATRIX} has no {ONE} 2",
    ),
    # The core and the template
    "lines of the Makefile": ("Makefile", "35 43", "43", "Makefile: LINES is"),
    "versions at run time": (CHECK, '"4.2"', '"4.1"', f"{CHECK}: LINES is"),
    "libraries at run time": (CHECK, "numpy<2", "numpy<3", f"{CHECK}: LIBRARIES is"),
    "Java of doctor": (DOCTOR, "17, 21", "21,", f"{DOCTOR}: SPARK_LINES has no Java 17"),
    "Spark of the core": (
        f"{CORE}/pyproject.toml",
        "<4.4",
        "<4.5",
        f"{CORE}/pyproject.toml: [proj",
    ),
    "version of the core": (
        f"{CORE}/pyproject.toml",
        "1.5.0",
        "1.7.0",
        f"{CORE}/pyproject.toml: version 1.7.0 does not follow 1.4.0",
    ),
    "libraries of the template": (
        f"{TEMPLATE}/hatch_build.py",
        "numpy<2",
        "numpy",
        f"{TEMPLATE}/hatch_build.py: LIBRARIES is",
    ),
    "environments of the template": (
        f"{TEMPLATE}/tox.ini",
        "spark35",
        "spark34",
        f"{TEMPLATE}/tox.ini: env_list is",
    ),
    "Spark lines of the template": (
        f"{TEMPLATE}/pyproject.toml",
        '"3.5", ',
        "",
        f"{TEMPLATE}/pyproject.toml: [tool.connector] spark is",
    ),
    # A connector
    "libraries": (f"{ONE}/hatch_build.py", "numpy<2", "numpy", f"{ONE}/hatch_build.py: LIBRARIES"),
    "environments": (f"{ONE}/tox.ini", "spark35", "spark34", f"{ONE}/tox.ini: env_list is"),
    "version": (f"{ONE}/pyproject.toml", "3.0.0", "3.0.1", f"{ONE}/pyproject.toml: [tool.conn"),
    "Spark lines": (f"{ONE}/pyproject.toml", '"3.5", ', "", f"{ONE}/pyproject.toml: [tool.conn"),
    "range of the core": (
        f"{ONE}/pyproject.toml",
        "core>=1.0",
        "core>=1.2",
        f"{ONE}/pyproject.toml: the dependency is connectors-core",
    ),
    "range of Python": (
        f"{ONE}/pyproject.toml",
        ">=3.11",
        ">=3.12",
        f"{ONE}/pyproject.toml: requires-python >=3.12",
    ),
    "run-time check": (
        f"{ONE}/src/connector_one/__init__.py",
        "check_spark\\('connector-one'\\)",
        "",
        f"{ONE}/src/connector_one/__init__.py: the import does not compare",
    ),
    "shared workflow": (
        f"{ONE}/.github/workflows/ci.yml",
        "connector.yml@",
        "other.yml@",
        f"{ONE}/.github/workflows/ci.yml: it does not call a version of the shared",
    ),
    "workflow of another connector": (
        f"{ONE}/.github/workflows/ci.yml",
        "connector-one",
        "connector-two",
        f"{ONE}/.github/workflows/ci.yml: it calls the shared workflow for connector-two",
    ),
    "table of a connector": (f"{ONE}/README.md", "3.0.0-4.3", "3.1.0-4.3", f"{ONE}/README.md: the"),
    "no table of a connector": (f"{ONE}/README.md", "(?s)<!-- comp.*", "", f"{ONE}/README.md: the"),
    "table of all": ("README.md", "3.0.0-4.3", "3.1.0-4.3", "README.md: the table between"),
    # Requirements and import rules
    "tested Spark": (
        "requirements/pyspark35.txt",
        "3.5.9",
        "3.5.8",
        "requirements/pyspark35.txt: ",
    ),
    "requirement": ("requirements/spark35.in", "numpy<2", "numpy", "requirements/spark35.in: it "),
    "pin": (
        "requirements/spark35.txt",
        "numpy==1.26.4",
        "numpy==2.0.0",
        "requirements/spark35.txt: numpy is 2.0.0, requirements/spark35.in has numpy<2",
    ),
    "no requirement of a connector": (
        "requirements/spark43.txt",
        "one-client.*",
        "",
        f"requirements/spark43.txt: one-client is missing, {ONE}/pyproject.toml has",
    ),
    "old requirement of a connector": (
        "requirements/spark43.txt",
        "one-client==7.1",
        "one-client==6.9",
        f"requirements/spark43.txt: one-client is 6.9, {ONE}/pyproject.toml has",
    ),
    "root packages": (
        "pyproject.toml",
        ', "connector_one"\\]',
        "]",
        "pyproject.toml: tool.importlinter: root_packages has no connector_one",
    ),
    "layers": (
        "pyproject.toml",
        '"connector_one", "connectors_core"\\]\n$',
        '"connectors_core"]\n',
        "pyproject.toml: tool.importlinter has no contract with a layer of all connectors",
    ),
    # Workflows
    "no workflow": (CI, "(?s).*", "", f"{CI}: it does not exist"),
    "no trigger": (CI, "  pull_request:\n", "", f"{CI}: it does not start at pull_request"),
    "no tests": (CI, a_job("test"), "", f"{CI}: no job runs `make test`"),
    "no checks": (CI, a_job("checks"), "", f"{CI}: no job runs `release-tools matrix check`"),
    "no cells": (CI, a_job("cell"), "", f"{CI}: no job runs `release-tools test "),
    "job switched off": (CI, "    name: tests", "    if: false", f"{CI}: no job runs `make test`"),
    "job may fail": (
        CI,
        "    name: tests",
        "    continue-on-error: true",
        f"{CI}: no job runs `make test`",
    ),
    "no step": (
        CI,
        ".*release-tools flip check.*\n",
        "",
        f"{CI}: no job runs `release-tools flip ch",
    ),
    "no check of CODEOWNERS": (
        CI,
        ".*release-tools review sync.*\n",
        "",
        f"{CI}: no job runs `release-tools review sync --dry-run`",
    ),
    **{
        f"tests with {words}": (
            CI,
            "- run: make test",
            f"- {step}",
            f"{CI}: no job runs `make test`",
        )
        for words, step in {
            "an if": "run: make test\n        if: false",
            "the if of the cells": "run: make test\n        if: github.event_name == 'schedule'",
            "an ignored failure": "run: make test || true",
            "a pipe": "run: make test | cat",
            "an end before": "run: |\n          exit 0\n          make test",
            "an echo": "run: echo make test",
            "another shell": "run: make test\n        shell: 'true {0}'",
            "another folder": "run: make test\n        working-directory: docs",
            "a variable": "run: make test\n        env: {MAKEFLAGS: -n}",
        }.items()
    },
    **{
        f"{words} of a job": (
            CI,
            "    name: tests",
            f"    {line}",
            f"{CI}: no job runs `make test`",
        )
        for words, line in {
            "the condition of the cells": (
                "if: fromJSON(needs.checks.outputs.cells).include[0] != null"
            ),
            "a needed job": "needs: cell",
            "the shell": "defaults: {run: {shell: 'true {0}'}}",
            "the variables": "env: {PYTEST_ARGS: --collect-only}",
            "a matrix": "strategy: {matrix: {it: []}}",
        }.items()
    },
    "another base": (CI, "BASE: .*", "BASE: HEAD", f"{CI}: no job runs `release-tools impact"),
    "variables of a workflow": (
        CI,
        "(?m)^jobs:",
        "env: {MAKEFLAGS: -n}\njobs:",
        f"{CI}: no job runs `make test`",
    ),
    "shell of a workflow": (
        CI,
        "(?m)^jobs:",
        "defaults: {run: {shell: 'true {0}'}}\njobs:",
        f"{CI}: no job runs `make test`",
    ),
    "some paths": (
        CI,
        "pull_request:\n",
        "pull_request: {paths: [docs/**]}\n",
        f"{CI}: pull_request has the filter {{'paths': ['docs/**']}}, expected None",
    ),
    "no schedule": (CI, "(?s)  schedule:\n.*?\n\n", "\n", f"{CI}: it does not start at schedule"),
    "a base that changes": (
        ".github/workflows/review.yml",
        ", edited",
        "",
        ".github/workflows/review.yml: pull_request_target has the filter",
    ),
    "no cells at all": (
        CI,
        r"cells: \$.*",
        "cells: '{\"include\": []}'",
        f"{CI}: its cells are not those of the matrix",
    ),
    "cells left out": (
        CI,
        r"matrix: (\$\{\{ fromJSON.*)",
        r"matrix: {cell: '\1', exclude: [{}]}",
        f"{CI}: its cells are not those",
    ),
    "shared workflow switched off": (
        f"{ONE}/.github/workflows/ci.yml",
        "    with:",
        "    if: false\n    with:",
        f"{ONE}/.github/workflows/ci.yml: it can skip the shared workflow: False",
    ),
    "no trigger of a connector": (
        f"{ONE}/.github/workflows/ci.yml",
        "  pull_request:\n",
        "",
        f"{ONE}/.github/workflows/ci.yml: it does not start at pull_request",
    ),
    "cells by hand": (CI, r"\$\{\{ fromJSON.*", "{major: [2]}", f"{CI}: its cells are not those"),
    "no shared cells": (SHARED, a_job("cell"), "", f"{SHARED}: no job runs `release-tools test "),
    "no shared check": (SHARED, "- run: make lint", "", f"{SHARED}: no job runs `make lint`"),
    "no approvals": (
        ".github/workflows/review.yml",
        r"run: release-tools review.*",
        "",
        ".github/workflows/review.yml: no job runs `release-tools review check",
    ),
    "no verification": (
        ".github/workflows/release.yml",
        r"- run: release-tools release verify.*",
        "",
        ".github/workflows/release.yml: no job runs `release-tools release verify",
    ),
    # Records
    "record": (f"{RECORDS}.1.yaml", None, "", f"{RECORDS}.1.yaml: it was removed"),
    "older record": (f"{RECORDS}.0.yaml", None, "", f"{RECORDS}.0.yaml: it was removed"),
    "hash": (f"{RECORDS}.1.yaml", '"0{64}"', f'"{"1" * 64}"', f"{RECORDS}.1.yaml: it was changed"),
    "date of a record": (
        f"{RECORDS}.0.yaml",
        "-01\n",
        "-02\n",
        f"{RECORDS}.0.yaml: it was changed",
    ),
    "no date of a record": (
        f"{RECORDS}.0.yaml",
        "released.*",
        "",
        f"{RECORDS}.0.yaml: it has no d",
    ),
    "file of a record": (
        f"{RECORDS}.0.yaml",
        ".3.5.tar.gz",
        ".3.6.tar.gz",
        f"{RECORDS}.0.yaml: its",
    ),
    "commit of a record": (
        f"{RECORDS}.0.yaml",
        'commit: ".*"',
        f'commit: "{"0" * 40}"',
        f"{RECORDS}.0.yaml: commit 0000000000 of connector-one 2.0.0 is not in this repository",
    ),
    "tree of a record": (
        f"{RECORDS}.0.yaml",
        'tree: ".*"',
        f'tree: "{"0" * 40}"',
        f"{RECORDS}.0.yaml: commit",
    ),
    "Spark lines of a record": (
        f"{RECORDS}.0.yaml",
        '  - "3.5"\n',
        "",
        f"{RECORDS}.0.yaml: spark is ['4.3'], its tree has ['3.5', '4.3']",
    ),
    "core of a record": (f"{RECORDS}.0.yaml", ">=1.0", ">=1.1", f"{RECORDS}.0.yaml: core is"),
    "version of a record": (
        f"{RECORDS}.0.yaml",
        '"2.0.0"',
        '"2.0.3"',
        f"{RECORDS}.0.yaml: it is the record of connector-one-2.0.3",
    ),
    "no record": (f"{RECORDS}.0.yaml", "connector: .*", "", f"{RECORDS}.0.yaml: "),
    # Tested releases
    "a result": (PAGE, ROW.format(0), "| connector-one 2.0.1-3.5 | failed ", UNSEALED),
    **{
        f"column {number} of a result": (PAGE, ROW.format(number), r"\g<0>1", UNSEALED)
        for number in range(9)
    },
    "no result": (
        PAGE,
        ROW.format(8) + r"\|\n",
        "",
        f"{PAGE}: it has no result of {ONE} 2.0.1-3.5",
    ),
    "no results": (PAGE, "<!-- tested", "<!-- test", f"{PAGE}: the table"),
    # Changelogs
    "section": (
        f"{ONE}/CHANGELOG.md",
        "## 2.0.1",
        "## 2.0.7",
        f"{ONE}/CHANGELOG.md: it has a section 2.0.7, which is no release",
    ),
    "date of a section": (
        f"{ONE}/CHANGELOG.md",
        "2026-11-01",
        "2026-11-03",
        f"{ONE}/CHANGELOG.md: it has ## 2.0.0 (2026-11-03), the release has ## 2.0.0 (2026-11-01)",
    ),
    "no section": (
        f"{CORE}/CHANGELOG.md",
        "## 1.4.0",
        "## All",
        f"{CORE}/CHANGELOG.md: it has no section 1.4.0, the release has",
    ),
    # Prose
    "release": (GUIDE, "2.0.1-4.3", "2.0.7-4.3", f"{GUIDE}:3: connector-one 2.0.7-4.3 is no rel"),
    "Spark of a release": (
        GUIDE,
        "2.0.1-4.3",
        "2.0.1-4.4",
        f"{GUIDE}:3: connector-one 2.0.1-4.4 is",
    ),
    "words": (GUIDE, "2.0.1 for", "2.0.8 for", f"{GUIDE}:4: 2.0.8 for Spark 4.3 is no release"),
    "package": (GUIDE, "==2.0.0", "==2.0.9", f"{GUIDE}:5: connector-one==2.0.9.3.5 is no release"),
    "wheel": (GUIDE, "_one-2.0.1", "_one-2.1.1", f"{GUIDE}:5: connector_one-2.1.1.4.3 is no rel"),
    "core": (GUIDE, "core 1.5.0", "core 1.6.0", f"{GUIDE}:6: connectors-core 1.6.0 is no release"),
    "version alone": (GUIDE, "`2.0.1.4.3", "`2.2.1.4.3", f"{GUIDE}:7: 2.2.1.4.3 is no release"),
}


def test_a_repository_with_releases_agrees(agreeing_tree: MatrixTree):
    assert agreeing_tree.matrix("check").output == f"everything agrees with {MATRIX}\n"


@pytest.mark.parametrize(("name", "old", "new", "finding"), EDITS.values(), ids=EDITS)
def test_a_manual_edit_is_reported(agreeing_tree: MatrixTree, name, old, new, finding):
    path = agreeing_tree.root / name
    before = path.read_text()
    try:
        if old is None:
            path.unlink()
        else:
            after = re.sub(old, new, before, count=1)
            assert after != before
            path.write_text(after)
        result = agreeing_tree.matrix("check")
    finally:
        path.write_text(before)
    assert result.exit_code == 1, result.output
    assert any(line.startswith(finding) for line in result.output.splitlines()), result.output


@pytest.fixture
def tree(agreeing_tree: MatrixTree, tmp_path):
    return agreeing_tree.copy(tmp_path / "tree")


@pytest.mark.parametrize("number", ["0", "1"])
def test_a_commit_does_not_hide_the_edit_of_a_record(tree: MatrixTree, number):
    record = f"{RECORDS}.{number}.yaml"
    tree.commit(tree.replaced(record, "0" * 64, "1" * 64))
    commit = git(
        tree.root, "log", "-1", "--format=%h", "--abbrev=10", "--diff-filter=A", "--", record
    )
    said = tree.matrix("check").output
    assert f"{record}: it was changed after the release" in said
    assert f"run `git restore --source={commit} -- {record}`" in said
    git(tree.root, "restore", f"--source={commit}", "--", record)
    assert tree.matrix("check").exit_code == 0


def test_a_record_that_is_removed_and_written_again_is_not_another_release(tree: MatrixTree):
    record = f"{RECORDS}.0.yaml"
    text = tree.text(record)
    tree.commit({record: None})
    assert f"{record}: it was removed after the release" in tree.matrix("check").output
    tree.commit({record: text.replace("0" * 64, "1" * 64)})
    assert f"{record}: it was changed after the release" in tree.matrix("check").output


def test_a_merge_does_not_hide_a_removed_record(tree: MatrixTree):
    record = f"{RECORDS}.0.yaml"
    git(tree.root, "switch", "--quiet", "--create", "side", "HEAD~1")
    side = tree.commit({record: None})
    git(tree.root, "switch", "--quiet", "main")
    git(tree.root, "merge", "--quiet", "--no-edit", "--strategy-option=theirs", side)
    assert not (tree.root / record).exists()
    assert f"{record}: it was removed after the release" in tree.matrix("check").output


def test_the_record_that_a_merge_adds_is_compared_with_the_merge(tree: MatrixTree):
    record, other = f"{RECORDS}.0.yaml", "releases/connector-one-1.0.0.yaml"
    git(tree.root, "switch", "--quiet", "--create", "side")
    tree.commit({"side.txt": "Words.\n"})
    git(tree.root, "switch", "--quiet", "main")
    git(tree.root, "merge", "--quiet", "--no-ff", "--no-commit", "side")
    (tree.root / other).write_text(tree.text(record).replace('"2.0.0"', '"1.0.0"'))
    tree.commit({})
    tree.commit(tree.replaced(other, "0" * 64, "1" * 64))
    assert f"{other}: it was changed after the release" in tree.matrix("check").output


def test_the_votes_on_a_candidate_are_no_records(tree: MatrixTree):
    votes = "releases/candidates/connector-one-3.0.0-rc1.yaml"
    tree.commit({votes: "votes: []\n"})
    tree.commit({votes: "votes: [{}]\n"})
    assert "releases/candidates" not in tree.matrix("check").output


def test_a_reverted_release_can_be_made_again(tree: MatrixTree):
    tree.change(f"{ONE}/CHANGELOG.md", "## 2.0.1", "## 3.0.0 (2026-11-03)\n\n## 2.0.1")
    tree.release()
    first = git(tree.root, "log", "-1", "--format=%H", "--diff-filter=A", "--", "releases")
    git(tree.root, "revert", "--no-edit", f"{first}..HEAD")
    git(tree.root, "revert", "--no-edit", first)
    assert not [line for line in said(tree) if "releases/" in line]
    tree.change(f"{ONE}/tox.ini", "[tox]", "# Again.\n[tox]")
    tree.release()
    assert not [line for line in said(tree) if "releases/" in line]


def said(tree: MatrixTree) -> list[str]:
    return tree.matrix("check").output.splitlines()
