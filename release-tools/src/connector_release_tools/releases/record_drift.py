# SPDX-License-Identifier: Apache-2.0
"""Compares the records in `releases/` with git, the matrix, and the changelogs.

A record never changes after the commit that added it, so the history of HEAD shows whether one was
removed or edited.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final

from packaging.specifiers import SpecifierSet

from connector_release_tools.errors import (
    ConnectorFolderError,
    GitError,
    HistoryError,
)
from connector_release_tools.git import Repository, run
from connector_release_tools.matrix.file import MATRIX
from connector_release_tools.matrix.finding import Finding
from connector_release_tools.matrix.model import CORE, CoreMajor, Major, Matrix
from connector_release_tools.matrix.pins import check_pin
from connector_release_tools.matrix.project import PYPROJECT, Project
from connector_release_tools.releases.candidate import file_names
from connector_release_tools.releases.record import RELEASES, Record
from connector_release_tools.versions import ReleaseVersion, Version

__all__ = ["findings"]

_CHANGELOG: Final = "CHANGELOG.md"
_SECTION: Final = re.compile(r"^## (\d+\.\d+\.\d+)\b.*$", re.MULTILINE)
# A line of `git log --raw -c`: the object after the change, A or D for each parent, and the path.
_CHANGE: Final = re.compile(r"^:+[0-9a-f ]+ ([0-9a-f]+) (A+|D+)\t(.+)$", re.MULTILINE)
_NEVER: Final = "a release never changes; restore the record and the matrix"


def findings(
    repository: Repository, matrix: Matrix, records: Mapping[str, Record]
) -> Iterator[Finding]:
    """Check that every release has its record, and that the records are unchanged and true.

    Args:
        repository: The repository of the connectors.
        matrix: Its matrix.
        records: The records by path.
    """
    first = _first_contents(repository)
    yield from _changed(repository, first)
    for place, record in records.items():
        if place != f"{RELEASES}/{record.name}.yaml":
            yield Finding(place, f"it is the record of {record.name}")
        pin = matrix.majors(record.connector).get(str(record.major))
        for problem in (*_pinned(pin, record), *_files(record)):
            yield Finding(place, problem, _NEVER)
        if pin is None or pin.version != record.version:  # the check of the matrix reads the others
            yield from _built_from(repository, record, place)
    for name in (CORE, *matrix.connectors):
        for major in matrix.majors(name).values():
            place = f"{RELEASES}/{name}-{major.version}.yaml"
            if major.commit is not None and place not in {*records, *first}:
                said = f"it does not exist, but {MATRIX} has {name} {major.version} as released"
                yield Finding(place, said, "`release-tools release promote` writes both")
        yield from _changelog(repository, name, records)


def _first_contents(repository: Repository) -> dict[str, tuple[str, str]]:
    """Return the commit that added each record, and its content as an object id.

    `git revert` of that commit withdraws the record: it undoes a release before anyone installs it.
    """
    log = run(
        "log", "--full-history", "--topo-order", "--reverse", "--no-renames", "--raw", "-c",
        "--no-abbrev", "--format=%x1e%H%n%b", "--", f":(glob){RELEASES}/*.yaml",
        folder=repository.root,
    ).decode()  # fmt: skip
    found: dict[str, tuple[str, str]] = {}
    for entry in log.split("\x1e")[1:]:
        for content, kind, path in _CHANGE.findall(entry):
            if "A" in kind:
                found.setdefault(path, (entry.partition("\n")[0], content))
            elif path in found and f"This reverts commit {found[path][0]}" in entry:
                del found[path]
    return found


def _changed(repository: Repository, first: Mapping[str, tuple[str, str]]) -> Iterator[Finding]:
    there = [path for path in first if (repository.root / path).is_file()]
    asked = "".join(f"{path}\n" for path in there).encode()
    said = run("hash-object", "--stdin-paths", folder=repository.root, given=asked)
    now = dict(zip(there, said.decode().split(), strict=True))
    for path, (commit, content) in first.items():
        if now.get(path) != content:
            yield Finding(
                path,
                f"it was {'changed' if path in now else 'removed'} after the release",
                f"run `git restore --source={commit[:10]} -- {path}`",
            )


def _pinned(pin: CoreMajor | None, record: Record) -> Iterator[str]:
    """Compare a record with the newest release of its major in the matrix."""
    if record.released is None:
        yield "it has no date"
    if pin is None:
        yield f"{MATRIX} has no {record.connector} {record.major}"
    elif pin.commit is None or Version.parse(pin.version) < Version.parse(record.version):
        yield f"{MATRIX} does not have {record.version} as released"
    elif pin.version == record.version:
        spark, core = (pin.spark, pin.core) if isinstance(pin, Major) else ((), None)
        for field, has, wanted in (
            ("commit", record.commit, pin.commit),
            ("tree", record.tree, pin.tree),
            ("released", record.released, pin.released),
            ("spark", sorted(record.spark), sorted(spark)),
            ("core", record.core, core),
        ):
            if has != wanted:
                yield f"{field} is {has}, {MATRIX} has {wanted}"


def _files(record: Record) -> Iterator[str]:
    releases = (ReleaseVersion.parse(f"{record.version}-{spark}") for spark in record.spark)
    versions = [each.package_version for each in releases] or [record.version]
    wanted = {name for each in versions for name in file_names(record.connector, each)}
    if wanted != set(record.artefacts):
        yield f"its files are {sorted(record.artefacts)}, expected {sorted(wanted)}"


def _built_from(repository: Repository, record: Record, place: str) -> Iterator[Finding]:
    """Compare a record with the commit that it names."""
    try:
        check_pin(repository, record.connector, record)
        project = Project.parse(repository.text(f"{record.tree}:{PYPROJECT}"), place)
    except (ConnectorFolderError, HistoryError) as error:
        yield Finding(place, str(error), error.hint)
        return
    core = None if record.core is None else SpecifierSet(record.core)
    for field, has, wanted in (
        ("version", record.version, project.version),
        ("spark", sorted(record.spark), sorted(project.spark)),
        ("core", core, project.dependencies.get(CORE)),
    ):
        if has != wanted:
            yield Finding(place, f"{field} is {has}, its tree has {wanted}", _NEVER)


def _changelog(
    repository: Repository, name: str, records: Mapping[str, Record]
) -> Iterator[Finding]:
    """Check the sections of a changelog on main: those of releases have not changed.

    Only main has the section of a version that is about to be released. Only a maintenance branch
    has those of its fixes.
    """
    place = f"{name}/{_CHANGELOG}"
    releases = {each.version: each for each in records.values() if each.connector == name}
    sections = _sections(_text(repository, place))
    declared = _version(repository, name)
    for version in sections:
        if version not in releases and version != declared:
            yield Finding(
                place,
                f"it has a section {version}, which is no release",
                f"correct the section, or restore {RELEASES}/{name}-{version}.yaml",
            )
    for version, record in releases.items():
        try:
            wanted = _sections(repository.text(f"{record.tree}:{_CHANGELOG}")).get(version)
        except GitError:  # the check of the pin reports a missing tree
            continue
        has = sections.get(version)
        if has != wanted and (has is not None or Version.parse(version).patch == 0):
            said = f"it has {has or 'no section ' + version}, the release has {wanted}"
            yield Finding(place, said, "restore the line")


def _sections(text: str) -> dict[str, str]:
    """Return the title of each version in a changelog."""
    return {each[1]: each[0] for each in _SECTION.finditer(text)}


def _version(repository: Repository, name: str) -> str | None:
    place = f"{name}/{PYPROJECT}"
    try:
        return Project.parse(_text(repository, place), place).version
    except ConnectorFolderError:  # the check of the package reports it
        return None


def _text(repository: Repository, place: str) -> str:
    file = repository.root / place
    return file.read_text(encoding="utf-8") if file.exists() else ""
