# SPDX-License-Identifier: Apache-2.0
"""The commands `release-tools flip ...`."""

from __future__ import annotations

import datetime
import enum
import json
import shlex
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from connector_release_tools import dates
from connector_release_tools.errors import FlipError
from connector_release_tools.flips import changes as lifecycle
from connector_release_tools.flips.checks import check as hold
from connector_release_tools.flips.document import Flip
from connector_release_tools.flips.finding import Finding
from connector_release_tools.flips.folder import FLIPS, Flips, here
from connector_release_tools.flips.lifecycle import Judge, describe
from connector_release_tools.flips.model import ConnectorPlan, Event, Status
from connector_release_tools.flips.pull_request import check_change
from connector_release_tools.flips.scaffold import scaffold as plan_scaffold
from connector_release_tools.git import Repository
from connector_release_tools.maintainers import MAINTAINERS
from connector_release_tools.review.pull_request import PullRequest
from connector_release_tools.template import questions
from connector_release_tools.template.connector import TemplateState
from connector_release_tools.template.files import Change, write
from connector_release_tools.template.link import Answers
from connector_release_tools.template.renderer import Renderer
from connector_release_tools.terminal import PULL_REQUEST, Root
from connector_release_tools.terminal import console as _console
from connector_release_tools.votes.model import Choice, Vote
from connector_release_tools.yaml_text import validated

__all__ = ["flip"]

flip = typer.Typer(no_args_is_help=True, help="Manage proposals, from a draft to a new connector.")

Number = Annotated[int, typer.Argument(metavar="NUMBER", help="The number of the proposal.")]
By = Annotated[str, typer.Option(metavar="HANDLE", help="The person who takes this step.")]
Reason = Annotated[str | None, typer.Option(help="The reason.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only show what would change.")]


class Format(enum.StrEnum):
    """The output format."""

    TABLE = "table"
    JSON = "json"


Output = Annotated[Format, typer.Option("--format", help="A table or JSON.")]


@flip.command()
def new(
    title: Annotated[str, typer.Argument(help="The title.")],
    *,
    author: Annotated[str, typer.Option(metavar="HANDLE", help="The author.")],
    connector: Annotated[
        str | None, typer.Option(metavar="NAME", help="The connector that it proposes.")
    ] = None,
    description: Annotated[
        str, typer.Option(help="What the connector connects to, in one line.")
    ] = "",
    source: Annotated[
        bool, typer.Option("--source/--no-source", help="The connector has a source.")
    ] = True,
    sink: Annotated[
        bool, typer.Option("--sink/--no-sink", help="The connector has a sink.")
    ] = True,
    sink_kind: questions.Kind = questions.SinkKind.TWO_PHASE,
    topologies: questions.Topologies = False,
    lookup: questions.Lookup = False,
    table: questions.Table = False,
    catalog: questions.Catalog = False,
    compaction: questions.Compaction = False,
    changes: questions.Changes = False,
    supersedes: Annotated[
        int | None, typer.Option(metavar="NUMBER", help="The accepted proposal that it replaces.")
    ] = None,
    dry_run: DryRun = False,
    root: Root = Path(),
) -> None:
    """Create a draft with the next number.

    With --connector, it answers the questions of the template, which must accept the answers.
    """
    repository, flips, judge = _open(root)
    answers: Answers = {
        "source": source, "sink": sink, "sink_kind": sink_kind.value, "topologies": topologies,
        "lookup": lookup, "table": table, "catalog": catalog, "compaction": compaction,
        "changes": changes,
    }  # fmt: skip
    plan = None
    if connector is not None:
        said = {"name": connector, "description": description, **answers}
        plan = validated(ConnectorPlan, said, name="connector", error=FlipError)
        with _renderer(repository) as renderer:
            renderer.render(TemplateState.at_head(repository).tree, plan.answers)
    elif needless := questions.as_options({**answers, "description": description}):
        raise typer.BadParameter(f"{needless[0]} needs --connector")
    change = lifecycle.propose(
        flips,
        judge,
        title=title,
        event=_event(Status.DRAFT, at=judge.now, by=author),
        connector=plan,
        supersedes=supersedes,
    )
    _apply(repository, change, dry_run=dry_run)


@flip.command("list")
def list_(*, output: Output = Format.TABLE, root: Root = Path()) -> None:
    """Show all proposals and their status."""
    _, flips, judge = _open(root)
    proposals, problems = flips.proposals()
    if output is Format.JSON:
        said = [
            {
                "number": each.number,
                "title": each.title,
                "status": each.header.status,
                "since": each.header.history[-1].at.isoformat(),
                "author": each.header.author,
                "file": each.name,
            }
            for each in proposals
        ]
        typer.echo(json.dumps(said, indent=2))
    else:
        table = Table("number", "status", "since", "title", box=None)
        for each in proposals:
            last = each.header.history[-1]
            status = (
                f"{last.status} (the vote is over; record the result)"
                if judge.may_expire(each)
                else last.status
            )
            table.add_row(f"{each.number:04}", status, f"{last.at:%Y-%m-%d}", each.title)
        _console().print(table)
    for problem in problems:
        _console(stderr=True).print(problem, style="red")
    raise typer.Exit(int(bool(problems)))


@flip.command()
def check(
    *,
    base: Annotated[
        str | None,
        typer.Option(
            metavar="REV",
            help="Also check the changes since this revision, the newest of the target branch, "
            "with its maintainers and rules.",
        ),
    ] = None,
    pull_request: Annotated[Path | None, PULL_REQUEST] = None,
    root: Root = Path(),
) -> None:
    """Check all proposals against the rules, as for a pull request.

    Exit code: 0 no findings, 1 findings, 2 the check could not run.
    """
    repository = Repository.around(root)
    found: list[Finding | str]
    if base is None:
        if pull_request is not None:
            raise typer.BadParameter("--pull-request needs --base")
        flips = here(repository)
        proposals, problems = flips.proposals()
        found = [*problems, *hold(proposals, _judge(flips))]
        count = len(proposals)
    else:
        asked = PullRequest.read(pull_request) if pull_request else None
        count, violations = check_change(repository, base, asked, dates.now())
        found = [*violations]
        if asked is None and repository.uncommitted(FLIPS, MAINTAINERS):
            found.append("uncommitted changes are not checked: commit them first")
    console = _console()
    for each in found:
        console.print(" ".join(str(each).split()), style="red")  # one line, whatever it quotes
    if not found:
        console.print(f"{count} proposals follow the rules", style="green")
    if base is None:
        console.print("without --base, changes and sign-offs are not checked", style="yellow")
    raise typer.Exit(int(bool(found)))


@flip.command()
def open_discussion(
    number: Number, *, by: By, reason: Reason = None, dry_run: DryRun = False, root: Root = Path()
) -> None:
    """Open the discussion of a draft, or return from the vote, which makes the vote void."""
    _move(root, number, Status.DISCUSSION, by=by, reason=reason, dry_run=dry_run)


@flip.command()
def open_vote(
    number: Number, *, by: By, reason: Reason = None, dry_run: DryRun = False, root: Root = Path()
) -> None:
    """Open the vote. A vote that opens earlier than the rules allow needs a reason."""
    _move(root, number, Status.VOTE, by=by, reason=reason, dry_run=dry_run)


@flip.command(context_settings={"ignore_unknown_options": True})  # -1 is not an option
def vote(
    number: Number,
    choice: Annotated[Choice, typer.Argument(help="A veto needs a technical reason.")],
    *,
    by: By,
    reason: Reason = None,
    dry_run: DryRun = False,
    root: Root = Path(),
) -> None:
    """Vote. Only your last vote counts."""
    repository, flips, judge = _open(root)
    said = {"voter": by, "vote": choice, "at": judge.now, "reason": reason}
    cast = validated(Vote, said, name="vote", error=FlipError)
    _apply(repository, lifecycle.cast(flips, judge, number, cast), dry_run=dry_run)


@flip.command()
def tally(number: Number, *, output: Output = Format.TABLE, root: Root = Path()) -> None:
    """Count the votes."""
    _, flips, judge = _open(root)
    proposal = Flip.read(flips.document(number).path)
    counted = judge.tally(proposal)
    if counted is None:
        raise FlipError(
            f"{proposal} is {proposal.header.status}; it has had no vote",
            hint=f"open one with `release-tools flip open-vote {number}`",
        )
    if output is Format.JSON:
        said = {
            "outcome": counted.outcome,
            "decidable": counted.decidable.isoformat(),
            "expires": counted.expires.isoformat(),
            "binding": {each.voter: each.vote for each in counted.binding},
            "others": {each.voter: each.vote for each in counted.others},
            "missing": list(counted.missing),
        }
        typer.echo(json.dumps(said, indent=2))
        return
    table = Table("voter", "vote", "binding", "at", "reason", box=None)
    for votes, binding in ((counted.binding, "yes"), (counted.others, "no")):
        for each in votes:
            table.add_row(
                each.voter, each.vote, binding, f"{each.at:%Y-%m-%d %H:%M}", each.reason or ""
            )
    console = _console()
    console.print(table)
    console.print(f"{proposal}: {describe(counted)}")


@flip.command()
def withdraw(
    number: Number,
    *,
    by: By,
    reason: Annotated[str, typer.Option(help="The reason.")],
    dry_run: DryRun = False,
    root: Root = Path(),
) -> None:
    """Withdraw a proposal before the result. Only its author may do this."""
    _move(root, number, Status.WITHDRAWN, by=by, reason=reason, dry_run=dry_run)


@flip.command()
def accept(number: Number, *, by: By, dry_run: DryRun = False, root: Root = Path()) -> None:
    """Record that the vote accepted a proposal."""
    _move(root, number, Status.ACCEPTED, by=by, reason=None, dry_run=dry_run)


@flip.command()
def reject(
    number: Number, *, by: By, reason: Reason = None, dry_run: DryRun = False, root: Root = Path()
) -> None:
    """Record that the vote rejected a proposal."""
    _move(root, number, Status.REJECTED, by=by, reason=reason, dry_run=dry_run)


@flip.command()
def expire(number: Number, *, by: By, dry_run: DryRun = False, root: Root = Path()) -> None:
    """Record that a proposal has expired without a result."""
    _move(root, number, Status.EXPIRED, by=by, reason=None, dry_run=dry_run)


@flip.command()
def supersede(
    old: Annotated[int, typer.Argument(metavar="OLD", help="The accepted proposal.")],
    new: Annotated[int, typer.Argument(metavar="NEW", help="The proposal that replaces it.")],
    *,
    by: By,
    dry_run: DryRun = False,
    root: Root = Path(),
) -> None:
    """Mark an accepted proposal as superseded by another accepted proposal."""
    repository, flips, judge = _open(root)
    event = _event(Status.SUPERSEDED, at=judge.now, by=by)
    _apply(repository, lifecycle.supersede(flips, judge, old, new, event), dry_run=dry_run)


@flip.command()
def scaffold(
    number: Number,
    *,
    sponsor: Annotated[
        str | None,
        typer.Option(
            metavar="HANDLE", help="The maintainer who takes responsibility for the connector."
        ),
    ] = None,
    dry_run: DryRun = False,
    root: Root = Path(),
) -> None:
    """Create the connector of an accepted proposal and register it.

    You can run it again: it keeps the files of an existing connector.
    """
    repository, flips, judge = _open(root)
    console = _console()
    with _renderer(repository) as renderer:
        plan = plan_scaffold(repository, renderer, flips, number, sponsor=sponsor, at=judge.now)
        if not dry_run:
            plan.apply()
    name = plan.connector.name
    if not plan.is_made:
        console.print(f"{name}/ {'would be' if dry_run else 'was'} created from the template")
    for change in plan.changes:
        if dry_run:
            typer.echo(change.diff(), nl=False)
        else:
            console.print(f"{change.path} {change.kind}")
    if plan.pinning:
        console.print(f"{'would run' if dry_run else 'ran'} {shlex.join(plan.pinning)}")
    if plan.is_made and not (plan.changes or plan.pinning):
        console.print(f"{name} exists and is completely registered", style="green")
    elif not dry_run:
        console.print("then run `release-tools api page` to list its public names", style="yellow")
        console.print(f"commit {name} and the other files with git commit -s; the sponsor reviews "
                      "this first pull request", style="green")  # fmt: skip


def _open(root: Path) -> tuple[Repository, Flips, Judge]:
    repository = Repository.around(root)
    flips = here(repository)
    return repository, flips, _judge(flips)


@contextmanager
def _renderer(repository: Repository) -> Iterator[Renderer]:
    with tempfile.TemporaryDirectory(prefix="release-tools-") as scratch:
        yield Renderer(repository, Path(scratch))


def _judge(flips: Flips) -> Judge:
    return Judge(maintainers=flips.maintainers, rules=flips.rules, now=dates.now())


def _event(status: Status, *, at: datetime.datetime, by: str, reason: str | None = None) -> Event:
    said = {"status": status, "at": at, "by": by, "reason": reason}
    return validated(Event, said, name=status, error=FlipError)


def _move(
    root: Path, number: int, status: Status, *, by: str, reason: str | None, dry_run: bool
) -> None:
    repository, flips, judge = _open(root)
    event = _event(status, at=judge.now, by=by, reason=reason)
    _apply(repository, lifecycle.move(flips, judge, number, event), dry_run=dry_run)


def _apply(repository: Repository, change: Change, *, dry_run: bool) -> None:
    if dry_run:
        typer.echo(change.diff(), nl=False)
        return
    write(repository.root / change.path, change.after)
    _console().print(f"{change.path} {change.kind}; commit it with git commit -s", style="green")
