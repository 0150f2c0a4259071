# SPDX-License-Identifier: Apache-2.0
"""Checks of a commit before a release is built from it."""

from __future__ import annotations

from collections.abc import Iterator

from packaging.specifiers import SpecifierSet

from connector_release_tools.api.comparison import breaking_changes, not_allowed
from connector_release_tools.api.promise import Promise
from connector_release_tools.git import Repository
from connector_release_tools.matrix.model import CoreMajor, Major, Matrix, Status
from connector_release_tools.matrix.pins import check_pin
from connector_release_tools.matrix.project import PYPROJECT
from connector_release_tools.releases import changes
from connector_release_tools.releases.candidate import (
    INACTIVE,
    Candidate,
    previous,
    registered,
)
from connector_release_tools.releases.findings import Finding
from connector_release_tools.versions import Version

__all__ = ["check"]


def check(repository: Repository, matrix: Matrix, candidate: Candidate) -> list[Finding]:
    """Check everything that needs no build.

    Args:
        repository: The repository.
        matrix: The compatibility matrix.
        candidate: The release candidate.

    Returns:
        The obstacles.

    Raises:
        ReleaseError: The matrix does not contain the connector or this major.
        HistoryError: The previous release, as the matrix pins it, is not in this clone.
    """
    major = registered(matrix, candidate.connector, candidate.version.major)
    before = previous(matrix, candidate)
    return [
        *_matrix(candidate, major),
        *_version(candidate, major, before),
        *_notes(repository, candidate),
        *([] if before is None else _since(repository, candidate, major, before)),
    ]


def _matrix(candidate: Candidate, major: CoreMajor) -> Iterator[Finding]:
    place = f"the matrix, {candidate.connector} {candidate.version.major}"
    if not major.is_supported and not candidate.announces_end:
        yield Finding(
            f"{place}: the major has reached its end of life",
            f'release a newer major; a last release announces the end: add "{INACTIVE}" to '
            "classifiers in pyproject.toml",
        )
    if major.is_supported and candidate.announces_end:
        yield Finding(f'{place}: gets {major.status}, but has the classifier "{INACTIVE}"',
                      "remove the classifier, or end the major first")  # fmt: skip
    if not isinstance(major, Major):
        return
    declared = set(map(str, candidate.spark_lines))
    if declared != set(major.spark):
        yield Finding(
            f"{place}: spark is {', '.join(sorted(major.spark))}; pyproject.toml has "
            f"{', '.join(sorted(declared))}",
            "make both values equal",
        )
    if SpecifierSet(major.core) != candidate.core:
        yield Finding(
            f"{place}: core is {major.core}; pyproject.toml requires connectors-core"
            f"{candidate.core}",
            "make both values equal",
        )


def _version(candidate: Candidate, major: CoreMajor, before: CoreMajor | None) -> Iterator[Finding]:
    version = candidate.version
    is_first = before is None or Version.parse(before.version).major < version.major
    first = _first(version.major)
    if is_first and version != first:
        yield Finding(
            f"{candidate.name} would be the first release of its major",
            f"a first release is {first}; to fix an earlier release, run this "
            f"on main with --major {version.major}",
        )
    update = f"run release-tools release update {candidate.connector} --version"
    if major.commit is None and major.version != str(version):
        yield Finding(
            f"the matrix has {candidate.connector} {major.version}, pyproject.toml {version}",
            f"{update} {version}",
        )
    elif major.commit is not None and Version.parse(major.version) >= version:
        yield Finding(
            f"{candidate.connector} {major.version} was released on {major.released}; "
            f"pyproject.toml has {version}",
            f"{update} with a newer version",
        )


def _first(major: int) -> Version:
    """Return the first version of a major. That of a new connector is 0.1.0."""
    return Version(major, 0 if major else 1, 0)


def _notes(repository: Repository, candidate: Candidate) -> Iterator[Finding]:
    connector, commit = candidate.connector, candidate.commit
    todo = f"run release-tools release update {connector}, and commit"
    left = changes.fragments_at(repository, connector, commit)
    if left:
        yield Finding(f"fragments are not in CHANGELOG.md: {', '.join(left)}", todo)
    changelog = f"{commit}:{connector}/CHANGELOG.md"
    text = repository.text(changelog) if repository.object_id(changelog) else ""
    if f"\n## {candidate.version} " not in f"\n{text}":
        yield Finding(f"{connector}/CHANGELOG.md has no section {candidate.version}", todo)


def _since(
    repository: Repository, candidate: Candidate, major: CoreMajor, before: CoreMajor
) -> Iterator[Finding]:
    old = Version.parse(before.version)
    check_pin(repository, candidate.connector, before)
    new = candidate.version
    if old.major < new.major:
        return
    place = f"{candidate.connector}/{PYPROJECT}"
    promise = Promise.parse(repository.text(f"{candidate.tree}:{PYPROJECT}"), place)
    found = breaking_changes(repository, str(before.tree), candidate.tree)
    left, unused = not_allowed(found, promise.breaks)
    for change in left:
        yield Finding(
            f"{change} (since {old})",
            f"restore the name, release {new.major + 1}.0.0, or give a reason below "
            f"[tool.connector-release-tools.breaks] of {place}",
        )
    for name in unused:
        yield Finding(f"{place} lists {name} in breaks, but it has no break", "remove the entry")
    more = changes.features(repository, candidate.connector, str(before.commit), candidate.commit)
    if more and major.status is not Status.FEATURES:
        yield Finding(
            f"{candidate.connector} {new.major} receives only fixes, but has other fragments: "
            f"{', '.join(more)}",
            "release features with the newest major, or rename the fragment of a fix to bugfix",
        )
    elif more and (old.minor == new.minor):
        yield Finding(
            f"{new} is a patch of {old}, but has fragments of other kinds: {', '.join(more)}",
            f"release {new.major}.{new.minor + 1}.0",
        )
