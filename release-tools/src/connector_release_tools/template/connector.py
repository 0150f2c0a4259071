# SPDX-License-Identifier: Apache-2.0
"""Finds, checks, creates, and links connectors of a template."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from connector_release_tools.errors import ConnectorFolderError, HistoryError, TemplateError
from connector_release_tools.git import Repository
from connector_release_tools.template.comparison import Finding, compare
from connector_release_tools.template.files import File, read, write
from connector_release_tools.template.link import LINK, Answers, Link
from connector_release_tools.template.ownership import PROJECT, AuthorsFiles
from connector_release_tools.template.renderer import TEMPLATE, Renderer, Rendering

__all__ = [
    "PREFIX",
    "Connector",
    "TemplateState",
    "check",
    "connectors",
    "create",
    "link",
]

PREFIX: Final = "connector-"


@dataclass(frozen=True)
class TemplateState:
    """A committed state of the template.

    Attributes:
        tree: The id of its folder.
        commit: The last commit that changed it.
    """

    tree: str
    commit: str

    @classmethod
    def at_head(cls, repository: Repository) -> TemplateState:
        """Return the committed state of the template.

        Raises:
            TemplateError: The template is not committed.
        """
        tree = repository.object_id(f"HEAD:{TEMPLATE}")
        if tree is None:
            raise TemplateError(
                f"HEAD of {repository.root} does not contain the folder {TEMPLATE}",
                hint="run this in a repository that contains both the connectors and their "
                "template, and commit the template first",
            )
        return cls(tree, repository.last_change(TEMPLATE))


@dataclass(frozen=True)
class Connector:
    """A connector's folder at the top of the tree.

    Attributes:
        repository: The tree.
        name: The name of the folder.
    """

    repository: Repository
    name: str

    @property
    def folder(self) -> Path:
        """The path of the folder."""
        return self.repository.root / self.name

    def file(self, path: str) -> File | None:
        """Return one of its files; None if it does not exist."""
        return read(self.folder / path)

    def link(self) -> Link:
        """The contents of its `.cruft.json`.

        Raises:
            ConnectorFolderError: The file is missing or invalid.
        """
        link = Link.read(self.folder / LINK)
        if (link.template, link.directory) != ("..", TEMPLATE):
            raise ConnectorFolderError(
                f"{self.name}/{LINK} has {link.directory!r} in {link.template!r} as its "
                f"template, expected {TEMPLATE!r} in '..'",
                hint="a connector in this repository must use the template in this repository",
            )
        return link

    def authors_files(self) -> AuthorsFiles:
        """The patterns of the author's files.

        Raises:
            ConnectorFolderError: Its pyproject.toml cannot be read.
        """
        return AuthorsFiles.declared_in(self.file(PROJECT), self.name)

    def renderings(self, renderer: Renderer, tree: str) -> tuple[Rendering, Rendering]:
        """Return its original rendering, and its rendering for a tree of the template.

        Raises:
            ReleaseToolsError: A rendering fails.
        """
        link = self.link()
        old = renderer.render(self._recorded_tree(link), link.answers)
        new = renderer.render(tree, link.answers)
        if new.name != self.name:
            raise ConnectorFolderError(
                f"the answers in {self.name}/{LINK} create a folder {new.name}",
                hint="correct them, or the name of the folder",
            )
        return old, new

    def _recorded_tree(self, link: Link) -> str:
        tree = self.repository.object_id(f"{link.commit}:{TEMPLATE}")
        if tree is None and link.tree is not None:
            tree = self.repository.object_id(f"{link.tree}^{{tree}}")
        if tree is not None:
            return tree
        if self.repository.is_shallow():
            raise HistoryError(
                f"commit {link.commit[:10]}, from which {self.name} was created, is not in "
                "this clone",
                hint="the clone is shallow; run `git fetch --unshallow`",
            )
        raise HistoryError(
            f"commit {link.commit[:10]}, from which {self.name} was created, is not in this "
            f"repository, nor is its {TEMPLATE}",
            hint=f"if a squash or a rebase lost it, remove {self.name}/{LINK} and run "
            f"`release-tools template link {self.name}`",
        )


def connectors(repository: Repository, names: Sequence[str]) -> list[Connector]:
    """Return the connectors with these names, or all that are linked to the template.

    Args:
        repository: The tree.
        names: Names or paths of top-level folders.

    Raises:
        ConnectorFolderError: A folder does not exist, or no connector is linked.
    """
    linked = sorted(path.parent.name for path in repository.root.glob(f"{PREFIX}*/{LINK}"))
    chosen = [Path(name).name for name in names] or linked
    for name in chosen:
        known = name.startswith(PREFIX) and name != TEMPLATE
        if not known or not (repository.root / name).is_dir():
            raise ConnectorFolderError(
                f"{repository.root} does not contain the connector {name}",
                hint=f"choose a linked connector: {', '.join(linked) or 'none'}",
            )
    if not chosen:
        raise ConnectorFolderError(
            f"no connector in {repository.root} is linked to the template",
            hint="run `release-tools template create` or `release-tools template link`",
        )
    return [Connector(repository, name) for name in dict.fromkeys(chosen)]


def check(connector: Connector, renderer: Renderer, tree: str) -> list[Finding]:
    """Return the differences between a connector and a tree of the template.

    Raises:
        ReleaseToolsError: The comparison fails.
    """
    authors = connector.authors_files()
    old, new = connector.renderings(renderer, tree)
    return compare(old.files, new.files, connector.file, authors)


def create(
    repository: Repository, renderer: Renderer, state: TemplateState, answers: Answers
) -> Connector:
    """Create a connector from the template, and link it to the template.

    Raises:
        ConnectorFolderError: The folder already exists.
        ReleaseToolsError: The template cannot be rendered.
    """
    rendering = renderer.render(state.tree, answers)
    connector = Connector(repository, rendering.name)
    if connector.folder.exists():
        raise ConnectorFolderError(
            f"{connector.name} already exists",
            hint=f"link an existing connector with `release-tools template link {connector.name}`",
        )
    for path, file in rendering.files.items():
        write(connector.folder / path, file)
    _link(connector, rendering, state)
    return connector


def link(connector: Connector, renderer: Renderer, state: TemplateState, answers: Answers) -> None:
    """Link a connector that was created by hand or from another template.

    Raises:
        ConnectorFolderError: The connector is already linked or does not list the author's files,
            or the answers create another folder.
        ReleaseToolsError: The template cannot be rendered with them.
    """
    if (connector.folder / LINK).exists():
        raise ConnectorFolderError(
            f"{connector.name} is already linked",
            hint=f"remove {connector.name}/{LINK} to link it again",
        )
    if not connector.authors_files().patterns:
        raise ConnectorFolderError(
            f"{connector.name}/{PROJECT} does not list the author's files, so all files would "
            "belong to the template",
            hint='list them first: [tool.cruft] skip = ["src/**", "tests/**", ...]',
        )
    rendering = renderer.render(state.tree, answers)
    if rendering.name != connector.name:
        raise ConnectorFolderError(
            f"these answers create a folder {rendering.name}, not {connector.name}"
        )
    _link(connector, rendering, state)


def _link(connector: Connector, rendering: Rendering, state: TemplateState) -> None:
    Link(directory=TEMPLATE, commit=state.commit, tree=state.tree, answers=rendering.answers).write(
        connector.folder / LINK
    )
