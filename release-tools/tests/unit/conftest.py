# SPDX-License-Identifier: Apache-2.0
"""Git without the settings of who runs the tests; the modules of this folder that are no tests."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from template_tree import Tree

IDENTITY = {"NAME": "A Tester", "EMAIL": "tester@example.org"}


@pytest.fixture(scope="session", autouse=True)
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """An empty home; git knows nobody but the tester."""
    home = tmp_path_factory.mktemp("home")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOME", str(home))
        patch.setenv("GIT_CONFIG_GLOBAL", "/dev/null")
        patch.setenv("GIT_CONFIG_SYSTEM", "/dev/null")
        for role in ("AUTHOR", "COMMITTER"):
            for key, value in IDENTITY.items():
                patch.setenv(f"GIT_{role}_{key}", value)
        yield home


@pytest.fixture(scope="session")
def first_tree(home: Path, tmp_path_factory: pytest.TempPathFactory) -> Tree:
    tree = Tree.new(tmp_path_factory.mktemp("first") / "tree")
    tree.create("one")
    tree.create("two", "--no-sink")
    return tree


@pytest.fixture
def tree(first_tree: Tree, tmp_path: Path) -> Tree:
    """A template and its connectors, connector-one and connector-two (without a sink)."""
    return first_tree.copy(tmp_path / "tree")
