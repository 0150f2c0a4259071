# SPDX-License-Identifier: Apache-2.0
"""Derives the values that other files must contain from the matrix."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from connector_release_tools.matrix.model import CORE, Connector, Matrix
from connector_release_tools.matrix.places import Below, Between, Literal, Place, TomlKey, Word
from connector_release_tools.matrix.project import PYPROJECT
from connector_release_tools.matrix.views import compatibility_table
from connector_release_tools.versions import SPARK_EXTRA, SparkLine

__all__ = ["SPARK_KEY", "VERSION_KEY", "Derived", "derived", "rewritten", "short", "version_key"]

SPARK_KEY: Final = TomlKey(("tool", "connector", "spark"))
VERSION_KEY: Final = TomlKey(("tool", "connector", "version"))
_CORE_VERSION: Final = TomlKey(("project", "version"))
SPARK_EXTRA_KEY: Final = TomlKey(("project", "optional-dependencies", SPARK_EXTRA))
_TEMPLATE: Final = "connector-template/connector-{{cookiecutter.name}}"
_COMPATIBILITY: Final = Between("compatibility")
_WHEELS: Final = Below("[pkgenv]", "set_env =")
_CORE: Final = f"connectors-core/{PYPROJECT}"
_CHECK: Final = "connectors-core/src/connectors_core/compatibility.py"


@dataclass(frozen=True)
class Derived:
    """A value that follows from the matrix.

    Attributes:
        path: The file, from the top of the tree.
        place: The place of the value in the file.
        value: The required value.
    """

    path: str
    place: Place
    value: Any


def short(spark_line: SparkLine) -> str:
    """Return a Spark line as in names of files and environments, such as 35."""
    return str(spark_line).replace(".", "")


def version_key(name: str) -> TomlKey:
    """Return the place of the version in the pyproject.toml of a connector or the core."""
    return _CORE_VERSION if name == CORE else VERSION_KEY


def derived(root: Path, matrix: Matrix) -> Iterator[Derived]:
    """Return all values that follow from the matrix.

    Args:
        root: The top of the tree.
        matrix: The matrix.
    """
    spark_lines = sorted(matrix.spark_lines)
    shorts = [short(each) for each in spark_lines]
    pins = {each: list(matrix.spark[each].pins) for each in map(str, spark_lines)}
    yield Derived("Makefile", Word("LINES := "), " ".join(shorts))
    if (root / _CHECK).exists():
        yield Derived(_CHECK, Literal("LINES"), _works(matrix, spark_lines))
        yield Derived(_CHECK, Literal("LIBRARIES"), pins)
    if (root / _CORE).exists():
        yield Derived(_CORE, SPARK_EXTRA_KEY, _core_extra(matrix, spark_lines))
    projects = [_TEMPLATE] if (root / _TEMPLATE).is_dir() else []
    for folder in [*projects, *matrix.connectors]:
        yield Derived(f"{folder}/hatch_build.py", Literal("LIBRARIES"), pins)
        environments = ", ".join(["lint", "types", *(f"spark{each}" for each in shorts)])
        yield Derived(f"{folder}/tox.ini", Word("env_list = "), environments)
        yield Derived(f"{folder}/tox.ini", _WHEELS, _wheels(spark_lines))
    for folder in projects:
        yield Derived(f"{folder}/{PYPROJECT}", SPARK_KEY, list(map(str, spark_lines)))
    if matrix.core is not None:
        newest = next(iter(matrix.core.majors.values()))
        if newest.commit is None:
            yield Derived(f"{CORE}/{PYPROJECT}", _CORE_VERSION, newest.version)
    for name, connector in matrix.connectors.items():
        yield from _versions(name, connector)
        yield from _table(root, f"{name}/README.md", matrix, [name])
    yield Derived("README.md", _COMPATIBILITY, compatibility_table(matrix, matrix.connectors))


def _wheels(spark_lines: Sequence[SparkLine]) -> list[str]:
    """Return the Spark line of the wheel in each environment of tox."""
    lines = [f"spark{short(each)}: CONNECTOR_SPARK = {each}" for each in spark_lines]
    return [*lines[:-1], f"types, {lines[-1]}"]


def _works(matrix: Matrix, spark_lines: Sequence[SparkLine]) -> dict[str, dict[str, list[str]]]:
    """Return the versions for the core at run time: first the tested ones, then the others."""
    found = {}
    for spark_line in map(str, spark_lines):
        spark = matrix.spark[spark_line]
        found[spark_line] = {
            "spark": [spark_line, *spark.works.spark],
            "python": [spark.python, *spark.works.python],
        }
    return found


def _core_extra(matrix: Matrix, spark_lines: Sequence[SparkLine]) -> list[str]:
    """Return the requirements of the core's extra: any line, with the pins that all lines share."""
    first, *others = (matrix.spark[str(each)].pins for each in spark_lines)
    shared = [pin for pin in first if all(pin in each for each in others)]
    newest = spark_lines[-1]
    return [*shared, f"pyspark>={spark_lines[0]},<{newest.major}.{newest.minor + 1}"]


def _versions(name: str, connector: Connector) -> Iterator[Derived]:
    newest = next(iter(connector.majors.values()))
    if newest.commit is None:  # main has the next version; a release has its own tree
        spark_lines = sorted(map(SparkLine.parse, newest.spark))
        yield Derived(f"{name}/{PYPROJECT}", VERSION_KEY, newest.version)
        yield Derived(f"{name}/{PYPROJECT}", SPARK_KEY, list(map(str, spark_lines)))


def _table(root: Path, path: str, matrix: Matrix, names: list[str]) -> Iterator[Derived]:
    if (root / path).exists():
        # Releases contain the README.
        table = compatibility_table(matrix, names, in_release=True)
        yield Derived(path, _COMPATIBILITY, table)


def rewritten(root: Path, values: list[Derived]) -> dict[str, tuple[str, str]]:
    """Return the files that do not contain all of some values yet.

    Args:
        root: The top of the tree.
        values: The required values; those without a place in their file are ignored.

    Returns:
        The current and the required text of each file.
    """
    texts: dict[str, tuple[str, str]] = {}
    for each in values:
        file = root / each.path
        if each.path not in texts and not file.exists():
            continue
        before, now = texts.get(each.path) or (file.read_text(encoding="utf-8"),) * 2
        try:
            found = each.place.read(now)
            if found is not None and found != each.value:
                now = each.place.write(now, each.value)
        except ValueError:  # the check reports the problem
            continue
        texts[each.path] = (before, now)
    return {path: (before, now) for path, (before, now) in texts.items() if before != now}
