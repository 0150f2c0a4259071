# SPDX-License-Identifier: Apache-2.0
"""Connectors beside their template: found, checked, created, linked."""

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
        """The template as it is committed.

        Raises:
            TemplateError: It is not.
        """
        tree = repository.object_id(f"HEAD:{TEMPLATE}")
        if tree is None:
            raise TemplateError(
                f"the commit HEAD of {repository.root} holds no folder {TEMPLATE}",
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
        """The folder."""
        return self.repository.root / self.name

    def file(self, path: str) -> File | None:
        """One of its files, None if it is not there."""
        return read(self.folder / path)

    def link(self) -> Link:
        """What its `.cruft.json` says.

        Raises:
            ConnectorFolderError: It cannot be used.
        """
        link = Link.read(self.folder / LINK)
        if (link.template, link.directory) != ("..", TEMPLATE):
            raise ConnectorFolderError(
                f"{self.name}/{LINK} names {link.directory!r} in {link.template!r} as its "
                f"template, expected {TEMPLATE!r} in '..'",
                hint="a connector in this tree is made from the template beside it",
            )
        return link

    def authors_files(self) -> AuthorsFiles:
        """Which of its files are the author's.

        Raises:
            ConnectorFolderError: Its pyproject.toml cannot be read.
        """
        return AuthorsFiles.declared_in(self.file(PROJECT), self.name)

    def renderings(self, renderer: Renderer, tree: str) -> tuple[Rendering, Rendering]:
        """What it was made from, and what it would be made from at a tree of the template.

        Raises:
            ReleaseToolsError: One of them cannot be had.
        """
        link = self.link()
        old = renderer.render(self._recorded_tree(link), link.answers)
        new = renderer.render(tree, link.answers)
        if new.name != self.name:
            raise ConnectorFolderError(
                f"the answers in {self.name}/{LINK} make a folder {new.name}",
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
                f"commit {link.commit[:10]}, which {self.name} was made from, is not in this clone",
                hint="history is cut; run `git fetch --unshallow`",
            )
        raise HistoryError(
            f"commit {link.commit[:10]}, which {self.name} was made from, is not in this "
            f"repository, nor is its {TEMPLATE}",
            hint=f"if it was squashed or rebased away, remove {self.name}/{LINK} and run "
            f"`release-tools template link {self.name}`",
        )


def connectors(repository: Repository, names: Sequence[str]) -> list[Connector]:
    """The connectors of these names, or all that are linked to the template.

    Args:
        repository: The tree.
        names: Folders at its top; a path to one is good too.

    Raises:
        ConnectorFolderError: There is no such folder, or none is linked.
    """
    linked = sorted(path.parent.name for path in repository.root.glob(f"{PREFIX}*/{LINK}"))
    chosen = [Path(name).name for name in names] or linked
    for name in chosen:
        known = name.startswith(PREFIX) and name != TEMPLATE
        if not known or not (repository.root / name).is_dir():
            raise ConnectorFolderError(
                f"there is no connector {name} in {repository.root}",
                hint=f"linked to the template are: {', '.join(linked) or 'none'}",
            )
    if not chosen:
        raise ConnectorFolderError(
            f"no connector in {repository.root} is linked to the template",
            hint="run `release-tools template create` or `release-tools template link`",
        )
    return [Connector(repository, name) for name in dict.fromkeys(chosen)]


def check(connector: Connector, renderer: Renderer, tree: str) -> list[Finding]:
    """Where a connector and a tree of the template have gone apart; nothing if it is up to date.

    Raises:
        ReleaseToolsError: It cannot be told.
    """
    authors = connector.authors_files()
    old, new = connector.renderings(renderer, tree)
    return compare(old.files, new.files, connector.file, authors)


def create(
    repository: Repository, renderer: Renderer, state: TemplateState, answers: Answers
) -> Connector:
    """Make a new connector of the template in the tree, linked to it.

    Raises:
        ConnectorFolderError: Its folder is there already.
        ReleaseToolsError: It cannot be rendered.
    """
    rendering = renderer.render(state.tree, answers)
    connector = Connector(repository, rendering.name)
    if connector.folder.exists():
        raise ConnectorFolderError(
            f"{connector.name} is there already",
            hint=f"`release-tools template link {connector.name}` links an existing connector",
        )
    for path, file in rendering.files.items():
        write(connector.folder / path, file)
    _link(connector, rendering, state)
    return connector


def link(connector: Connector, renderer: Renderer, state: TemplateState, answers: Answers) -> None:
    """Link a connector, made by hand or of another template, to a state of the template.

    Raises:
        ConnectorFolderError: It is linked already, does not say which files are the author's, or
            the answers make another folder.
        ReleaseToolsError: The template cannot be rendered with them.
    """
    if (connector.folder / LINK).exists():
        raise ConnectorFolderError(
            f"{connector.name} is linked already",
            hint=f"remove {connector.name}/{LINK} to link it again",
        )
    if not connector.authors_files().patterns:
        raise ConnectorFolderError(
            f"{connector.name}/{PROJECT} says nothing of the author's files, so that all would be "
            "the template's",
            hint='list them first: [tool.cruft] skip = ["src/**", "tests/**", ...]',
        )
    rendering = renderer.render(state.tree, answers)
    if rendering.name != connector.name:
        raise ConnectorFolderError(
            f"these answers make a folder {rendering.name}, not {connector.name}"
        )
    _link(connector, rendering, state)


def _link(connector: Connector, rendering: Rendering, state: TemplateState) -> None:
    Link(directory=TEMPLATE, commit=state.commit, tree=state.tree, answers=rendering.answers).write(
        connector.folder / LINK
    )
