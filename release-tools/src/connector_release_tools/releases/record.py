# SPDX-License-Identifier: Apache-2.0
"""What was released, as a file: `releases/<name>.yaml`, one for a version and all its artefacts."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, Final, Self

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from connector_release_tools.distributions import Distribution
from connector_release_tools.errors import ReleaseError
from connector_release_tools.matrix.file import Quoted
from connector_release_tools.releases.candidate import Candidate
from connector_release_tools.versions import Version
from connector_release_tools.yaml_text import dump, load, validated

__all__ = ["RELEASES", "Record"]

RELEASES: Final = "releases"

_ObjectId = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{40}$")]
_Sha256 = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
_FileName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.-]*$")]
_HEAD: Final = "# Written by release-tools; what it names never changes.\n"


class Record(BaseModel):
    """A release of a connector for all its Spark lines, or of the core.

    Attributes:
        connector: The connector.
        version: Its version.
        spark: The Spark lines; none for the core, which serves all of them.
        commit: The commit that it was built from.
        tree: The id of the connector's folder in it.
        core: The versions of connectors-core that it works with; None for the core.
        artefacts: The SHA-256 of each file, by its name.
        released: When; None before that.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    connector: str
    version: Annotated[str, StringConstraints(pattern=r"^\d+\.\d+\.\d+$")]
    spark: tuple[str, ...] = ()
    commit: _ObjectId
    tree: _ObjectId
    core: str | None = None
    artefacts: Mapping[_FileName, _Sha256] = Field(min_length=1)
    released: datetime.date | None = None

    @classmethod
    def read(cls, path: Path) -> Self:
        """The record in a file.

        Raises:
            ReleaseError: It is not there, or not as it must be.
        """
        try:
            document = load(path.read_text(encoding="utf-8"), name=str(path), error=ReleaseError)
        except FileNotFoundError as error:
            raise ReleaseError(f"there is no {path}") from error
        return validated(cls, document, name=str(path), error=ReleaseError)

    @classmethod
    def of(
        cls, candidate: Candidate, artefacts: Iterable[Distribution], *, core: str | None
    ) -> Self:
        """The record of a candidate and the files that were made of it.

        Args:
            candidate: What is released.
            artefacts: Its files.
            core: The versions of connectors-core that it works with, as the matrix spells them;
                None for the core.
        """
        return cls(
            connector=candidate.connector,
            version=str(candidate.version),
            spark=tuple(map(str, candidate.spark_lines)),
            commit=candidate.commit,
            tree=candidate.tree,
            core=core,
            artefacts={each.path.name: each.sha256 for each in artefacts},
        )

    @property
    def name(self) -> str:
        """How the release is called, as in `connector-kafka-3.1.2`."""
        return f"{self.connector}-{self.version}"

    @property
    def major(self) -> int:
        """The major that it is of."""
        return Version.parse(self.version).major

    def text(self) -> str:
        """The file as it is written."""
        return _HEAD + dump(_quoted(self.model_dump(exclude_none=True)))


def _quoted(value: Any) -> Any:
    """A value as it is written: 1.20 is not 1.2, and an id of digits alone is no number."""
    match value:
        case str():
            return Quoted(value)
        case Mapping():
            return {name: _quoted(each) for name, each in value.items()}
        case tuple() | list():
            return [_quoted(each) for each in value]
    return value
