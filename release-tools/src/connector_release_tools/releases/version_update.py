# SPDX-License-Identifier: Apache-2.0
"""Writes the version and the notes of a release into the working tree."""

from __future__ import annotations

import datetime
import re
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Final

from connector_release_tools.errors import ReleaseError
from connector_release_tools.git import Repository
from connector_release_tools.matrix.derivation import version_key
from connector_release_tools.matrix.file import MatrixFile, Quoted
from connector_release_tools.matrix.project import PYPROJECT, Project
from connector_release_tools.programs import output
from connector_release_tools.releases.candidate import registered
from connector_release_tools.releases.changes import FRAGMENTS
from connector_release_tools.releases.file_changes import check_saved
from connector_release_tools.releases.pins import consequences
from connector_release_tools.template.files import Change, File, files_below, read, write
from connector_release_tools.versions import Version

__all__ = ["notes", "update"]

_CHANGELOG: Final = "CHANGELOG.md"
_BLANK_LINES: Final = re.compile(r"\n{3,}")


def update(
    repository: Repository, connector: str, version: Version | None, date: datetime.date
) -> tuple[Version, list[Change]]:
    """Return a release's changes of files: version, notes, and the matrix for a first release.

    Args:
        repository: The repository.
        connector: The connector.
        version: The version to release; None for the version in pyproject.toml.
        date: The date of the notes.

    Returns:
        The version and the changes; no changes if everything is up to date.

    Raises:
        ReleaseError: The connector or its major in the matrix is missing, or a file to change has
            uncommitted changes.
        ConnectorFolderError: pyproject.toml does not belong to a connector.
        MatrixError: The matrix is invalid.
        ProgramError: towncrier fails.
    """
    with tempfile.TemporaryDirectory(prefix="release-tools-") as scratch:
        folder, before = _copy(repository, connector, Path(scratch))
        version = _set_version(connector, folder / PYPROJECT, version)
        _gather(folder, version, date)
        after = files_below(folder)
    changes = {change.path: change for change in _in_matrix(repository, connector, version)}
    for path in sorted({*before, *after}):
        if before.get(path) != after.get(path):
            name = f"{connector}/{path}"
            changes[name] = Change(name, before.get(path), after.get(path))
    check_saved(repository, changes.values())
    return version, list(changes.values())


def notes(
    repository: Repository, connector: str, version: Version | None, date: datetime.date
) -> str:
    """Return the notes of the next release as `update` would write them.

    Raises:
        ReleaseError: The connector does not exist, or has no fragments.
        ProgramError: towncrier fails.
    """
    with tempfile.TemporaryDirectory(prefix="release-tools-") as scratch:
        folder, _ = _copy(repository, connector, Path(scratch))
        version = _set_version(connector, folder / PYPROJECT, version)
        old = (folder / _CHANGELOG).read_text(encoding="utf-8")
        _gather(folder, version, date)
        new = (folder / _CHANGELOG).read_text(encoding="utf-8")
    if new == old:
        raise ReleaseError(
            f"{connector}/{FRAGMENTS} contains no fragment for {version}",
            hint=f"see the notes in {connector}/{_CHANGELOG}",
        )
    start = new.index(_title(version))
    end = new.find("\n## ", start)
    return new[start : end if end > 0 else len(new)].strip() + "\n"


def _copy(repository: Repository, connector: str, scratch: Path) -> tuple[Path, dict[str, File]]:
    """Copy the files that a release changes outside git, because towncrier stages its changes."""
    source, folder = repository.root / connector, scratch / "project"
    if Path(connector).name != connector or not (source / PYPROJECT).is_file():
        raise ReleaseError(
            f"{repository.root} does not contain the connector {connector}",
            hint="pass the name of its folder",
        )
    folder.mkdir()
    for name in (PYPROJECT, _CHANGELOG):
        if (file := read(source / name)) is not None:
            write(folder / name, file)
    if (source / FRAGMENTS).is_dir():
        shutil.copytree(source / FRAGMENTS, folder / FRAGMENTS)
    return folder, files_below(folder)


def _set_version(connector: str, path: Path, version: Version | None) -> Version:
    """Write a version into pyproject.toml, or return the current one."""
    text = path.read_text(encoding="utf-8")
    declared = Version.parse(Project.parse(text, path.name).version)
    if version is None or version == declared:
        return declared
    path.write_text(version_key(connector).write(text, str(version)), encoding="utf-8")
    return version


def _gather(folder: Path, version: Version, date: datetime.date) -> None:
    """Let towncrier move the fragments into the changelog."""
    if not list(folder.glob(f"{FRAGMENTS}/*.md")):
        return
    changelog = folder / _CHANGELOG
    if changelog.is_file() and _title(version) in changelog.read_text(encoding="utf-8"):
        raise ReleaseError(
            f"{_CHANGELOG} has a section {version}, but lacks some fragments",
            hint="undo the update and repeat it with all fragments",
        )
    output(
        (sys.executable, "-m", "towncrier", "build", "--yes", "--version", str(version),
         "--date", date.isoformat(), "--dir", folder),
        folder=folder,
    )  # fmt: skip
    # towncrier leaves two blank lines before the previous section.
    notes = changelog.read_text(encoding="utf-8")
    changelog.write_text(_BLANK_LINES.sub("\n\n", notes), encoding="utf-8")


def _title(version: Version) -> str:
    return f"## {version} "


def _in_matrix(repository: Repository, connector: str, version: Version) -> list[Change]:
    """Set the version of an unreleased major; a release sets the others."""
    file = MatrixFile.of(repository)
    major = registered(file.matrix(), connector, version.major)
    if major.commit is not None or major.version == str(version):
        return []
    file.entry(connector, version.major)["version"] = Quoted(str(version))
    return consequences(repository, file)
