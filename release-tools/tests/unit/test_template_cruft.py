# SPDX-License-Identifier: Apache-2.0
"""Plain cruft can read the recorded state, and interprets it in the same way."""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

from cruft._commands.utils.generate import _get_skip_paths, _remove_paths
from hypothesis import assume, given
from hypothesis import strategies as st
from template_tree import PROJECT, Tree

from connector_release_tools.template.files import File, files_below, write
from connector_release_tools.template.ownership import AuthorsFiles


def cruft(folder: Path, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "cruft", *arguments],
        cwd=folder,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_plain_cruft_sees_no_difference_in_a_new_connector(tree: Tree) -> None:
    assert cruft(tree.root / "connector-one", "diff", "--exit-code") == ""


def test_a_connector_is_up_to_date_after_a_plain_cruft_update(tree: Tree) -> None:
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


@given(paths=st.sets(PATHS, max_size=6), patterns=st.lists(PATTERNS, max_size=3))
def test_skip_has_the_same_meaning_as_in_cruft(paths: set[str], patterns: list[str]) -> None:
    assume(not any(path.startswith(f"{other}/") for path in paths for other in paths))
    with tempfile.TemporaryDirectory() as folder:
        project, rendering = Path(folder) / "pyproject.toml", Path(folder) / "rendering"
        project.write_text(f"[tool.cruft]\nskip = {json.dumps(patterns)}\n")
        for path in paths:
            write(rendering / path, File(b""))
        left = paths - {path for path in paths if path in AuthorsFiles(tuple(patterns))}
        _remove_paths(rendering, _get_skip_paths({}, project))
        assert set(files_below(rendering)) == left
