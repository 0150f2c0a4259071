# SPDX-License-Identifier: Apache-2.0
"""One page with every public name, generated from the sources and the records of releases."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Final, TypeAlias

from connector_release_tools.api.names import PublicName, public_names
from connector_release_tools.api.projects import PublicProject, exports
from connector_release_tools.api.promise import Promise
from connector_release_tools.git import Repository
from connector_release_tools.matrix.project import PYPROJECT
from connector_release_tools.releases.record import RELEASES, Record
from connector_release_tools.versions import Version

__all__ = ["page"]

_HEAD: Final = """\
<!-- Written by `release-tools api page`; `make lint` compares it with the sources. -->
# Public API

This page lists every public name. A name is public if it is in the `__all__` of a package below;
everything else may change with any version. A stable name changes only with a major version. An
experimental name may change with a minor version. A deprecated name works until it is removed.
"""
# Versions, oldest first, with the names that their packages exported.
_Releases: TypeAlias = Sequence[tuple[str, Mapping[str, Sequence[str]]]]
_COLUMNS: Final = ("Name", "Kind", "Description", "Since", "Stability")


def page(repository: Repository, projects: Sequence[PublicProject]) -> str:
    """Return the page for all projects.

    Raises:
        ApiError: An `__all__` lists a name that does not exist or has no docstring.
        GitError: A release is not in this clone.
    """
    of = {package: project for project in projects for package in project.promise.packages}
    releases = {project.name: list(_releases(repository, project)) for project in projects}
    found = public_names([project.folder / "src" for project in projects], list(of))
    return _HEAD + "".join(
        _section(package, list(names), of[package], releases[of[package].name])
        for package, names in groupby(found, lambda each: each.package)
    )


def _section(
    package: str, names: Sequence[PublicName], project: PublicProject, releases: _Releases
) -> str:
    rows = [_COLUMNS, ("---",) * len(_COLUMNS)]
    rows += [_row(each, _since(releases, each, project)) for each in names]
    table = "\n".join("| " + " | ".join(row) + " |" for row in rows)
    return f"\n## {package}\n\n{table}\n"


def _row(each: PublicName, since: str) -> tuple[str, ...]:
    sentence = each.sentence.replace("|", "\\|")
    return f"`{each.name}`", each.kind, sentence, since, each.stability


def _since(releases: _Releases, each: PublicName, project: PublicProject) -> str:
    """Return the first release with the name, or the next version if none has it."""
    for version, names in releases:
        if each.name in names.get(each.package, ()):
            return version
    return project.version


def _releases(
    repository: Repository, project: PublicProject
) -> Iterator[tuple[str, dict[str, list[str]]]]:
    """Return the public names of each release, oldest first."""
    paths = (repository.root / RELEASES).glob(f"{project.name}-*.yaml")
    records = [record for path in paths if (record := Record.read(path)).connector == project.name]
    for record in sorted(records, key=lambda each: Version.parse(each.version)):
        text = repository.text(f"{record.tree}:{PYPROJECT}")
        promise = Promise.parse(text, f"{PYPROJECT} of {record.name}")
        yield (
            record.version,
            {package: _exports(repository, record, package) for package in promise.packages},
        )


def _exports(repository: Repository, record: Record, package: str) -> list[str]:
    place = f"{record.tree}:src/{package.replace('.', '/')}"
    init = f"{place}/__init__.py"
    name = init if repository.object_id(init) is not None else f"{place}.py"
    return exports(repository.text(name), name)
