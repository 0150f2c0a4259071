# SPDX-License-Identifier: Apache-2.0
"""`compatibility-matrix.yaml` as a file: read, checked, and edited so that comments survive."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self

from ruamel.yaml.scalarstring import DoubleQuotedScalarString as Quoted

from connector_release_tools.errors import MatrixError
from connector_release_tools.git import Repository
from connector_release_tools.matrix.model import CORE, Matrix
from connector_release_tools.yaml_text import dump, load, validated

__all__ = ["MATRIX", "MatrixFile", "Quoted"]

MATRIX: Final = "compatibility-matrix.yaml"


@dataclass(frozen=True)
class MatrixFile:
    """The matrix and its text.

    Attributes:
        path: The file.
        document: The contents of the file with its comments; make changes here, with texts as
            `Quoted`.
    """

    path: Path
    document: Any

    @classmethod
    def of(cls, repository: Repository) -> Self:
        """The matrix at the top of a repository.

        Raises:
            MatrixError: It is not there, or is no YAML.
        """
        return cls.read(repository.root / MATRIX)

    @classmethod
    def read(cls, path: Path) -> Self:
        """The matrix in a file.

        Raises:
            MatrixError: It is not there, or is no YAML.
        """
        try:
            text = path.read_text(encoding="utf-8")
        except FileNotFoundError as error:
            raise MatrixError(
                f"there is no {path}", hint="run this in the repository of the connectors"
            ) from error
        document = load(text, name=path.name, error=MatrixError)
        if not isinstance(document, Mapping):
            raise MatrixError(f"{path.name} holds no mapping with spark and connectors")
        return cls(path, document)

    def matrix(self) -> Matrix:
        """What it says, checked.

        Raises:
            MatrixError: Something in it is not as it must be; the message names the place.
        """
        return validated(Matrix, self.document, name=self.path.name, error=MatrixError)

    def entry(self, name: str, major: int) -> Any:
        """What the document holds of a major of a connector or of the core."""
        package = self.document["core"] if name == CORE else self.document["connectors"][name]
        return package["majors"][str(major)]

    def text(self) -> str:
        """The file as it would be written."""
        return dump(self.document)

    def write(self) -> Matrix:
        """Write the document if it says something valid.

        Raises:
            MatrixError: It does not; the file stays as it was.
        """
        matrix = self.matrix()
        self.path.write_text(self.text(), encoding="utf-8")
        return matrix
