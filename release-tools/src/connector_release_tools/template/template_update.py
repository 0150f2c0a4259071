# SPDX-License-Identifier: Apache-2.0
"""Brings a connector to a state of the template; what the author changed is kept."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from connector_release_tools.errors import ConnectorFolderError
from connector_release_tools.template.comparison import Finding, Side, compare
from connector_release_tools.template.connector import Connector, TemplateState
from connector_release_tools.template.files import Change, File, write
from connector_release_tools.template.link import LINK, Link
from connector_release_tools.template.merge import merge
from connector_release_tools.template.ownership import PROJECT, AuthorsFiles
from connector_release_tools.template.renderer import Renderer

__all__ = ["Update", "update"]


@dataclass(frozen=True)
class Update:
    """What an update of a connector does.

    Attributes:
        connector: The connector.
        link: What its `.cruft.json` will say; None where it stays as it is.
        changes: Its files that change.
        conflicts: What the author has to decide, by file.
        remaining: Where it will still not be as the template has it.
    """

    connector: Connector
    link: Link | None
    changes: Sequence[Change]
    conflicts: Mapping[str, str]
    remaining: Sequence[Finding]

    @property
    def is_needed(self) -> bool:
        """Whether anything changes."""
        return bool(self.changes) or self.link is not None

    def apply(self) -> None:
        """Write the files, `.cruft.json` last.

        Raises:
            ConnectorFolderError: The folder holds changes that are not committed, or cannot be
                written.
        """
        own = self.connector
        if uncommitted := own.repository.uncommitted(own.name):
            raise ConnectorFolderError(
                f"{own.name} has changes that are not committed: {', '.join(uncommitted)}",
                hint="commit or stash them, so that the update can be told from them",
            )
        try:
            for change in self.changes:
                write(own.folder / change.path, change.after)
            if self.link is not None:
                self.link.write(own.folder / LINK)
        except OSError as error:
            raise ConnectorFolderError(
                f"{own.name} was updated in part only: {error}",
                hint=f"correct that, run `git restore {own.name}`, and update again",
            ) from error


def update(
    connector: Connector, renderer: Renderer, state: TemplateState, *, restore: bool = False
) -> Update:
    """Work out how a connector gets to a state of the template; nothing is written.

    Args:
        connector: The connector.
        renderer: Renders the template.
        state: Where to go.
        restore: Also make the template's files what the template says, instead of keeping what
            the connector changed in them.

    Raises:
        ReleaseToolsError: It cannot be told.
    """
    authors = connector.authors_files()
    old, new = connector.renderings(renderer, state.tree)
    results: dict[str, File | None] = {}
    conflicts: dict[str, str] = {}

    def bring(path: str) -> None:
        merged = merge(old.files.get(path), new.files.get(path), connector.file(path))
        results[path] = merged.file
        if merged.conflict:
            conflicts[path] = merged.conflict

    def result(path: str) -> File | None:
        return results[path] if path in results else connector.file(path)

    # The template may have changed which files are the author's, so pyproject.toml comes first.
    if PROJECT not in authors and old.files.get(PROJECT) != new.files.get(PROJECT):
        bring(PROJECT)
        if PROJECT not in conflicts:
            try:
                authors = AuthorsFiles.declared_in(results[PROJECT], connector.name)
            except ConnectorFolderError as error:
                conflicts[PROJECT] = f"merged, but now it does not fit together: {error}"
    findings = compare(old.files, new.files, connector.file, authors)
    for finding in findings:
        if finding.side is Side.TEMPLATE and finding.path not in results:
            bring(finding.path)
    if restore:
        for finding in findings:
            if finding.side is Side.CONNECTOR:
                results[finding.path] = new.files.get(finding.path)
                conflicts.pop(finding.path, None)
    link = connector.link()
    # A new question is recorded too where it changes the author's files alone.
    moved = link.answers.keys() != new.answers.keys() or any(
        finding.side is Side.TEMPLATE for finding in findings
    )
    return Update(
        connector=connector,
        link=replace(link, commit=state.commit, tree=state.tree, answers=new.answers)
        if moved
        else None,
        changes=[
            Change(path, own, file)
            for path, file in sorted(results.items())
            if (own := connector.file(path)) != file
        ],
        conflicts=conflicts,
        remaining=compare(new.files, new.files, result, authors),
    )
