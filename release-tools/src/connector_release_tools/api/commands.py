# SPDX-License-Identifier: Apache-2.0
"""The commands `release-tools api ...`."""

from __future__ import annotations

from pathlib import Path

import typer

from connector_release_tools.api.comparison import breaking_changes, not_allowed
from connector_release_tools.api.imports import breaches
from connector_release_tools.api.page import page as page_of
from connector_release_tools.api.projects import ApiSettings, PublicProject, projects
from connector_release_tools.git import Repository
from connector_release_tools.matrix.file import MatrixFile
from connector_release_tools.matrix.model import Matrix
from connector_release_tools.terminal import Root
from connector_release_tools.terminal import console as _console
from connector_release_tools.versions import Version

__all__ = ["api"]

api = typer.Typer(
    no_args_is_help=True,
    help="Check and list the public API.",
)


@api.command()
def check(*, root: Root = Path()) -> None:
    """Check for private imports, breaking API changes, and an outdated API page.

    Exit code: 0 no findings, 1 findings.
    """
    repository, matrix, settings, found = _read(root)
    console = _console()
    said = [
        str(each)
        for each in breaches(
            repository.root, sorted(repository.files()), found, inside=settings.inside
        )
    ]
    for project in found:
        said += _breaks(repository, matrix, project)
    path = repository.root / settings.page
    if not path.is_file() or path.read_text(encoding="utf-8") != page_of(repository, found):
        said.append(f"{settings.page} is out of date; run release-tools api page")
    for each in said:
        console.print(each, style="red")
    if said:
        raise typer.Exit(1)
    console.print("the public API has no findings", style="green")


@api.command()
def page(*, root: Root = Path()) -> None:
    """Write the page that lists every public name."""
    repository, _, settings, found = _read(root)
    path = repository.root / settings.page
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(page_of(repository, found), encoding="utf-8")
    _console().print(f"wrote {settings.page}")


def _read(root: Path) -> tuple[Repository, Matrix, ApiSettings, list[PublicProject]]:
    repository = Repository.around(root)
    matrix = MatrixFile.of(repository).matrix()
    settings = ApiSettings.read(repository.root)
    return repository, matrix, settings, list(projects(repository.root, matrix))


def _breaks(repository: Repository, matrix: Matrix, project: PublicProject) -> list[str]:
    """Return the breaking changes since the last release of the same major."""
    major = matrix.majors(project.name).get(str(Version.parse(project.version).major))
    if major is None or major.tree is None:
        return []
    tree = repository.working_tree(project.name)
    if tree == major.tree:
        return []
    found = breaking_changes(repository, major.tree, tree)
    left, unused = not_allowed(found, project.promise.breaks)
    return [
        *(f"{each} (since {project.name} {major.version})" for each in left),
        *(f"{project.name}: {name} has no break; remove it from breaks" for name in unused),
    ]
