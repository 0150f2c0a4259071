# SPDX-License-Identifier: Apache-2.0
"""The part of `connectors doctor` that needs Spark: starts it and runs one Python job."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import orjson
import pyarrow as pa
from pyspark.sql import SparkSession

from connectors_core.runtime.carriers import choose_carrier


@dataclass(frozen=True, kw_only=True)
class SparkFindings:
    """What a running Spark says of itself.

    Attributes:
        version: Spark's version in the JVM.
        java: The JVM's version.
        carrier: The carrier that a pipeline would use, None if there is none.
        carrier_error: Why there is none.
        worker: Versions in a Python worker by package, with ``python`` and ``executable``;
            None if the job failed.
        worker_error: Why it failed.
        worker_reuse: Whether Spark keeps its Python workers.
    """

    version: str
    java: str
    carrier: str | None
    carrier_error: str | None
    worker: dict[str, str | None] | None
    worker_error: str | None
    worker_reuse: bool


def examine_spark(master: str, packages: Sequence[str]) -> SparkFindings:
    """Start Spark, or use the session that there is, and run one Python job.

    Args:
        master: Spark's master.
        packages: Distributions whose versions in a worker are wanted.
    """
    active = SparkSession.getActiveSession()
    spark = active or (
        SparkSession.builder.master(master)
        .appName("connectors doctor")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .getOrCreate()
    )
    try:
        if active is None:
            spark.sparkContext.setLogLevel("OFF")  # what fails is told here, in one sentence
        carrier, carrier_error = _carrier(spark)
        worker, worker_error = _worker(spark, tuple(packages))
        jvm: Any = spark.sparkContext._jvm
        reuse = spark.sparkContext.getConf().get("spark.python.worker.reuse", "true")
        return SparkFindings(
            version=spark.version,
            java=str(jvm.java.lang.System.getProperty("java.version")),
            carrier=carrier,
            carrier_error=carrier_error,
            worker=worker,
            worker_error=worker_error,
            worker_reuse=reuse == "true",
        )
    finally:
        if active is None:
            spark.stop()


def _carrier(spark: SparkSession) -> tuple[str | None, str | None]:
    try:
        chosen = choose_carrier(spark)
    except Exception as error:
        return None, str(error)
    return chosen.__name__.removesuffix("Carrier").lower(), None


def _worker(
    spark: SparkSession, packages: tuple[str, ...]
) -> tuple[dict[str, str | None] | None, str | None]:
    def examine(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        # Shipped by value, with its imports inside: a worker may lack this very package.
        import importlib.metadata
        import json
        import platform
        import sys

        import pyarrow

        for _ in batches:
            found: dict[str, str | None] = {
                "python": platform.python_version(),
                "executable": sys.executable,
            }
            for package in packages:
                try:
                    found[package] = importlib.metadata.version(package)
                except importlib.metadata.PackageNotFoundError:
                    found[package] = None
            yield pyarrow.RecordBatch.from_arrays([pyarrow.array([json.dumps(found)])], ["found"])

    try:
        row = spark.range(0, 1, 1, 1).mapInArrow(examine, "found string").collect()[0]
    except Exception as error:
        return None, _reason(error)
    found: dict[str, str | None] = orjson.loads(row.found)
    return found, None


def _reason(error: Exception) -> str:
    """The line of a Spark error that says what went wrong in Python, or else its first."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    telling = [
        line
        for line in lines
        if ("Error" in line or "VERSION_MISMATCH" in line or "Cannot run program" in line)
        and not line.startswith(("File ", "at "))
        and "PythonException" not in line
    ]
    return (telling or lines or [type(error).__name__])[-1 if telling else 0][:500]
