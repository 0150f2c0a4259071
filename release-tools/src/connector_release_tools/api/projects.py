# SPDX-License-Identifier: Apache-2.0
"""The projects of a repository with an API promise, and the repository's API settings."""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

from pydantic import BaseModel, ConfigDict, ValidationError

from connector_release_tools.api.promise import Promise
from connector_release_tools.errors import ApiError
from connector_release_tools.matrix.model import CORE, Matrix
from connector_release_tools.matrix.project import PYPROJECT, Project

__all__ = ["ApiSettings", "PublicProject", "exports", "projects"]

_INITS: Final = ("src/{}/__init__.py", "src/{}.py")


class ApiSettings(BaseModel):
    """The settings [tool.release-tools.api] in the pyproject.toml of a repository.

    Attributes:
        page: The document that lists the public names.
        inside: Patterns of files that may import private names, each with a reason.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    page: str
    inside: Mapping[str, str] = {}

    @classmethod
    def read(cls, root: Path) -> Self:
        """Read the settings of a repository.

        Raises:
            ApiError: The settings are missing or invalid.
        """
        path = root / PYPROJECT
        try:
            document = tomllib.loads(path.read_text(encoding="utf-8"))
            return cls.model_validate(document["tool"]["release-tools"]["api"])
        except (OSError, KeyError, tomllib.TOMLDecodeError, ValidationError) as error:
            raise ApiError(
                f"{path} has missing or invalid API settings: {error}",
                hint='write page = "docs/reference/public-api.md" below [tool.release-tools.api]',
            ) from error


@dataclass(frozen=True)
class PublicProject:
    """A project of the repository, as in the working tree.

    Attributes:
        name: Its name, which is also the name of its folder.
        folder: Its folder.
        version: Its current or next version.
        promise: Its API promise.
    """

    name: str
    folder: Path
    version: str
    promise: Promise

    @property
    def package(self) -> str:
        """The import name."""
        return self.name.replace("-", "_")

    def exports(self) -> dict[str, list[str]]:
        """The names in the `__all__` of each public package.

        Raises:
            ApiError: A package does not exist, or has no literal `__all__`.
        """
        return {package: self._exports(package) for package in self.promise.packages}

    def _exports(self, package: str) -> list[str]:
        for pattern in _INITS:
            path = self.folder / pattern.format(package.replace(".", "/"))
            if path.is_file():
                return exports(path.read_text(encoding="utf-8"), str(path))
        raise ApiError(
            f"{self.folder} does not contain the package {package}",
            hint=f"correct api below [tool.connector-release-tools] of {self.name}/{PYPROJECT}",
        )


def exports(text: str, where: str) -> list[str]:
    """Return the names in the `__all__` of a module.

    Raises:
        ApiError: `__all__` is missing or is not a list of strings.
    """
    for node in ast.parse(text).body:
        if isinstance(node, ast.Assign) and any(
            isinstance(each, ast.Name) and each.id == "__all__" for each in node.targets
        ):
            try:
                return list(map(str, ast.literal_eval(node.value)))
            except ValueError:
                break
    raise ApiError(f"{where} has no __all__ that is a list of names")


def projects(root: Path, matrix: Matrix) -> Iterator[PublicProject]:
    """Return the core and the connectors of the matrix that are in the repository.

    Raises:
        ConnectorFolderError: A pyproject.toml is invalid.
    """
    for name in (CORE, *matrix.connectors):
        path = root / name / PYPROJECT
        if path.is_file():
            text = path.read_text(encoding="utf-8")
            place = f"{name}/{PYPROJECT}"
            version = Project.parse(text, place).version
            yield PublicProject(name, path.parent, version, Promise.parse(text, place))
