# SPDX-License-Identifier: Apache-2.0
"""Reads, validates, and edits `compatibility-matrix.yaml`, and keeps its comments."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self

from ruamel.yaml.comments import CommentedMap, CommentedSeq
from ruamel.yaml.scalarstring import DoubleQuotedScalarString as Quoted

from connector_release_tools.errors import ConnectorFolderError, MatrixError
from connector_release_tools.git import Repository
from connector_release_tools.matrix.model import CORE, Matrix
from connector_release_tools.matrix.project import Project
from connector_release_tools.versions import Version
from connector_release_tools.yaml_text import dump, load, validated

__all__ = ["MATRIX", "MatrixFile", "Quoted", "core_range"]

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

    def register(self, name: str, project: Project) -> None:
        """Add a connector to the document, if it is missing.

        Args:
            name: The connector.
            project: The declarations of the connector.

        Raises:
            ConnectorFolderError: The connector does not depend on the core.
            MatrixError: The matrix is invalid.
        """
        matrix = self.matrix()
        if name in matrix.connectors:
            return
        spark_lines = CommentedSeq(Quoted(each) for each in matrix.spark if each in project.spark)
        spark_lines.fa.set_flow_style()
        major = {
            "version": Quoted(project.version),
            "status": "features",
            "spark": spark_lines,
            "core": core_range(name, project),
        }
        number = Quoted(str(Version.parse(project.version).major))
        majors = CommentedMap({number: CommentedMap(major)})
        self.document["connectors"][name] = CommentedMap({"majors": majors})

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


def core_range(name: str, project: Project) -> str:
    """Return the range of the core that a connector declares, as a value of the document.

    Raises:
        ConnectorFolderError: It does not depend on the core.
    """
    core = project.dependencies.get(CORE)
    if core is None:
        raise ConnectorFolderError(f"{name} does not depend on {CORE}, which every connector needs")
    text: str = Quoted(",".join(sorted(map(str, core), reverse=True)))
    return text
