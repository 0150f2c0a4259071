# SPDX-License-Identifier: Apache-2.0
"""Finds the cells of the matrix that the commits since a base affect, each with the reasons."""

from __future__ import annotations

import ast
import tempfile
import tomllib
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import Final, Self

from connector_release_tools.environments import constraints
from connector_release_tools.errors import MatrixError
from connector_release_tools.git import Repository
from connector_release_tools.impact.import_graph import Imported, ImportGraph, imported, module_of
from connector_release_tools.matrix.file import MATRIX, MatrixFile
from connector_release_tools.matrix.model import CORE, Cell, Major, Matrix
from connector_release_tools.matrix.pins import tree_of
from connector_release_tools.matrix.project import PYPROJECT
from connector_release_tools.versions import SparkLine

__all__ = ["AffectedCell", "Impact", "impact"]

_SOURCES: Final = f"{CORE}/src"
# What a cell neither installs nor runs, by folder of a package.
_NOT_IN_CELLS: Final = frozenset({"docs", "changelog.d", ".github"})


@dataclass(frozen=True)
class AffectedCell:
    """A cell that a change affects.

    Attributes:
        cell: The cell.
        reasons: The reasons, one phrase each.
        names: The names of the core that its code imports and whose modules the change reaches.
    """

    cell: Cell
    reasons: tuple[str, ...]
    names: tuple[str, ...]


@dataclass(frozen=True)
class Impact:
    """The cells that the commits since a base affect.

    Attributes:
        base: The common ancestor of the base and HEAD.
        modules: The changed modules of the core.
        affected: The affected cells in the order of the matrix.
        unaffected: The other cells.
    """

    base: str
    modules: tuple[str, ...]
    affected: tuple[AffectedCell, ...]
    unaffected: tuple[Cell, ...]


def impact(repository: Repository, base: str) -> Impact:
    """Find the cells that the commits since a base affect.

    The imports of a released major are those of its release, and of an unreleased one those of
    HEAD. They are followed through the core as it is, and as it was.

    Args:
        repository: The repository.
        base: A revision; the commits since its common ancestor with HEAD count.

    Raises:
        HistoryError: The clone lacks the base, or the tree of a release.
        MatrixError: The matrix in HEAD is missing or invalid.
    """
    start = repository.common_ancestor(base)
    with tempfile.TemporaryDirectory(prefix="release-tools-") as scratch:
        before, now = _State(Path(scratch, "before")), _State(Path(scratch, "now"))
        repository.export(f"{start}^{{tree}}", before.root)
        repository.export("HEAD^{tree}", now.root)
        change = _Change(before, now, tuple(repository.changed(start, "HEAD")))
        affected, unaffected = [], []
        used: dict[tuple[str, str], _Used] = {}
        for cell in MatrixFile.read(now.root / MATRIX).matrix().cells():
            tree = tree_of(repository, cell.connector, cell.major)
            if (key := (cell.connector, tree)) not in used:
                folder = Path(scratch, f"{cell.connector}-{tree}")
                repository.export(tree, folder)
                used[key] = _Used.of(folder)
            names = change.reached(used[key].code)
            reasons = (*change.direct(cell), *change.through_core(names, used[key]))
            if reasons:
                affected.append(AffectedCell(cell, reasons, names))
            else:
                unaffected.append(cell)
        return Impact(start, change.modules, tuple(affected), tuple(unaffected))


@dataclass(frozen=True)
class _Used:
    """The modules and names that a connector imports from the core.

    Attributes:
        code: The imports of its code.
        tests: The imports of its tests.
    """

    code: frozenset[Imported]
    tests: frozenset[Imported]

    @classmethod
    def of(cls, folder: Path) -> Self:
        return cls(_imports_of_core(folder / "src"), _imports_of_core(folder / "tests"))


@dataclass(frozen=True)
class _State:
    """The files of a revision.

    Attributes:
        root: A folder with its files.
    """

    root: Path

    @cached_property
    def matrix(self) -> Matrix | None:
        """The matrix; None if this revision has none that today's classes can read."""
        try:
            return MatrixFile.read(self.root / MATRIX).matrix()
        except MatrixError:
            return None

    @cached_property
    def core(self) -> ImportGraph:
        """The modules of the core."""
        return ImportGraph.of(self.root / _SOURCES)

    @cached_property
    def entry_points(self) -> frozenset[Imported]:
        """What a cell can load from the core by name: the plugin of pytest, and tables."""
        path = self.root / CORE / PYPROJECT
        project = tomllib.loads(path.read_text("utf-8"))["project"] if path.is_file() else {}
        groups: Mapping[str, Mapping[str, str]] = project.get("entry-points", {})
        places = (place.partition(":") for group in groups.values() for place in group.values())
        return frozenset((module, name or None) for module, _, name in places)

    def major(self, cell: Cell) -> Major | None:
        """Return the major of a cell; None if the cell is not in the matrix."""
        for each in self.matrix.cells() if self.matrix else ():
            if _place(each) == _place(cell):
                return each.major
        return None

    def versions(self, spark_line: SparkLine) -> tuple[str, ...]:
        """Return the versions of the environment of a Spark line."""
        spark = self.matrix.spark.get(str(spark_line)) if self.matrix else None
        own = () if spark is None else (spark.pyspark, spark.python, spark.java)
        return (*own, *sorted(constraints(self.root, spark_line)))


@dataclass(frozen=True)
class _Change:
    """The difference between two states.

    Attributes:
        before: The state of the base.
        now: The state of HEAD.
        files: The changed files.
    """

    before: _State
    now: _State
    files: tuple[str, ...]

    @cached_property
    def modules(self) -> tuple[str, ...]:
        """The changed modules of the core."""
        return tuple(
            module_of(each.removeprefix(f"{_SOURCES}/"))
            for each in self.files
            if each.startswith(f"{_SOURCES}/") and each.endswith(".py")
        )

    def direct(self, cell: Cell) -> Iterator[str]:
        """Yield why a cell is affected, except by modules of the core."""
        old = self.before.major(cell)
        if old is None:
            yield "the cell is new"
        elif old.tree != cell.major.tree:
            yield "the matrix pins another tree"
        if cell.major.tree is None and (own := self._files_of(cell.connector)):
            yield f"its files: {_listed(own)}"
        if self.before.versions(cell.spark) != self.now.versions(cell.spark):
            yield f"the tested versions for Spark {cell.spark}"
        if build := [each for each in self._files_of(CORE) if _is_for_all(each)]:
            yield f"every cell installs the core: {_listed(build)}"

    def through_core(self, names: Collection[str], used: _Used) -> Iterator[str]:
        """Yield why the core's changed modules affect a connector."""
        if names:
            yield f"its code uses {_listed(names)}"
        if tests := [each for each in self.reached(used.tests) if each not in names]:
            yield f"its tests use {_listed(tests)}"
        if loaded := self.reached(self.before.entry_points | self.now.entry_points):
            yield f"every cell loads {_listed(loaded)}"

    def reached(self, names: Collection[Imported]) -> tuple[str, ...]:
        """Return the names through which imports reach a changed module of the core."""
        if not self.modules:
            return ()
        changed = frozenset(self.modules)
        return tuple(
            sorted(
                ".".join(filter(None, name))
                for name in names
                if any(changed & state.core.reached([name]) for state in (self.before, self.now))
            )
        )

    def _files_of(self, package: str) -> list[str]:
        paths = (each.removeprefix(f"{package}/") for each in self.files if _is_in(each, package))
        return [
            each
            for each in paths
            if PurePosixPath(each).parts[0] not in _NOT_IN_CELLS
            and not ("/" not in each and each.endswith(".md"))
        ]


def _place(cell: Cell) -> tuple[str, int, SparkLine]:
    return cell.connector, cell.release.version.version.major, cell.spark


def _is_in(path: str, folder: str) -> bool:
    return path.startswith(f"{folder}/")


def _is_for_all(path: str) -> bool:
    """Return whether a file of the core affects every cell: all that it installs except modules."""
    return not _is_in(path, "tests") and not (_is_in(path, "src") and path.endswith(".py"))


def _imports_of_core(folder: Path) -> frozenset[Imported]:
    package = CORE.replace("-", "_")
    return frozenset(
        (module, name)
        for path in folder.rglob("*.py")
        for module, name in imported(ast.parse(path.read_text("utf-8")))
        if module.partition(".")[0] == package
    )


def _listed(names: Collection[str]) -> str:
    """Return the first names of a list, and how many follow."""
    first, *others = names
    return f"{first} and {len(others)} more" if others else first
