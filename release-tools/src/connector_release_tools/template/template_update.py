# SPDX-License-Identifier: Apache-2.0
"""Updates a connector to a state of the template, and keeps the author's changes."""

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
    """The effects of a connector's update.

    Attributes:
        connector: The connector.
        link: The new contents of `.cruft.json`; None if it does not change.
        changes: The changed files.
        conflicts: The decisions for the author, by file.
        remaining: The remaining differences from the template.
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
            ConnectorFolderError: The folder has uncommitted changes, or cannot be written.
        """
        own = self.connector
        if uncommitted := own.repository.uncommitted(own.name):
            raise ConnectorFolderError(
                f"{own.name} has uncommitted changes: {', '.join(uncommitted)}",
                hint="commit or stash them first, to keep them separate from the update",
            )
        try:
            for change in self.changes:
                write(own.folder / change.path, change.after)
            if self.link is not None:
                self.link.write(own.folder / LINK)
        except OSError as error:
            raise ConnectorFolderError(
                f"{own.name} was only partially updated: {error}",
                hint=f"fix the problem, run `git restore {own.name}`, and update again",
            ) from error


def update(
    connector: Connector, renderer: Renderer, state: TemplateState, *, restore: bool = False
) -> Update:
    """Plan the update of a connector to a state of the template. Read-only.

    Args:
        connector: The connector.
        renderer: Renders the template.
        state: The target state.
        restore: Whether to undo the connector's changes of template files.

    Raises:
        ReleaseToolsError: The plan cannot be made.
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
                conflicts[PROJECT] = f"merged, but the result is invalid: {error}"
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
    # A new question is also recorded if it changes only the author's files.
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
