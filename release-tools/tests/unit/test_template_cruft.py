# SPDX-License-Identifier: Apache-2.0
"""Plain cruft still reads what is recorded, and means the same by it."""

import json
import os
import subprocess
import sys
from pathlib import Path

from cruft._commands.utils.generate import _get_skip_paths, _remove_paths
from hypothesis import given
from hypothesis import strategies as st
from template_tree import PROJECT, Tree

from connector_release_tools.template.files import files_below
from connector_release_tools.template.ownership import AuthorsFiles


def cruft(folder: Path, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "cruft", *arguments],
        cwd=folder,
        env={**os.environ, "GIT_ALLOW_PROTOCOL": "file"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_plain_cruft_sees_no_difference_in_a_new_connector(tree: Tree) -> None:
    assert cruft(tree.root / "connector-one", "diff", "--exit-code") == ""


def test_after_plain_cruft_update_the_check_still_knows_where_the_connector_is(tree: Tree) -> None:
    for words in ("pytest -q", "pytest -vv"):
        old = tree.text(f"{PROJECT}/tox.ini").partition("commands = ")[2].strip()
        commit = tree.commit(tree.replaced(f"{PROJECT}/tox.ini", old, words))
        cruft(tree.root / "connector-one", "update", "--skip-apply-ask")
        tree.commit({})
        said = json.loads(tree.text("connector-one/.cruft.json"))
        assert said["commit"] == commit
        assert "_template_tree" in said
        assert words in tree.text("connector-one/tox.ini")
        assert tree.check("connector-one")["connector-one"]["state"] == "up to date"


NAMES = st.sampled_from(["a", "b.py", ".c", "docs"])
PATHS = st.lists(NAMES, min_size=1, max_size=3).map("/".join)
PATTERNS = st.lists(
    st.sampled_from(["a", "b.py", ".c", "docs", "*", "*.py", "**"]), min_size=1, max_size=3
).map("/".join)


@given(paths=st.lists(PATHS, max_size=6), patterns=st.lists(PATTERNS, max_size=3))
def test_skip_means_what_it_means_to_cruft(
    tmp_path_factory, paths: list[str], patterns: list[str]
) -> None:
    root = tmp_path_factory.mktemp("rendering")
    project = tmp_path_factory.mktemp("project") / "pyproject.toml"
    project.write_text(f"[tool.cruft]\nskip = {json.dumps(patterns)}\n")
    for path in paths:
        try:
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).touch()
        except OSError:
            continue  # a file where another path has a folder
    authors = AuthorsFiles(tuple(patterns))
    left = {path for path in files_below(root) if path not in authors}
    _remove_paths(root, _get_skip_paths({}, project))
    assert set(files_below(root)) == left
