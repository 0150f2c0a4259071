# SPDX-License-Identifier: Apache-2.0
"""The commands `release-tools release vote ...`."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Annotated

import typer

from connector_release_tools import dates
from connector_release_tools.errors import ReleaseError
from connector_release_tools.flips.folder import at_commit, here
from connector_release_tools.flips.lifecycle import describe
from connector_release_tools.git import Repository
from connector_release_tools.releases import candidate_votes, promotions, vote_checks
from connector_release_tools.releases.candidate_commands import FOLDER
from connector_release_tools.releases.output import Root, say, show, verified_record
from connector_release_tools.releases.staged_candidate import StagedCandidate
from connector_release_tools.review.pull_request import PullRequest
from connector_release_tools.template.files import Change, write
from connector_release_tools.terminal import PULL_REQUEST
from connector_release_tools.votes.model import Choice, Vote
from connector_release_tools.yaml_text import validated

__all__ = ["vote"]

vote = typer.Typer(no_args_is_help=True, help="Vote on a release candidate.")

Name = Annotated[str, typer.Argument(help="A candidate, such as connector-kafka-3.1.2-rc1.")]
By = Annotated[str, typer.Option(metavar="HANDLE", help="The person who takes this step.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only show what would change.")]


@vote.command("open")
def open_(name: Name, *, by: By, dry_run: DryRun = False, root: Root = Path()) -> None:
    """Open the vote on a candidate in build/candidates. It begins when the file is merged."""
    repository = Repository.around(root)
    staged = StagedCandidate.read(repository.root / FOLDER / name)
    change = candidate_votes.open_vote(repository, here(repository), staged, by=by, now=dates.now())
    _apply(repository, change, dry_run=dry_run)


@vote.command(context_settings={"ignore_unknown_options": True})  # -1 is not an option
def cast(
    name: Name,
    choice: Annotated[Choice, typer.Argument(help="A release has no veto.")],
    *,
    by: By,
    reason: Annotated[str | None, typer.Option(help="The reason.")] = None,
    dry_run: DryRun = False,
    root: Root = Path(),
) -> None:
    """Vote on a candidate. Only your last vote counts."""
    repository, now = Repository.around(root), dates.now()
    said = {"voter": by, "vote": choice, "at": now, "reason": reason}
    made = validated(Vote, said, name="vote", error=ReleaseError)
    change = candidate_votes.cast(repository, here(repository), name, made, now=now)
    _apply(repository, change, dry_run=dry_run)


@vote.command()
def tally(name: Name, *, root: Root = Path()) -> None:
    """Count the votes on a candidate in HEAD."""
    repository = Repository.around(root)
    found = [
        each for each in candidate_votes.votes_at(repository, "HEAD") if each.candidate.name == name
    ]
    if not found:
        raise ReleaseError(f"HEAD has no vote on {name}")
    with at_commit(repository, "HEAD") as flips:
        counted = candidate_votes.count(repository, flips, found[0], now=dates.now())
    for votes, kind in ((counted.binding, "binding"), (counted.others, "not binding")):
        for each in votes:
            say(f"{each.vote}  {each.voter} ({kind}) {each.reason or ''}".rstrip())
    say(f"{name}: {describe(counted)}")


@vote.command()
def require(
    name: Annotated[str, typer.Argument(help="A verified release, such as connector-kafka-3.1.2.")],
    *,
    copy: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Copy these files, and nothing else, into a new folder."),
    ] = None,
    root: Root = Path(),
) -> None:
    """Fail unless a vote has accepted exactly the verified files of a release.

    Exit code: 0 accepted, 2 not accepted.
    """
    repository = Repository.around(root)
    record = verified_record(repository, name)
    accepted = candidate_votes.require_accepted(repository, record, now=dates.now())
    say(f"{accepted} was accepted, with exactly the verified files")
    if copy is None:
        return
    if copy.exists():
        raise ReleaseError(
            f"{copy} exists", hint="choose a new folder, so that it has no other file"
        )
    copy.mkdir(parents=True)
    for file in promotions.built_files(record, repository.root / promotions.DIST):
        shutil.copyfile(file.path, copy / file.path.name)


@vote.command()
def check(
    *,
    base: Annotated[
        str, typer.Option(metavar="REV", help="The newest revision of the target branch.")
    ],
    pull_request: Annotated[Path | None, PULL_REQUEST] = None,
    root: Root = Path(),
) -> None:
    """Check the votes of a change: who cast them, when, and that earlier ones are unchanged.

    Exit code: 0 no findings, 1 findings, 2 the check could not run.
    """
    repository = Repository.around(root)
    asked = PullRequest.read(pull_request) if pull_request else None
    show(vote_checks.check_change(repository, base, asked, dates.now()))
    say("the votes on release candidates follow the rules")


def _apply(repository: Repository, change: Change, *, dry_run: bool) -> None:
    if dry_run:
        typer.echo(change.diff(), nl=False)
        return
    write(repository.root / change.path, change.after)
    say(f"{change.path} {change.kind}; commit it with git commit -s, in a pull request of its own")
