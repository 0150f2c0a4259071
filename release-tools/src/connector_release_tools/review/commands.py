# SPDX-License-Identifier: Apache-2.0
"""The commands `release-tools review ...`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from connector_release_tools.errors import HistoryError, MaintainersError
from connector_release_tools.git import Repository
from connector_release_tools.maintainers import MAINTAINERS, Maintainers
from connector_release_tools.matrix.file import MatrixFile
from connector_release_tools.review.approval import objections
from connector_release_tools.review.github_files import changes
from connector_release_tools.review.pull_request import PullRequest
from connector_release_tools.template.files import write
from connector_release_tools.terminal import PULL_REQUEST, Root
from connector_release_tools.terminal import console as _console

__all__ = ["review"]

review = typer.Typer(
    no_args_is_help=True, help="Check approvals, and update CODEOWNERS and issue forms."
)


@review.command()
def check(
    *,
    pull_request: Annotated[Path, PULL_REQUEST],
    base: Annotated[
        str | None,
        typer.Option(
            metavar="REV",
            help="The newest commit of the target branch, whose maintainers decide.",
            show_default="the base of the response, which can be older",
        ),
    ] = None,
    root: Root = Path(),
) -> None:
    """Check that maintainers of the changed folders have approved a pull request.

    Exit code: 0 approved, 1 not approved, 2 the check could not run.
    """
    repository = Repository.around(root)
    asked = PullRequest.read(pull_request)
    found = objections(asked, _maintainers_at(repository, base or asked.base.sha))
    console = _console()
    for each in found:
        console.print(each, style="red")
    if not found:
        console.print(f"pull request {asked.number} is approved", style="green")
    raise typer.Exit(int(bool(found)))


@review.command()
def sync(
    *,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only show differences; exit with 1 if there are any.")
    ] = False,
    root: Root = Path(),
) -> None:
    """Regenerate CODEOWNERS and the choices of the issue forms.

    Exit code: 0 everything is up to date, 1 something differs (with --dry-run).
    """
    repository = Repository.around(root)
    matrix = MatrixFile.of(repository).matrix()
    found = changes(repository.root, matrix, Maintainers.of(repository))
    console = _console()
    for change in found:
        if dry_run:
            typer.echo(change.diff(), nl=False)
        else:
            write(repository.root / change.path, change.after)
            console.print(f"{change.path} {change.kind}", style="green")
    if not found:
        console.print("CODEOWNERS and issue forms are up to date", style="green")
    raise typer.Exit(int(dry_run and bool(found)))


def _maintainers_at(repository: Repository, commit: str) -> Maintainers:
    """Read the maintainers of the base, so that a pull request cannot choose its own reviewers."""
    if repository.object_id(f"{commit}^{{commit}}") is None:
        raise HistoryError(
            f"commit {commit[:12]}, the base of the pull request, is not in this clone",
            hint="run `git fetch --unshallow`" if repository.is_shallow() else "run `git fetch`",
        )
    name = f"{commit}:{MAINTAINERS}"
    if repository.object_id(name) is None:
        raise MaintainersError(f"{MAINTAINERS} does not exist at {commit[:10]}")
    return Maintainers.parse(repository.text(name))
