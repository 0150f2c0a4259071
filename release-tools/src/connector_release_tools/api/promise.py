# SPDX-License-Identifier: Apache-2.0
"""A package's API promise in its pyproject.toml, below [tool.connector-release-tools]."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from connector_release_tools.errors import ConnectorFolderError

__all__ = ["Promise"]

_TABLE: Final = "connector-release-tools"


class _Settings(BaseModel):
    model_config = ConfigDict(extra="forbid")

    api: tuple[str, ...] | None = Field(default=None, min_length=1)
    first: tuple[str, ...] = ()
    breaks: Mapping[str, str] = {}


@dataclass(frozen=True)
class Promise:
    """The packages of a project whose `__all__` is public.

    Attributes:
        packages: Their names in the order in which they are documented; the package of the project
            alone where nothing is listed.
        first: The names that their pages describe first, in the order in which users need them.
        breaks: Why a change since the last release may break users: a reason for each name.
    """

    packages: tuple[str, ...]
    first: tuple[str, ...]
    breaks: Mapping[str, str]

    @classmethod
    def parse(cls, text: str, where: str) -> Self:
        """Read a pyproject.toml.

        Args:
            text: What it holds.
            where: Its place, for the error.

        Raises:
            ConnectorFolderError: It names no project, or lists something else.
        """
        try:
            document = tomllib.loads(text)
            package = document["project"]["name"].replace("-", "_")
            settings = _Settings.model_validate(document.get("tool", {}).get(_TABLE, {}))
        except (KeyError, tomllib.TOMLDecodeError) as error:
            raise ConnectorFolderError(f"{where} does not name its project: {error}") from error
        except ValidationError as error:
            raise ConnectorFolderError(
                f"{where}: [tool.{_TABLE}] is not as it must be: {error}",
                hint='list packages, as in api = ["connector_one"]',
            ) from error
        if foreign := [each for each in settings.api or () if each.partition(".")[0] != package]:
            raise ConnectorFolderError(f"{where}: [tool.{_TABLE}] api lists {foreign[0]}")
        return cls(settings.api or (package,), settings.first, settings.breaks)
