# SPDX-License-Identifier: Apache-2.0
"""`connectors doctor`: checks that the installed packages are compatible, and names fixes."""

from __future__ import annotations

import contextlib
import dataclasses
import importlib.metadata
import os
import platform
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import orjson
import typer

from connectors_core.cli.finding_table import show
from connectors_core.cli.findings import Finding, Level
from connectors_core.cli.tables import output
from connectors_core.compatibility import LIBRARIES, is_last_release, line_for
from connectors_core.spark.workers import SET_WORKER_PYTHON, SHARED_PACKAGES, worker_differences

if TYPE_CHECKING:
    from connectors_core.spark.doctor import SparkFindings

CORE: Final = "connectors-core"
# The supported Spark lines with their Java versions.
SPARK_LINES: Final[Mapping[str, tuple[int, ...]]] = {"3.5": (8, 11, 17), "4.3": (17, 21)}
MINIMUM_PYTHON: Final = (3, 11)
# Libraries that are too new for a Spark line but work, with what Spark does.
_WARNED: Final = {("4.3", "pandas"): "Spark does not fully support pandas 3, and warns about it"}

Versions = Callable[[str], str | None]
"""Return the installed version of a distribution, None if it is not installed."""


def doctor(
    *,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    spark_master: Annotated[
        str, typer.Option(help="Master of the Spark session that the check starts.")
    ] = "local[1]",
    no_spark: Annotated[
        bool,
        typer.Option("--no-spark", help="Do not start Spark; check only the installed packages."),
    ] = False,
) -> None:
    """Check that Spark, Java, Python, libraries, and connectors are compatible."""
    findings = list(installation_findings())
    if not no_spark and installed_version("pyspark") is not None:
        findings += started_findings(spark_master)
    failed = any(finding.level is Level.PROBLEM for finding in findings)
    if as_json:
        payload = {"ok": not failed, "findings": [dataclasses.asdict(f) for f in findings]}
        typer.echo(orjson.dumps(payload, option=orjson.OPT_INDENT_2).decode())
    else:
        show(findings, output())
    if failed:
        raise typer.Exit(1)


# --- installed packages ---------------------------------------------------------------------------


def installed_version(package: str) -> str | None:
    """Return the installed version of a distribution, None if it is not installed."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def installation_findings() -> Iterator[Finding]:
    """Return the findings that need no JVM."""
    pyspark = installed_version("pyspark")
    line = line_of(pyspark)
    yield python_finding()
    yield Finding(check=CORE, found=installed_version(CORE) or "from a source folder")
    yield spark_finding(pyspark)
    yield java_finding(java_version(), line)
    yield from library_findings(installed_version, line)
    yield worker_python_finding(os.environ.get("PYSPARK_PYTHON"))
    yield from connector_findings(installed_connectors(), installed_version)


def line_of(pyspark: str | None) -> str | None:
    """Return the Spark line of a pyspark version, such as 3.5."""
    return None if pyspark is None else ".".join(pyspark.split(".")[:2])


def python_finding() -> Finding:
    """Check the Python of this process."""
    found = f"{platform.python_version()} ({sys.executable})"
    if sys.version_info[:2] >= MINIMUM_PYTHON:
        return Finding(check="python (driver)", found=found)
    return Finding(
        check="python (driver)",
        found=found,
        level=Level.PROBLEM,
        problem="Python 3.11 or later is required",
        fix="python3.11 -m venv .venv && . .venv/bin/activate",
    )


def spark_finding(pyspark: str | None) -> Finding:
    """Check the installed pyspark."""
    lines = " and ".join(SPARK_LINES)
    newest = list(SPARK_LINES)[-1]
    if pyspark is None:
        return Finding(
            check="spark",
            found="not installed",
            level=Level.PROBLEM,
            problem="pyspark is not installed in this environment",
            fix=f"pip install 'pyspark=={newest}.*'",
        )
    if line_of(pyspark) not in SPARK_LINES and line_for(line_of(pyspark)) is not None:
        return Finding(
            check="spark",
            found=f"pyspark {pyspark}",
            level=Level.WARNING,
            problem=f"Spark {line_of(pyspark)} works, but is not part of the matrix: {lines}",
        )
    if line_of(pyspark) not in SPARK_LINES:
        return Finding(
            check="spark",
            found=f"pyspark {pyspark}",
            level=Level.PROBLEM,
            problem=f"this Spark line is not supported; supported are {lines}",
            fix=f"pip install 'pyspark=={newest}.*'",
        )
    return Finding(check="spark", found=f"pyspark {pyspark} (line {line_of(pyspark)})")


def java_version() -> str | None:
    """Return the version of the Java that Spark would start, None if there is none."""
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home, "bin", "java")) if home else shutil.which("java")
    if java is None:
        return None
    try:
        answer = subprocess.run(  # noqa: S603 - the Java that Spark also runs
            [java, "-version"], capture_output=True, text=True, check=False, timeout=30
        )
    except (OSError, subprocess.SubprocessError):
        return None
    found = re.search(r'version "([^"]+)"', answer.stderr + answer.stdout)
    return found[1] if found else None


def java_major(version: str) -> int:
    """Return the major version: 17 for 17.0.15, and 8 for 1.8.0_402."""
    numbers = [int(number) for number in re.findall(r"\d+", version)]
    return numbers[1] if numbers[0] == 1 and len(numbers) > 1 else numbers[0]


def java_finding(version: str | None, line: str | None) -> Finding:
    """Check the Java that Spark would start."""
    wanted = SPARK_LINES.get(line or "", (17,))
    fix = "install JDK 17, then run: export JAVA_HOME=/path/to/jdk-17"
    if version is None:
        return Finding(
            check="java",
            found="not found",
            level=Level.PROBLEM,
            problem="Java was not found in JAVA_HOME or on the PATH",
            fix=fix,
        )
    major = java_major(version)
    if major in wanted:
        return Finding(check="java", found=version)
    shown = ", ".join(map(str, wanted))
    return Finding(
        check="java",
        found=version,
        level=Level.PROBLEM if major < min(wanted) else Level.WARNING,
        problem=f"Spark {line or ''} requires Java {shown}",
        fix=fix,
    )


def library_findings(versions: Versions, line: str | None) -> Iterator[Finding]:
    """Check numpy, pyarrow, and pandas against the libraries of the Spark line."""
    built = line_for(line) or ""
    required = dict(map(split_requirement, LIBRARIES.get(built, ())))
    pins = [f"{name}{specifier}" for name, specifier in required.items()]
    numpy = versions("numpy")
    for name in ("numpy", "pyarrow", "pandas"):
        version, bound = versions(name), required.get(name, "")
        finding = Finding(check=name, found=version or "not installed")
        level, problem, install = Level.PROBLEM, None, pins
        if version is None:
            if name == "pyarrow":
                problem, install = "pyarrow is required", [f"pyarrow{bound}"]
        elif not fits(version, bound):
            warned = _WARNED.get((built, name))
            level = Level.PROBLEM if warned is None else Level.WARNING
            problem = warned or f"Spark {line} needs {name}{bound}"
        elif name == "pyarrow" and at_least(version, "26") and numpy and not at_least(numpy, "2"):
            problem, install = f"pyarrow {version} needs numpy 2", ["numpy>=2"]
        if problem is not None:
            finding = dataclasses.replace(
                finding, level=level, problem=problem, fix=_pip_install(install, line)
            )
        yield finding


def _pip_install(requirements: Sequence[str], line: str | None) -> str:
    """Return the command that installs libraries and keeps the Spark line."""
    spark = [f"pyspark=={line}.*"] if line in SPARK_LINES else []
    return shlex.join(["pip", "install", *requirements, *spark])


def worker_python_finding(setting: str | None) -> Finding:
    """Check the configured Python of Spark's workers."""
    fix = SET_WORKER_PYTHON
    if setting:
        found = shutil.which(setting)
        if found is None:
            return Finding(
                check="PYSPARK_PYTHON",
                found=setting,
                level=Level.PROBLEM,
                problem="the program does not exist",
                fix=fix,
            )
        return Finding(check="PYSPARK_PYTHON", found=setting)
    default = shutil.which("python3")
    with contextlib.suppress(OSError):
        if default is not None and Path(default).samefile(sys.executable):
            return Finding(check="PYSPARK_PYTHON", found=f"not set; python3 is {default}")
    return Finding(
        check="PYSPARK_PYTHON",
        found="not set",
        level=Level.WARNING,
        problem=f"workers use the python3 on the PATH ({default}) instead of this Python",
        fix=fix,
    )


# --- connectors -----------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class InstalledConnector:
    """A distribution that builds on the core.

    Attributes:
        name: Its name.
        version: Its package version.
        requires: Its required versions, by distribution.
        is_last_release: Whether its major has reached its end of life.
    """

    name: str
    version: str
    requires: Mapping[str, str]
    is_last_release: bool = False


def installed_connectors() -> list[InstalledConnector]:
    """Return every installed distribution that requires the core."""
    found: dict[str, InstalledConnector] = {}
    for distribution in importlib.metadata.distributions():
        requires = required_versions(distribution.requires or ())
        if CORE in requires:
            name = distribution.name
            found.setdefault(
                name,
                InstalledConnector(
                    name=name,
                    version=distribution.version,
                    requires=requires,
                    is_last_release=is_last_release(distribution),
                ),
            )
    return [found[name] for name in sorted(found)]


def required_versions(requirements: Iterable[str]) -> dict[str, str]:
    """Return the version specifier of each requirement by name; an extra may repeat one."""
    found: dict[str, str] = {}
    for name, specifier in map(split_requirement, requirements):
        found[name] = found.get(name) or specifier
    return found


def split_requirement(requirement: str) -> tuple[str, str]:
    """Return name and version specifier of a requirement; none for a requirement of an extra."""
    text, _, marker = requirement.partition(";")
    name = re.match(r"[A-Za-z0-9._-]+", text)
    assert name is not None
    specifier = re.sub(r"\[[^]]*\]", "", text[name.end() :]).strip(" ()")
    return name[0].lower().replace("_", "-"), "" if "extra" in marker else specifier


def connector_findings(
    connectors: list[InstalledConnector], versions: Versions
) -> Iterator[Finding]:
    """Check that each connector is compatible with the installed Spark and core."""
    if not connectors:
        yield Finding(check="connectors", found="none installed")
    pyspark = versions("pyspark")
    line = line_of(pyspark)
    for connector in connectors:
        release, own_line = release_of(connector)
        shown = connector.version if own_line is None else f"{release}-{own_line}"
        pin = f"'pyspark=={line}.*'" if line in SPARK_LINES else "pyspark"
        right = line_for(line)
        finding = Finding(check=connector.name, found=shown)
        core = versions(CORE)
        if pyspark is not None and (
            not fits(pyspark, connector.requires.get("pyspark", ""))
            or (own_line is not None and own_line != right)
        ):
            finding = dataclasses.replace(
                finding,
                level=Level.PROBLEM,
                problem=f"it is built for Spark {own_line or connector.requires['pyspark']}, "
                f"but pyspark {pyspark} is installed",
                fix=f"pip install '{connector.name}=={release}.{right or '*'}'"
                + (f" {pin}" if right is None else "")
                + "  # with the --index-url or --find-links of the first install, if any",
            )
        elif core is not None and not fits(core, connector.requires[CORE]):
            finding = dataclasses.replace(
                finding,
                level=Level.PROBLEM,
                problem=f"it requires {CORE}{connector.requires[CORE]}, but {core} is installed",
                fix=f"pip install '{CORE}{connector.requires[CORE]}' {pin}",
            )
        elif connector.is_last_release:
            finding = dataclasses.replace(
                finding,
                level=Level.WARNING,
                problem="it is the last release of its major, which gets no more fixes",
                fix="move to the next major, which its changelog names",
            )
        yield finding


def release_of(connector: InstalledConnector) -> tuple[str, str | None]:
    """Return version and Spark line of a build: 3.1.2.3.5 is 3.1.2 for Spark 3.5."""
    parts = connector.version.split(".")
    if "pyspark" in connector.requires and len(parts) == 5:
        return ".".join(parts[:3]), ".".join(parts[3:])
    return connector.version, None


def at_least(version: str, bound: str) -> bool:
    """Return whether a version is at least a bound, by its numbers."""
    return _numbers(version) >= _numbers(bound)


def fits(version: str, specifier: str) -> bool:
    """Return whether a version fits a specifier such as ``>=3.5,<3.6``; ignores other clauses."""
    for clause in filter(None, map(str.strip, specifier.split(","))):
        match = re.fullmatch(r"(>=|<=|==|!=|~=|<|>)\s*([\d.]+?)(\.\*)?", clause)
        if match is None:
            continue
        operator, bound, known = match[1], _numbers(match[2]), _numbers(version)
        depth = match[2].count(".") + 1
        same = known[:depth] == bound[:depth] if match[3] else known == bound
        holds = {
            ">=": known >= bound,
            "<=": known <= bound,
            ">": known > bound,
            "<": known < bound,
            "==": same,
            "!=": not same,
            "~=": known >= bound and known[: depth - 1] == bound[: depth - 1],
        }
        if not holds[operator]:
            return False
    return True


def _numbers(version: str) -> tuple[int, ...]:
    """Return the release of a version as six numbers, so that 3.5 equals 3.5.0."""
    release = re.match(r"\d+(\.\d+)*", version)
    numbers = [int(number) for number in release[0].split(".")] if release else []
    return tuple([*numbers, 0, 0, 0, 0, 0, 0][:6])


# --- a running Spark ------------------------------------------------------------------------------


def started_findings(master: str) -> list[Finding]:
    """Start Spark, run a Python job, and compare driver and workers."""
    try:
        from connectors_core.spark.doctor import examine_spark

        spark = examine_spark(master, SHARED_PACKAGES)
    except Exception as error:
        lines = str(error).splitlines() or [type(error).__name__]
        return [
            Finding(
                check="start of spark",
                found=master,
                level=Level.PROBLEM,
                problem=f"Spark does not start: {lines[0]}",
                fix="fix the problems above first, and check the output of Java",
            )
        ]
    return list(running_findings(spark, installed_version))


def running_findings(spark: SparkFindings, versions: Versions) -> Iterator[Finding]:
    """Compare a running Spark with this process."""
    pyspark = versions("pyspark")
    started = Finding(check="start of spark", found=f"Spark {spark.version} on Java {spark.java}")
    if line_of(spark.version) != line_of(pyspark):
        started = dataclasses.replace(
            started,
            level=Level.PROBLEM,
            problem=f"SPARK_HOME contains another Spark line than the installed pyspark {pyspark}",
            fix="unset SPARK_HOME",
        )
    yield started
    carrier = Finding(check="carrier", found=spark.carrier or "none")
    if spark.carrier is None:
        carrier = dataclasses.replace(
            carrier,
            level=Level.PROBLEM,
            problem=spark.carrier_error,
            fix="unset CONNECTORS_CARRIER and remove the setting spark.connectors.carrier",
        )
    yield carrier
    yield _formats_finding(spark)
    yield _worker_finding(spark, versions)
    if not spark.worker_reuse:
        yield Finding(
            check="worker reuse",
            found="off",
            level=Level.WARNING,
            problem="every task starts its own Python process",
            fix="remove the setting spark.python.worker.reuse",
        )


def _formats_finding(spark: SparkFindings) -> Finding:
    """Tell which connectors work without a pipeline."""
    check = "formats"
    if spark.formats is None:
        found = f"none: Spark {line_of(spark.version)} has no formats in Python, so use a Pipeline"
        return Finding(check=check, found=found)
    found = ", ".join(spark.formats) or "none"
    if spark.formats_missing:
        return Finding(
            check=check,
            found=found,
            level=Level.PROBLEM,
            problem=f"Python workers do not have {', '.join(spark.formats_missing)}",
            fix=f"install the connectors for the executors, too, or {SET_WORKER_PYTHON}",
        )
    if spark.formats_error is None:
        return Finding(check=check, found=found)
    return Finding(
        check=check,
        found=found,
        level=Level.PROBLEM,
        problem=f"Spark finds no format in Python: {spark.formats_error}",
        fix="upgrade or remove the package of this module",
    )


def _worker_finding(spark: SparkFindings, versions: Versions) -> Finding:
    check = "python (worker)"
    fix = SET_WORKER_PYTHON
    if spark.worker is None:
        return Finding(
            check=check,
            found="a Python job failed",
            level=Level.PROBLEM,
            problem=spark.worker_error,
            fix=fix,
        )
    worker = spark.worker
    differences = worker_differences(worker, versions)
    found = f"{worker['python']} ({worker['executable']})"
    if not differences:
        return Finding(check=check, found=found)
    return Finding(
        check=check,
        found=found,
        level=Level.PROBLEM,
        problem="workers differ from the driver: " + ", ".join(differences),
        fix=fix,
    )
