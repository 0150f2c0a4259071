# SPDX-License-Identifier: Apache-2.0
import pytest
from git_tree import git
from release_tree import CONNECTOR, FILES, ReleaseTree

from connector_release_tools.matrix.file import MATRIX

PROJECT = f"{CONNECTOR}/pyproject.toml"
CHANGELOG = f"{CONNECTOR}/CHANGELOG.md"


@pytest.fixture
def tree(tmp_path):
    return ReleaseTree.new(tmp_path / "tree", FILES)


def status(tree):
    """Return the files that differ from HEAD or are untracked."""
    listed = git(tree.root, "status", "--porcelain", "--untracked-files=all")
    return [line.split()[-1] for line in listed.splitlines()]


def test_one_step_writes_the_version_the_notes_and_the_matrix(tree):
    tree.replace(MATRIX, '"2.0.0"', '"2.9.9"')
    tree.run("update", CONNECTOR, "--version", "2.0.0")
    assert 'version = "2.0.0" # as it is released' in tree.text(PROJECT)
    assert "\n## 2.0.0 (" in tree.text(CHANGELOG)
    assert "- All of it." in tree.text(CHANGELOG)
    assert 'version: "2.0.0"' in tree.text(MATRIX)
    assert status(tree) == [
        MATRIX, CHANGELOG, f"{CONNECTOR}/changelog.d/+first.feature.md",
    ]  # fmt: skip


def test_one_blank_line_separates_the_sections_of_releases(tree):
    tree.update()
    tree.fragment("+fixed.bugfix.md")
    tree.update("--version", "2.0.1")
    text = tree.text(CHANGELOG)
    assert "\n\n## 2.0.1 (" in text
    assert "\n\n## 2.0.0 (" in text
    assert "\n\n\n" not in text


def test_an_update_can_be_repeated(tree):
    tree.run("update", CONNECTOR)
    before = status(tree)
    said = tree.run("update", CONNECTOR).output
    assert said == "connector-one 2.0.0: version and notes are up to date\n"
    assert status(tree) == before


def test_the_printed_command_undoes_the_update(tree):
    said = tree.run("update", CONNECTOR).output
    (undo,) = [line for line in said.splitlines() if line.startswith("undo: git restore ")]
    git(tree.root, *undo.split()[2:])
    assert status(tree) == []


def test_a_dry_run_shows_the_changes_and_writes_nothing(tree):
    said = tree.run("update", CONNECTOR, "--version", "2.0.0", "--dry-run").output
    assert "+- All of it." in said
    assert status(tree) == []


def test_a_commit_contains_only_the_changed_files(tree):
    (tree.root / "notes.txt").write_text("of mine")
    git(tree.root, "add", "notes.txt")
    said = tree.update()
    assert status(tree) == ["notes.txt"]
    assert git(tree.root, "log", "-1", "--format=%s") == "connector-one 2.0.0"
    assert f"undo: git revert {tree.head()}" in said


def test_an_update_keeps_the_released_version_in_the_matrix(tree):
    tree.update()
    tree.released()
    before = tree.text(MATRIX)
    tree.fragment("+fixed.bugfix.md")
    tree.update("--version", "2.0.1")
    assert (tree.version, tree.text(MATRIX)) == ("2.0.1", before)


def test_notes_are_shown_and_not_written(tree):
    said = tree.run("notes", CONNECTOR, "--version", "2.0.0").output
    assert said.startswith("## 2.0.0 (")
    assert said.endswith("- All of it.\n")
    assert status(tree) == []


def test_notes_without_a_fragment_are_an_error(tree):
    tree.update()
    assert "contains no fragment for 2.0.0" in tree.error("notes", CONNECTOR)


def test_a_late_fragment_is_reported(tree):
    tree.update()
    tree.fragment("+late.bugfix.md")
    said = tree.error("update", CONNECTOR)
    assert "CHANGELOG.md has a section 2.0.0, but lacks some fragments" in said


@pytest.mark.parametrize("name", ["connector-two", "../tree/connector-one", "."])
def test_a_folder_that_is_not_a_connector_of_the_tree_is_refused(tree, name):
    assert f"does not contain the connector {name}" in tree.error("update", name)


def test_a_major_missing_from_the_matrix_is_refused(tree):
    said = tree.error("update", CONNECTOR, "--version", "3.0.0")
    assert "connector-one 3 is not in the compatibility matrix" in said
    assert status(tree) == []


def test_a_version_in_another_spelling_is_refused(tree):
    assert "'2.0' is not a connector version" in tree.error("update", CONNECTOR, "--version", "2.0")


@pytest.mark.parametrize(
    "name", [PROJECT, CHANGELOG, f"{CONNECTOR}/changelog.d/+new.misc.md", MATRIX]
)
def test_uncommitted_work_is_not_overwritten(tree, name):
    tree.replace(MATRIX, '"2.0.0"', '"2.9.9"')
    path = tree.root / name
    path.write_text((path.read_text() if path.exists() else "words") + "\n")
    before = status(tree)
    said = tree.error("update", CONNECTOR, "--version", "2.0.1")
    assert f"these files have uncommitted changes: {name}" in said
    assert status(tree) == before
