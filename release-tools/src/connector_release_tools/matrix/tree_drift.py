# SPDX-License-Identifier: Apache-2.0
"""Checks values that the tree repeats from the matrix and that cannot be generated."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from connector_release_tools.environments import constraints
from connector_release_tools.errors import ConnectorFolderError
from connector_release_tools.matrix.derivation import short
from connector_release_tools.matrix.finding import Finding
from connector_release_tools.matrix.model import CORE, Matrix
from connector_release_tools.matrix.places import Literal
from connector_release_tools.matrix.project import PYPROJECT, Project
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
    named = _requirements(root / wanted)
    found = sorted(str(each) for each in named if each.specifier)
    if found != sorted(str(Requirement(each)) for each in spark.pins):
        has = f"it pins {found}, the matrix has {sorted(spark.pins)}"
        yield Finding(wanted, has, "correct one of the two, then run `make requirements`")
    if not (root / target).exists():
        yield Finding(target, "it does not exist", "run `make requirements`")
        return
    pins = (pin.split("==", 1) for pin in constraints(root, spark_line))
    compiled = {canonicalize_name(name.split("[")[0]): version for name, version in pins}
    for needing, needed in (
        (wanted, named),
        (f"{folder}/base.in", _requirements(root / folder / "base.in")),
        *_dependencies(root, matrix),
    ):
        for each in needed:
            version = compiled.get(canonicalize_name(each.name))
            if version is None or version not in each.specifier:
                yield Finding(
                    target,
                    f"{each.name} is {version or 'missing'}, {needing} has {each}",
                    "run `make requirements`",
                )


def _requirements(file: Path) -> list[Requirement]:
    lines = [each.split("#")[0].strip() for each in _text(file).splitlines()]
    return [Requirement(each) for each in lines if each and not each.startswith("-")]


def _dependencies(root: Path, matrix: Matrix) -> Iterator[tuple[str, list[Requirement]]]:
    """Return what the packages of main need at run time, without the core, by their files."""
    for name in (CORE, *matrix.connectors):
        place = f"{name}/{PYPROJECT}"
        try:
            project = Project.parse(_text(root / place), place)
        except ConnectorFolderError:  # the check of the package reports it
            continue
        needed = project.dependencies.items()
        yield place, [Requirement(f"{each}{wanted}") for each, wanted in needed if each != CORE]


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
    """Check that import-linter covers every connector: a list of connectors has all of them."""
    linter = tomllib.loads(_text(root / PYPROJECT)).get("tool", {}).get("importlinter", {})
    packages = {name.replace("-", "_") for name in matrix.connectors}
    lists = [("root_packages", set(linter.get("root_packages", [])))]
    are_layered = False
    for contract in linter.get("contracts", []):
        layers = [set(re.split(r"[\s|()]+", each)) for each in contract.get("layers", [])]
        modules = [set(contract.get(key, [])) for key in ("source_modules", "forbidden_modules")]
        where = f"the contract {contract.get('name')!r}"
        lists += [(where, each) for each in (*layers, *modules) if each & packages]
        are_layered |= any(each & packages for each in layers[:-1])
    for where, found in lists:
        for package in sorted(packages - found):
            yield Finding(
                PYPROJECT,
                f"tool.importlinter: {where} has no {package}",
                "add it to every list of connectors, so that `make lint` checks its imports",
            )
    if packages and not are_layered:
        yield Finding(
            PYPROJECT,
            "tool.importlinter has no contract with a layer of all connectors above the core",
            "restore it, so that `make lint` refuses a connector that imports another",
        )


def _text(file: Path) -> str:
    return file.read_text(encoding="utf-8") if file.exists() else ""
