# SPDX-License-Identifier: Apache-2.0
"""Reads the patterns of the author's files: `[tool.cruft] skip` in a pyproject.toml."""

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
# The file that both the template and the author edit.
MERGED: Final = frozenset({PROJECT})


@dataclass(frozen=True)
class AuthorsFiles:
    """The patterns of the files that the template creates once and never updates.

    They have cruft's syntax: paths relative to the connector's folder, `*` within a name, `**` for
    any number of folders. A folder includes everything in it.
    """

    patterns: tuple[str, ...]

    @classmethod
    def declared_in(cls, project: File | None, connector: str) -> AuthorsFiles:
        """Read the patterns from a pyproject.toml.

        Raises:
            ConnectorFolderError: The file is missing or invalid.
        """
        if project is None:
            raise ConnectorFolderError(f"{connector} has no {PROJECT}")
        try:
            said = tomllib.loads(project.content.decode())
        except ValueError as error:
            conflict = b"\n<<<<<<< " in project.content
            raise ConnectorFolderError(
                f"{connector}/{PROJECT} cannot be read: {error}",
                hint="resolve the conflict between <<<<<<< and >>>>>>>"
                if conflict
                else "correct it, or restore it from an earlier commit",
            ) from error
        try:
            patterns = said.get("tool", {}).get("cruft", {}).get("skip", [])
        except AttributeError:  # one of them is not a table
            patterns = None
        if not isinstance(patterns, list) or not all(isinstance(each, str) for each in patterns):
            raise ConnectorFolderError(
                f"{connector}/{PROJECT}: [tool.cruft] skip must be a list of strings",
                hint='write, for example, skip = ["src/**", "README.md"]',
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
