# SPDX-License-Identifier: Apache-2.0
"""Publishes a verified release: first to the staging index, then to the index for users."""

from __future__ import annotations

import datetime
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from connector_release_tools.distributions import Distribution
from connector_release_tools.errors import HistoryError, ReleaseError
from connector_release_tools.git import Repository
from connector_release_tools.index.directory import DirectoryIndex
from connector_release_tools.matrix.file import MatrixFile, Quoted
from connector_release_tools.programs import output
from connector_release_tools.releases.candidate import registered
from connector_release_tools.releases.file_changes import check_saved
from connector_release_tools.releases.maintenance import branch_name, check_merged
from connector_release_tools.releases.pins import consequences
from connector_release_tools.releases.record import RELEASES, Record
from connector_release_tools.template.files import Change, File, read
from connector_release_tools.versions import Version

__all__ = ["DIST", "Promotion", "built_files", "check_address", "promote", "staged_files", "upload"]

# The folder of built packages, below the top of the repository.
DIST: Final = "build/dist"


@dataclass(frozen=True)
class Promotion:
    """The effects of promoting a release.

    Attributes:
        files: The files for the index.
        changes: The changes in the repository: the record, and the pin in the matrix.
    """

    files: tuple[Distribution, ...]
    changes: tuple[Change, ...]


def built_files(record: Record, folder: Path) -> list[Distribution]:
    """Return the files of a verified release in the build folder.

    Raises:
        ReleaseError: A file is missing, or differs from the verified one.
    """
    return [_as_verified(record, name, folder / name, folder) for name in record.artefacts]


def staged_files(record: Record, index: DirectoryIndex) -> list[Distribution]:
    """Return the files of a verified release in the staging index.

    Raises:
        ReleaseError: A file is missing, or differs from the verified one.
    """
    staged = {name: index.find(name) for name in record.artefacts}
    return [
        _as_verified(record, name, found.path if found else None, index.folder)
        for name, found in staged.items()
    ]


def promote(
    repository: Repository,
    record: Record,
    *,
    staging: DirectoryIndex,
    index: DirectoryIndex,
    date: datetime.date,
) -> Promotion:
    """Check that a release can be promoted, and return the effects. Read-only.

    Args:
        repository: The repository, with main checked out.
        record: The verified release.
        staging: The staging index with its files.
        index: The index that people install from.
        date: The date of the release.

    Raises:
        HistoryError: Its commit is not in the history of HEAD.
        ReleaseError: The release cannot be promoted.
        IndexFolderError: The index has another file under one of the names.
        MatrixError: The matrix is invalid.
    """
    _check_history(repository, record)
    files = staged_files(record, staging)
    for file in files:
        index.check(file)
    path = f"{RELEASES}/{record.name}.yaml"
    before = read(repository.root / path)
    if before is not None:
        record = _same_release(record, repository.root / path)
    else:
        record = record.model_copy(update={"released": date})
    changes = consequences(repository, _pinned(MatrixFile.of(repository), record))
    if before is None:
        changes.append(Change(path, None, File(record.text().encode())))
    check_saved(repository, changes)
    return Promotion(tuple(files), tuple(changes))


def check_address(url: str) -> None:
    """Check that the URL of a repository contains no credentials.

    Raises:
        ReleaseError: The URL contains a user name or a password.
    """
    if "@" in urlsplit(url).netloc:
        raise ReleaseError(
            "the URL of the repository contains a user name or a password",
            hint="set TWINE_USERNAME and TWINE_PASSWORD instead",
        )


def upload(files: Sequence[Distribution], url: str) -> None:
    """Upload files with twine, which reads credentials from its own settings.

    Raises:
        ProgramError: twine fails; the message contains its output.
    """
    output(
        (sys.executable, "-m", "twine", "--no-color", "upload", "--non-interactive",
         "--disable-progress-bar", "--repository-url", url, *(file.path for file in files)),
        folder=files[0].path.parent,
    )  # fmt: skip


def _as_verified(record: Record, name: str, path: Path | None, folder: Path) -> Distribution:
    if path is None or not path.is_file():
        raise ReleaseError(
            f"{name} of {record.name} is not in {folder}", hint="repeat the previous step"
        )
    file = Distribution.of(path)
    if file.sha256 != record.artefacts[name]:
        raise ReleaseError(
            f"{path} has sha256 {file.sha256}, but the verified file has {record.artefacts[name]}",
            hint="build, verify, and stage again",
        )
    return file


def _check_history(repository: Repository, record: Record) -> None:
    branch = branch_name(record.connector, record.major)
    if not repository.is_ancestor(record.commit):
        raise HistoryError(
            f"commit {record.commit} of {record.name} is not in the history of HEAD",
            hint=f"run release-tools release branch {record.connector} --major {record.major} "
            f"--merge on main, if the commit is on {branch}",
        )
    check_merged(repository, record.connector, record.commit)


def _same_release(record: Record, path: Path) -> Record:
    """Return the existing record of the same release, so that a repeated step keeps its date."""
    there = Record.read(path)
    if there.model_copy(update={"released": None}) != record:
        raise ReleaseError(
            f"{record.name} was released on {there.released}, from commit {there.commit}",
            hint="release the next version; a release never changes",
        )
    return there


def _pinned(file: MatrixFile, record: Record) -> MatrixFile:
    """Return the matrix with the release as the newest of its major."""
    major = registered(file.matrix(), record.connector, record.major)
    if major.commit is not None and Version.parse(major.version) > Version.parse(record.version):
        raise ReleaseError(
            f"the matrix has {record.connector} {major.version}, which is newer",
            hint="release a newer version",
        )
    entry = file.entry(record.connector, record.major)
    place = list(entry).index("spark" if record.spark else "status") + 1
    for name, value in (
        ("released", record.released),
        ("tree", Quoted(record.tree)),
        ("commit", Quoted(record.commit)),
        ("version", Quoted(record.version)),
    ):
        if name in entry:
            entry[name] = value
        else:
            entry.insert(place, name, value)
    return file
