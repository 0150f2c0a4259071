# SPDX-License-Identifier: Apache-2.0
import pytest
from git_tree import git
from release_tree import API, CONNECTOR

BRANCH = "connector-one-2.x"
NAME = "connector-one-2.0.1"


@pytest.fixture
def tree(release_tree):
    """connector-one 2.0.0 is released, main develops 3.0, and 2.0.1 is ready on its branch."""
    release_tree.released()
    release_tree.run("branch", CONNECTOR, "--major", "2")
    release_tree.replace(f"{CONNECTOR}/pyproject.toml", "2.0.0", "3.0.0")
    git(release_tree.root, "switch", "--quiet", BRANCH)
    release_tree.replace(API, "pass", "return 1")
    release_tree.fragment("+fixed.bugfix.md")
    release_tree.update("--version", "2.0.1")
    git(release_tree.root, "switch", "--quiet", "main")
    return release_tree


def test_a_maintenance_branch_starts_at_the_last_release(release_tree):
    release_tree.released()
    said = release_tree.run("branch", CONNECTOR, "--major", "2").output
    pin = release_tree.matrix.connectors[CONNECTOR].majors["2"].commit
    assert git(release_tree.root, "rev-parse", BRANCH) == pin
    assert f"undo: git branch -D {BRANCH}" in said


def test_an_existing_maintenance_branch_is_kept(tree):
    before = git(tree.root, "rev-parse", BRANCH)
    assert "exists, with" in tree.run("branch", CONNECTOR, "--major", "2").output
    assert git(tree.root, "rev-parse", BRANCH) == before


def test_a_maintenance_branch_without_the_release_is_refused(release_tree):
    git(release_tree.root, "branch", BRANCH, "HEAD~1")
    release_tree.released()
    said = release_tree.error("branch", CONNECTOR, "--major", "2")
    assert f"branch {BRANCH} does not contain the last release" in said


def test_a_major_without_a_release_has_no_maintenance_branch(release_tree):
    said = release_tree.error("branch", CONNECTOR, "--major", "2")
    assert "connector-one 2.0.0 is not released yet" in said


def test_a_merge_adds_the_commits_and_changes_no_file(tree):
    (tree.root / API).write_text("in the making")
    before = git(tree.root, "rev-parse", "HEAD^{tree}")
    said = tree.run("branch", CONNECTOR, "--major", "2", "--merge").output
    assert git(tree.root, "rev-parse", "HEAD^{tree}") == before
    assert git(tree.root, "rev-parse", "HEAD^2") == git(tree.root, "rev-parse", BRANCH)
    assert git(tree.root, "status", "--porcelain") == f"M {API}"
    assert "undo: git reset --keep" in said
    assert "already contains" in tree.run("branch", CONNECTOR, "--major", "2", "--merge").output


def test_a_clone_of_main_contains_the_commits_of_a_merged_branch(tree, tmp_path):
    tree.run("branch", CONNECTOR, "--major", "2", "--merge")
    commit = git(tree.root, "rev-parse", BRANCH)
    git(tree.root, "branch", "-D", BRANCH)
    git(tmp_path, "clone", "--quiet", "--single-branch", tree.root.as_uri(), "clone")
    git(tmp_path / "clone", "cat-file", "-e", f"{commit}:{CONNECTOR}")


def test_a_dry_run_changes_nothing(release_tree):
    release_tree.released()
    before = git(release_tree.root, "show-ref")
    release_tree.run("branch", CONNECTOR, "--major", "2", "--dry-run")
    git(release_tree.root, "branch", "x")
    git(release_tree.root, "branch", "-D", "x")
    release_tree.run("branch", CONNECTOR, "--major", "2", "--merge", "--dry-run")
    assert git(release_tree.root, "show-ref") == before


def test_a_maintenance_branch_is_not_merged_into_itself(tree):
    git(tree.root, "switch", "--quiet", BRANCH)
    said = tree.error("branch", CONNECTOR, "--major", "2", "--merge")
    assert f"{BRANCH} is checked out" in said


def test_an_unknown_major_is_an_error_with_a_hint(release_tree):
    release_tree.released()
    release_tree.replace(f"{CONNECTOR}/pyproject.toml", "2.0.0", "3.0.0")
    said = release_tree.error("build", CONNECTOR, "--major", "2")
    assert "HEAD has connector-one 3.0.0, and the branch connector-one-2.x does not exist" in said
    assert "release-tools release branch connector-one --major 2" in said


def test_a_patch_is_released_from_its_maintenance_branch(tree, tmp_path):
    folders = str(tmp_path / "staging"), str(tmp_path / "index")
    tree.run("check", CONNECTOR, "--major", "2")
    record = tree.verified(BRANCH)
    tree.run("stage", NAME, folders[0])
    assert "is not in the history of HEAD" in tree.error("promote", NAME, *folders)
    tree.run("branch", CONNECTOR, "--major", "2", "--merge")
    tree.run("promote", NAME, *folders, "--commit")
    major = tree.matrix.connectors[CONNECTOR].majors["2"]
    assert (major.version, major.commit) == ("2.0.1", record.commit)
    assert tree.version == "3.0.0"
    assert "already" not in tree.run("branch", CONNECTOR, "--major", "2").output


def test_a_plain_merge_is_refused_with_a_hint_to_undo_it(tree, tmp_path):
    folders = str(tmp_path / "staging"), str(tmp_path / "index")
    tree.verified(BRANCH)
    tree.run("stage", NAME, folders[0])
    before = tree.head()
    git(tree.root, "merge", "--quiet", "--strategy-option=theirs", "--no-edit", BRANCH)
    for command in (["promote", NAME, *folders], ["branch", CONNECTOR, "--major", "2", "--merge"]):
        assert f"merge {tree.head()} restored files of connector-one 2" in tree.error(*command)
    git(tree.root, "reset", "--quiet", "--keep", f"{tree.head()}^1")
    assert tree.head() == before
    tree.run("branch", CONNECTOR, "--major", "2", "--merge")
    tree.run("promote", NAME, *folders)
