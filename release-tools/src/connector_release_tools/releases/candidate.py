# SPDX-License-Identifier: Apache-2.0
"""A release candidate: a connector or the core at one commit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from packaging.specifiers import SpecifierSet

from connector_release_tools.errors import HistoryError, ReleaseError
from connector_release_tools.git import Repository
from connector_release_tools.matrix.model import CORE, CoreMajor, Matrix
from connector_release_tools.matrix.project import PYPROJECT, Project
from connector_release_tools.releases.maintenance import branch_name
from connector_release_tools.versions import ReleaseVersion, SparkLine, Version

__all__ = ["INACTIVE", "Candidate", "file_names", "previous", "registered", "revision_of"]

# The classifier of the last release of a major.
INACTIVE: Final = "Development Status :: 7 - Inactive"


@dataclass(frozen=True)
class Candidate:
    """A connector or the core at one commit.

    Attributes:
        connector: Its name, which is also the name of its folder.
        version: Its version.
        commit: The last commit that changed its folder; later commits do not affect the build.
        tree: The id of the folder in that commit.
        seconds: The time of the commit in seconds since 1970, which is the timestamp of its
            artifacts.
        spark_lines: The Spark lines that it is built for; empty for the core.
        core: The versions of connectors-core that it requires; None for the core itself.
        announces_end: Whether its metadata say that its major has reached its end of life.
    """

    connector: str
    version: Version
    commit: str
    tree: str
    seconds: int
    spark_lines: tuple[SparkLine, ...]
    core: SpecifierSet | None
    announces_end: bool

    @classmethod
    def at(cls, repository: Repository, connector: str, revision: str = "HEAD") -> Candidate:
        """Return a connector at a revision.

        Raises:
            ReleaseError: The connector does not exist, or does not require the core.
            ConnectorFolderError: A declaration is missing.
            HistoryError: The clone is shallow, so the last commit is unknown.
        """
        if repository.is_shallow():
            raise HistoryError("this clone is shallow", hint="run git fetch --unshallow")
        place = f"{revision}:{connector}/{PYPROJECT}"
        project = _project(repository, place)
        if connector != CORE and CORE not in project.dependencies:
            raise ReleaseError(
                f"{place} does not require {CORE}", hint="add it with a version range"
            )
        commit = repository.last_change(connector, revision)
        return cls(
            connector=connector,
            version=Version.parse(project.version),
            commit=commit,
            tree=str(repository.object_id(f"{commit}:{connector}")),
            seconds=repository.seconds(commit),
            spark_lines=tuple(map(SparkLine.parse, project.spark)),
            core=project.dependencies.get(CORE),
            announces_end=INACTIVE in project.classifiers,
        )

    @property
    def name(self) -> str:
        """The name of the release for all Spark lines, such as `connector-kafka-3.1.2`."""
        return f"{self.connector}-{self.version}"

    @property
    def package(self) -> str:
        """The import name."""
        return self.connector.replace("-", "_")

    @property
    def builds(self) -> tuple[SparkLine | None, ...]:
        """The builds: one per Spark line, or a single one for all of them (None)."""
        return self.spark_lines or (None,)

    def package_version(self, spark_line: SparkLine | None) -> str:
        """Return the package version of a build."""
        if spark_line is None:
            return str(self.version)
        return ReleaseVersion(self.version, spark_line).package_version

    def file_names(self, spark_line: SparkLine | None) -> tuple[str, str]:
        """Return the file names of the source distribution and the wheel of a build."""
        return file_names(self.connector, self.package_version(spark_line))


def file_names(connector: str, package_version: str) -> tuple[str, str]:
    """Return the file names of the source distribution and the wheel of a package version."""
    stem = f"{connector.replace('-', '_')}-{package_version}"
    return f"{stem}.tar.gz", f"{stem}-py3-none-any.whl"


def revision_of(repository: Repository, connector: str, major: int | None) -> str:
    """Return the revision on which a major is developed: HEAD or its maintenance branch.

    Raises:
        ReleaseError: The major has no such revision.
    """
    if major is None:
        return "HEAD"
    declared = _project(repository, f"HEAD:{connector}/{PYPROJECT}").version
    if Version.parse(declared).major == major:
        return "HEAD"
    name = branch_name(connector, major)
    for revision in (f"refs/heads/{name}", f"refs/remotes/origin/{name}"):
        if repository.object_id(revision) is not None:
            return revision
    raise ReleaseError(
        f"HEAD has {connector} {declared}, and the branch {name} does not exist",
        hint=f"run release-tools release branch {connector} --major {major}",
    )


def registered(matrix: Matrix, connector: str, major: int) -> CoreMajor:
    """Return the matrix entry of a major.

    Raises:
        ReleaseError: The matrix has no such entry.
    """
    if (found := matrix.majors(connector).get(str(major))) is None:
        raise ReleaseError(
            f"{connector} {major} is not in the compatibility matrix",
            hint=f"add it: release-tools matrix rotate --major {connector}",
        )
    return found


def previous(matrix: Matrix, candidate: Candidate) -> CoreMajor | None:
    """Return the newest release before this one; None if it is the first."""
    majors = matrix.majors(candidate.connector).values()
    released = [each for each in majors if each.commit is not None]
    older = [each for each in released if Version.parse(each.version) < candidate.version]
    return max(older, key=lambda each: Version.parse(each.version), default=None)


def _project(repository: Repository, place: str) -> Project:
    if repository.object_id(place) is None:
        raise ReleaseError(f"{place} does not exist", hint="pass the name of a connector's folder")
    return Project.parse(repository.text(place), place)
