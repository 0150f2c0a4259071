# SPDX-License-Identifier: Apache-2.0
"""Runs a cell: installs two wheels in a fresh environment and runs the connector's tests."""

from __future__ import annotations

import datetime
import json
import re
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from connector_release_tools.cells import probe
from connector_release_tools.cells.results import Outcome, Result, Selection
from connector_release_tools.cells.subject import Subject
from connector_release_tools.distribution_build import build_tree
from connector_release_tools.environments import Environment
from connector_release_tools.errors import CellError, ReleaseToolsError
from connector_release_tools.git import Repository
from connector_release_tools.matrix.model import CORE
from connector_release_tools.matrix.project import PYPROJECT, Project
from connector_release_tools.programs import follow

__all__ = ["Expected", "problems_of", "run"]

_PROBE: Final = "connector_cell_probe"
_MARKED: Final = "cell and not slow"
_NO_TESTS: Final = 5  # pytest's exit code
_PERCENT: Final = re.compile(r"\[ *(\d+%)\]$")

Say = Callable[[str], None]
Facts = Mapping[str, Any]


@dataclass(frozen=True)
class Expected:
    """The versions that a cell must run with.

    Attributes:
        environment: The folder of its environment.
        wheels: The tested wheels by package name.
        pyspark: The version of Spark.
        python: The minor version of Python.
        java: The major version of Java.
    """

    environment: Path
    wheels: Mapping[str, Path]
    pyspark: str
    python: str
    java: str


def run(
    repository: Repository, subject: Subject, folder: Path, *, tests: Selection, say: Say
) -> Result:
    """Run a cell.

    Args:
        repository: The repository.
        subject: The inputs of the cell.
        folder: The working folder. It keeps the log and the test reports, and after a failure also
            the environment and the tests.
        tests: The tests to run.
        say: Called with each step.

    Returns:
        The result; an error during the run is a failure too.
    """
    began = time.monotonic()
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    facts: Facts = {}
    try:
        facts, problems = _attempt(repository, subject, folder, tests, say)
    except ReleaseToolsError as error:
        problems = [str(error)]
        with (folder / "log").open("a", encoding="utf-8") as log:
            log.write(f"\n{error}\n")
    if not problems:
        for used in ("environment", "project", "tmp"):
            shutil.rmtree(folder / used, ignore_errors=True)
    return Result(
        digest=subject.digest,
        tests=tests,
        outcome=Outcome.FAILED if problems else Outcome.PASSED,
        problems=tuple(problems),
        counts=facts.get("counts", {}),
        new=_new_cases(folder / "report.json"),
        ran_on=_versions(facts),
        tree=subject.tree,
        core=subject.core,
        seconds=round(time.monotonic() - began, 1),
        finished=datetime.datetime.now(datetime.UTC),
    )


def _attempt(
    repository: Repository,
    subject: Subject,
    folder: Path,
    tests: Selection,
    say: Say,
) -> tuple[Facts, list[str]]:
    """Run the cell; return the facts and problems."""
    say("building")
    connector, seconds = subject.cell.connector, subject.seconds
    wheels = {
        CORE: build_tree(repository, subject.core, folder, spark=None, seconds=seconds),
        connector: build_tree(
            repository, subject.tree, folder, spark=subject.cell.spark, seconds=seconds
        ),
    }
    project = folder / "project"
    repository.export(subject.tree, project)
    shutil.rmtree(project / "src", ignore_errors=True)  # test only the wheel

    say("installing")
    here = f"{sys.version_info.major}.{sys.version_info.minor}"
    python = sys.executable if here == subject.spark.python else subject.spark.python
    environment = Environment.create(folder / "environment", python=python)
    declared = Project.parse((project / PYPROJECT).read_text(encoding="utf-8"), PYPROJECT)
    environment.install(
        *wheels.values(),
        f"pyspark=={subject.spark.pyspark}",
        *declared.groups.get("test", ()),
        constraints=subject.constraints,
    )

    say("testing")
    code = _test(environment, project, folder, connector, tests, say)
    if code == _NO_TESTS:
        raise CellError(
            "no tests ran" + ("; mark at least one as `cell`" if tests is Selection.MARKED else "")
        )
    written = folder / "facts.json"
    if not written.exists():
        raise CellError(f"pytest exited with {code} before it ran a test; see {folder / 'log'}")
    facts: Facts = json.loads(written.read_text(encoding="utf-8"))
    failed = [f"pytest exited with {code}; see {folder / 'log'}"] if code else []
    expected = Expected(
        environment=environment.folder,
        wheels=wheels,
        pyspark=subject.spark.pyspark,
        python=subject.spark.python,
        java=subject.spark.java,
    )
    return facts, [*failed, *problems_of(facts, expected)]


def _test(
    environment: Environment,
    project: Path,
    folder: Path,
    connector: str,
    tests: Selection,
    say: Say,
) -> int:
    plugins = folder / "plugins"
    plugins.mkdir()
    shutil.copyfile(probe.__file__, plugins / f"{_PROBE}.py")
    chosen = ("-m", _MARKED) if tests is Selection.MARKED else ()
    command = (
        environment.python, "-m", "pytest", "-v", "-c", PYPROJECT, "--rootdir", ".",
        "-p", _PROBE, "-p", "no:cacheprovider", "--basetemp", folder / "tmp",
        "--junit-xml", folder / "junit.xml", "--connector-report", folder / "report",
        *chosen, "tests",
    )  # fmt: skip

    def on_line(text: str) -> None:
        if match := _PERCENT.search(text.rstrip()):
            say(f"testing, {match[1]}")

    variables = {
        **environment.variables(),
        "PYTHONPATH": str(plugins),
        "SPARK_LOCAL_IP": "127.0.0.1",
        probe.FACTS: str(folder / "facts.json"),
        probe.PACKAGES: ",".join((CORE, connector, "pyspark")),
    }
    return follow(command, folder=project, env=variables, log=folder / "log", on_line=on_line)


def problems_of(facts: Facts, expected: Expected) -> Iterator[str]:
    """Return the differences between a cell's actual and expected versions.

    Args:
        facts: The findings of `probe` in the cell.
        expected: The expected versions.
    """
    for name, package in facts["packages"].items():
        file = package["file"]
        if file is None or not Path(file).resolve().is_relative_to(expected.environment.resolve()):
            yield f"{name} was imported from {file}, not from the environment of the cell"
        wheel = expected.wheels.get(name)
        if wheel is not None and package["url"] != wheel.resolve().as_uri():
            yield f"{name} was installed from {package['url']}, expected {wheel}"
    found = {
        "pyspark": facts["packages"]["pyspark"]["version"],
        "Spark": facts["running"].get("spark"),
        "Java": facts["running"].get("java", "").partition(".")[0],
        "Python": ".".join(facts["python"].split(".")[:2]),
    }
    if not facts["running"]:
        yield "no test started Spark, so the cell proves nothing for this line"
        found = {name: found[name] for name in ("pyspark", "Python")}
    wanted = {
        "pyspark": expected.pyspark,
        "Spark": expected.pyspark,
        "Java": expected.java,
        "Python": expected.python,
    }
    for name, version in found.items():
        if version != wanted[name]:
            yield f"{name} was {version}, the matrix has {wanted[name]}"


def _versions(facts: Facts) -> dict[str, str]:
    if not facts:
        return {}
    packages = {
        "core" if name == CORE else name: package["version"]
        for name, package in facts["packages"].items()
    }
    return {**packages, **facts["running"], "python": facts["python"]}


def _new_cases(report: Path) -> dict[str, str]:
    """Return the suite cases that are newer than the connector, from the report of the suites."""
    if not report.exists():
        return {}
    results = json.loads(report.read_text(encoding="utf-8"))["results"]
    return {
        f"{each['suite']}.{each['case']}": each["outcome"].removeprefix("new, ")
        for each in results
        if each["outcome"].startswith("new, ")
    }
