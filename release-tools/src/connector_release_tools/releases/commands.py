# SPDX-License-Identifier: Apache-2.0
"""The commands `release-tools release ...`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from connector_release_tools import dates
from connector_release_tools.errors import ReleaseError
from connector_release_tools.git import Repository
from connector_release_tools.index.directory import DirectoryIndex
from connector_release_tools.matrix.file import MatrixFile
from connector_release_tools.matrix.model import Matrix
from connector_release_tools.releases import (
    file_changes,
    maintenance,
    promotions,
    reproduction,
    version_update,
)
from connector_release_tools.releases.artefacts import build_release
from connector_release_tools.releases.candidate import Candidate, registered, revision_of
from connector_release_tools.releases.candidate_commands import candidate as candidate_commands
from connector_release_tools.releases.candidate_votes import require_accepted
from connector_release_tools.releases.checks import check as look_at
from connector_release_tools.releases.findings import Finding
from connector_release_tools.releases.output import (
    say,
    show,
    steps,
    undo,
    verified_path,
    verified_record,
)
from connector_release_tools.releases.promotions import DIST
from connector_release_tools.releases.record import RELEASES, Record
from connector_release_tools.releases.verification import verify as verify_release
from connector_release_tools.releases.vote_commands import vote
from connector_release_tools.template.files import Change
from connector_release_tools.terminal import Root
from connector_release_tools.terminal import console as _console
from connector_release_tools.versions import SparkLine, Version

__all__ = ["release"]

release = typer.Typer(
    no_args_is_help=True,
    help="Release a connector or the core: check, update, build, verify, stage, promote.",
)


release.add_typer(candidate_commands, name="candidate")
release.add_typer(vote, name="vote")

Connector = Annotated[str, typer.Argument(help="The folder of the connector or the core.")]
Name = Annotated[str, typer.Argument(help="A verified release, such as connector-kafka-3.1.2.")]
MajorOption = Annotated[
    int | None, typer.Option(help="A major with a maintenance branch. Default: the major in HEAD.")
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only show what would be done.")]
Commit = Annotated[bool, typer.Option("--commit", help="Also commit the changes.")]
VersionOption = Annotated[
    str | None,
    typer.Option(
        "--version", help="The version, such as 3.1.2. Default: the version in pyproject.toml."
    ),
]
Staging = Annotated[Path, typer.Argument(help="The folder of the staging index.")]


@release.command()
def check(connector: Connector, *, major: MajorOption = None, root: Root = Path()) -> None:
    """List the obstacles to a release before anything is built. Changes nothing.

    Exit code: 0 no obstacle, 1 an obstacle, 2 the check could not run.
    """
    repository, matrix, candidate = _candidate(root, connector, major)
    show(look_at(repository, matrix, candidate))
    say(f"{candidate.name} can be built from commit {candidate.commit}")
    say(f"next: release-tools release build {connector}{_major(major)}")


@release.command()
def update(
    connector: Connector,
    *,
    version: VersionOption = None,
    commit: Commit = False,
    dry_run: DryRun = False,
    root: Root = Path(),
) -> None:
    """Write the version and the notes of a release into the working tree."""
    repository = Repository.around(root)
    wanted = Version.parse(version) if version is not None else None
    made, changes = version_update.update(repository, connector, wanted, dates.today())
    name = f"{connector} {made}"
    if not changes:
        say(f"{name}: version and notes are up to date")
    elif dry_run:
        _show_diffs(changes)
    else:
        file_changes.apply(repository, changes)
        _written(repository, changes, name, commit=commit)
        say(f"next: release-tools release check {connector}")


@release.command()
def notes(connector: Connector, *, version: VersionOption = None, root: Root = Path()) -> None:
    """Print the release notes that `update` would write from the changelog fragments."""
    repository = Repository.around(root)
    wanted = Version.parse(version) if version is not None else None
    typer.echo(version_update.notes(repository, connector, wanted, dates.today()), nl=False)


@release.command()
def build(
    connector: Connector,
    *,
    major: MajorOption = None,
    spark: Annotated[
        str | None, typer.Option(help="A Spark line, such as 3.5. Default: all lines.")
    ] = None,
    dry_run: DryRun = False,
    root: Root = Path(),
) -> None:
    """Build the source distribution and the wheel of the commit for each Spark line."""
    repository, _, candidate = _candidate(root, connector, major)
    spark_lines = candidate.builds
    if spark is not None:
        spark_lines = (SparkLine.parse(spark),)
        if not set(spark_lines) <= set(candidate.builds):
            raise ReleaseError(
                f"{candidate.name} is not for Spark {spark}",
                hint=f"choose one of {', '.join(map(str, candidate.spark_lines))}"
                if candidate.spark_lines
                else "omit --spark; one build serves every line",
            )
    folder = repository.root / DIST
    if dry_run:
        for spark_line in spark_lines:
            for file in candidate.file_names(spark_line):
                say(f"would build {DIST}/{file} from commit {candidate.commit}")
        return
    with steps() as step:
        built = build_release(repository, candidate, folder, spark_lines=spark_lines, step=step)
    for artefact in built:
        say(f"{artefact.sha256}  {DIST}/{artefact.path.name}")
    say(f"next: release-tools release verify {connector}{_major(major)}")
    undo(f"rm {' '.join(f'{DIST}/{each.path.name}' for each in built)}")


@release.command()
def verify(connector: Connector, *, major: MajorOption = None, root: Root = Path()) -> None:
    """Verify the built artifacts, and report all findings at once.

    This builds them again in another folder, and installs them in new environments.

    Exit code: 0 no findings, 1 findings, 2 the check could not run.
    """
    repository, matrix, candidate = _candidate(root, connector, major)
    path = verified_path(repository, candidate.name)
    path.unlink(missing_ok=True)
    with steps() as step:
        record, found = verify_release(
            repository, matrix, candidate, repository.root / DIST, step=step
        )
    show(found)
    if record is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(record.text(), encoding="utf-8")
    say(f"{candidate.name} is verified for commit {candidate.commit}")
    say(f"next: release-tools release stage {candidate.name} DIR")


@release.command()
def stage(name: Name, staging: Staging, *, dry_run: DryRun = False, root: Root = Path()) -> None:
    """Add a verified release to a staging index, where others can try it."""
    repository = Repository.around(root)
    record = verified_record(repository, name)
    index = DirectoryIndex(staging)
    files = promotions.built_files(record, repository.root / DIST)
    for file in files:
        if dry_run:
            say(f"would stage {file.path.name}")
        else:
            changed = index.add(file, replace=True)
            say(f"{file.path.name}: {'staged' if changed else 'staged already'}")
    if not dry_run:
        say(f"try it: release-tools index serve {staging}")
        say(f"next: release-tools release promote {name} {staging} DIR")
        undo(f"release-tools index remove {staging} {' '.join(record.artefacts)}")


@release.command()
def promote(
    name: Name,
    staging: Staging,
    index: Annotated[
        Path, typer.Argument(help="The folder of the index that people install from.")
    ],
    *,
    upload: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help="Also upload to this repository with twine. A vote must have accepted the files.",
        ),
    ] = None,
    commit: Commit = False,
    dry_run: DryRun = False,
    root: Root = Path(),
) -> None:
    """Release exactly the verified and staged files, without replacing any file.

    This writes the record in releases/ and the pin in the compatibility matrix.
    """
    if upload is not None:
        promotions.check_address(upload)
    repository = Repository.around(root)
    record = verified_record(repository, name)
    if upload is not None:
        require_accepted(repository, record, now=dates.now())
    target = DirectoryIndex(index)
    promotion = promotions.promote(
        repository, record, staging=DirectoryIndex(staging), index=target, date=dates.today()
    )
    if dry_run:
        for file in promotion.files:
            say(f"would release {file.path.name}")
        if upload is not None:
            say(f"would upload them to {upload}")
        _show_diffs(promotion.changes)
        return
    for file in promotion.files:
        say(f"{file.path.name}: {'released' if target.add(file) else 'released already'}")
    if upload is not None:
        promotions.upload(promotion.files, upload)
        say(f"uploaded to {upload}")
    undo(
        f"before anyone installs it: release-tools index remove {index} "
        f"{' '.join(record.artefacts)}"
    )
    file_changes.apply(repository, promotion.changes)
    _written(repository, promotion.changes, f"{name}: released", commit=commit)


@release.command()
def reproduce(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[NAME]...", help="Releases, such as connector-kafka-3.1.2. Default: all."
        ),
    ] = None,
    *,
    root: Root = Path(),
) -> None:
    """Build releases again from their commits, and compare every file with its record.

    Exit code: 0 all files are identical, 1 differences, 2 a build failed.
    """
    repository = Repository.around(root)
    folder = repository.root / RELEASES
    recorded = sorted(path.stem for path in folder.glob("*.yaml"))
    found: list[Finding] = []
    for name in names or recorded:
        record = Record.read(folder / f"{name}.yaml")
        with steps() as step:
            differences = list(reproduction.reproduce(repository, record, step=step))
        if not differences:
            say(f"{name}: {len(record.artefacts)} files are identical to the record")
        found += differences
    show(found)


@release.command()
def branch(
    connector: Connector,
    *,
    major: Annotated[int, typer.Option(help="The major to maintain.")],
    merge: Annotated[
        bool,
        typer.Option(
            "--merge", help="Merge its commits into the history here, but not its files (-s ours)."
        ),
    ] = False,
    dry_run: DryRun = False,
    root: Root = Path(),
) -> None:
    """Create the maintenance branch of a major from its last release, or merge it with --merge."""
    repository = Repository.around(root)
    name = maintenance.branch_name(connector, major)
    if merge:
        _merge(repository, connector, major, dry_run=dry_run)
        return
    pinned = registered(MatrixFile.of(repository).matrix(), connector, major)
    if pinned.commit is None:
        raise ReleaseError(
            f"{connector} {pinned.version} is not released yet",
            hint=f"release {pinned.version} first",
        )
    if dry_run:
        say(f"would create branch {name} from {pinned.commit} ({connector} {pinned.version})")
    elif maintenance.create(repository, name, pinned.commit):
        say(f"created branch {name} from {pinned.commit} ({connector} {pinned.version})")
        undo(f"git branch -D {name}")
    else:
        say(f"branch {name} exists, with {connector} {pinned.version}")
    say(
        f"next: git switch {name}; after the fix: "
        f"release-tools release update {connector} --version"
    )


def _merge(repository: Repository, connector: str, major: int, *, dry_run: bool) -> None:
    name = maintenance.branch_name(connector, major)
    if dry_run:
        say(f"would merge {name} with -s ours")
    elif (made := maintenance.merge(repository, connector, major)) is None:
        say(f"the history already contains {name}")
    else:
        say(f"merged {name} with -s ours: {made}; no files changed")
        undo(f"git reset --keep {made}^1")


def _candidate(
    root: Path, connector: str, major: int | None
) -> tuple[Repository, Matrix, Candidate]:
    repository = Repository.around(root)
    matrix = MatrixFile.of(repository).matrix()
    revision = revision_of(repository, connector, major)
    candidate = Candidate.at(repository, connector, revision)
    if revision == "HEAD" and repository.uncommitted(connector):
        _console(stderr=True).print(
            f"{connector} has uncommitted changes; they are ignored",
            style="yellow",
        )
    return repository, matrix, candidate


def _written(
    repository: Repository, changes: Sequence[Change], message: str, *, commit: bool
) -> None:
    paths = " ".join(change.path for change in changes)
    for change in changes:
        say(f"{change.kind} {change.path}")
    if not changes:
        say("all files are up to date")
    elif commit:
        made = file_changes.commit(repository, changes, message)
        say(f"committed {made}: {message}")
        undo(f"git revert {made}")
    else:
        say(f'next: git add --all {paths} && git commit -m "{message}"')
        tracked = [change.path for change in changes if change.before is not None]
        added = [change.path for change in changes if change.before is None]
        undo(" && ".join([
            *([f"git restore {' '.join(tracked)}"] if tracked else []),
            *([f"rm {' '.join(added)}"] if added else []),
        ]))  # fmt: skip


def _show_diffs(changes: Sequence[Change]) -> None:
    for change in changes:
        typer.echo(change.diff(), nl=False)


def _major(major: int | None) -> str:
    return f" --major {major}" if major is not None else ""
