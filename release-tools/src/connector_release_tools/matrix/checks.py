# SPDX-License-Identifier: Apache-2.0
"""Finds all differences between the tree and the compatibility matrix."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from packaging.specifiers import SpecifierSet

from connector_release_tools.errors import ConnectorFolderError
from connector_release_tools.git import Repository
from connector_release_tools.matrix import connector_drift, tested, tree_drift, workflow_drift
from connector_release_tools.matrix.derivation import Derived, derived
from connector_release_tools.matrix.file import MATRIX
from connector_release_tools.matrix.finding import Finding
from connector_release_tools.matrix.model import CORE, Matrix
from connector_release_tools.matrix.project import PYPROJECT
from connector_release_tools.releases import record_drift, release_names
from connector_release_tools.releases.record import recorded
from connector_release_tools.template.connector import PREFIX
from connector_release_tools.template.link import LINK, Answers, Link
from connector_release_tools.template.proposal import how_to_register

__all__ = ["findings", "unregistered"]

_FIX: Final = "run `release-tools matrix check --fix`"


def findings(repository: Repository, matrix: Matrix) -> Iterator[Finding]:
    """Compare the tree with the matrix.

    Args:
        repository: The repository of the connectors.
        matrix: Its matrix.
    """
    root = repository.root
    for value in derived(root, matrix):
        yield from _derived(root, value)
    yield from _folders(root, matrix)
    for spark_line in matrix.spark_lines:
        yield from tree_drift.requirements(root, spark_line, matrix)
    yield from tree_drift.doctor(root, matrix)
    yield from tree_drift.import_rules(root, matrix)
    yield from workflow_drift.main(root)
    if (core := _core_version(root)) is None:
        yield Finding(f"{CORE}/{PYPROJECT}", "it does not exist, or has no version")
    if matrix.core is not None and core is not None:
        yield from connector_drift.main(repository, CORE, matrix.core, matrix)
        for number, released in matrix.core.majors.items():
            yield from connector_drift.release(
                repository, CORE, released, f"{MATRIX}: core {number}"
            )
    for name, connector in matrix.connectors.items():
        if not (root / name).is_dir():
            continue  # _folders reports it
        yield from connector_drift.main(repository, name, connector, matrix)
        yield from workflow_drift.connector(root, name)
        yield from connector_drift.run_time_check(root, name)
        for number, major in connector.majors.items():
            place = f"{MATRIX}: {name} {number}"
            if major.is_supported and core is not None and core not in SpecifierSet(major.core):
                yield Finding(place, f"core {major.core} excludes {CORE} {core} of this tree")
            yield from connector_drift.release(repository, name, major, place)
    yield from tested.findings(repository, matrix)
    records, errors = recorded(root)
    for place, error in errors.items():
        yield Finding(place, str(error), error.hint)
    yield from record_drift.findings(repository, matrix, records)
    yield from release_names.findings(repository, matrix, records.values())


def _derived(root: Path, value: Derived) -> Iterator[Finding]:
    file = root / value.path
    if not file.exists():
        yield Finding(value.path, f"it does not exist, and must contain {value.place}")
        return
    try:
        found = value.place.read(file.read_text(encoding="utf-8"))
    except ValueError as error:
        yield Finding(value.path, str(error))
        return
    if found is None:
        yield Finding(value.path, f"{value.place} is missing")
    elif found != value.value:
        long = isinstance(found, str) and "\n" in f"{found}{value.value}"
        said = "is not" if long else f"is {json.dumps(found)},"
        wanted = "that of the matrix" if long else f"the matrix has {json.dumps(value.value)}"
        yield Finding(value.path, f"{value.place} {said} {wanted}", _FIX)


def _folders(root: Path, matrix: Matrix) -> Iterator[Finding]:
    for name in matrix.connectors:
        if not (root / name / PYPROJECT).exists():
            yield Finding(MATRIX, f"{name} has no folder with a {PYPROJECT}")


def unregistered(root: Path, matrix: Matrix) -> Iterator[Finding]:
    """Return the connectors of the tree that the matrix does not list; they break nothing.

    Args:
        root: The top of the tree.
        matrix: Its matrix.
    """
    for link in sorted(root.glob(f"{PREFIX}*/{LINK}")):
        if (name := link.parent.name) not in matrix.connectors:
            yield Finding(
                name,
                f"it is not registered, so {MATRIX} does not cover it",
                how_to_register(name.removeprefix(PREFIX), _answers(link)),
            )


def _answers(path: Path) -> Answers:
    try:
        return Link.read(path).answers
    except ConnectorFolderError:  # `template check` reports it
        return {}


def _core_version(root: Path) -> str | None:
    file = root / CORE / PYPROJECT
    declared = tomllib.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
    version = declared.get("project", {}).get("version")
    return None if version is None else str(version)
