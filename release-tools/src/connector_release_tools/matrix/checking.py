# SPDX-License-Identifier: Apache-2.0
"""Where the tree and the compatibility matrix have gone apart; all findings at once."""

from __future__ import annotations

import ast
import json
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from connector_release_tools.environments import constraints
from connector_release_tools.errors import ConnectorFolderError, HistoryError
from connector_release_tools.git import Repository
from connector_release_tools.matrix.derived import Derived, derived, short
from connector_release_tools.matrix.file import MATRIX
from connector_release_tools.matrix.model import Connector, Major, Matrix
from connector_release_tools.matrix.pins import check_pin
from connector_release_tools.matrix.places import Literal
from connector_release_tools.matrix.project import PYPROJECT, Project
from connector_release_tools.versions import SparkLine, Version

__all__ = ["Finding", "findings"]

_CORE: Final = "connectors-core"
_DOCTOR: Final = f"{_CORE}/src/connectors_core/cli/doctor.py"
_WORKFLOW: Final = ".github/workflows/ci.yml"
_SHARED: Final = re.compile(r".*/release-tools/\.github/workflows/connector\.yml@\S+")
_FIX: Final = "`release-tools matrix check --fix` writes it"


@dataclass(frozen=True)
class Finding:
    """Something that is not as the matrix says.

    Attributes:
        place: The file, or what it is about.
        message: What was found, and what the matrix has.
        hint: What to do about it.
    """

    place: str
    message: str
    hint: str = ""


def findings(repository: Repository, matrix: Matrix) -> Iterator[Finding]:
    """Hold the tree against the matrix.

    Args:
        repository: The repository of the connectors.
        matrix: Its matrix.
    """
    root = repository.root
    for value in derived(root, matrix):
        yield from _derived(root, value)
    yield from _folders(root, matrix)
    for line in matrix.lines:
        yield from _requirements(root, line, matrix)
    yield from _doctor(root, matrix)
    yield from _import_rules(root, matrix)
    core = _core_version(root)
    for name, connector in matrix.connectors.items():
        if not (root / name).is_dir():
            continue  # said by _folders
        yield from _main(root, name, connector, matrix)
        yield from _workflow(root, name)
        yield from _run_time_check(root, name)
        for number, major in connector.majors.items():
            place = f"{MATRIX}: {name} {number}"
            if major.is_supported and core not in SpecifierSet(major.core):
                yield Finding(place, f"core {major.core} leaves out {_CORE} {core} of this tree")
            yield from _release(repository, name, major, place)


def _derived(root: Path, value: Derived) -> Iterator[Finding]:
    file = root / value.path
    if not file.exists():
        yield Finding(value.path, f"it is not there, and must hold {value.place}")
        return
    try:
        found = value.place.read(file.read_text(encoding="utf-8"))
    except ValueError as error:
        yield Finding(value.path, str(error))
        return
    if found is None:
        yield Finding(value.path, f"there is no place for {value.place}")
    elif found != value.value:
        long = isinstance(found, str) and "\n" in f"{found}{value.value}"
        said = "is not" if long else f"is {json.dumps(found)},"
        wanted = "that of the matrix" if long else f"the matrix has {json.dumps(value.value)}"
        yield Finding(value.path, f"{value.place} {said} {wanted}", _FIX)


def _folders(root: Path, matrix: Matrix) -> Iterator[Finding]:
    for name in matrix.connectors:
        if not (root / name / PYPROJECT).exists():
            yield Finding(MATRIX, f"{name} has no folder with a {PYPROJECT}")
    for link in sorted(root.glob("connector-*/.cruft.json")):
        if (name := link.parent.name) not in matrix.connectors:
            yield Finding(
                MATRIX,
                f"{name}, which is made of the template, is not in it",
                f"add it under connectors, with the version that main is on its way to, or remove "
                f"the folder {name}",
            )


def _requirements(root: Path, line: SparkLine, matrix: Matrix) -> Iterator[Finding]:
    spark, folder = matrix.spark[str(line)], "requirements"
    source = f"{folder}/pyspark{short(line)}.txt"
    pinned = re.findall(r"^pyspark==(\S+)", _text(root / source), re.MULTILINE)
    if pinned != [spark.pyspark]:
        yield Finding(
            source,
            f"it pins pyspark {', '.join(pinned) or 'not at all'}, the matrix has {spark.pyspark}",
            f"write `pyspark=={spark.pyspark} --hash=sha256:...`, with the hash of its sdist",
        )
    wanted = f"{folder}/spark{short(line)}.in"
    lines = [each.split("#")[0].strip() for each in _text(root / wanted).splitlines()]
    named = [Requirement(each) for each in lines if each and not each.startswith("-")]
    found = sorted(str(each) for each in named if each.specifier)
    if found != sorted(str(Requirement(each)) for each in spark.pins):
        has = f"it pins {found}, the matrix has {sorted(spark.pins)}"
        yield Finding(wanted, has, "correct one of the two, then run `make requirements`")
    compiled = dict(pin.split("==", 1) for pin in constraints(root, line))
    for pin in map(Requirement, spark.pins):
        version = compiled.get(pin.name)
        if version is None or version not in pin.specifier:
            yield Finding(
                f"{folder}/spark{short(line)}.txt",
                f"{pin.name} is {version or 'not there'}, the matrix has {pin}",
                "run `make requirements`",
            )


def _doctor(root: Path, matrix: Matrix) -> Iterator[Finding]:
    javas: Any = Literal("SPARK_LINES").read(_text(root / _DOCTOR)) or {}
    lines = sorted(matrix.lines)
    if list(javas) != list(map(str, lines)):
        has = f"SPARK_LINES knows {list(javas)}, the matrix has {list(map(str, lines))}"
        yield Finding(_DOCTOR, has, "name each line with the versions of Java that it runs on")
    for line in lines:
        java = matrix.spark[str(line)].java
        if str(line) in javas and java not in map(str, javas[str(line)]):
            yield Finding(_DOCTOR, f"SPARK_LINES has no Java {java} for {line}; the matrix has")


def _import_rules(root: Path, matrix: Matrix) -> Iterator[Finding]:
    declared = tomllib.loads(_text(root / PYPROJECT))
    packages = declared.get("tool", {}).get("importlinter", {}).get("root_packages", [])
    for name in matrix.connectors:
        if _package(name) not in packages:
            yield Finding(
                PYPROJECT,
                f"tool.importlinter.root_packages has no {_package(name)}",
                "add it there and to the contracts, so that `make lint` sees what it imports",
            )


def _core_version(root: Path) -> str:
    declared = tomllib.loads(_text(root / _CORE / PYPROJECT))
    return str(declared.get("project", {}).get("version", "0"))


def _main(root: Path, name: str, connector: Connector, matrix: Matrix) -> Iterator[Finding]:
    """What main is on its way to."""
    place = f"{name}/{PYPROJECT}"
    try:
        project = Project.parse(_text(root / place), place)
    except ConnectorFolderError as error:
        yield Finding(place, str(error), error.hint)
        return
    number, newest = next(iter(connector.majors.items()))
    if newest.commit is None:
        yield from _ranges(project, newest, place)
    else:
        released, version = Version.parse(newest.version), Version.parse(project.version)
        if version < released or version.major != released.major:
            yield Finding(
                place,
                f"version {project.version} is not what follows {newest.version}, the last release "
                f"of major {number}",
                f"`release-tools matrix rotate --major {name}` starts a new major",
            )
    for line in project.spark:
        if line not in map(str, matrix.lines):
            yield Finding(place, f"Spark {line} is not a supported line of the matrix")
        elif matrix.spark[line].python not in project.requires_python:
            python = matrix.spark[line].python
            has = f"requires-python {project.requires_python} leaves out Python {python}"
            yield Finding(place, f"{has} of Spark {line}")


def _release(repository: Repository, name: str, major: Major, place: str) -> Iterator[Finding]:
    """What was released."""
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
    if set(project.spark) != set(major.spark):
        has = f"its lines of Spark are {list(project.spark)}, the matrix has {list(major.spark)}"
        yield Finding(where, has, "correct the matrix: a release does not change")
    yield from _ranges(project, major, where)


def _ranges(project: Project, major: Major, place: str) -> Iterator[Finding]:
    for name, wanted in {_CORE: major.core, **major.client}.items():
        found = project.dependencies.get(canonicalize_name(name))
        if found is None:
            yield Finding(place, f"{name} is no dependency, the matrix has {name}{wanted}")
        elif found != SpecifierSet(wanted):
            has = f"the dependency is {name}{found}, the matrix has {name}{wanted}"
            yield Finding(place, has)


def _workflow(root: Path, name: str) -> Iterator[Finding]:
    place = f"{name}/{_WORKFLOW}"
    try:
        workflow = YAML(typ="safe").load(_text(root / place)) or {}
    except YAMLError as error:
        yield Finding(place, f"it is no YAML: {error}")
        return
    jobs = workflow.get("jobs", {}).values() if isinstance(workflow, Mapping) else ()
    called = [job for job in jobs if _SHARED.fullmatch(str(job.get("uses", "")))]
    if not called:
        yield Finding(place, "it does not call the shared workflow connector.yml of release-tools")
    for job in called:
        if (connector := job.get("with", {}).get("connector")) != name:
            yield Finding(place, f"it calls the shared workflow for {connector}, expected {name}")


def _run_time_check(root: Path, name: str) -> Iterator[Finding]:
    place = f"{name}/src/{_package(name)}/__init__.py"
    try:
        module = ast.parse(_text(root / place))
    except SyntaxError as error:
        yield Finding(place, f"it is no Python: {error}")
        return
    calls = [ast.unparse(node) for node in module.body if isinstance(node, ast.Expr)]
    if f"check_spark({name!r})" not in calls:
        yield Finding(
            place,
            "it does not compare the installed Spark with its build",
            f'call check_spark("{name}") of connectors_core.compatibility',
        )


def _package(name: str) -> str:
    return name.replace("-", "_")


def _text(file: Path) -> str:
    return file.read_text(encoding="utf-8") if file.exists() else ""
