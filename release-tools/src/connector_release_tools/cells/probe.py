# SPDX-License-Identifier: Apache-2.0
"""A pytest plugin that runs in a cell and reports the actual versions.

A run copies it into the cell, because release-tools is not installed there.
"""

import importlib.metadata
import importlib.util
import json
import os
import platform
import sys
from collections import Counter
from pathlib import Path
from typing import Any

FACTS = "CONNECTOR_CELL_FACTS"
PACKAGES = "CONNECTOR_CELL_PACKAGES"

_counts: Counter[str] = Counter()
_spark: dict[str, str] = {}


def pytest_runtest_logreport(report: Any) -> None:
    """Count the outcomes of tests, including failures in setup and teardown."""
    if hasattr(report, "wasxfail"):
        _counts["xfailed" if report.skipped else "xpassed"] += 1
    elif report.failed or report.skipped or report.when == "call":
        _counts[report.outcome] += 1


def pytest_runtest_teardown() -> None:
    """Record the running Spark version after a test started it."""
    context = getattr(sys.modules.get("pyspark"), "SparkContext", None)
    active = getattr(context, "_active_spark_context", None)
    if active is not None and not _spark:
        java = active._jvm.java.lang.System.getProperty("java.version")
        _spark.update(spark=str(active.version), java=str(java))


def pytest_sessionfinish() -> None:
    """Write the findings."""
    facts = {
        "counts": dict(_counts),
        "python": platform.python_version(),
        "running": _spark,
        "packages": {name: _package(name) for name in os.environ[PACKAGES].split(",")},
    }
    Path(os.environ[FACTS]).write_text(json.dumps(facts, indent=2), encoding="utf-8")


def _package(name: str) -> dict[str, str | None]:
    module = name.replace("-", "_")
    loaded = sys.modules.get(module) or importlib.util.find_spec(module)
    file = getattr(loaded, "__file__", None) or getattr(loaded, "origin", None)
    distribution = importlib.metadata.distribution(name)
    origin = json.loads(distribution.read_text("direct_url.json") or "{}")
    return {"version": distribution.version, "file": file, "url": origin.get("url")}
