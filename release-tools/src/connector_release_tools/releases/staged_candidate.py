# SPDX-License-Identifier: Apache-2.0
"""A staged release candidate: a folder with everything that people vote on.

connector-kafka-3.1.2-rc1/
    connector-kafka-3.1.2-src.tar.gz   the sources, and the packages built from them
    connector_kafka-3.1.2.4.3-...      each file with its .sha512 and its .asc
    RELEASE-NOTES.md
    candidate.yaml                     the commit, and the hashes of the files
    VOTE.txt                           the message that asks for votes
"""

from __future__ import annotations

import hashlib
import re
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Final, Self

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from connector_release_tools.distributions import Distribution
from connector_release_tools.errors import ReleaseError
from connector_release_tools.git import Repository
from connector_release_tools.releases.artefacts import Step
from connector_release_tools.releases.findings import Finding
from connector_release_tools.releases.record import FileName, Record, quoted
from connector_release_tools.releases.reproduction import reproduce
from connector_release_tools.releases.signatures import KEYS, SUFFIX, sign, signer
from connector_release_tools.releases.source_archive import archive_name, source_archive
from connector_release_tools.yaml_text import dump, load, validated

__all__ = [
    "DESCRIPTION",
    "MESSAGE",
    "NOTES",
    "StagedCandidate",
    "differences",
    "release_notes",
    "stage",
]

DESCRIPTION: Final = "candidate.yaml"
NOTES: Final = "RELEASE-NOTES.md"
MESSAGE: Final = "VOTE.txt"
_SHA512: Final = ".sha512"


class StagedCandidate(BaseModel):
    """A release candidate that people can vote on.

    Attributes:
        number: Its number, 1 for the first candidate of a release.
        release: The record that the release would have.
        sha512: The SHA-512 of the source archive and of each package, by file name.
        key: The fingerprint of the key that signed them; None if they are not signed.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    number: Annotated[int, Field(ge=1)]
    release: Record
    sha512: Mapping[FileName, Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{128}$")]]
    key: Annotated[str, StringConstraints(pattern=r"^[0-9A-F]{40}$")] | None = None

    @classmethod
    def read(cls, folder: Path) -> Self:
        """Read the candidate of a folder.

        Raises:
            ReleaseError: The folder has no valid description.
        """
        path = folder / DESCRIPTION
        try:
            document = load(path.read_text(encoding="utf-8"), name=str(path), error=ReleaseError)
        except FileNotFoundError as error:
            raise ReleaseError(
                f"{path} does not exist", hint="run release-tools release candidate stage"
            ) from error
        return validated(cls, document, name=str(path), error=ReleaseError)

    @property
    def name(self) -> str:
        """The name, such as `connector-kafka-3.1.2-rc1`."""
        return f"{self.release.name}-rc{self.number}"

    def text(self) -> str:
        """Return the text of the description."""
        return dump(quoted(self.model_dump(exclude_none=True)))


def stage(
    repository: Repository,
    record: Record,
    files: list[Distribution],
    folder: Path,
    *,
    number: int,
    key: str | None,
    is_signed: bool,
) -> StagedCandidate:
    """Write a release candidate into a new folder, or replace an earlier attempt.

    Args:
        repository: The repository.
        record: The verified release.
        files: Its packages.
        folder: The folder of all candidates.
        number: The number of the candidate.
        key: The key that signs the files; None for gpg's default key.
        is_signed: Whether the files are signed.

    Returns:
        The candidate; only the message of the vote is missing in its folder.

    Raises:
        ReleaseError: A file cannot be signed, or the key is not among those of the project.
        GitError: The commit is not in this clone.
    """
    own = folder / f"{record.name}-rc{number}"
    shutil.rmtree(own, ignore_errors=True)
    own.mkdir(parents=True)
    seconds = repository.seconds(record.commit)
    source = own / archive_name(record.name)
    source.write_bytes(source_archive(repository, record.name, record.tree, seconds))
    staged = [source, *(Path(shutil.copy(file.path, own)) for file in files)]
    (own / NOTES).write_text(release_notes(repository, record), encoding="utf-8")
    signers = set()
    for path in staged:
        path.with_name(f"{path.name}{_SHA512}").write_text(
            f"{_sha512(path)}  {path.name}\n", encoding="utf-8"
        )
        if is_signed:
            sign(path, key)
            signers.add(signer(path, repository.root / KEYS))
    made = StagedCandidate(
        number=number,
        release=record,
        sha512={path.name: _sha512(path) for path in staged},
        key=next(iter(signers), None),
    )
    (own / DESCRIPTION).write_text(made.text(), encoding="utf-8")
    return made


def differences(repository: Repository, folder: Path, *, step: Step) -> Iterator[Finding]:
    """Compare a release candidate with git, as a voter does: hashes, signatures, and builds.

    Args:
        repository: A clone with the commit of the candidate.
        folder: The folder of the candidate.
        step: Called with each check.

    Returns:
        The differences.

    Raises:
        ReleaseError: The folder has no valid description.
        HistoryError: The commit is not in the history of HEAD.
        ProgramError: A build fails.
    """
    candidate = StagedCandidate.read(folder)
    record = candidate.release
    step("checking hashes and signatures")
    expected = {archive_name(record.name), *record.artefacts}
    for name in sorted(expected ^ {*candidate.sha512}):
        yield Finding(f"{name} is in only one of the lists of {DESCRIPTION}", "stage it again")
    for name in sorted(expected & {*candidate.sha512}):
        yield from _file(folder / name, candidate, repository.root / KEYS)
    files = {f"{name}{suffix}" for name in expected for suffix in ("", _SHA512, SUFFIX)}
    for path in sorted(folder.iterdir()):
        if path.name not in files | {DESCRIPTION, MESSAGE, NOTES}:
            yield Finding(f"{path.name} is no file of {candidate.name}", "remove it")
    yield from _notes(repository, record, folder / NOTES)
    path = folder / archive_name(record.name)
    seconds = repository.seconds(record.commit)
    if path.is_file() and path.read_bytes() != source_archive(
        repository, record.name, record.tree, seconds
    ):
        yield Finding(f"{path.name} differs from tree {record.tree} in git", "stage it again")
    yield from reproduce(repository, record, step=step)


def release_notes(repository: Repository, record: Record) -> str:
    """Return the section of the changelog for a release.

    Raises:
        ReleaseError: The changelog of its commit has no such section.
    """
    place = f"{record.tree}:CHANGELOG.md"
    text = repository.text(place) if repository.object_id(place) else ""
    section = re.search(
        rf"^## {re.escape(record.version)} .*?(?=^## |\Z)", text, re.MULTILINE | re.DOTALL
    )
    if section is None:
        raise ReleaseError(
            f"CHANGELOG.md of {record.name} has no section {record.version}",
            hint=f"run release-tools release update {record.connector}",
        )
    return section[0].strip() + "\n"


def _notes(repository: Repository, record: Record, path: Path) -> Iterator[Finding]:
    try:
        wanted = release_notes(repository, record)
    except ReleaseError as error:
        yield Finding(str(error), error.hint)
        return
    if not path.is_file() or path.read_text("utf-8") != wanted:
        yield Finding(f"{path.name} differs from the changelog in git", "stage it again")


def _file(path: Path, candidate: StagedCandidate, keys: Path) -> Iterator[Finding]:
    again = "get the candidate again"
    if not path.is_file():
        yield Finding(f"{path.name} is missing", again)
        return
    digest = _sha512(path)
    if digest != candidate.sha512[path.name]:
        yield Finding(f"{path.name} has another SHA-512 than {DESCRIPTION}", again)
    listed = path.with_name(f"{path.name}{_SHA512}")
    if not listed.is_file() or listed.read_text("utf-8").split() != [digest, path.name]:
        yield Finding(f"{listed.name} does not have the SHA-512 of {path.name}", again)
    if candidate.key is None:
        yield Finding(f"{path.name} is not signed", "stage it again, without --unsigned")
        return
    try:
        if (found := signer(path, keys)) != candidate.key:
            yield Finding(f"{path.name} is signed with key {found}, not {candidate.key}", again)
    except ReleaseError as error:
        yield Finding(str(error), error.hint)


def _sha512(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha512").hexdigest()
