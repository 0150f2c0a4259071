# SPDX-License-Identifier: Apache-2.0
"""Checks a wheel in a fresh environment: its import, and the licenses of its dependencies."""

from __future__ import annotations

import json
import re
import sys
import tempfile
import tomllib
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Final

from connector_release_tools.distributions import Distribution
from connector_release_tools.environments import Environment
from connector_release_tools.errors import ProgramError, ReleaseError
from connector_release_tools.programs import output
from connector_release_tools.releases.findings import Finding
from connector_release_tools.versions import SPARK_EXTRA, SparkLine

__all__ = ["allowed_licences", "install"]

# Separators in a license expression, and between classifiers.
_IN_EXPRESSION: Final = re.compile(r"[();]|\b(?:AND|OR|WITH)\b")


def allowed_licences(root: Path) -> list[str]:
    """Read the allowed licenses of dependencies from [tool.release-tools] in pyproject.toml.

    Raises:
        ReleaseError: The list is missing.
    """
    path = root / "pyproject.toml"
    try:
        declared = tomllib.loads(path.read_text(encoding="utf-8"))
        return list(declared["tool"]["release-tools"]["licences"])
    except (FileNotFoundError, KeyError, tomllib.TOMLDecodeError) as error:
        raise ReleaseError(
            f"{path} does not list the allowed licenses of dependencies",
            hint='write licences = ["Apache-2.0", ...] below [tool.release-tools]',
        ) from error


def install(
    wheel: Path,
    package: str,
    *,
    spark_line: SparkLine,
    constraints: Sequence[str],
    find_links: Sequence[Path],
    licences: Collection[str],
    brings_spark: bool = True,
) -> list[Finding]:
    """Install a wheel with its Spark, import it, and check the licenses of its dependencies.

    Args:
        wheel: The wheel.
        package: The name to import.
        spark_line: Its Spark line.
        constraints: The tested versions of this Spark line.
        find_links: Additional folders with distributions.
        licences: The allowed licenses.
        brings_spark: Whether to install it with the extra that installs the Spark of its line.
            False for the core.

    Returns:
        The findings.

    Raises:
        ProgramError: uv cannot create an environment.
    """
    with tempfile.TemporaryDirectory(prefix="release-tools-") as scratch:
        environment = Environment.create(Path(scratch, "env"))
        try:
            extra = f"[{SPARK_EXTRA}]" if brings_spark else ""
            wanted = f"{Distribution.of(wheel).project}{extra} @ {wheel.resolve().as_uri()}"
            environment.install(wanted, constraints=constraints, find_links=find_links)
            environment.run("-c", f"import {package}", folder=Path(scratch))
        except ProgramError as error:
            return [Finding(f"{wheel.name} cannot be used on Spark {spark_line}: {error}")]
        spark = environment.versions().get("pyspark", "none")
        found = [*_licences(environment, wheel.name, licences)]
        if not brings_spark and spark != "none":
            found.append(
                Finding(f"{wheel.name} installs pyspark {spark}, but must not install any")
            )
        elif brings_spark and not spark.startswith(f"{spark_line}."):
            found.append(Finding(f"{wheel.name} installs pyspark {spark}, not {spark_line}"))
        return found


def _licences(environment: Environment, name: str, allowed: Collection[str]) -> Iterator[Finding]:
    listed = output(
        (sys.executable, "-m", "piplicenses", "--python", environment.python, "--format=json"),
        folder=environment.folder,
    )
    for each in json.loads(listed):
        licence = each["License"]
        parts = {part.strip() for part in _IN_EXPRESSION.split(licence) if part.strip()}
        if licence not in allowed and not parts <= set(allowed):
            yield Finding(
                f"{name} installs {each['Name']} {each['Version']} with the license {licence!r}",
                "remove the dependency, or allow the license in [tool.release-tools] of "
                "pyproject.toml",
            )
