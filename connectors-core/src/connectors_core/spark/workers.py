# SPDX-License-Identifier: Apache-2.0
"""Compares the packages of Spark's Python workers with the driver's. Driver, no pyspark."""

from __future__ import annotations

import importlib.metadata
import platform
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

import orjson

from connectors_core.errors import ConfigurationError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SHARED_PACKAGES: Final = ("connectors-core", "pyspark", "pyarrow", "numpy", "pandas")
"""Distributions that driver and workers must have in the same version."""

SET_WORKER_PYTHON: Final = f"export PYSPARK_PYTHON={sys.executable}"
_HINT: Final = (
    f"before Spark starts: {SET_WORKER_PYTHON} (on a cluster: spark.pyspark.python, "
    "spark.archives); `connectors doctor` compares driver and workers"
)
_NO_WORKER: Final = ("PYTHON_VERSION_MISMATCH", "Cannot run program")


def examine_worker(spark: SparkSession, packages: Sequence[str]) -> dict[str, str | None]:
    """Return the package versions, ``python``, and ``executable`` of a worker; runs a job."""
    wanted = tuple(packages)

    def examine(_: int) -> str:
        # Pickled by value with its own imports and run on a plain RDD: a worker may lack this
        # package, and pyarrow.
        import importlib.metadata
        import json
        import platform
        import sys

        found: dict[str, str | None] = {
            "python": platform.python_version(),
            "executable": sys.executable,
        }
        for package in wanted:
            try:
                found[package] = importlib.metadata.version(package)
            except importlib.metadata.PackageNotFoundError:
                found[package] = None
        return json.dumps(found)

    (shown,) = spark.sparkContext.parallelize([0], 1).map(examine).collect()
    found: dict[str, str | None] = orjson.loads(shown)
    return found


def worker_differences(
    worker: Mapping[str, str | None], versions: Callable[[str], str | None]
) -> list[str]:
    """Return the differences between the packages of a worker and the driver.

    Args:
        worker: The result of :func:`examine_worker`.
        versions: Returns the version of a package in the driver, None if it is not installed.
    """
    differences = [
        f"{name} {worker.get(name) or 'is missing'} (driver {version})"
        for name in SHARED_PACKAGES
        if (version := versions(name)) is not None and worker.get(name) != version
    ]
    python = str(worker["python"])
    if python.split(".")[:2] != platform.python_version().split(".")[:2]:
        differences.insert(0, f"Python {python} (driver {platform.python_version()})")
    return differences


def workers_differ(spark: SparkSession) -> ConfigurationError | None:
    """Return an error if the packages of the workers explain a failure there, or None.

    Runs a small job. Call it only after Python code has failed in a worker.
    """
    from connectors_core.spark.failures import telling_line

    try:
        worker = examine_worker(spark, SHARED_PACKAGES)
    except Exception as error:
        line = telling_line(error)
        if not any(sign in line for sign in _NO_WORKER):
            return None  # the failure itself is more informative
        return ConfigurationError(
            "Spark cannot run Python workers",
            expected=f"the driver's Python ({sys.executable})",
            found=line,
            option="PYSPARK_PYTHON",
            hint=_HINT,
        )
    differences = worker_differences(worker, installed_version)
    if not differences:
        return None
    return ConfigurationError(
        "Python workers differ from the driver: " + ", ".join(differences),
        expected=f"the packages of the driver's Python ({sys.executable})",
        found=f"workers run {worker['executable']} ({worker['python']})",
        option="PYSPARK_PYTHON",
        hint=_HINT,
    )


def installed_version(package: str) -> str | None:
    """Return the version of a distribution in this process, None if it is not installed."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None
