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

# What stands between licences in an expression, or between several classifiers.
_IN_EXPRESSION: Final = re.compile(r"[();]|\b(?:AND|OR|WITH)\b")


def allowed_licences(root: Path) -> list[str]:
    """The licences that dependencies may have: [tool.release-tools] in a tree's pyproject.toml.

    Raises:
        ReleaseError: They are not there.
    """
    path = root / "pyproject.toml"
    try:
        declared = tomllib.loads(path.read_text(encoding="utf-8"))
        return list(declared["tool"]["release-tools"]["licences"])
    except (FileNotFoundError, KeyError, tomllib.TOMLDecodeError) as error:
        raise ReleaseError(
            f"{path} does not say which licences dependencies may have",
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
    """Install a wheel with its Spark, import it, and look at the licences of what came with it.

    Args:
        wheel: The wheel.
        package: The name to import.
        spark_line: The Spark line that it is for.
        constraints: The versions that this Spark line is tested with.
        find_links: Folders with distributions that are taken too.
        licences: The licences that dependencies may have.
        brings_spark: Whether it is installed with its extra, which must bring the Spark of its
            line; the core is not.

    Returns:
        What is not as it must be.

    Raises:
        ProgramError: uv cannot make an environment.
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
            found.append(Finding(f"{wheel.name} brings pyspark {spark}, and serves every line"))
        elif brings_spark and not spark.startswith(f"{spark_line}."):
            found.append(Finding(f"{wheel.name} brings pyspark {spark}, not {spark_line}"))
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
                f"{name} brings {each['Name']} {each['Version']} with the licence {licence!r}",
                "do without it, or allow the licence in [tool.release-tools] of pyproject.toml",
            )
