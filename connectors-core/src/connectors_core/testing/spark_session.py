# SPDX-License-Identifier: Apache-2.0
"""One small Spark for all tests of a run: a local session, or a cluster of two workers."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from connectors_core.testing.cluster import running_cluster
from connectors_core.testing.environment import LocalSpark, StandaloneCluster
from connectors_core.testing.faults import ENVIRONMENT_VARIABLE, faults_file_env

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def new_session(settings: Mapping[str, str] | None = None) -> SparkSession:
    """A classic session with two slots and four attempts per task, or the one there is.

    Args:
        settings: Further settings of Spark; those of a cluster (`Cluster.settings`) take the
            place of the two slots.
    """
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    from pyspark.sql import SparkSession

    builder = (
        SparkSession.builder.master("local[2,4]")
        .appName("connector tests")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.session.timeZone", "UTC")
        # Short runs: quick compilation counts, not the best code.
        .config("spark.driver.extraJavaOptions", "-XX:TieredStopAtLevel=1")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.streaming.checkpointFileManagerClass", _checkpoint_file_manager())
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        # As in a local session: executors take their faults from where the driver does.
        .config(
            f"spark.executorEnv.{ENVIRONMENT_VARIABLE}", os.environ.get(ENVIRONMENT_VARIABLE, "")
        )
    )
    for name, value in (settings or {}).items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session


def _checkpoint_file_manager() -> str:
    """One that starts no processes."""
    # Without Hadoop's native library, the usual one asks a shell of each file if it is a link.
    import pyspark

    package = "org.apache.spark.sql.execution.streaming"
    if not pyspark.__version__.startswith("3."):
        package += ".checkpointing"
    return f"{package}.FileSystemBasedCheckpointFileManager"


@contextmanager
def running_spark(folder: Path, *, cluster: bool) -> Iterator[LocalSpark]:
    """Where the pipelines of suites run that are ``on_spark``.

    Args:
        folder: Takes what Spark writes, and the faults that are to happen.
        cluster: Whether it is a standalone cluster with two workers.
    """
    settings = {"spark.sql.warehouse.dir": (folder / "warehouse").as_uri()}
    with ExitStack() as stack:
        patch = stack.enter_context(pytest.MonkeyPatch.context())
        for name, value in faults_file_env(folder / "faults.json").items():
            patch.setenv(name, value)
        if cluster:
            workers = stack.enter_context(running_cluster(folder))
            session = new_session(settings | workers.settings())
            stack.callback(session.stop)
            yield StandaloneCluster(session, workers)
        else:
            session = new_session(settings)
            stack.callback(session.stop)
            yield LocalSpark(session)
