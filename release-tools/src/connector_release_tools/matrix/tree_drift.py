# SPDX-License-Identifier: Apache-2.0
"""Checks values that the tree repeats from the matrix and that cannot be generated."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from packaging.requirements import Requirement

from connector_release_tools.environments import constraints
from connector_release_tools.matrix.derivation import short
from connector_release_tools.matrix.finding import Finding
from connector_release_tools.matrix.model import Matrix
from connector_release_tools.matrix.places import Literal
from connector_release_tools.matrix.project import PYPROJECT
from connector_release_tools.versions import SparkLine

__all__ = ["doctor", "import_rules", "requirements"]

_DOCTOR: Final = "connectors-core/src/connectors_core/cli/doctor.py"


def requirements(root: Path, spark_line: SparkLine, matrix: Matrix) -> Iterator[Finding]:
    """Check the tested versions of a Spark line."""
    spark, folder = matrix.spark[str(spark_line)], "requirements"
    source = f"{folder}/pyspark{short(spark_line)}.txt"
    pinned = re.findall(r"^pyspark==(\S+)", _text(root / source), re.MULTILINE)
    if pinned != [spark.pyspark]:
        yield Finding(
            source,
            f"it pins pyspark {', '.join(pinned) or 'not at all'}, the matrix has {spark.pyspark}",
            f"write `pyspark=={spark.pyspark} --hash=sha256:...`, "
            "with the hash of its source distribution",
        )
    wanted, target = (f"{folder}/spark{short(spark_line)}{suffix}" for suffix in (".in", ".txt"))
    lines = [each.split("#")[0].strip() for each in _text(root / wanted).splitlines()]
    named = [Requirement(each) for each in lines if each and not each.startswith("-")]
    found = sorted(str(each) for each in named if each.specifier)
    if found != sorted(str(Requirement(each)) for each in spark.pins):
        has = f"it pins {found}, the matrix has {sorted(spark.pins)}"
        yield Finding(wanted, has, "correct one of the two, then run `make requirements`")
    if not (root / target).exists():
        yield Finding(target, "it does not exist", "run `make requirements`")
        return
    compiled = dict(pin.split("==", 1) for pin in constraints(root, spark_line))
    for pin in map(Requirement, spark.pins):
        version = compiled.get(pin.name)
        if version is None or version not in pin.specifier:
            yield Finding(
                target,
                f"{pin.name} is {version or 'missing'}, the matrix has {pin}",
                "run `make requirements`",
            )


def doctor(root: Path, matrix: Matrix) -> Iterator[Finding]:
    """Check the Spark lines of `connectors doctor`, with their Java versions."""
    javas: Any = Literal("SPARK_LINES").read(_text(root / _DOCTOR)) or {}
    spark_lines = sorted(matrix.spark_lines)
    if list(javas) != list(map(str, spark_lines)):
        has = f"SPARK_LINES contains {list(javas)}, the matrix has {list(map(str, spark_lines))}"
        yield Finding(_DOCTOR, has, "list each Spark line with its supported Java versions")
    for spark_line in spark_lines:
        java = matrix.spark[str(spark_line)].java
        if str(spark_line) in javas and java not in map(str, javas[str(spark_line)]):
            yield Finding(
                _DOCTOR, f"SPARK_LINES has no Java {java} for {spark_line}; the matrix has"
            )


def import_rules(root: Path, matrix: Matrix) -> Iterator[Finding]:
    """Check the packages that import-linter covers."""
    declared = tomllib.loads(_text(root / PYPROJECT))
    packages = declared.get("tool", {}).get("importlinter", {}).get("root_packages", [])
    for name in matrix.connectors:
        if (package := name.replace("-", "_")) not in packages:
            yield Finding(
                PYPROJECT,
                f"tool.importlinter.root_packages has no {package}",
                "add it there and to the contracts, so that `make lint` checks its imports",
            )


def _text(file: Path) -> str:
    return file.read_text(encoding="utf-8") if file.exists() else ""
