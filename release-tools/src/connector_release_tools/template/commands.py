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
from connector_release_tools.template.link import Answers
from connector_release_tools.template.proposal import how_to_register
from connector_release_tools.template.questions import (
    Catalog,
    Changes,
    Compaction,
    Kind,
    Lookup,
    SinkKind,
    Table,
    Topologies,
)
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
    no_args_is_help=True, help="Create connectors from the template, and keep them up to date."
)

Names = Annotated[
    list[str] | None,
    typer.Argument(metavar="[CONNECTOR]...", help="Connector folders. Default: all linked ones."),
]
Diff = Annotated[bool, typer.Option("--diff", help="Also show the differences.")]
Description = Annotated[str, typer.Option(prompt=True, help="What it connects to, in one line.")]
Owner = Annotated[str, typer.Option(prompt=True, help="The GitHub organization that owns it.")]
Source = Annotated[bool, typer.Option("--source/--no-source", prompt=True, help="Create a source.")]
Sink = Annotated[bool, typer.Option("--sink/--no-sink", prompt=True, help="Create a sink.")]


class Format(enum.StrEnum):
    """The output format."""

    TABLE = "table"
    JSON = "json"


@template.command()
def check(
    names: Names = None,
    *,
    diff: Diff = False,
    output: Annotated[Format, typer.Option("--format", help="A table or JSON.")] = (Format.TABLE),
    working_tree: Annotated[
        bool,
        typer.Option("--working-tree", help="Include uncommitted changes of the template."),
    ] = False,
    root: Root = Path(),
) -> None:
    """Check whether connectors are up to date with the template.

    Exit code: 0 up to date, 1 not up to date, 2 the check could not run.
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
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show the changes.")] = False,
    diff: Diff = False,
    restore: Annotated[
        bool,
        typer.Option("--restore", help="Undo the connectors' changes of template files."),
    ] = False,
    root: Root = Path(),
) -> None:
    """Merge template changes into connectors, and keep the connectors' own changes.

    Exit code: 0 all are up to date, 1 the author must act, 2 a connector could not be updated.
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
    name: Annotated[str, typer.Argument(help=f"The system's name; the folder is {PREFIX}NAME.")],
    *,
    description: Description,
    owner: Owner,
    source: Source,
    sink: Sink,
    sink_kind: Kind = SinkKind.TWO_PHASE,
    topologies: Topologies = False,
    lookup: Lookup = False,
    table: Table = False,
    catalog: Catalog = False,
    compaction: Compaction = False,
    changes: Changes = False,
    root: Root = Path(),
) -> None:
    """Create a connector from the template."""
    answers = _answers(
        name, description=description, owner=owner, source=source, sink=sink,
        sink_kind=sink_kind, topologies=topologies, lookup=lookup, table=table, catalog=catalog,
        compaction=compaction, changes=changes,
    )  # fmt: skip
    with _tree(root) as (repository, renderer):
        state = _committed(repository)
        made = connectors_of_tree.create(repository, renderer, state, answers)
    console = _console()
    console.print(
        f"created {made.name}; commit it, then run make env and its tests/unit, and "
        f"release-tools test {made.name} for its cells",
        style="green",
    )
    console.print(how_to_register(made.name.removeprefix(PREFIX), answers))


@template.command()
def link(
    connector: Annotated[str, typer.Argument(help="The folder of an existing connector.")],
    *,
    description: Description,
    owner: Owner,
    source: Source,
    sink: Sink,
    sink_kind: Kind = SinkKind.TWO_PHASE,
    topologies: Topologies = False,
    lookup: Lookup = False,
    table: Table = False,
    catalog: Catalog = False,
    compaction: Compaction = False,
    changes: Changes = False,
    root: Root = Path(),
) -> None:
    """Link a connector that was created by hand to the template in HEAD.

    List the author's files in [tool.cruft] skip of its pyproject.toml first.
    """
    with _tree(root) as (repository, renderer):
        state = _committed(repository)
        (found,) = connectors(repository, [connector])
        answers = _answers(
            found.name, description=description, owner=owner, source=source, sink=sink,
            sink_kind=sink_kind, topologies=topologies, lookup=lookup, table=table, catalog=catalog,
            compaction=compaction, changes=changes,
        )  # fmt: skip
        connectors_of_tree.link(found, renderer, state, answers)
    _console().print(
        f"linked {found.name}; show the differences with "
        f"`release-tools template check {found.name}`",
        style="green",
    )


def _answers(folder: str, *, sink_kind: SinkKind, **others: str | bool) -> Answers:
    return {"name": folder.removeprefix(PREFIX), **others, "sink_kind": sink_kind.value}


@contextmanager
def _tree(root: Path) -> Iterator[tuple[Repository, Renderer]]:
    repository = Repository.around(root)
    with tempfile.TemporaryDirectory(prefix="release-tools-") as scratch:
        yield repository, Renderer(repository, Path(scratch))


def _committed(repository: Repository) -> TemplateState:
    state = TemplateState.at_head(repository)
    if repository.uncommitted(TEMPLATE):
        _console(stderr=True).print(
            f"{TEMPLATE} has uncommitted changes, which are ignored "
            "(`check --working-tree` includes them)",
            style="yellow",
        )
    return state


def _verdict(connector: Connector, renderer: Renderer, tree: str) -> Verdict:
    try:
        return Verdict(connector.name, connectors_of_tree.check(connector, renderer, tree))
    except ReleaseToolsError as error:
        return Verdict(connector.name, error=error)
