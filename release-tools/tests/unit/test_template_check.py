# SPDX-License-Identifier: Apache-2.0
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from git_tree import git
from template_tree import PROJECT, SINK_PAGE, Tree

TOX = "connector-one/tox.ini"


def files(verdict: dict) -> set[tuple[str, str, str]]:
    return {(file["path"], file["side"], file["change"]) for file in verdict["files"]}


def test_a_new_connector_is_up_to_date(tree: Tree) -> None:
    assert tree.check()["connector-one"]["state"] == "up to date"


def test_a_commit_outside_the_template_changes_nothing(tree: Tree) -> None:
    tree.commit({"notes.md": "unrelated\n", "connector-one/src/more.py": "pass\n"})
    assert tree.check()["connector-one"]["state"] == "up to date"


def test_a_template_change_is_detected(tree: Tree) -> None:
    tree.commit(
        {
            **tree.replaced(f"{PROJECT}/tox.ini", "pytest", "pytest -q"),
            **tree.replaced(f"{PROJECT}/pyproject.toml", ">=3.11", ">=3.12"),
            SINK_PAGE: None,
            f"{PROJECT}/docs/new.md": "# New\n",
        }
    )
    verdict = tree.check()["connector-one"]
    assert verdict["state"] == "older than the template"
    assert files(verdict) == {
        ("tox.ini", "template", "changed"),
        ("pyproject.toml", "template", "changed"),
        ("docs/sink.md", "template", "removed"),
        ("docs/new.md", "template", "added"),
    }


def test_a_template_change_that_does_not_affect_a_connector_is_ignored(tree: Tree) -> None:
    tree.commit(
        {
            SINK_PAGE: "# Sinks\n",
            f"{PROJECT}/README.md": "# The author's, made once\n",
        }
    )
    states = {name: verdict["state"] for name, verdict in tree.check().items()}
    assert states == {"connector-one": "older than the template", "connector-two": "up to date"}


def test_changes_in_the_authors_files_and_pyproject_are_ignored(tree: Tree) -> None:
    tree.commit(
        {
            "connector-one/src/connector_one/__init__.py": None,
            "connector-one/README.md": "# Mine\n",
            "connector-one/docs/more.md": "# More\n",
            **tree.replaced("connector-one/pyproject.toml", ">=3.11", ">=3.13"),
        }
    )
    assert tree.check()["connector-one"]["state"] == "up to date"


@pytest.mark.parametrize("change", ["changed", "removed", "executable"])
def test_an_edited_template_file_is_reported(tree: Tree, change: str) -> None:
    if change == "executable":
        (tree.root / TOX).chmod(0o755)
    tree.commit({} if change == "executable" else {TOX: "mine" if change == "changed" else None})
    verdict = tree.check()["connector-one"]
    assert verdict["state"] == "has changed template files"
    found = "removed" if change == "removed" else "changed"
    assert files(verdict) == {("tox.ini", "connector", found)}


def test_an_edit_is_reported_together_with_a_template_change(tree: Tree) -> None:
    tree.commit(
        {
            **tree.replaced(SINK_PAGE, "sink", "sinks"),
            **tree.replaced(TOX, "pytest", "true"),
        }
    )
    assert files(tree.check()["connector-one"]) == {
        ("docs/sink.md", "template", "changed"),
        ("tox.ini", "connector", "changed"),
    }


def test_uncommitted_changes_are_checked_on_request(tree: Tree) -> None:
    (tree.root / PROJECT / "new.txt").write_text("new\n")
    result = tree.run("check")
    assert result.exit_code == 0
    assert "connector-template has uncommitted changes" in result.output
    verdict = tree.check("--working-tree")["connector-one"]
    assert files(verdict) == {("new.txt", "template", "added")}
    assert git(tree.root, "diff", "--cached", "--name-only") == "", "the index is the user's"


def test_the_table_names_files_and_the_diff_is_shown_on_request(tree: Tree) -> None:
    tree.commit(tree.replaced(f"{PROJECT}/tox.ini", "pytest", "pytest -q"))
    short = tree.run("check")
    assert short.exit_code == 1
    assert "connector-one: older than the template" in short.output
    assert "tox.ini" in short.output
    assert "-commands = pytest\n+commands = pytest -q\n" not in short.output
    assert "-commands = pytest\n+commands = pytest -q\n" in tree.run("check", "--diff").output


def test_only_the_named_connectors_are_checked(tree: Tree) -> None:
    assert list(tree.check("connector-two/")) == ["connector-two"]
    assert list(tree.check()) == ["connector-one", "connector-two"]
    for name in ("connector-three", "..", "connector-template"):
        result = tree.run("check", name)
        assert result.exit_code == 2
        assert f"does not contain the connector {name}" in result.output
    assert "connector-one, connector-two" in result.output


def test_another_clone_of_the_repository_gives_the_same_result(tree: Tree, tmp_path: Path) -> None:
    git(tmp_path, "clone", "--quiet", str(tree.root), "elsewhere")
    clone = Tree(tmp_path / "elsewhere")
    assert clone.check()["connector-one"]["state"] == "up to date"


def test_a_shallow_clone_is_an_error_with_a_hint(tree: Tree, tmp_path: Path) -> None:
    tree.commit(tree.replaced(f"{PROJECT}/tox.ini", "pytest", "pytest -q"))
    git(tmp_path, "clone", "--quiet", "--depth=1", tree.root.as_uri(), "shallow")
    verdict = Tree(tmp_path / "shallow").check()["connector-one"]
    assert verdict["error"]["hint"] == "the clone is shallow; run `git fetch --unshallow`"
    assert "is not in this clone" in verdict["error"]["message"]


def test_a_shallow_clone_works_while_the_template_is_unchanged(tree: Tree, tmp_path: Path) -> None:
    tree.commit({"notes.md": "unrelated\n"})
    git(tmp_path, "clone", "--quiet", "--depth=1", tree.root.as_uri(), "shallow")
    assert Tree(tmp_path / "shallow").check()["connector-one"]["state"] == "up to date"


def test_a_squashed_commit_is_found_by_its_tree(tree: Tree, tmp_path: Path) -> None:
    git(tree.root, "checkout", "--quiet", "--orphan", "squashed")
    tree.commit({})
    tree.commit(tree.replaced(f"{PROJECT}/tox.ini", "pytest", "pytest -q"))
    git(tmp_path, "clone", "--quiet", "--single-branch", tree.root.as_uri(), "squashed")
    verdict = Tree(tmp_path / "squashed").check()["connector-one"]
    assert files(verdict) == {("tox.ini", "template", "changed")}


def test_a_missing_commit_is_an_error_with_a_hint(tree: Tree) -> None:
    link = json.loads(tree.text("connector-one/.cruft.json"))
    link |= {"commit": "0" * 40, "_template_tree": "1" * 40}
    tree.commit({"connector-one/.cruft.json": json.dumps(link)})
    error = tree.check()["connector-one"]["error"]
    assert "commit 0000000000, from which connector-one was created" in error["message"]
    assert "release-tools template link connector-one" in error["hint"]


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        (".cruft.json", "{", ".cruft.json is invalid"),
        (".cruft.json", "[]", ".cruft.json is invalid"),
        (".cruft.json", "{}", "'context' is missing"),
        (
            ".cruft.json",
            '{"template": "..", "directory": "connector-template", "commit": "--all",'
            ' "context": {"cookiecutter": {}}}',
            "must be git object ids",
        ),
        (
            ".cruft.json",
            '{"template": "https://example.org/t", "directory": "t",'
            f' "context": {{"cookiecutter": {{}}}}, "commit": "{"0" * 40}"}}',
            "has 't' in 'https://example.org/t' as its template",
        ),
        ("pyproject.toml", "[tool", "connector-one/pyproject.toml cannot be read"),
        ("pyproject.toml", "[tool.cruft]\nskip = 1", "must be a list of strings"),
        ("pyproject.toml", "tool = 1", "[tool.cruft] skip"),
        ("pyproject.toml", None, "connector-one has no pyproject.toml"),
    ],
)
def test_an_unreadable_connector_is_reported_and_the_others_are_checked(
    tree: Tree, name: str, text: str | None, message: str
) -> None:
    tree.commit({f"connector-one/{name}": text})
    verdicts = tree.check()
    assert message in verdicts["connector-one"]["error"]["message"]
    assert verdicts["connector-two"]["state"] == "up to date"
    table = tree.run("check").output
    assert "connector-one: not checked" in table
    assert "Traceback" not in table


def test_answers_of_another_connector_are_refused(tree: Tree) -> None:
    tree.commit(tree.replaced("connector-one/.cruft.json", '"name": "one"', '"name": "two"'))
    assert "create a folder connector-two" in tree.check()["connector-one"]["error"]["message"]


def test_a_template_that_cannot_be_rendered_is_an_error(tree: Tree) -> None:
    tree.commit({f"{PROJECT}/tox.ini": "{{ cookiecutter.nothing }}\n"})
    error = tree.check()["connector-one"]["error"]
    assert "cannot be rendered with name='one'" in error["message"]


def test_a_folder_outside_a_repository_or_without_a_template_is_an_error(tmp_path: Path) -> None:
    result = Tree(tmp_path).run("check")
    assert result.exit_code == 2
    assert "not a git repository" in result.output
    git(tmp_path, "init", "--quiet", "empty")
    empty = Tree(tmp_path / "empty")
    empty.commit({"README.md": "nothing\n"})
    result = empty.run("check")
    assert result.exit_code == 2
    assert "does not contain the folder connector-template" in result.output


def test_no_files_remain_in_the_home_folder(tree: Tree, home: Path) -> None:
    # A separate process, because cookiecutter reads the home folder on import.
    command = [sys.executable, "-m", "connector_release_tools", "template", "check"]
    done = subprocess.run(command, cwd=tree.root, capture_output=True, text=True, check=False)
    assert done.stdout == "connector-one: up to date\nconnector-two: up to date\n", done.stderr
    assert os.listdir(home) == []


def test_user_settings_are_ignored(
    tree: Tree, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = tmp_path / "settings.yaml"
    settings.write_text("default_context:\n  description: mine\n")
    monkeypatch.setenv("COOKIECUTTER_CONFIG", str(settings))
    link = json.loads(tree.text("connector-one/.cruft.json"))
    del link["context"]["cookiecutter"]["description"]
    tree.commit(
        {
            "connector-one/.cruft.json": json.dumps(link),
            f"{PROJECT}/tox.ini": "# {{ cookiecutter.description }}\n",
        }
    )
    (file,) = tree.check()["connector-one"]["files"]
    assert "mine" not in file["diff"]
