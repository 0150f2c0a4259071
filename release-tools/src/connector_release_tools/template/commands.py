# SPDX-License-Identifier: Apache-2.0
"""The commands `release-tools template ...`."""

from __future__ import annotations

import enum
import json
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from connector_release_tools.errors import ReleaseToolsError
from connector_release_tools.git import Repository
from connector_release_tools.template import connector as connectors_of_tree
from connector_release_tools.template.connector import PREFIX, Connector, TemplateState, connectors
from connector_release_tools.template.renderer import TEMPLATE, Renderer
from connector_release_tools.template.report import (
    Verdict,
    describe,
    show_diffs,
    show_error,
    show_update,
    show_verdict,
)
from connector_release_tools.template.template_update import update as plan_update
from connector_release_tools.terminal import Root
from connector_release_tools.terminal import console as _console

__all__ = ["template"]

template = typer.Typer(
    no_args_is_help=True, help="Keep connectors at the state of the template beside them."
)

Names = Annotated[
    list[str] | None,
    typer.Argument(metavar="[CONNECTOR]...", help="Folders; all that are linked, if none."),
]
Diff = Annotated[bool, typer.Option("--diff", help="Show the differences too.")]
Description = Annotated[str, typer.Option(prompt=True, help="What it connects, in one line.")]
Owner = Annotated[str, typer.Option(prompt=True, help="Who maintains it.")]
Source = Annotated[bool, typer.Option("--source/--no-source", prompt=True, help="With a source.")]
Sink = Annotated[bool, typer.Option("--sink/--no-sink", prompt=True, help="With a sink.")]


class SinkKind(enum.StrEnum):
    """How the sink of a connector writes."""

    TWO_PHASE = "two-phase"
    ASYNC = "async"


Kind = Annotated[
    SinkKind, typer.Option("--sink-kind", help="Rows that are committed, or requests.")
]
Lookup = Annotated[
    bool, typer.Option("--lookup/--no-lookup", help="With a table that rows are looked up in.")
]


class Format(enum.StrEnum):
    """How a result is printed."""

    TABLE = "table"
    JSON = "json"


@template.command()
def check(
    names: Names = None,
    *,
    diff: Diff = False,
    output: Annotated[Format, typer.Option("--format", help="For people or for programs.")] = (
        Format.TABLE
    ),
    working_tree: Annotated[
        bool,
        typer.Option(
            "--working-tree", help="Against the template as it lies here, not as in HEAD."
        ),
    ] = False,
    root: Root = Path(),
) -> None:
    """Say whether connectors stand where the template does.

    Exit code: 0 up to date, 1 not, 2 could not be checked.
    """
    with _tree(root) as (repository, renderer):
        tree = repository.working_tree(TEMPLATE) if working_tree else _committed(repository).tree
        verdicts = [_verdict(each, renderer, tree) for each in connectors(repository, names or [])]
    if output is Format.JSON:
        said = {"template_tree": tree, "connectors": [describe(verdict) for verdict in verdicts]}
        typer.echo(json.dumps(said, indent=2))
    else:
        console = _console()
        for verdict in verdicts:
            show_verdict(console, verdict)
            show_diffs(verdict.findings if diff else ())
    raise typer.Exit(max(verdict.exit_code for verdict in verdicts))


@template.command()
def update(
    names: Names = None,
    *,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would change.")] = False,
    diff: Diff = False,
    restore: Annotated[
        bool,
        typer.Option("--restore", help="Undo what connectors changed in files of the template."),
    ] = False,
    root: Root = Path(),
) -> None:
    """Merge what changed in the template into connectors; their own changes are kept.

    Exit code: 0 all are up to date, 1 something is left to the author, 2 one could not be updated.
    """
    console, code = _console(), 0
    with _tree(root) as (repository, renderer):
        state = _committed(repository)
        for connector in connectors(repository, names or []):
            try:
                plan = plan_update(connector, renderer, state, restore=restore)
                if plan.is_needed and not dry_run:
                    plan.apply()
                show_update(console, plan, dry_run=dry_run)
                show_diffs(plan.changes if diff else ())
            except ReleaseToolsError as error:
                console.print(f"{connector.name}: not updated", style="red")
                show_error(console, error)
                code = 2
            else:
                code = max(code, int(bool(plan.conflicts or plan.remaining)))
    raise typer.Exit(code)


@template.command()
def create(
    name: Annotated[str, typer.Argument(help=f"Of the system; the folder is {PREFIX}NAME.")],
    *,
    description: Description,
    owner: Owner,
    source: Source,
    sink: Sink,
    sink_kind: Kind = SinkKind.TWO_PHASE,
    lookup: Lookup = False,
    root: Root = Path(),
) -> None:
    """Make a new connector of the template."""
    answers = {
        "name": name.removeprefix(PREFIX),
        "description": description,
        "owner": owner,
        "source": source,
        "sink": sink,
        "sink_kind": sink_kind.value,
        "lookup": lookup,
    }
    with _tree(root) as (repository, renderer):
        state = _committed(repository)
        made = connectors_of_tree.create(repository, renderer, state, answers)
    _console().print(
        f"made {made.name}; commit it, then run make env and its tests/unit", style="green"
    )


@template.command()
def link(
    connector: Annotated[str, typer.Argument(help="The folder of an existing connector.")],
    *,
    description: Description,
    owner: Owner,
    source: Source,
    sink: Sink,
    sink_kind: Kind = SinkKind.TWO_PHASE,
    lookup: Lookup = False,
    root: Root = Path(),
) -> None:
    """Link a connector that was not made of the template to its state in HEAD.

    List the author's files in [tool.cruft] skip of its pyproject.toml first.
    """
    with _tree(root) as (repository, renderer):
        state = _committed(repository)
        (found,) = connectors(repository, [connector])
        answers = {
            "name": found.name.removeprefix(PREFIX),
            "description": description,
            "owner": owner,
            "source": source,
            "sink": sink,
            "sink_kind": sink_kind.value,
            "lookup": lookup,
        }
        connectors_of_tree.link(found, renderer, state, answers)
    _console().print(
        f"linked {found.name}; `release-tools template check {found.name}` says what differs",
        style="green",
    )


@contextmanager
def _tree(root: Path) -> Iterator[tuple[Repository, Renderer]]:
    repository = Repository.around(root)
    with tempfile.TemporaryDirectory(prefix="release-tools-") as scratch:
        yield repository, Renderer(repository, Path(scratch))


def _committed(repository: Repository) -> TemplateState:
    state = TemplateState.at_head(repository)
    if repository.uncommitted(TEMPLATE):
        _console(stderr=True).print(
            f"{TEMPLATE} has changes that are not committed; they do not count here "
            "(`check --working-tree` counts them)",
            style="yellow",
        )
    return state


def _verdict(connector: Connector, renderer: Renderer, tree: str) -> Verdict:
    try:
        return Verdict(connector.name, connectors_of_tree.check(connector, renderer, tree))
    except ReleaseToolsError as error:
        return Verdict(connector.name, error=error)
