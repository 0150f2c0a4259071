# SPDX-License-Identifier: Apache-2.0
"""Fixtures: git without the user's settings, and small repositories."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from flip_tree import FILES as FLIPS
from flip_tree import FlipTree, whole_tree
from matrix_tree import FILES as MATRIX
from matrix_tree import MatrixTree
from release_tree import CONNECTOR, ReleaseTree, make_wheel
from release_tree import FILES as RELEASE
from template_tree import TEMPLATE, Tree

IDENTITY = {"NAME": "A Tester", "EMAIL": "tester@example.org"}


@contextmanager
def living_in(home: Path) -> Iterator[None]:
    """Use a temporary home, in which git knows only the test user."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOME", str(home))
        patch.setenv("GIT_CONFIG_GLOBAL", "/dev/null")
        patch.setenv("GIT_CONFIG_SYSTEM", "/dev/null")
        for variable in (
            "GIT_DIR",
            "GIT_WORK_TREE",
            "GIT_INDEX_FILE",
        ):  # git sets these while a hook runs
            patch.delenv(variable, raising=False)
        for role in ("AUTHOR", "COMMITTER"):
            for key, value in IDENTITY.items():
                patch.setenv(f"GIT_{role}_{key}", value)
        yield


@contextmanager
def first_home(factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Use a new home for a repository that tests only copy."""
    folder = factory.mktemp("first")
    with living_in(folder):
        yield folder


@pytest.fixture(autouse=True)
def home(tmp_path: Path) -> Iterator[Path]:
    home = tmp_path / "home"
    home.mkdir()
    with living_in(home):
        yield home


@pytest.fixture(scope="session")
def first_tree(tmp_path_factory: pytest.TempPathFactory) -> Tree:
    with first_home(tmp_path_factory) as folder:
        tree = Tree.new(folder / "tree", TEMPLATE)
        tree.create("one")
        tree.create("two", "--no-sink")
    return tree


@pytest.fixture
def tree(first_tree: Tree, tmp_path: Path) -> Tree:
    """A template and its connectors, connector-one and connector-two (without a sink)."""
    return first_tree.copy(tmp_path / "tree")


@pytest.fixture(scope="session")
def first_matrix_tree(tmp_path_factory: pytest.TempPathFactory) -> MatrixTree:
    with first_home(tmp_path_factory) as folder:
        tree = MatrixTree.new(folder / "tree", MATRIX)
    return tree


@pytest.fixture
def matrix_tree(first_matrix_tree: MatrixTree, tmp_path: Path) -> MatrixTree:
    """A connector, connector-one, and its entry in the matrix."""
    return first_matrix_tree.copy(tmp_path / "tree")


@pytest.fixture(scope="session")
def agreeing_tree(tmp_path_factory: pytest.TempPathFactory) -> MatrixTree:
    """Releases of the core and of connector-one, whose major 3 is next; tests restore it."""
    with first_home(tmp_path_factory) as folder:
        return MatrixTree.with_releases(folder / "tree")


@pytest.fixture(scope="session")
def first_release_tree(tmp_path_factory: pytest.TempPathFactory) -> ReleaseTree:
    with first_home(tmp_path_factory) as folder:
        tree = ReleaseTree.new(folder / "tree", RELEASE)
        tree.update()
    return tree


@pytest.fixture(scope="session")
def first_patch_tree(
    first_release_tree: ReleaseTree, tmp_path_factory: pytest.TempPathFactory
) -> ReleaseTree:
    with first_home(tmp_path_factory) as folder:
        tree = first_release_tree.copy(folder / "tree")
        tree.released()
        tree.fragment("+fixed.bugfix.md")
        tree.update("--version", "2.0.1")
    return tree


@pytest.fixture
def release_tree(first_release_tree: ReleaseTree, tmp_path: Path) -> ReleaseTree:
    """A repository whose connector can be released as 2.0.0."""
    return first_release_tree.copy(tmp_path / "tree")


@pytest.fixture
def patch_tree(first_patch_tree: ReleaseTree, tmp_path: Path) -> ReleaseTree:
    """A repository with released connector-one 2.0.0, and 2.0.1 in development."""
    return first_patch_tree.copy(tmp_path / "tree")


@pytest.fixture(scope="session")
def first_built_tree(
    first_release_tree: ReleaseTree, tmp_path_factory: pytest.TempPathFactory
) -> ReleaseTree:
    with first_home(tmp_path_factory) as folder:
        tree = first_release_tree.copy(folder / "tree")
        tree.run("build", CONNECTOR)
    return tree


@pytest.fixture
def built_tree(first_built_tree: ReleaseTree, tmp_path: Path) -> ReleaseTree:
    """A repository with built artifacts of connector-one 2.0.0."""
    return first_built_tree.copy(tmp_path / "tree")


@pytest.fixture(scope="session")
def first_flips(tmp_path_factory: pytest.TempPathFactory) -> dict[str, FlipTree]:
    with first_home(tmp_path_factory) as folder:
        bare = FlipTree.new(folder / "bare", FLIPS)
        decided = bare.copy(folder / "decided")
        for title in ("One", "Two", "Three"):
            decided.propose(title)
        decided.accept(1)
        decided.open_vote(2)
        decided.vote(2, alice="+1")
        decided.discuss(3)
        decided.base = decided.commit()
        accepted = FlipTree.new(folder / "accepted", whole_tree())
        plan = ("--connector", "pulsar", "--description", "Pulsar topics", "--no-sink")
        accepted.propose("A connector for Pulsar", *plan)
        accepted.accept(1)
        accepted.base = accepted.commit()
    return {"bare": bare, "decided": decided, "accepted": accepted}


@pytest.fixture
def flips(first_flips: dict[str, FlipTree], tmp_path: Path) -> FlipTree:
    """A repository with rules and maintainers, but no proposals."""
    return first_flips["bare"].copy(tmp_path / "flips")


@pytest.fixture
def decided(first_flips: dict[str, FlipTree], tmp_path: Path) -> FlipTree:
    """A repository with FLIP 1 accepted, FLIP 2 in a vote, and FLIP 3 in discussion."""
    return first_flips["decided"].copy(tmp_path / "decided")


@pytest.fixture
def accepted(first_flips: dict[str, FlipTree], tmp_path: Path) -> FlipTree:
    """A complete tree in which FLIP 1, a connector for Pulsar, is accepted."""
    return first_flips["accepted"].copy(tmp_path / "accepted")


@pytest.fixture
def wheelhouse_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Installers find pyspark in a wheelhouse, and have no package index."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("UV_NO_INDEX", "1")
    wheelhouse = tmp_path / "cache" / "connectors" / "wheelhouse"
    for version in ("3.5.9", "4.3.0"):
        make_wheel(wheelhouse, "pyspark", version, "License-Expression: Apache-2.0")
    make_wheel(wheelhouse, "copyleft", "1.0", "License-Expression: GPL-3.0-only")
