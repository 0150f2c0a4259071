# SPDX-License-Identifier: Apache-2.0
"""Runs all checks of artifacts before they are published."""

from __future__ import annotations

import tempfile
from pathlib import Path

from connector_release_tools.distributions import Distribution
from connector_release_tools.environments import constraints
from connector_release_tools.git import Repository
from connector_release_tools.matrix.model import Major, Matrix, Status
from connector_release_tools.releases.artefacts import Step, build_core, build_release
from connector_release_tools.releases.candidate import Candidate, registered
from connector_release_tools.releases.checks import check
from connector_release_tools.releases.findings import Finding
from connector_release_tools.releases.inspection import inspect, secrets, twine_check
from connector_release_tools.releases.installation import allowed_licences, install
from connector_release_tools.releases.record import Record
from connector_release_tools.versions import SparkLine

__all__ = ["verify"]


def verify(
    repository: Repository, matrix: Matrix, candidate: Candidate, folder: Path, *, step: Step
) -> tuple[Record | None, list[Finding]]:
    """Run all checks of a built release.

    Args:
        repository: The repository.
        matrix: The compatibility matrix.
        candidate: The release.
        folder: The folder with its files.
        step: Called with each check.

    Returns:
        The record of the files, or None if there are findings; and the findings.

    Raises:
        ReleaseToolsError: A check could not run.
    """
    step("checking versions, notes, and the public API")
    found = check(repository, matrix, candidate)
    with tempfile.TemporaryDirectory(prefix="release-tools-") as scratch:
        again = build_release(
            repository, candidate, Path(scratch), spark_lines=candidate.builds, step=step
        )
        built, missing = _same(again, folder)
        found += missing
    if not missing:
        step("checking metadata, license files, and secrets")
        found += twine_check(built)
        found += secrets(built)
        found += _inspected(built, candidate, matrix)
        found += _installed(repository, matrix, built, candidate, step)
    if found:
        return None, found
    major = registered(matrix, candidate.connector, candidate.version.major)
    core = major.core if isinstance(major, Major) else None
    return Record.of(candidate, built, core=core), []


def _same(again: list[Distribution], folder: Path) -> tuple[list[Distribution], list[Finding]]:
    """Check that the files in the folder equal those of a second build in another folder."""
    built, found = [], []
    for expected in again:
        path = folder / expected.path.name
        todo = "run release-tools release build"
        if not path.is_file():
            found.append(Finding(f"{path.name} is not in {folder}", todo))
        elif (there := Distribution.of(path)).sha256 != expected.sha256:
            found.append(
                Finding(
                    f"{path.name} has sha256 {there.sha256}, but a build of the "
                    f"commit has {expected.sha256}",
                    todo,
                )
            )
        else:
            built.append(there)
    return built, found


def _inspected(built: list[Distribution], candidate: Candidate, matrix: Matrix) -> list[Finding]:
    files = {each.path.name: each for each in built}
    major = registered(matrix, candidate.connector, candidate.version.major)
    brings_spark = major.status is not Status.FEATURES
    return [
        finding
        for spark_line in candidate.builds
        for name in candidate.file_names(spark_line)
        for finding in inspect(
            files[name],
            candidate,
            spark_line=spark_line,
            pythons=_pythons(matrix, spark_line),
            brings_spark=brings_spark,
        )
    ]


def _pythons(matrix: Matrix, spark_line: SparkLine | None) -> list[str]:
    """Return the Python versions of a Spark line; none for a line that is not in the matrix."""
    return [
        spark.python
        for each, spark in matrix.spark.items()
        if spark_line is None or each == str(spark_line)
    ]


def _installed(
    repository: Repository,
    matrix: Matrix,
    built: list[Distribution],
    candidate: Candidate,
    step: Step,
) -> list[Finding]:
    files = {each.path.name: each.path for each in built}
    licences = allowed_licences(repository.root)
    found: list[Finding] = []
    with tempfile.TemporaryDirectory(prefix="release-tools-") as scratch:
        core = None
        if candidate.spark_lines:
            step("building the core")
            core = build_core(repository, Path(scratch))
        for spark_line in candidate.spark_lines or matrix.spark_lines:
            step(f"installing and importing it on Spark {spark_line}")
            _, wheel = candidate.file_names(spark_line if candidate.spark_lines else None)
            found += install(
                files[wheel],
                candidate.package,
                spark_line=spark_line,
                constraints=constraints(repository.root, spark_line),
                find_links=[] if core is None else [core.parent],
                licences=licences,
                brings_spark=bool(candidate.spark_lines),
            )
    return found
