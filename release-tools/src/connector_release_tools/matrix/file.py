# SPDX-License-Identifier: Apache-2.0
"""Reads, validates, and edits `compatibility-matrix.yaml`, and keeps its comments."""

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
        document: The contents of the file with its comments. To change the file, change this, and
            use `Quoted` for strings.
    """

    path: Path
    document: Any

    @classmethod
    def of(cls, repository: Repository) -> Self:
        """Read the matrix at the top of a repository.

        Raises:
            MatrixError: The file is missing or is not YAML.
        """
        return cls.read(repository.root / MATRIX)

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read the matrix from a file.

        Raises:
            MatrixError: The file is missing or is not YAML.
        """
        try:
            text = path.read_text(encoding="utf-8")
        except FileNotFoundError as error:
            raise MatrixError(
                f"{path} does not exist", hint="run this in the repository of the connectors"
            ) from error
        document = load(text, name=path.name, error=MatrixError)
        if not isinstance(document, Mapping):
            raise MatrixError(f"{path.name} is not a mapping with spark and connectors")
        return cls(path, document)

    def matrix(self) -> Matrix:
        """Validate the matrix.

        Raises:
            MatrixError: The matrix is invalid; the message names the place.
        """
        return validated(Matrix, self.document, name=self.path.name, error=MatrixError)

    def entry(self, name: str, major: int) -> Any:
        """Return the entry of a major of a connector or the core in the document."""
        package = self.document["core"] if name == CORE else self.document["connectors"][name]
        return package["majors"][str(major)]

    def text(self) -> str:
        """Return the text of the file."""
        return dump(self.document)

    def write(self) -> Matrix:
        """Write the document if it is valid.

        Raises:
            MatrixError: The document is invalid; the file is unchanged.
        """
        matrix = self.matrix()
        self.path.write_text(self.text(), encoding="utf-8")
        return matrix
