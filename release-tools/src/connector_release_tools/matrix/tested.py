# SPDX-License-Identifier: Apache-2.0
"""The table of the tested releases: a row for each cell of the matrix, written by a test run.

A row names the trees that were tested, so git shows whether the table is still true. The hash below
the table shows whether a test run wrote it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from dataclasses import astuple, dataclass, fields
from typing import Final, Self

from packaging.specifiers import SpecifierSet

from connector_release_tools.distributions import sha256
from connector_release_tools.git import Repository
from connector_release_tools.matrix.finding import Finding
from connector_release_tools.matrix.model import CORE, Cell, Matrix
from connector_release_tools.matrix.places import Between

__all__ = ["DIGITS", "PAGE", "Row", "findings", "table_of", "written"]

# The path from the top of the repository. A repository without it documents no results.
PAGE: Final = "docs/reference/tested.md"
# The digits of a tree's id in a row.
DIGITS: Final = 10
_TABLE: Final = Between("tested")
_RUN: Final = "run `release-tools test --all --record`"


@dataclass(frozen=True)
class Row:
    """The result of a cell, as people read it.

    Attributes:
        release: The release name.
        result: The outcome.
        tests: The numbers of tests by outcome.
        core: The version of the core.
        spark: The version of Spark.
        java: The version of Java.
        python: The version of Python.
        tree: The first digits of the id of the connector's tree.
        core_tree: The first digits of the id of the core's tree.
        date: The day of the run.
    """

    release: str
    result: str
    tests: str
    core: str
    spark: str
    java: str
    python: str
    tree: str
    core_tree: str
    date: str

    @classmethod
    def parse(cls, line: str) -> Self | None:
        """Read a line of the table; None for a line that is not a row."""
        values = [each.strip() for each in line.strip().strip("|").split("|")]
        return cls(*values) if len(values) == len(fields(cls)) else None


_HEAD: Final = Row(
    "Release", "Result", "Tests", "Core", "Spark", "Java", "Python", "Tree", "Core tree", "Date"
)


def table_of(rows: list[Row]) -> str:
    """Return rows as a Markdown table."""
    lines = [astuple(_HEAD), ["---"] * len(fields(Row)), *map(astuple, rows)]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def written(page: str, rows: list[Row]) -> str:
    """Return the page with other rows."""
    table = table_of(rows)
    return _TABLE.write(page, f"{table}\n\n{_seal(table)}")


def findings(repository: Repository, matrix: Matrix) -> Iterator[Finding]:
    """Check that every cell of a release has a row, and that the rows are true.

    Args:
        repository: The repository of the connectors.
        matrix: Its matrix.
    """
    page = repository.root / PAGE
    if not page.exists():
        return
    found = _TABLE.read(page.read_text(encoding="utf-8"))
    if found is None:
        yield Finding(PAGE, f"{_TABLE} is missing")
        return
    table, _, seal = str(found).partition("\n\n")
    if seal != _seal(table):
        yield Finding(PAGE, "the table is not the one that a test run wrote", _RUN)
    parsed = map(Row.parse, table.splitlines()[2:])
    rows = {row.release: row for row in parsed if row is not None}
    had_tree = functools.cache(repository.had_tree)  # cells share the tree of the core
    for cell in matrix.cells():
        row = rows.pop(str(cell.release), None)
        if row is not None:
            for problem in _problems(matrix, cell, row, had_tree):
                yield Finding(PAGE, f"{cell.release}: {problem}", _RUN)
        elif cell.major.tree is not None:
            yield Finding(PAGE, f"it has no result of {cell.release}", _RUN)
    for name in rows:
        yield Finding(PAGE, f"{name} is not a release of the matrix", _RUN)


def _seal(table: str) -> str:
    return f"<!-- sha256 of the table: {sha256(table.encode())} -->"


def _problems(
    matrix: Matrix, cell: Cell, row: Row, had_tree: Callable[[str, str], bool]
) -> Iterator[str]:
    spark = matrix.spark[str(cell.spark)]
    if row.result != "passed":
        yield f"the result is {row.result}"
    for name, found, wanted in (
        ("Spark", row.spark, spark.pyspark),
        ("Java", row.java.partition(".")[0], spark.java),
        ("Python", ".".join(row.python.split(".")[:2]), spark.python),
    ):
        if found != wanted:
            yield f"it was tested with {name} {found}, the matrix has {wanted}"
    if row.core not in SpecifierSet(cell.major.core):
        yield f"it was tested with core {row.core}, the matrix has {cell.major.core}"
    trees = {CORE: row.core_tree}
    if cell.major.tree is None:
        trees[cell.connector] = row.tree
    elif row.tree != cell.major.tree[:DIGITS]:
        yield f"tree {row.tree} was tested, the matrix pins {cell.major.tree[:DIGITS]}"
    for folder, tree in trees.items():
        if len(tree) < DIGITS or not had_tree(folder, tree):
            yield f"no commit in the history of HEAD has {folder} as tree {tree}"
