# SPDX-License-Identifier: Apache-2.0
"""The part of `connectors doctor` that needs Spark: starts it and runs one Python job."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pkgutil import iter_modules

from pyspark.sql import SparkSession

from connectors_core.spark.carriers import choose_carrier
from connectors_core.spark.failures import telling_line
from connectors_core.spark.internals.sessions import java_version
from connectors_core.spark.workers import examine_worker


@dataclass(frozen=True, kw_only=True)
class SparkFindings:
    """Information about a running Spark.

    Attributes:
        version: Spark's version in the JVM.
        java: The JVM's version.
        carrier: The carrier that a pipeline would use, None if there is none.
        carrier_error: Why there is no carrier.
        worker: Versions in a Python worker by package, with ``python`` and ``executable``;
            None if the job failed.
        worker_error: Why it failed.
        worker_reuse: Whether Spark reuses its Python workers.
        formats: The formats in Python that Spark finds; None if Spark has no such formats.
        formats_error: Why it finds none.
        formats_missing: Those of the formats whose module a Python worker does not have.
    """

    version: str
    java: str
    carrier: str | None
    carrier_error: str | None
    worker: dict[str, str | None] | None
    worker_error: str | None
    worker_reuse: bool
    formats: tuple[str, ...] | None = None
    formats_error: str | None = None
    formats_missing: tuple[str, ...] = ()


def examine_spark(master: str, packages: Sequence[str]) -> SparkFindings:
    """Start Spark or use the active session, and run one Python job.

    Args:
        master: Spark's master.
        packages: Distributions whose versions in a worker to report.
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
            spark.sparkContext.setLogLevel("OFF")  # the findings report a failure in one sentence
        carrier, carrier_error = _carrier(spark)
        worker, worker_error = _worker(spark, tuple(packages))
        formats, formats_error = found_formats()
        reuse = spark.sparkContext.getConf().get("spark.python.worker.reuse", "true")
        return SparkFindings(
            version=spark.version,
            java=java_version(spark),
            carrier=carrier,
            carrier_error=carrier_error,
            worker=worker,
            worker_error=worker_error,
            worker_reuse=reuse == "true",
            formats=None if formats is None else tuple(formats),
            formats_error=formats_error,
            formats_missing=() if worker is None else missing_formats(spark, formats or {}),
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
    try:
        return examine_worker(spark, packages), None
    except Exception as error:
        return None, telling_line(error)


def found_formats() -> tuple[dict[str, str] | None, str | None]:
    """Return the formats in Python that Spark finds, and why it finds none.

    Spark imports every module that starts with `pyspark_`, and one that fails hides all formats.

    Returns:
        The name of each format with its module, or None if Spark has no such formats; and the
        error, if any.
    """
    if find_spec("pyspark.sql.datasource") is None:
        return None, None
    found = {}
    for module in iter_modules():
        if module.name.startswith("pyspark_"):
            try:
                source = getattr(import_module(module.name), "DefaultSource", None)
            except Exception as error:
                return {}, f"the module {module.name} fails: {telling_line(error)}"
            if source is not None:
                found[source.name()] = module.name
    return dict(sorted(found.items())), None


def missing_formats(spark: SparkSession, formats: Mapping[str, str]) -> tuple[str, ...]:
    """Return the formats whose module a Python worker does not have; runs a job.

    Args:
        spark: The session.
        formats: The name of each format with its module.
    """
    wanted = dict(formats)
    if not wanted:
        return ()

    def missing(_: int) -> list[str]:
        # Pickled by value with its own import: a worker may lack this package.
        from importlib.util import find_spec

        return [name for name, module in wanted.items() if find_spec(module) is None]

    return tuple(spark.sparkContext.parallelize([0], 1).flatMap(missing).collect())
