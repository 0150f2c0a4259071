# SPDX-License-Identifier: Apache-2.0
"""The core is released like connectors, with one build for all Spark lines."""

import pytest
from release_tree import BUILD_SYSTEM, MATRIX_TEXT, make_wheel

from connector_release_tools.matrix.file import MATRIX
from connector_release_tools.releases.candidate import Candidate
from connector_release_tools.releases.checks import check
from connector_release_tools.releases.record import Record

CORE = "connectors-core"
INIT = f"{CORE}/src/connectors_core/__init__.py"
FILES = {
    MATRIX: MATRIX_TEXT.replace(
        "\nconnectors:",
        '\ncore:\n  majors:\n    "1":\n      version: "1.0.0"\n      status: features\n'
        "\nconnectors:",
    ),
    f"{CORE}/pyproject.toml": BUILD_SYSTEM
    + """\
[project]
name = "connectors-core"
version = "1.0.0" # as it is released
description = "The core"
readme = "README.md"
requires-python = ">=3.11"
license = "Apache-2.0"
license-files = ["LICENSE"]

[tool.towncrier]
name = "connectors-core"
directory = "changelog.d"
filename = "CHANGELOG.md"
title_format = "## {version} ({project_date})"
""",
    f"{CORE}/LICENSE": "A licence.\n",
    f"{CORE}/README.md": "# Core\n\nWords.\n",
    f"{CORE}/CHANGELOG.md": "# Changelog\n\n<!-- towncrier release notes start -->\n",
    f"{CORE}/changelog.d/.gitignore": "!.gitignore\n",
    f"{CORE}/changelog.d/+first.feature.md": "All of it.\n",
    INIT: '__all__ = ["run"]\n\n\ndef run(query, name=None):\n    pass\n',
}


@pytest.fixture
def tree(release_tree):
    """A repository whose matrix contains the core."""
    release_tree.commit(FILES)
    return release_tree


@pytest.fixture
def wheelhouse_only(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("UV_NO_INDEX", "1")
    make_wheel(tmp_path / "cache/connectors/wheelhouse", "pyspark", "4.3.0")


def found(tree):
    candidate = Candidate.at(tree.repository, CORE)
    return [each.what for each in check(tree.repository, tree.matrix, candidate)]


def released(tree, folder):
    tree.run("update", CORE, "--commit")
    tree.run("build", CORE)
    tree.run("verify", CORE)
    tree.run("stage", "connectors-core-1.0.0", str(folder / "staging"))
    places = (str(folder / "staging"), str(folder / "index"))
    tree.run("promote", "connectors-core-1.0.0", *places, "--commit")


def test_the_core_is_released_from_check_to_the_pin(tree, tmp_path, wheelhouse_only):
    assert found(tree) == [
        "fragments are not in CHANGELOG.md: +first.feature.md",
        "connectors-core/CHANGELOG.md has no section 1.0.0",
    ]
    released(tree, tmp_path)
    assert {each.name for each in tree.dist.iterdir()} == {
        "connectors_core-1.0.0.tar.gz",
        "connectors_core-1.0.0-py3-none-any.whl",
    }
    record = Record.read(tree.root / "releases/connectors-core-1.0.0.yaml")
    assert (record.spark, record.core) == ((), None)
    major = tree.matrix.majors(CORE)["1"]
    assert (major.commit, major.tree) == (record.commit, record.tree)
    assert found(tree) == [
        f"connectors-core 1.0.0 was released on {major.released}; pyproject.toml has 1.0.0"
    ]


def test_a_break_since_the_last_release_needs_a_reason(tree, tmp_path, wheelhouse_only):
    released(tree, tmp_path)
    tree.commit({f"{CORE}/changelog.d/+less.bugfix.md": "Less.\n"})
    tree.replace(INIT, "query, name=None", "query")
    tree.run("update", CORE, "--version", "1.0.1", "--commit")
    said = "connectors_core.run(name): parameter was removed (since 1.0.0)"
    assert found(tree) == [said]
    project = f"{CORE}/pyproject.toml"
    reasons = '\n[tool.connector-release-tools.breaks]\n"connectors_core.run" = "nothing used it"\n'
    tree.commit({project: tree.text(project) + reasons})
    assert found(tree) == []
    tree.replace(INIT, "query", "query, name=None")
    assert found(tree) == [
        "connectors-core/pyproject.toml lists connectors_core.run in breaks, but it has no break"
    ]


def test_a_core_that_requires_spark_is_refused(tree, wheelhouse_only):
    needs = 'requires-python = ">=3.11"\n'
    tree.replace(f"{CORE}/pyproject.toml", needs, f'{needs}dependencies = ["pyspark"]\n')
    tree.run("update", CORE, "--commit")
    tree.run("build", CORE)
    said = tree.run("verify", CORE, exit_code=1).output
    assert "connectors_core-1.0.0-py3-none-any.whl: requires pyspark without an extra" in said
    assert "installs pyspark 4.3.0, but must not install any" in said


def test_the_core_cannot_be_built_for_one_spark_line(tree):
    said = tree.error("build", CORE, "--spark", "4.3")
    assert "one build serves every line" in said
