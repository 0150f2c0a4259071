# SPDX-License-Identifier: Apache-2.0
"""One small Spark for all tests of a run: a local session, or a cluster with two workers."""

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
    """Return the current session, or a new classic one with two slots and four attempts per task.

    Args:
        settings: Additional settings of Spark. Those of a cluster (`Cluster.settings`) replace the
            two slots.
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
        # The session is short-lived, so fast compilation matters more than optimal code.
        .config("spark.driver.extraJavaOptions", "-XX:TieredStopAtLevel=1")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.streaming.checkpointFileManagerClass", _checkpoint_file_manager())
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        # As in a local session, executors read their faults from the same file as the driver.
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
    """Return a file system that starts no processes."""
    # Without Hadoop's native library, the default one starts a shell to check each file for a link.
    import pyspark

    package = "org.apache.spark.sql.execution.streaming"
    if not pyspark.__version__.startswith("3."):
        package += ".checkpointing"
    return f"{package}.FileSystemBasedCheckpointFileManager"


@contextmanager
def running_spark(folder: Path, *, cluster: bool) -> Iterator[LocalSpark]:
    """The environment for the pipelines of suites with ``on_spark``.

    Args:
        folder: The folder for Spark's files and the faults.
        cluster: Whether the environment is a standalone cluster with two workers.
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
