# SPDX-License-Identifier: Apache-2.0
"""Compares the declarations of a connector or the core with the matrix."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from connector_release_tools.errors import ConnectorFolderError, HistoryError
from connector_release_tools.git import Repository
from connector_release_tools.matrix.finding import Finding
from connector_release_tools.matrix.model import CORE, Core, CoreMajor, Major, Matrix
from connector_release_tools.matrix.pins import check_pin
from connector_release_tools.matrix.project import PYPROJECT, Project
from connector_release_tools.versions import Version

__all__ = ["main", "release", "run_time_check", "workflow"]

_WORKFLOW: Final = ".github/workflows/ci.yml"
_SHARED: Final = re.compile(r".*/release-tools/\.github/workflows/connector\.yml@v\d+")


def main(repository: Repository, name: str, package: Core, matrix: Matrix) -> Iterator[Finding]:
    """Check the declarations on main: the version, the Spark lines, the ranges."""
    place = f"{name}/{PYPROJECT}"
    try:
        project = Project.parse(_text(repository.root / place), place)
    except ConnectorFolderError as error:
        yield Finding(place, str(error), error.hint)
        return
    number, newest = next(iter(package.majors.items()))
    if newest.commit is None:
        if isinstance(newest, Major):
            yield from _ranges(project, newest, place)
    else:
        released, version = Version.parse(newest.version), Version.parse(project.version)
        if version < released or version.major != released.major:
            yield Finding(
                place,
                f"version {project.version} does not follow {newest.version}, the last release "
                f"of major {number}",
                f"`release-tools matrix rotate --major {name}` starts a new major",
            )
        elif version == released and _sources_differ(repository, name, newest):
            yield Finding(
                place,
                f"version {project.version} is released, and {name}/src has changed since then",
                f"write the next version, such as {released.major}.{released.minor + 1}.0",
            )
    for spark_line in project.spark:
        if spark_line not in map(str, matrix.spark_lines):
            yield Finding(place, f"the matrix does not support Spark line {spark_line}")
        elif matrix.spark[spark_line].python not in project.requires_python:
            python = matrix.spark[spark_line].python
            has = f"requires-python {project.requires_python} excludes Python {python}"
            yield Finding(place, f"{has} of Spark {spark_line}")


def release(repository: Repository, name: str, major: CoreMajor, place: str) -> Iterator[Finding]:
    """Check a release: its pin, and the declarations of the pinned tree."""
    try:
        check_pin(repository, name, major)
    except HistoryError as error:
        yield Finding(place, str(error), error.hint)
        return
    if major.tree is None:
        return
    where = f"{name}/{PYPROJECT} of tree {major.tree[:10]}"
    try:
        project = Project.parse(repository.text(f"{major.tree}:{PYPROJECT}"), where)
    except ConnectorFolderError as error:
        yield Finding(place, str(error), error.hint)
        return
    if project.version != major.version:
        has = f"its version is {project.version}, the matrix has {major.version}"
        yield Finding(where, has, "pin the commit that was released")
    if not isinstance(major, Major):
        return
    if set(project.spark) != set(major.spark):
        has = f"its Spark lines are {list(project.spark)}, the matrix has {list(major.spark)}"
        yield Finding(where, has, "correct the matrix; a release never changes")
    yield from _ranges(project, major, where)


def workflow(root: Path, name: str) -> Iterator[Finding]:
    """Check that a connector's workflow calls the shared one with its own name."""
    place = f"{name}/{_WORKFLOW}"
    try:
        found = YAML(typ="safe").load(_text(root / place)) or {}
    except YAMLError as error:
        yield Finding(place, f"it is not valid YAML: {error}")
        return
    jobs = found.get("jobs", {}).values() if isinstance(found, Mapping) else ()
    called = [job for job in jobs if _SHARED.fullmatch(str(job.get("uses", "")))]
    if not called:
        yield Finding(
            place,
            "it does not call a version of the shared workflow connector.yml of release-tools",
            "call it as the template does, such as connector.yml@v1",
        )
    for job in called:
        if (connector := job.get("with", {}).get("connector")) != name:
            yield Finding(place, f"it calls the shared workflow for {connector}, expected {name}")


def run_time_check(root: Path, name: str) -> Iterator[Finding]:
    """Check that the import of a connector compares the installed Spark with its build."""
    place = f"{name}/src/{name.replace('-', '_')}/__init__.py"
    try:
        module = ast.parse(_text(root / place))
    except SyntaxError as error:
        yield Finding(place, f"it is not valid Python: {error}")
        return
    calls = [ast.unparse(node) for node in module.body if isinstance(node, ast.Expr)]
    if f"check_spark({name!r})" not in calls:
        yield Finding(
            place,
            "the import does not compare the installed Spark with the build",
            f'call check_spark("{name}") of connectors_core.compatibility',
        )


def _sources_differ(repository: Repository, name: str, released: CoreMajor) -> bool:
    before = repository.object_id(f"{released.tree}:src")  # None is a finding of the pin
    return before is not None and before != repository.object_id(f"HEAD:{name}/src")


def _ranges(project: Project, major: Major, place: str) -> Iterator[Finding]:
    for name, wanted in {CORE: major.core, **major.client}.items():
        found = project.dependencies.get(canonicalize_name(name))
        if found is None:
            yield Finding(place, f"the dependency {name} is missing, the matrix has {name}{wanted}")
        elif found != SpecifierSet(wanted):
            has = f"the dependency is {name}{found}, the matrix has {name}{wanted}"
            yield Finding(place, has)


def _text(file: Path) -> str:
    return file.read_text(encoding="utf-8") if file.exists() else ""
