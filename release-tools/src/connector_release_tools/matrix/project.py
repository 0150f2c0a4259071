# SPDX-License-Identifier: Apache-2.0
"""The versions that the pyproject.toml of a connector or of the core declares."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Self

from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from pydantic import BaseModel, Field, ValidationError

from connector_release_tools.errors import ConnectorFolderError

__all__ = ["PYPROJECT", "Project"]

PYPROJECT: Final = "pyproject.toml"


class _Build(BaseModel):
    version: str
    spark: tuple[str, ...]
    dependencies: tuple[str, ...]


class _Tool(BaseModel):
    connector: _Build | None = None


class _Named(BaseModel):
    version: str | None = None
    classifiers: tuple[str, ...] = ()
    requires_python: str = Field("", alias="requires-python")
    dependencies: tuple[str, ...] = ()


class _File(BaseModel):
    project: _Named
    tool: _Tool = _Tool()
    groups: Mapping[str, tuple[object, ...]] = Field(default={}, alias="dependency-groups")

    @property
    def build(self) -> _Build:
        """Return the builds: one per Spark line, or one for all lines."""
        if self.tool.connector is not None:
            return self.tool.connector
        if self.project.version is None:
            raise ValueError("neither [tool.connector] nor a version exists")
        return _Build(
            version=self.project.version, spark=(), dependencies=self.project.dependencies
        )


@dataclass(frozen=True)
class Project:
    """A package's declaration of its version and compatible versions.

    Attributes:
        version: Its version.
        spark: The Spark lines that it can be built for; empty for a package that serves all lines.
        requires_python: The range of Python versions.
        dependencies: The version ranges of run-time dependencies by canonical name.
        requirements: The run-time dependencies with their extras and ranges, such as `redis[x]>=6`.
        groups: The requirements of its dependency groups.
        classifiers: Its classifiers.
    """

    version: str
    spark: tuple[str, ...]
    requires_python: SpecifierSet
    dependencies: Mapping[str, SpecifierSet]
    requirements: tuple[str, ...]
    groups: Mapping[str, tuple[str, ...]]
    classifiers: tuple[str, ...]

    @classmethod
    def parse(cls, text: str, where: str) -> Self:
        """Read a pyproject.toml.

        Args:
            text: The contents of the file.
            where: The location for errors.

        Raises:
            ConnectorFolderError: The file is not that of a connector.
        """
        try:
            file = _File.model_validate(tomllib.loads(text))
            build = file.build
            needed = [Requirement(each) for each in build.dependencies]
            return cls(
                version=build.version,
                spark=build.spark,
                requires_python=SpecifierSet(file.project.requires_python),
                dependencies={canonicalize_name(each.name): each.specifier for each in needed},
                requirements=tuple(map(_without_marker, needed)),
                groups={name: _plain(name, group) for name, group in file.groups.items()},
                classifiers=file.project.classifiers,
            )
        except ValidationError as error:
            said = "; ".join(
                f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in error.errors()
            )
        except (tomllib.TOMLDecodeError, InvalidRequirement, ValueError) as error:
            said = str(error)
        raise ConnectorFolderError(
            f"{where} is not the pyproject.toml of a connector: {said}",
            hint="compare it with the pyproject.toml of connector-template",
        )


def _without_marker(requirement: Requirement) -> str:
    requirement.marker = None  # the environments have one version of Python
    return str(requirement)


def _plain(name: str, group: tuple[object, ...]) -> tuple[str, ...]:
    # No connector uses `{include-group = ...}`, so it is not resolved.
    if strange := [each for each in group if not isinstance(each, str)]:
        raise ValueError(f"dependency-groups.{name}: {strange[0]} is not a requirement")
    return tuple(map(str, group))
