# SPDX-License-Identifier: Apache-2.0
"""The commands `release-tools release candidate ...`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final

import typer

from connector_release_tools import dates
from connector_release_tools.flips.folder import here
from connector_release_tools.git import Repository
from connector_release_tools.releases import promotions, staged_candidate
from connector_release_tools.releases.output import Root, say, show, steps, undo, verified_record
from connector_release_tools.releases.staged_candidate import MESSAGE, NOTES, StagedCandidate
from connector_release_tools.releases.vote_message import message

__all__ = ["FOLDER", "candidate"]

# Where candidates are staged, below the top of the repository.
FOLDER: Final = "build/candidates"

candidate = typer.Typer(no_args_is_help=True, help="Stage a release candidate, and check one.")


@candidate.command()
def stage(
    name: Annotated[str, typer.Argument(help="A verified release, such as connector-kafka-3.1.2.")],
    *,
    rc: Annotated[int, typer.Option("--rc", min=1, help="The number of the candidate.")],
    key: Annotated[
        str | None, typer.Option(help="The gpg key that signs. Default: gpg's default key.")
    ] = None,
    unsigned: Annotated[
        bool, typer.Option("--unsigned", help="Sign nothing, for a rehearsal without a vote.")
    ] = False,
    url: Annotated[
        str | None, typer.Option(help="Where voters find the candidate. Default: its folder.")
    ] = None,
    root: Root = Path(),
) -> None:
    """Write everything that people vote on into build/candidates.

    That is the source archive, the packages, their hashes and signatures, the notes, and the
    message that asks for votes.
    """
    if unsigned and key is not None:
        raise typer.BadParameter("--key signs, so it excludes --unsigned")
    repository = Repository.around(root)
    record = verified_record(repository, name)
    files = promotions.built_files(record, repository.root / promotions.DIST)
    folder = repository.root / FOLDER
    made = staged_candidate.stage(
        repository, record, files, folder, number=rc, key=key, is_signed=not unsigned
    )
    own = folder / made.name
    rules = here(repository).rules.on(dates.now()).vote
    notes = (own / NOTES).read_text(encoding="utf-8")
    text = message(made, notes, rules, url=url or f"{FOLDER}/{made.name}")
    (own / MESSAGE).write_text(text, encoding="utf-8")
    for path in sorted(own.iterdir()):
        say(f"wrote {FOLDER}/{made.name}/{path.name}")
    say(f"next: release-tools release candidate check {made.name}")
    say(f"tag it: git tag --sign {made.name} {record.commit}")
    undo(f"rm -r {FOLDER}/{made.name}")


@candidate.command()
def check(
    name: Annotated[
        str, typer.Argument(help="A candidate in build/candidates, or the path of its folder.")
    ],
    *,
    root: Root = Path(),
) -> None:
    """Compare a candidate with git: hashes, signatures, sources, and a build of each package.

    Exit code: 0 no differences, 1 differences, 2 the check could not run.
    """
    repository = Repository.around(root)
    own = repository.root / FOLDER / name
    folder = own if own.is_dir() else Path(name)
    with steps() as step:
        found = list(staged_candidate.differences(repository, folder, step=step))
    show(found)
    made = StagedCandidate.read(folder)
    say(f"{made.name}: {len(made.sha512)} files are identical to builds of {made.release.commit}")
    say(f"next: release-tools release vote open {made.name} --by HANDLE")
