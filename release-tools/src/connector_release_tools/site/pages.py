# SPDX-License-Identifier: Apache-2.0
"""The pages of the site.

Every document keeps its path in the repository, so its links work. The documents of a release that
the matrix pins are in a subfolder of the connector, named after the major.
`versions.json` lists the versions of every connector for the version switcher.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Final

from connector_release_tools.api.promise import Promise
from connector_release_tools.errors import DocsError
from connector_release_tools.git import Repository
from connector_release_tools.matrix.model import Connector, Matrix
from connector_release_tools.matrix.pins import tree_of
from connector_release_tools.matrix.project import PYPROJECT
from connector_release_tools.site import compatibility
from connector_release_tools.site.layout import Contents, Entry, Tree
from connector_release_tools.site.markdown import parse
from connector_release_tools.site.reference import Reference

__all__ = ["HOME", "write"]

HOME: Final = "README"
_CARDS: Final = "docs/entry-points.md"
_CARDS_MARK: Final = "<!-- entry points -->"
_START: Final = ("docs/quickstart", "docs/getting-started", "docs/guarantees")
_GUIDES: Final = (
    "docs/use-with-spark",
    "docs/native-formats",
    "docs/sql",
    "docs/formats",
    "docs/lookup-joins",
    "docs/event-time",
    "docs/dead-letters",
    "docs/hybrid-source",
    "docs/test-a-pipeline",
    "docs/deploy",
    "docs/operate",
    "docs/metrics",
    "docs/lineage",
    "docs/upgrade",
    "docs/troubleshooting",
)
_MIGRATION: Final = (
    "docs/migrate/connectors-3",
    "docs/migrate/spark-kafka",
    "docs/migrate/elasticsearch-hadoop",
    "docs/migrate/flink",
    "docs/migrate/sink-v1",
)
_EXTEND: Final = (
    "docs/write-a-connector",
    "docs/write-a-connector/from-idea-to-release",
    "docs/write-a-connector/own-repository",
    "docs/listed-connectors",
    "docs/write-a-connector/abilities",
    "docs/write-a-connector/http-api",
    "docs/write-a-connector/async-sink",
    "docs/write-a-connector/changes",
    "docs/write-a-connector/stateful-sink",
    "docs/write-a-connector/topologies",
    "docs/write-a-connector/compaction",
    "docs/write-a-connector/lookup",
    "docs/write-a-connector/tables",
    "connector-template/README",
)
_REFERENCE: Final = ("docs/support", "docs/reference/*")
_CORE: Final = "connectors-core"
_PROJECT: Final = (
    "ARCHITECTURE",
    "benchmarks/README",
    "CONTRIBUTING",
    "docs/dev/style",
    "docs/dev/connectors-3",
    "docs/dev/ci",
    "docs/dev/release",
    "docs/dev/nexmark",
    "docs/dev/flink-sql-cases",
    "SECURITY",
)
_TOOLS: Final = "release-tools"
_PROCESS: Final = "FLIP-PROCESS"
_PROPOSALS: Final = "flips/*"


def write(repository: Repository, matrix: Matrix, site: Path, scratch: Path) -> None:
    """Write the sources of the site.

    Args:
        repository: The repository with the documents.
        matrix: The matrix with the connectors and their releases.
        site: An empty folder for the sources.
        scratch: An empty folder for files from git.

    Raises:
        DocsError: A required document is missing.
        HistoryError: A release that the matrix pins is not in this clone.
    """
    top = Tree(repository.root, site)
    versions: dict[str, dict[str, str]] = {}
    connectors = []
    for name, connector in matrix.connectors.items():
        versions[name] = {"": _next_version(connector)}
        releases = tuple(_releases(repository, name, connector, site, scratch, versions[name]))
        tree = Tree(repository.root / name, site, name)
        connectors.append(_package(tree, Contents(releases, "Releases"), has_api=True))
    (site / "versions.json").write_text(json.dumps(versions), encoding="utf-8")
    core = _package(Tree(repository.root / _CORE, site, _CORE), has_api=True)
    tools = _package(Tree(repository.root / _TOOLS, site, _TOOLS))
    compatible = top.write("compatibility", compatibility.page(matrix))
    proposals = top.matching(_PROPOSALS)
    for name in proposals:
        top.add(name, edit=_as_orphan)
    process = tuple(
        top.add(name, edit=lambda text: f"{text}\n{_links(proposals)}")
        for name in top.matching(_PROCESS)
    )

    def entries(names: Sequence[str]) -> tuple[Entry, ...]:
        return tuple(top.add(name) for name in top.matching(*names))

    top.add(
        HOME,
        Contents(entries(_START), "Start"),
        Contents(entries(_GUIDES), "Guides"),
        Contents(entries(_MIGRATION), "Migration"),
        Contents(tuple(connectors), "Connectors"),
        Contents((core, *entries(_REFERENCE), compatible), "Reference"),
        Contents(entries(_EXTEND), "Write a connector"),
        Contents((*entries(_PROJECT), *process, tools), "Project"),
        edit=lambda text: text.replace(_CARDS_MARK, _cards(repository.root)),
    )


def _cards(root: Path) -> str:
    """Return the entry points of the home page."""
    path = root / _CARDS
    return path.read_text(encoding="utf-8") if path.exists() else ""


def _as_orphan(text: str) -> str:
    """Return a proposal that is in no table of contents, and so not in the sidebar."""
    if text.startswith("---\n"):
        return text.replace("---\n", "---\norphan: true\n", 1)
    return f"---\norphan: true\n---\n\n{text}"


def _links(names: Sequence[str]) -> str:
    """Return a section with links to pages."""
    return "\n".join(["## All proposals", "", *(f"- [](/{name}.md)" for name in names), ""])


def _next_version(connector: Connector) -> str:
    found = next((it.version for it in connector.majors.values() if it.commit is None), None)
    return f"{found} (main)" if found else "main"


def _releases(
    repository: Repository,
    name: str,
    connector: Connector,
    site: Path,
    scratch: Path,
    versions: dict[str, str],
) -> Iterator[Entry]:
    """Extract the pinned releases of a connector, and add them to its versions."""
    for number, major in connector.majors.items():
        if major.commit is not None and major.is_supported:
            place = f"{name}/{number}"
            versions[str(number)] = major.version
            repository.export(tree_of(repository, name, major), scratch / place)
            label = f"{name} {major.version}"
            tree = Tree(scratch / place, site, place, label=label)
            yield _package(tree, title=label, has_api=True, is_linked=False)


def _package(
    tree: Tree,
    *contents: Contents,
    title: str = "",
    has_api: bool = False,
    is_linked: bool = True,
) -> Entry:
    """Add the README of a package, and below it the documents in order and the API."""
    package = tree.place.partition("/")[0]
    linked = [link.path for link in parse(tree.text("README")).links]
    names = {name: f"{name}.md" for name in tree.matching("docs/**/*")}
    below = [
        tree.add(name)
        for name, path in sorted(
            names.items(),
            key=lambda each: linked.index(each[1]) if each[1] in linked else len(linked),
        )
    ]
    if has_api:
        promise = _promise(tree.root)
        reference = Reference(
            tree.root / "src",
            is_linked=is_linked,
            packages=promise.packages,
            first=promise.first,
        )
        below += [tree.write(f"api/{name}", reference.page(name)) for name in promise.packages]
    below += [
        tree.add(name, title="Changelog", edit=partial(_retitled, package))
        for name in tree.matching("CHANGELOG")
    ]
    return tree.add("README", Contents(tuple(below)), *contents, title=title)


def _retitled(package: str, text: str) -> str:
    return text.replace("# Changelog\n", f"# Changelog of {package}\n", 1)


def _promise(package: Path) -> Promise:
    """Return the public modules of a package; by default, the top one."""
    path = package / PYPROJECT
    try:
        return Promise.parse(path.read_text(encoding="utf-8"), str(path))
    except OSError as error:
        raise DocsError(f"{path} cannot be read: {error}") from error
