# SPDX-License-Identifier: Apache-2.0
"""The command `release-tools impact`."""

from __future__ import annotations

import json
from itertools import groupby
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from connector_release_tools.git import Repository
from connector_release_tools.impact.affected import AffectedCell, Impact, impact
from connector_release_tools.matrix import views
from connector_release_tools.matrix.commands import Format
from connector_release_tools.matrix.file import MatrixFile
from connector_release_tools.matrix.model import Matrix
from connector_release_tools.terminal import Root, console, wide_console

__all__ = ["show_impact"]


def show_impact(
    *,
    base: Annotated[
        str, typer.Option(help="The commits of HEAD since this commit or branch count.")
    ] = "origin/main",
    output: Annotated[
        Format,
        typer.Option("--format", help="A table, JSON, or the matrix of a GitHub workflow."),
    ] = Format.TABLE,
    root: Root = Path(),
) -> None:
    """Show which cells of the matrix a change affects, and why.

    Imports tell which connectors a change of the core affects. Uncommitted changes do not count.
    """
    repository = Repository.around(root)
    matrix = MatrixFile.of(repository).matrix()
    found = impact(repository, base)
    if output is Format.GITHUB:
        typer.echo(views.as_github(matrix, [each.cell for each in found.affected]))
    elif output is Format.JSON:
        typer.echo(_json(matrix, found))
    else:
        if found.affected:
            wide_console().print(_table(found))
        count = len(found.affected)
        total = count + len(found.unaffected)
        console().print(f"{count} of {total} cells are affected since {found.base[:10]}")


def _json(matrix: Matrix, found: Impact) -> str:
    cells = [
        {**views.cell_entry(matrix, each.cell), "reasons": each.reasons, "names": each.names}
        for each in found.affected
    ]
    said = {
        "base": found.base,
        "modules": found.modules,
        "affected": cells,
        "unaffected": [str(each.release) for each in found.unaffected],
    }
    return json.dumps(said, indent=2)


def _table(found: Impact) -> Table:
    """Return a row for each major and its reasons, with the Spark lines."""
    table = Table("Connector", "Major", "Spark", "Because of")
    for (connector, major, reasons), cells in groupby(found.affected, key=_row):
        lines = ", ".join(str(each.cell.spark) for each in cells)
        table.add_row(connector, major, lines, "\n".join(reasons))
    return table


def _row(each: AffectedCell) -> tuple[str, str, tuple[str, ...]]:
    major = str(each.cell.release.version.version.major)
    return each.cell.connector, major, each.reasons
