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
    """The public packages of a project.

    Attributes:
        packages: Their names in the order of the documentation. If none are listed, only the top
            package of the project is public.
        first: The names that the API pages describe first, in this order.
        breaks: The names with an allowed break since the last release, each with a reason.
    """

    packages: tuple[str, ...]
    first: tuple[str, ...]
    breaks: Mapping[str, str]

    @classmethod
    def parse(cls, text: str, where: str) -> Self:
        """Read a pyproject.toml.

        Args:
            text: The contents of the file.
            where: The location for errors.

        Raises:
            ConnectorFolderError: The project name is missing, or the promise is invalid.
        """
        try:
            document = tomllib.loads(text)
            package = document["project"]["name"].replace("-", "_")
            settings = _Settings.model_validate(document.get("tool", {}).get(_TABLE, {}))
        except (KeyError, tomllib.TOMLDecodeError) as error:
            raise ConnectorFolderError(f"{where} has no valid project name: {error}") from error
        except ValidationError as error:
            raise ConnectorFolderError(
                f"{where}: [tool.{_TABLE}] is invalid: {error}",
                hint='list packages, as in api = ["connector_one"]',
            ) from error
        if foreign := [each for each in settings.api or () if each.partition(".")[0] != package]:
            raise ConnectorFolderError(f"{where}: [tool.{_TABLE}] api lists {foreign[0]}")
        return cls(settings.api or (package,), settings.first, settings.breaks)
