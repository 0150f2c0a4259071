# SPDX-License-Identifier: Apache-2.0
"""Inspects artifacts: metadata, license files, and secrets."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path, PurePosixPath
from typing import Final

from detect_secrets.core.secrets_collection import SecretsCollection
from detect_secrets.settings import default_settings
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

from connector_release_tools.distributions import Distribution
from connector_release_tools.errors import DistributionError, ProgramError
from connector_release_tools.matrix.model import CORE
from connector_release_tools.programs import output
from connector_release_tools.releases.candidate import Candidate
from connector_release_tools.releases.findings import Finding
from connector_release_tools.versions import SPARK_EXTRA, SparkLine

__all__ = ["inspect", "secrets", "twine_check"]

# It contains a hash of every file, and hashes look like secrets.
_HASHES: Final = "RECORD"
_SPARK: Final = "pyspark"
_HOOK: Final = "correct [tool.connector], from which hatch_build.py derives the requirements"


def inspect(
    artefact: Distribution,
    candidate: Candidate,
    *,
    spark_line: SparkLine | None,
    pythons: Collection[str],
    brings_spark: bool = False,
) -> list[Finding]:
    """Inspect the metadata and license files of an artifact.

    Args:
        artefact: The artifact.
        candidate: Its release candidate.
        spark_line: Its Spark line; None for all lines.
        pythons: The tested versions of Python.
        brings_spark: Whether it may require pyspark without an extra. This is allowed for a fix of
            a major whose first release did so.

    Returns:
        The findings.
    """
    name = artefact.path.name
    try:
        found = [
            *_metadata(artefact, candidate, spark_line, pythons),
            *_spark(artefact, spark_line, brings_spark=brings_spark),
            *_licence_files(artefact),
        ]
    except DistributionError as error:
        found = [Finding(str(error))]
    return [Finding(f"{name}: {each.what}", each.hint) for each in found]


def secrets(artefacts: Iterable[Distribution]) -> list[Finding]:
    """Find places in artifacts that look like a secret, without repeating the secret.

    A file that several artifacts contain is inspected once.
    """
    places: dict[bytes, tuple[str, str]] = {}
    for artefact in artefacts:
        for name, content in artefact.members():
            if PurePosixPath(name).name != _HASHES:
                places.setdefault(content, (artefact.path.name, name))
    found = []
    with tempfile.TemporaryDirectory(prefix="release-tools-") as scratch, default_settings():
        for number, (content, (artefact_name, name)) in enumerate(places.items()):
            # Use numbers, because an archive's paths are untrusted. The suffix selects the parser.
            path = Path(scratch, f"{number}{PurePosixPath(name).suffix}")
            path.write_bytes(content)
            secrets = SecretsCollection(root=scratch)
            secrets.scan_file(path.name)
            found += [
                Finding(
                    f"{artefact_name}: {name}:{secret.line_number} looks like a secret "
                    f"({secret.type})",
                    "remove it; if it is not a secret, end the line with "
                    "`# pragma: allowlist secret`",
                )
                for _, secret in secrets
            ]
    return found


def twine_check(artefacts: Sequence[Distribution]) -> list[Finding]:
    """Check the descriptions as an index does."""
    try:
        output(
            (sys.executable, "-m", "twine", "--no-color", "check", "--strict",
             *(each.path for each in artefacts)),
            folder=artefacts[0].path.parent,
        )  # fmt: skip
    except ProgramError as error:
        return [Finding(str(error), "correct the connector's README.md")]
    return []


def _metadata(
    artefact: Distribution,
    candidate: Candidate,
    spark_line: SparkLine | None,
    pythons: Collection[str],
) -> Iterator[Finding]:
    metadata = artefact.metadata
    version = candidate.package_version(spark_line)
    if (artefact.project, str(metadata.version)) != (candidate.connector, version):
        yield Finding(
            f"it is {artefact.project} {metadata.version}, not {candidate.connector} {version}",
            "correct the version, which hatch_build.py derives",
        )
    for python in pythons:
        if metadata.requires_python is None or not metadata.requires_python.contains(python):
            yield Finding(
                f"requires Python {metadata.requires_python}, but the matrix has {python}",
                "correct requires-python",
            )
    core = _required(artefact).get(CORE)
    if spark_line is not None and core != candidate.core:
        yield Finding(f"requires {CORE} {core or 'not at all'}, not {candidate.core}", _HOOK)
    if metadata.license_expression is None:
        yield Finding("has no license", 'write license = "..." in pyproject.toml')


def _spark(
    artefact: Distribution, spark_line: SparkLine | None, *, brings_spark: bool
) -> Iterator[Finding]:
    own, extra = (_required(artefact, each).get(_SPARK) for each in ("", SPARK_EXTRA))
    wanted = None if spark_line is None else Requirement(spark_line.requirement).specifier
    if brings_spark and own == wanted:
        return
    if own is not None:
        yield Finding(
            f"requires {_SPARK} without an extra, so it may replace the platform's Spark", _HOOK
        )
    if wanted is not None and extra != wanted:
        found = "not at all" if extra is None else extra
        yield Finding(f"its extra {SPARK_EXTRA} requires {_SPARK} {found}, not {wanted}", _HOOK)


def _required(artefact: Distribution, extra: str = "") -> dict[str, SpecifierSet]:
    """Return the requirements without an extra, or of one extra only."""
    required: dict[str, SpecifierSet] = {}
    for each in artefact.metadata.requires_dist or ():
        always = each.marker is None or each.marker.evaluate({"extra": ""})
        applies = each.marker is None or each.marker.evaluate({"extra": extra})
        if applies and (not extra or not always):
            required[each.name] = required.get(each.name, SpecifierSet()) & each.specifier
    return required


def _licence_files(artefact: Distribution) -> Iterator[Finding]:
    declared = artefact.metadata.license_files or []
    if not any(PurePosixPath(path).name.startswith("LICENSE") for path in declared):
        yield Finding("has no license file", 'write license-files = ["LICENSE", ...]')
    members = [PurePosixPath(name) for name, _ in artefact.members()]
    for path in declared:
        if not any(member.match(path) for member in members):
            yield Finding(f"declares the license file {path}, but does not contain it")
