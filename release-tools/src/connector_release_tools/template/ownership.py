# SPDX-License-Identifier: Apache-2.0
"""Which files of a connector are the author's: `[tool.cruft] skip` in its pyproject.toml."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Final

from connector_release_tools.errors import ConnectorFolderError
from connector_release_tools.template.files import File

__all__ = ["MERGED", "PROJECT", "AuthorsFiles"]

PROJECT: Final = "pyproject.toml"
# What template and author both edit.
MERGED: Final = frozenset({PROJECT})


@dataclass(frozen=True)
class AuthorsFiles:
    """The patterns of the files that the template makes once and then leaves to the author.

    They mean what they mean to cruft: paths from the connector's folder, `*` within one name, `**`
    over any number of folders; a folder stands for everything in it.
    """

    patterns: tuple[str, ...]

    @classmethod
    def declared_in(cls, project: File | None, connector: str) -> AuthorsFiles:
        """Read them from a pyproject.toml.

        Raises:
            ConnectorFolderError: There is none, or it cannot be read.
        """
        if project is None:
            raise ConnectorFolderError(f"{connector} has no {PROJECT}")
        try:
            said = tomllib.loads(project.content.decode())
        except ValueError as error:
            conflict = b"\n<<<<<<< " in project.content
            raise ConnectorFolderError(
                f"{connector}/{PROJECT} cannot be read: {error}",
                hint="resolve the conflict that its markers <<<<<<< and >>>>>>> show"
                if conflict
                else "correct it, or take it back from an earlier commit",
            ) from error
        try:
            patterns = said.get("tool", {}).get("cruft", {}).get("skip", [])
        except AttributeError:  # one of them is no table
            patterns = None
        if not isinstance(patterns, list) or not all(isinstance(each, str) for each in patterns):
            raise ConnectorFolderError(
                f"{connector}/{PROJECT}: [tool.cruft] skip must be a list of texts",
                hint='write for example skip = ["src/**", "README.md"]',
            )
        return cls(tuple(patterns))

    def __contains__(self, path: object) -> bool:
        parts = str(path).split("/")
        return any(_matches(parts, pattern.strip("/").split("/")) for pattern in self.patterns)


def _matches(parts: Sequence[str], pattern: Sequence[str]) -> bool:
    if not pattern:
        return True  # a folder above matches
    if pattern[0] == "**":
        return any(_matches(parts[skipped:], pattern[1:]) for skipped in range(len(parts)))
    return bool(parts) and fnmatchcase(parts[0], pattern[0]) and _matches(parts[1:], pattern[1:])
