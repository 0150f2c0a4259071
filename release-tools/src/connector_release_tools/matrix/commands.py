# SPDX-License-Identifier: Apache-2.0
"""The commands `release-tools matrix ...`."""

from __future__ import annotations

import difflib
import enum
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from connector_release_tools import dates
from connector_release_tools.git import Repository
from connector_release_tools.matrix import rotation, views
from connector_release_tools.matrix.checks import findings, unregistered
from connector_release_tools.matrix.derivation import derived, rewritten
from connector_release_tools.matrix.file import MATRIX, MatrixFile
from connector_release_tools.matrix.finding import Finding
from connector_release_tools.matrix.schema import SCHEMA, schema
from connector_release_tools.terminal import Root, wide_console
from connector_release_tools.terminal import console as _console
from connector_release_tools.versions import SparkLine

__all__ = ["matrix"]

matrix = typer.Typer(
    no_args_is_help=True,
    help="Check and change what works together: connectors, Spark lines, and their versions.",
)


class Format(enum.StrEnum):
    """The output format."""

    TABLE = "table"
    JSON = "json"
    GITHUB = "github"


@matrix.command()
def show(
    *,
    output: Annotated[
        Format,
        typer.Option("--format", help="A table, JSON, or the matrix of a GitHub workflow."),
    ] = Format.TABLE,
    root: Root = Path(),
) -> None:
    """Show which majors of which connectors are supported on which Spark lines."""
    found = MatrixFile.of(Repository.around(root)).matrix()
    if output is Format.TABLE:
        wide_console().print(views.as_table(found))
    else:
        as_github = output is Format.GITHUB
        typer.echo(views.as_github(found, found.cells()) if as_github else views.as_json(found))


@matrix.command()
def check(
    *,
    fix: Annotated[
        bool, typer.Option("--fix", help="First update the values that follow from the matrix.")
    ] = False,
    root: Root = Path(),
) -> None:
    """Compare packages, requirements, documents, workflows, and pins with the matrix.

    Also name the connectors that are not registered; they are no differences.

    Exit code: 0 no differences, 1 differences.
    """
    repository = Repository.around(root)
    found = MatrixFile.of(repository).matrix()
    console = _console()
    if fix:
        values = list(derived(repository.root, found))
        for path, (_, text) in rewritten(repository.root, values).items():
            (repository.root / path).write_text(text, encoding="utf-8")
            console.print(f"wrote {path}")
    left = list(findings(repository, found))
    for finding in left:
        _show(console, finding, style="red")
    for finding in unregistered(repository.root, found):
        _show(console, finding, style="yellow")
    if not left:
        console.print(f"everything agrees with {MATRIX}", style="green")
    raise typer.Exit(int(bool(left)))


def _show(console: Console, finding: Finding, *, style: str) -> None:
    console.print(f"{finding.place}: {finding.message}", style=style)
    if finding.hint:
        console.print(f"  {finding.hint}")


@matrix.command()
def rotate(
    *,
    spark: Annotated[str | None, typer.Option(metavar="X.Y", help="Add this Spark line.")] = None,
    major: Annotated[
        list[str] | None,
        typer.Option(
            metavar="CONNECTOR", help="Start the next major of this connector; can be repeated."
        ),
    ] = None,
    pyspark: Annotated[
        str | None, typer.Option(help="The tested version of pyspark.", show_default="X.Y.0")
    ] = None,
    python: Annotated[
        str | None,
        typer.Option(help="The version of Python.", show_default="version of the newest line"),
    ] = None,
    java: Annotated[
        str | None,
        typer.Option(help="The version of Java.", show_default="version of the newest line"),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would change.")] = (
        False
    ),
    root: Root = Path(),
) -> None:
    """Add a Spark line, or start a major of connectors; the oldest one reaches its end of life.

    The same step updates the other files.
    """
    if (spark is None) == (not major):
        raise typer.BadParameter("pass either --spark or --major")
    if spark is None and (pyspark or python or java):
        raise typer.BadParameter("--pyspark, --python, and --java need --spark")
    repository = Repository.around(root)
    file = MatrixFile.of(repository)
    today = dates.today()
    if spark is not None:
        plan = rotation.new_spark_line(
            file, SparkLine.parse(spark), today=today, pyspark=pyspark, python=python, java=java
        )
    else:
        plan = rotation.new_majors(file, major or [], today=today)
    console = _console()
    for path, (before, after) in plan.texts.items():
        if dry_run:
            lines = difflib.unified_diff(
                before.splitlines(), after.splitlines(), f"a/{path}", f"b/{path}", lineterm=""
            )
            console.print("\n".join(lines))
        else:
            console.print(f"{'changed' if before else 'created'} {path}")
    for title, said in {
        "End of life": plan.ends,
        "Last releases, which announce the end": plan.last_releases,
        "Required releases": plan.releases,
    }.items():
        if said:
            console.print(f"{title}:", style="bold")
            console.print("\n".join(f"  {each}" for each in said))
    if dry_run:
        return
    plan.apply(repository.root)
    left = list(findings(repository, plan.matrix))
    if left:
        console.print("Manual steps:", style="bold")
    for finding in left:
        console.print(f"  {finding.place}: {finding.message}")
        if finding.hint:
            console.print(f"    {finding.hint}")
    console.print(
        "show the changes with `git diff`, undo them with `git restore`, or commit all of them"
    )


@matrix.command("schema")
def write_schema() -> None:
    """Regenerate the JSON schema of the matrix after you change its classes."""
    SCHEMA.write_text(schema(), encoding="utf-8")
    _console().print(f"wrote {SCHEMA.name}")
