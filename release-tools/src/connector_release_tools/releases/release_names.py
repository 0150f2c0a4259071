# SPDX-License-Identifier: Apache-2.0
"""Finds the releases that documents name, and that do not exist."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Final

from connector_release_tools.errors import ConnectorFolderError
from connector_release_tools.flips.folder import FLIPS
from connector_release_tools.git import Repository
from connector_release_tools.matrix.finding import Finding
from connector_release_tools.matrix.model import CORE, Major, Matrix
from connector_release_tools.matrix.project import PYPROJECT, Project
from connector_release_tools.matrix.tested import PAGE
from connector_release_tools.releases.record import Record
from connector_release_tools.template.renderer import TEMPLATE

__all__ = ["findings", "pages"]

# The version in examples of how to write a release.
_EXAMPLE: Final = "3.1.2"
# Proposals describe plans, and the template no existing connector. The tested releases have their
# own check.
_OTHERS: Final = (f"{FLIPS}/", f"{TEMPLATE}/", PAGE)
_VERSION: Final = r"(?P<version>\d+\.\d+\.\d+)(?:(?:[-.]|\s+for\s+Spark\s+)(?P<spark>\d+\.\d+))?"


def findings(
    repository: Repository, matrix: Matrix, records: Collection[Record]
) -> Iterator[Finding]:
    """Check the releases that documents name: `connector-kafka 2.0.1`, `2.0.1-3.5`, or `2.0.1.3.5`.

    A version alone can be that of anything, so it is not checked.

    Args:
        repository: The repository of the connectors.
        matrix: Its matrix.
        records: The records of its releases.
    """
    packages = (CORE, *matrix.connectors)
    known = {
        *((each.connector, each.version, spark) for each in records for spark in ("", *each.spark)),
        *_next(repository.root, matrix),
    }
    names = "|".join(each.replace("-", "[-_]") for each in packages)
    named = re.compile(
        rf"(?<![\w.-])(?:(?P<name>{names})(?:\[\w+\])?(?:\s+|==|-))?{_VERSION}(?!\w|\.\d)"
    )
    for path, text in pages(repository):
        for found in named.finditer(text):
            name, version, spark = found["name"], found["version"], found["spark"] or ""
            if version == _EXAMPLE or not (name or spark):
                continue
            if not any(
                (each, version, spark) in known
                for each in ([name.replace("_", "-")] if name else packages)
            ):
                line = text.count("\n", 0, found.start()) + 1
                said = " ".join(found[0].split())
                yield Finding(f"{path}:{line}", f"{said} is no release", "name an existing one")


def pages(repository: Repository) -> Iterator[tuple[str, str]]:
    """Return the paths and texts of the documents whose releases must exist."""
    for path in sorted(repository.files()):
        if path.endswith(".md") and not path.startswith(_OTHERS):
            yield path, (repository.root / path).read_text(encoding="utf-8")


def _next(root: Path, matrix: Matrix) -> Iterator[tuple[str, str, str]]:
    """Return the releases of the matrix, and those that main prepares."""
    for name in (CORE, *matrix.connectors):
        for major in matrix.majors(name).values():
            for spark in ("", *(major.spark if isinstance(major, Major) else ())):
                yield name, major.version, spark
        place = root / name / PYPROJECT
        try:
            project = Project.parse(place.read_text(encoding="utf-8"), str(place))
        except (ConnectorFolderError, FileNotFoundError):  # another check reports it
            continue
        for spark in ("", *project.spark):
            yield name, project.version, spark
