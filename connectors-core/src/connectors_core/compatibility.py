# SPDX-License-Identifier: Apache-2.0
"""Checks that a build of a connector is compatible with the installed Spark and Python.

The check reads the metadata of the connector and the version file of pyspark without importing
pyspark. If either is missing (a checkout, an archive on a worker), it checks nothing.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import sys
import warnings
from collections.abc import Mapping, Sequence
from importlib.metadata import Distribution, PackageNotFoundError, distribution, version
from importlib.util import find_spec
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

from connectors_core.errors import ConfigurationError, SparkMismatchError

__all__ = ["EndOfLifeWarning", "OutsideMatrixWarning", "check_spark"]

# The versions with which the builds for each Spark line work: first those that every change is
# tested with, then those that pass but are not part of the matrix. `release-tools matrix check
# --fix` writes it.
LINES: Final[Mapping[str, Mapping[str, Sequence[str]]]] = {
    "3.5": {"spark": ["3.5"], "python": ["3.11"]},
    "4.3": {"spark": ["4.3", "4.2", "4.1", "4.0"], "python": ["3.11", "3.13", "3.12"]},
}
# The libraries of an environment of each Spark line; `release-tools matrix check --fix` writes it.
LIBRARIES: Final[Mapping[str, Sequence[str]]] = {
    "3.5": ["numpy<2", "pandas<3", "pyarrow<26"],
    "4.3": ["pandas<3"],
}
# 3.1.2.3.5 is version 3.1.2 for Spark 3.5; a checkout has only the version.
_BUILD: Final = re.compile(r"(\d+\.\d+\.\d+)\.(\d+\.\d+)")
_LINE: Final = re.compile(r"\d+\.\d+")
_VERSION: Final = re.compile(rb"""__version__[^=]*=\s*["']([^"']+)""")
_WORKER: Final = "PYTHON_WORKER_FACTORY_"  # Spark sets such variables for its Python workers
_INACTIVE: Final = "Development Status :: 7 - Inactive"


class EndOfLifeWarning(FutureWarning):
    """The installed release is the last one of its major, which gets no more fixes."""


class OutsideMatrixWarning(UserWarning):
    """The Spark or the Python works with a connector, but is not part of the matrix."""


def check_spark(connector: str) -> None:
    """Refuse a build of a connector that does not work with this Spark or Python.

    A connector calls it in its `__init__`. A combination that works outside the compatibility
    matrix causes one warning on the driver, and so does the last release of a major.

    Args:
        connector: The name of its distribution, such as ``connector-kafka``.

    Raises:
        SparkMismatchError: It is built for another Spark line; the hint is the command that
            installs the right build.
        ConfigurationError: It does not work with this Python.
    """
    try:
        installed = distribution(connector)
    except PackageNotFoundError:
        return
    if is_last_release(installed) and not _on_worker():
        warnings.warn(
            f"{connector} {installed.version} is the last release of its major: it gets no more "
            "fixes; move to the next major, which its changelog names",
            EndOfLifeWarning,
            stacklevel=1,
        )
    build, pyspark = _BUILD.fullmatch(installed.version), installed_spark()
    found = None if pyspark is None else _LINE.match(pyspark)
    if build is None or pyspark is None or found is None:
        return
    release, built = build[1], build[2]
    works = LINES.get(built, {"spark": [built], "python": []})
    if found[0] not in works["spark"]:
        hint = _cure(installed, release, found[0])
        raise SparkMismatchError(connector, release, built=built, pyspark=pyspark, hint=hint)
    python = f"{sys.version_info.major}.{sys.version_info.minor}"
    _check_python(f"{connector} {release}-{built}", python, works["python"])
    outside = [
        f"{name} {version}"
        for name, version in (("Spark", found[0]), ("Python", python))
        if version != next(iter(works[name.lower()]), version)
    ]
    if outside and not _on_worker():
        warnings.warn(  # one warning location and text for all connectors, so that it is shown once
            f"{' with '.join(outside)} works, but is not part of the compatibility matrix of the "
            "connectors",
            OutsideMatrixWarning,
            stacklevel=1,
        )


def installed_spark() -> str | None:
    """Return the version of the importable pyspark, None if there is none."""
    try:
        spec = find_spec("pyspark")
    except ValueError:  # a test or a tool is replacing it
        spec = None
    read = getattr(spec and spec.loader, "get_data", None)
    if spec is not None and spec.origin is not None and read is not None:
        try:
            found = _VERSION.search(read(str(Path(spec.origin).with_name("version.py"))))
        except OSError:
            found = None
        if found is not None:
            return str(found[1], "utf-8")
    try:
        return version("pyspark")
    except PackageNotFoundError:
        return None


def is_last_release(installed: Distribution) -> bool:
    """Return whether a distribution announces the end of life of its major in its metadata."""
    return _INACTIVE in (installed.metadata.get_all("Classifier") or ())


def line_for(spark: str | None) -> str | None:
    """Return the line whose builds work with a Spark line, None if there is none."""
    return next((line for line, works in LINES.items() if spark in works["spark"]), None)


def install_command(installed: Distribution, requirement: str) -> str:
    """Return the command that installs another build with the original installer.

    Args:
        installed: The installed build.
        requirement: The requirement of the right build.
    """
    by_uv = (installed.read_text("INSTALLER") or "").strip() == "uv"
    uv = ("uv", "pip", "install", "--python", sys.executable)
    pip = (sys.executable, "-m", "pip", "install")
    return shlex.join((*(uv if by_uv else pip), *_find_links(installed), requirement))


def _on_worker() -> bool:
    return any(name.startswith(_WORKER) for name in os.environ)


def _cure(installed: Distribution, release: str, spark: str) -> str:
    line = line_for(spark)
    if line is None:
        lines = " or ".join(line for works in LINES.values() for line in works["spark"])
        return f"no build is for Spark {spark}; use Spark {lines}"
    name = installed.metadata["Name"]
    command = install_command(installed, f"{name}=={release}.{line}")
    if _find_links(installed):
        return f"run: {command}"
    return f"run: {command}\n  (with the --index-url or --find-links of the first install, if any)"


def _find_links(installed: Distribution) -> tuple[str, ...]:
    """Return the folder of the installed wheel, if it came from a file."""
    url = urlsplit(json.loads(installed.read_text("direct_url.json") or "{}").get("url", ""))
    if url.scheme != "file" or not url.path.endswith(".whl"):
        return ()
    return ("--find-links", str(Path(unquote(url.path)).parent))


def _check_python(release: str, python: str, works: Sequence[str]) -> None:
    if works and python not in works:
        raise ConfigurationError(
            f"{release} does not work with Python {python}",
            expected=f"Python {' or '.join(works)}",
            found=f"Python {python} ({sys.executable})",
            hint=f"use an environment of Python {works[0]}",
            code="PYTHON_MISMATCH",
        )
