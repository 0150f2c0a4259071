# SPDX-License-Identifier: Apache-2.0
"""A release candidate: a connector or the core at one commit."""

from __future__ import annotations

from dataclasses import dataclass

from packaging.specifiers import SpecifierSet

from connector_release_tools.errors import HistoryError, ReleaseError
from connector_release_tools.git import Repository
from connector_release_tools.matrix.model import CORE, CoreMajor, Matrix
from connector_release_tools.matrix.project import PYPROJECT, Project
from connector_release_tools.releases.maintenance import branch_name
from connector_release_tools.versions import ReleaseVersion, SparkLine, Version

__all__ = ["Candidate", "previous", "registered", "revision_of"]


@dataclass(frozen=True)
class Candidate:
    """A connector, or the core, that may be released.

    Attributes:
        connector: Its name, which is that of its folder.
        version: Its version.
        commit: The last commit that changed its folder; others do not change what is built.
        tree: The id of the folder in it.
        seconds: When the commit was made, since 1970: the time that artefacts carry.
        spark_lines: The Spark lines that it is built for; none for the core, which serves all.
        core: The versions of connectors-core that it requires; None for the core itself.
    """

    connector: str
    version: Version
    commit: str
    tree: str
    seconds: int
    spark_lines: tuple[SparkLine, ...]
    core: SpecifierSet | None

    @classmethod
    def at(cls, repository: Repository, connector: str, revision: str = "HEAD") -> Candidate:
        """Return a connector at a revision.

        Raises:
            ReleaseError: It is not there, or does not require the core.
            ConnectorFolderError: It declares too little.
            HistoryError: The clone is shallow, so that its last commit is not known.
        """
        if repository.is_shallow():
            raise HistoryError("the history of this clone is cut", hint="run git fetch --unshallow")
        place = f"{revision}:{connector}/{PYPROJECT}"
        project = _project(repository, place)
        if connector != CORE and CORE not in project.dependencies:
            raise ReleaseError(f"{place} does not require {CORE}", hint="add its range of versions")
        commit = repository.last_change(connector, revision)
        return cls(
            connector=connector,
            version=Version.parse(project.version),
            commit=commit,
            tree=str(repository.object_id(f"{commit}:{connector}")),
            seconds=repository.seconds(commit),
            spark_lines=tuple(map(SparkLine.parse, project.spark)),
            core=project.dependencies.get(CORE),
        )

    @property
    def name(self) -> str:
        """How the release is called for all Spark lines, as in `connector-kafka-3.1.2`."""
        return f"{self.connector}-{self.version}"

    @property
    def package(self) -> str:
        """The name that Python imports."""
        return self.connector.replace("-", "_")

    @property
    def builds(self) -> tuple[SparkLine | None, ...]:
        """The builds: one per Spark line, or a single one for all of them (None)."""
        return self.spark_lines or (None,)

    def package_version(self, spark_line: SparkLine | None) -> str:
        """The version that the artefacts of a build carry."""
        if spark_line is None:
            return str(self.version)
        return ReleaseVersion(self.version, spark_line).package_version

    def file_names(self, spark_line: SparkLine | None) -> tuple[str, str]:
        """The names of the source distribution and the wheel of a build."""
        stem = f"{self.package}-{self.package_version(spark_line)}"
        return f"{stem}.tar.gz", f"{stem}-py3-none-any.whl"


def revision_of(repository: Repository, connector: str, major: int | None) -> str:
    """Return the revision with a major's development: HEAD, or its maintenance branch.

    Raises:
        ReleaseError: There is no such branch.
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
        f"HEAD has {connector} {declared}, and there is no branch {name}",
        hint=f"run release-tools release branch {connector} --major {major}",
    )


def registered(matrix: Matrix, connector: str, major: int) -> CoreMajor:
    """Return the matrix entry of a major.

    Raises:
        ReleaseError: It says nothing.
    """
    if (found := matrix.majors(connector).get(str(major))) is None:
        raise ReleaseError(
            f"{connector} {major} is not in the compatibility matrix",
            hint=f"add it: release-tools matrix rotate --major {connector}",
        )
    return found


def previous(matrix: Matrix, candidate: Candidate) -> CoreMajor | None:
    """The newest release before this one; None if it is the first."""
    majors = matrix.majors(candidate.connector).values()
    released = [each for each in majors if each.commit is not None]
    older = [each for each in released if Version.parse(each.version) < candidate.version]
    return max(older, key=lambda each: Version.parse(each.version), default=None)


def _project(repository: Repository, place: str) -> Project:
    if repository.object_id(place) is None:
        raise ReleaseError(f"there is no {place}", hint="give the name of a connector's folder")
    return Project.parse(repository.text(place), place)
