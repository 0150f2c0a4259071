# SPDX-License-Identifier: Apache-2.0
import json
import tempfile
from pathlib import Path

import pytest
from git_tree import git
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from template_tree import PROJECT, SINK_PAGE, Tree

PYPROJECT = "connector-one/pyproject.toml"
AUTHORS = "connector-one/src/connector_one/__init__.py"


def link(tree: Tree, name: str = "connector-one") -> dict:
    return json.loads(tree.text(f"{name}/.cruft.json"))


def status(tree: Tree) -> str:
    return git(tree.root, "status", "--porcelain")


def test_a_template_change_reaches_every_connector_and_keeps_its_own_changes(tree: Tree) -> None:
    tree.commit(
        {
            AUTHORS: "# mine\n",
            **tree.replaced(PYPROJECT, 'spark = ["3.5", "4.3"]', 'spark = ["4.3"]'),
        }
    )
    change = tree.commit(
        {
            **tree.replaced(f"{PROJECT}/tox.ini", "pytest", "pytest -q"),
            **tree.replaced(f"{PROJECT}/pyproject.toml", ">=3.11", ">=3.12"),
            f"{PROJECT}/src/connector_{{{{cookiecutter.name}}}}/__init__.py": "# the template's\n",
        }
    )
    tree.commit({"notes.md": "after the template's last change\n"})
    assert {each["state"] for each in tree.check().values()} == {"older than the template"}
    tree.update()
    assert {each["state"] for each in tree.check().values()} == {"up to date"}
    assert "pytest -q" in tree.text("connector-one/tox.ini")
    assert "pytest -q" in tree.text("connector-two/tox.ini")
    assert 'requires-python = ">=3.12"' in tree.text(PYPROJECT)
    assert 'spark = ["4.3"]' in tree.text(PYPROJECT)
    assert tree.text(AUTHORS) == "# mine\n"
    assert link(tree)["commit"] == change
    assert link(tree)["_template_tree"] == git(tree.root, "rev-parse", "HEAD:connector-template")


def test_an_update_adds_new_template_files_and_deletes_removed_ones(tree: Tree) -> None:
    tree.commit(
        {
            f"{PROJECT}/.ci/run": "#!/bin/sh\n",
            SINK_PAGE: None,
        }
    )
    (tree.root / PROJECT / ".ci/run").chmod(0o755)
    tree.commit({})
    tree.update("connector-one")
    assert (tree.root / "connector-one/.ci/run").stat().st_mode & 0o111
    assert not (tree.root / "connector-one/docs").exists()
    assert tree.check("connector-one")["connector-one"]["state"] == "up to date"


def test_a_change_next_to_the_authors_edit_is_reported_as_a_conflict(tree: Tree) -> None:
    tree.commit(tree.replaced(PYPROJECT, '">=3.11"', '">=3.11,<4"'))
    tree.commit(tree.replaced(f"{PROJECT}/pyproject.toml", '">=3.11"', '">=3.12"'))
    said = tree.update(exit_code=1)
    assert "conflict in connector-one/pyproject.toml: resolve the text between <<<<<<<" in said
    assert "<<<<<<< connector\n" in tree.text(PYPROJECT)
    assert 'requires-python = ">=3.12"' in tree.text("connector-two/pyproject.toml")
    error = tree.check()["connector-one"]["error"]
    assert "resolve the conflict" in error["hint"]
    assert "resolve the conflict" in tree.update(exit_code=2)

    text = tree.text(PYPROJECT)
    begin, end = text.index("<<<<<<<"), text.index(">>>>>>> template\n")
    resolved = text[:begin] + 'requires-python = ">=3.12,<4"\n' + text[end + 17 :]
    tree.commit({PYPROJECT: resolved})
    assert tree.check()["connector-one"]["state"] == "up to date"


def test_a_merge_with_invalid_toml_is_reported_as_a_conflict(tree: Tree) -> None:
    tree.commit({PYPROJECT: "[tool.more]\na = 1\n\n" + tree.text(PYPROJECT)})
    template = f"{PROJECT}/pyproject.toml"
    tree.commit({template: tree.text(template) + "\n[tool.more]\na = 1\n"})
    said = tree.update(exit_code=1)
    assert "conflict in connector-one/pyproject.toml: merged, but" in said
    assert "connector-two: updated" in said
    assert "cannot be read" in tree.check()["connector-one"]["error"]["message"]


def test_an_edited_template_file_is_kept_and_reported(tree: Tree) -> None:
    tree.commit(tree.replaced("connector-one/tox.ini", "commands", "set_env = A=1\ncommands"))
    assert "nothing to update" in tree.update(exit_code=1)
    tree.commit(tree.replaced(f"{PROJECT}/tox.ini", "[tox]", "[tox]\nrequires = tox-uv"))
    said = tree.update(exit_code=1)
    assert (
        "changed in the connector, but the file belongs to the template: connector-one/tox.ini"
        in said
    )
    text = tree.text("connector-one/tox.ini")
    assert "requires = tox-uv" in text
    assert "set_env = A=1" in text
    assert tree.check()["connector-one"]["state"] == "has changed template files"


def test_restore_undoes_edits_of_template_files(tree: Tree) -> None:
    tree.commit({"connector-one/tox.ini": "mine\n", "connector-one/docs/sink.md": None})
    tree.update("--restore")
    assert {each["state"] for each in tree.check().values()} == {"up to date"}
    tree.commit({"connector-one/tox.ini": "mine\n"})
    tree.commit(tree.replaced(f"{PROJECT}/tox.ini", "pytest", "pytest -q"))
    tree.update("--restore")
    assert {each["state"] for each in tree.check().values()} == {"up to date"}


@pytest.mark.parametrize(
    ("here", "there", "message"),
    [
        ("mine\n", None, "the template removed it, the connector changed it"),
        (None, "theirs\n", "the connector removed it, the template changed it"),
        ("\0mine", "theirs\n", "both changed it, and it is not text"),
    ],
)
def test_a_file_that_cannot_be_merged_is_kept_and_reported(
    tree: Tree, here: str | None, there: str | None, message: str
) -> None:
    tree.commit({"connector-one/tox.ini": here, f"{PROJECT}/tox.ini": there})
    assert f"conflict in connector-one/tox.ini: {message}" in tree.update(exit_code=1)
    path = tree.root / "connector-one/tox.ini"
    assert (path.read_text() if path.exists() else None) == here


def test_a_new_template_file_does_not_overwrite_an_authors_file(tree: Tree) -> None:
    tree.commit({"connector-one/notes.md": "mine\n", f"{PROJECT}/notes.md": "theirs\n"})
    assert "conflict in connector-one/notes.md" in tree.update(exit_code=1)
    assert "mine\n" in tree.text("connector-one/notes.md")


def test_a_folder_with_the_name_of_a_new_file_is_reported(tree: Tree) -> None:
    tree.commit({"connector-one/notes/a.md": "mine\n", f"{PROJECT}/notes": "theirs\n"})
    said = tree.update(exit_code=2)
    assert "connector-one was only partially updated" in said
    assert "connector-two: updated" in said


def test_an_update_does_not_change_a_file_whose_owner_changes(tree: Tree) -> None:
    tree.commit(
        {
            **tree.replaced(f"{PROJECT}/pyproject.toml", '"README.md"', '"docs/**"'),
            SINK_PAGE: "# Changed\n",
            f"{PROJECT}/README.md": "# Changed too\n",
        }
    )
    tree.update()
    assert tree.text("connector-one/docs/sink.md") == "# The sink\n"
    assert tree.text("connector-one/README.md") == "# Changed too\n"
    assert {each["state"] for each in tree.check().values()} == {"up to date"}


def test_a_connector_with_uncommitted_changes_is_refused_and_the_others_are_updated(
    tree: Tree,
) -> None:
    tree.commit(tree.replaced(f"{PROJECT}/tox.ini", "pytest", "pytest -q"))
    (tree.root / AUTHORS).write_text("# half done\n")
    said = tree.update(exit_code=2)
    assert "connector-one has uncommitted changes: connector-one/src" in said
    assert "connector-two: updated" in said
    assert "pytest -q" not in tree.text("connector-one/tox.ini")
    git(tree.root, "commit", "--quiet", "--message", "done", AUTHORS)
    said = tree.update()
    assert "connector-one: updated" in said
    assert "connector-two: nothing to update" in said
    assert {each["state"] for each in tree.check().values()} == {"up to date"}


def test_uncommitted_changes_elsewhere_are_ignored(tree: Tree) -> None:
    tree.commit(tree.replaced(f"{PROJECT}/tox.ini", "pytest", "pytest -q"))
    (tree.root / "notes.md").write_text("half done\n")
    tree.update()


def test_a_dry_run_shows_the_changes_and_writes_nothing(tree: Tree) -> None:
    tree.commit(tree.replaced(f"{PROJECT}/tox.ini", "pytest", "pytest -q"))
    said = tree.update("--dry-run", "--diff")
    assert "connector-one: would be updated\n  changed tox.ini\n" in said
    assert "-commands = pytest\n+commands = pytest -q\n" in said
    assert status(tree) == ""


def test_uncommitted_template_changes_are_ignored(tree: Tree) -> None:
    (tree.root / PROJECT / "tox.ini").write_text("half done\n")
    said = tree.update()
    assert "connector-template has uncommitted changes" in said
    assert "half done" not in tree.text("connector-one/tox.ini")


@pytest.mark.parametrize("file", ["lookup.txt", "src/lookup.txt"])
def test_a_new_question_gets_its_default_and_is_recorded(tree: Tree, file: str) -> None:
    """A new question is recorded even if only a file of the author depends on it."""
    tree.commit(
        {
            **tree.replaced(
                "connector-template/cookiecutter.json", '"name"', '"lookup": false, "name"'
            ),
            f"{PROJECT}/{file}": "{{ cookiecutter.lookup }}\n",
        }
    )
    tree.update()
    assert (tree.root / "connector-one" / file).exists() == (file == "lookup.txt")
    assert link(tree)["context"]["cookiecutter"]["lookup"] is False
    assert tree.check()["connector-one"]["state"] == "up to date"


def test_an_invalid_pyproject_is_reported_by_its_name(tree: Tree) -> None:
    tree.commit({PYPROJECT: "[tool"})
    tree.commit(tree.replaced(f"{PROJECT}/tox.ini", "pytest", "pytest -q"))
    said = tree.update(exit_code=2)
    assert "connector-one/pyproject.toml cannot be read" in said
    assert "connector-two: updated" in said


LINES = st.lists(st.sampled_from("abcdef"), max_size=6).map(lambda lines: "\n".join(lines) + "\n")
FILES = st.dictionaries(
    st.sampled_from(["tox.ini", "docs/a.md", "new/b", "src/c"]), LINES | st.none()
)


@settings(max_examples=8, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(there=FILES, here=FILES)
def test_after_a_successful_update_the_check_passes_and_a_second_update_does_nothing(
    first_tree: Tree, there: dict[str, str | None], here: dict[str, str | None]
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        tree = first_tree.copy(Path(folder) / "tree")

        def below(where: str, files: dict[str, str | None]) -> dict[str, str | None]:
            return {
                f"{where}/{name}": text
                for name, text in files.items()
                if text is not None or (tree.root / where / name).exists()
            }

        tree.commit({**below(PROJECT, there), **below("connector-one", here)})
        code = tree.run("update", "connector-one").exit_code
        tree.commit({})
        checked = tree.run("check", "connector-one")
        # A conflict over a file that left the template is reported only once.
        assert checked.exit_code == code or (checked.exit_code, code) == (0, 1), checked.output
        again = tree.run("update", "connector-one")
        assert again.exit_code == checked.exit_code
        assert "nothing to update" in again.output
        assert status(tree) == ""
        for name, text in below("connector-one", here).items():
            if name.startswith("connector-one/src/"):
                assert tree.text(name) == text
