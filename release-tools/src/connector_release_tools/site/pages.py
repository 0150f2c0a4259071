# SPDX-License-Identifier: Apache-2.0
"""The pages of the site.

Every document keeps its place in the repository, so its links stay as they are. Those of a release
that the matrix pins stand below the connector's own, in a folder named for its major.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from connector_release_tools.api.promise import Promise
from connector_release_tools.cells.results import Results
from connector_release_tools.errors import DocsError
from connector_release_tools.git import Repository
from connector_release_tools.matrix.model import Connector, Matrix
from connector_release_tools.matrix.pins import tree_of
from connector_release_tools.matrix.project import PYPROJECT
from connector_release_tools.site import compatibility
from connector_release_tools.site.layout import Contents, Entry, Tree
from connector_release_tools.site.reference import Reference

__all__ = ["HOME", "write"]

HOME: Final = "README"
_GUIDES: Final = (
    "docs/quickstart",
    "docs/getting-started",
    "docs/write-a-connector",
    "docs/write-a-connector/abilities",
    "docs/write-a-connector/async-sink",
    "docs/write-a-connector/stateful-sink",
    "docs/write-a-connector/lookup",
    "docs/lookup-joins",
    "docs/formats",
    "docs/hybrid-source",
    "docs/deploy",
    "docs/metrics",
    "docs/reference/*",
)
_CORE: Final = "connectors-core"
_TOOLS: Final = ("connector-template", "release-tools")
_PROJECT: Final = (
    "ARCHITECTURE",
    "benchmarks/README",
    "CONTRIBUTING",
    "docs/dev/style",
    "SECURITY",
)
_PROPOSALS: Final = ("FLIP-PROCESS", "flips/*")


def write(
    repository: Repository, matrix: Matrix, results: Results, site: Path, scratch: Path
) -> None:
    """Write the sources of the site.

    Args:
        repository: Where the documents are.
        matrix: Which connectors there are, and which of their releases.
        results: How the cells of the matrix ended.
        site: An empty folder for the sources.
        scratch: An empty folder for what is taken out of git.

    Raises:
        DocsError: Something that belongs into the site is not there.
        HistoryError: A release that the matrix pins is not in this clone.
    """
    top = Tree(repository.root, site)
    guides = [top.add(name) for name in top.matching(*_GUIDES)]
    connectors = [
        entry
        for name, connector in matrix.connectors.items()
        for entry in _versions(repository, name, connector, site, scratch)
    ]
    packages = [_package(Tree(repository.root / _CORE, site, _CORE), has_api=True)]
    packages += [_package(Tree(repository.root / name, site, name)) for name in _TOOLS]
    top.add(
        HOME,
        Contents(
            (*guides, top.write("compatibility", compatibility.page(matrix, results))), "Guides"
        ),
        Contents(tuple(connectors), "Connectors"),
        Contents(tuple(packages), "Core and tools"),
        Contents(tuple(top.add(name) for name in top.matching(*_PROJECT)), "Project"),
        Contents(tuple(top.add(name) for name in top.matching(*_PROPOSALS)), "Proposals"),
    )


def _versions(
    repository: Repository, name: str, connector: Connector, site: Path, scratch: Path
) -> Iterator[Entry]:
    """The main line of a connector, then its pinned releases."""
    next_one = next((it.version for it in connector.majors.values() if it.commit is None), None)
    title = f"{name} {next_one} (main)" if next_one else f"{name} (main)"
    yield _package(Tree(repository.root / name, site, name), title=title, has_api=True)
    for number, major in connector.majors.items():
        if major.commit is not None and major.is_supported:
            place = f"{name}/{number}"
            repository.export(tree_of(repository, name, major), scratch / place)
            tree = Tree(scratch / place, site, place)
            yield _package(tree, title=f"{name} {major.version}", has_api=True, is_linked=False)


def _package(
    tree: Tree, *, title: str = "", has_api: bool = False, is_linked: bool = True
) -> Entry:
    """The README of a package; below it its other documents and the reference of its API."""
    below = [tree.add(name) for name in tree.matching("docs/**/*", "CHANGELOG")]
    if has_api:
        reference = Reference(tree.root / "src", is_linked=is_linked)
        below += [tree.write(f"api/{name}", reference.page(name)) for name in _public(tree.root)]
    return tree.add("README", Contents(tuple(below)), title=title)


def _public(package: Path) -> list[str]:
    """The modules of a package whose `__all__` is promised: the top one, if it does not say."""
    path = package / PYPROJECT
    try:
        return list(Promise.parse(path.read_text(encoding="utf-8"), str(path)).packages)
    except OSError as error:
        raise DocsError(f"{path} cannot be read: {error}") from error
