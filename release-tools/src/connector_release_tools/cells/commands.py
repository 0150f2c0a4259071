# SPDX-License-Identifier: Apache-2.0
"""The command `release-tools test`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final

import typer
from rich.console import Console
from rich.table import Column, Table

from connector_release_tools import terminal
from connector_release_tools.cells import cell_run
from connector_release_tools.cells.results import RESULTS, Outcome, Result, Results, Selection
from connector_release_tools.cells.selection import corners, select
from connector_release_tools.cells.subject import Subject, subject
from connector_release_tools.errors import CellError
from connector_release_tools.git import Repository
from connector_release_tools.matrix.file import MatrixFile
from connector_release_tools.matrix.model import CORE
from connector_release_tools.matrix.project import PYPROJECT, Project
from connector_release_tools.matrix.tested import PAGE, written
from connector_release_tools.template.connector import PREFIX

__all__ = ["run_cells"]

_FOLDER: Final = RESULTS.parent


def run_cells(
    connector: Annotated[
        str | None,
        typer.Argument(
            metavar="[CONNECTOR]",
            help="A folder, also of a connector that is not registered. Default: all connectors.",
        ),
    ] = None,
    *,
    major: Annotated[int | None, typer.Option(help="Only this connector major.")] = None,
    spark: Annotated[str | None, typer.Option(metavar="X.Y", help="Only this Spark line.")] = None,
    everything: Annotated[
        bool,
        typer.Option(
            "--all",
            help="Run all cells. Default without --major and --spark: the newest major of each "
            "connector on the oldest Spark, and the oldest major on the newest Spark.",
        ),
    ] = False,
    all_tests: Annotated[
        bool,
        typer.Option(
            "--all-tests", help="Run all tests of the connector, not only those marked `cell`."
        ),
    ] = False,
    again: Annotated[
        bool, typer.Option("--again", help="Run cells again that have passed with the same inputs.")
    ] = False,
    working_tree: Annotated[
        bool,
        typer.Option(
            "--working-tree",
            help="Use the uncommitted state of the core and of unreleased connectors.",
        ),
    ] = False,
    record: Annotated[
        bool,
        typer.Option(
            "--record", help=f"With --all: if all cells passed, write their results to {PAGE}."
        ),
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would run.")] = False,
    root: Annotated[Path, typer.Option(help="A folder inside the repository.")] = Path(),
) -> None:
    """Test cells of the matrix: wheels of the pinned connectors with today's core.

    Exit code: 0 all cells passed, 1 a cell failed.
    """
    repository = Repository.around(root)
    console = terminal.console()
    file = MatrixFile.of(repository)
    if connector is not None:
        connector = connector.removesuffix("/")
        _register(console, repository, file, connector)
    matrix = file.matrix()
    if record and (working_tree or not everything or connector or major is not None or spark):
        raise CellError(
            "--record needs the results of all cells, without uncommitted changes",
            hint="run release-tools test --all --record",
        )
    cells = select(matrix, connector=connector, major=major, spark=spark)
    if not (everything or major is not None or spark):
        cells = corners(cells)
    subjects = [subject(repository, matrix, cell, working_tree=working_tree) for cell in cells]
    tests = Selection.ALL if all_tests else Selection.MARKED
    if not working_tree:
        _warn(console, repository, subjects)

    stored = repository.root / RESULTS
    results = Results.read(stored)
    shown = {}
    known = {str(cell.release) for cell in matrix.cells()}
    for each in subjects:
        name = str(each.cell.release)
        last = results.cells.get(name)
        if last is not None and last.holds_for(each.digest, tests) and not again:
            console.print(f"{name}: already passed with the same inputs")
            shown[name] = last
        elif dry_run:
            console.print(f"{name}: would run")
        else:
            shown[name] = _run(console, repository, each, tests)
            results = results.having(name, shown[name], known)
            results.write(stored)
    if dry_run:
        return
    console.print(_table(shown))
    passed = all(result.outcome is Outcome.PASSED for result in shown.values())
    if record and passed:
        page = repository.root / PAGE
        page.write_text(
            written(page.read_text(encoding="utf-8"), Results(cells=shown).rows()),
            encoding="utf-8",
        )
        console.print(f"wrote {PAGE}")
    raise typer.Exit(int(not passed))


def _register(console: Console, repository: Repository, file: MatrixFile, name: str) -> None:
    """Add a connector that is not registered to the matrix in memory, as its folder declares it."""
    declared = repository.root / name / PYPROJECT
    if name in file.matrix().connectors or not (name.startswith(PREFIX) and declared.is_file()):
        return
    file.register(name, Project.parse(declared.read_text(encoding="utf-8"), f"{name}/{PYPROJECT}"))
    console.print(f"{name}: not registered, so tested as its {PYPROJECT} declares it")


def _run(console: Console, repository: Repository, each: Subject, tests: Selection) -> Result:
    name = str(each.cell.release)
    folder = repository.root / _FOLDER / each.name
    console.print(f"{name}: the log is {folder / 'log'}")
    with console.status(name) as status:
        result = cell_run.run(
            repository,
            each,
            folder,
            tests=tests,
            say=lambda what: status.update(f"{name}: {what}"),
        )
    style = "green" if result.outcome is Outcome.PASSED else "red"
    console.print(f"{name}: {result.outcome} in {result.seconds:.0f} s", style=style)
    for problem in result.problems:
        console.print(f"  {problem}")
    return result


def _warn(console: Console, repository: Repository, subjects: list[Subject]) -> None:
    taken = {CORE, *(each.cell.connector for each in subjects if each.cell.major.tree is None)}
    if changed := [name for name in sorted(taken) if repository.uncommitted(name)]:
        console.print(
            f"{' and '.join(changed)}: tested as in HEAD, without uncommitted changes "
            "(--working-tree includes them)",
            style="yellow",
        )


def _table(results: dict[str, Result]) -> Table:
    table = Table(
        Column("Cell", no_wrap=True), "Result", "Tests", "Core", "Spark", "Java", "Python"
    )
    for name, result in results.items():
        versions = (result.ran_on.get(each, "") for each in ("core", "spark", "java", "python"))
        table.add_row(name, str(result.outcome), result.said, *versions)
    return table
