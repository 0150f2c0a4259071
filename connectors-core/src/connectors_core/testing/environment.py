# SPDX-License-Identifier: Apache-2.0
"""The environments for the pipelines of a suite's cases: this process, or Spark."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from connectors_core.testing.capabilities import Capabilities, Capability
from connectors_core.testing.cluster import Cluster
from connectors_core.testing.faults import FaultAction
from connectors_core.testing.local_pipeline import LocalPipeline

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class TestEnvironment(ABC):
    """Creates pipelines: objects with the methods of `Pipeline`.

    Attributes:
        name: What a failing case calls it.
        capabilities: What can be made to happen in it.
        session: Settings of a Spark session in another process that runs what would run here,
            None where there is none.
        worker_death: How a fault kills the worker that passes its point.
        patience: How many times as long as in this process a case may take.
    """

    __test__ = False
    name: str
    capabilities: ClassVar[Capabilities]
    session: Mapping[str, str] | None = None
    worker_death: FaultAction
    patience: float = 1.0

    @abstractmethod
    def pipeline(self, name: str, location: Path, *, parallelism: int = 2, **settings: Any) -> Any:
        """Create a streaming pipeline at a checkpoint location; a second one resumes from it.

        Args:
            name: Its name.
            location: Its checkpoint location.
            parallelism: Number of readers.
            **settings: Further arguments that all pipelines have.
        """

    @abstractmethod
    def forget_last_batch(self, location: Path) -> None:
        """Make the engine believe that it did not end the last batch of a pipeline."""


class InProcess(TestEnvironment):
    """Without Spark: the protocol in this process."""

    name = "in process"
    capabilities = Capabilities(
        can=frozenset({Capability.ONE_PROCESS}),
        cannot={Capability.WORKERS_CAN_DIE: "without Spark, tasks are threads of the tests"},
    )

    def pipeline(
        self, name: str, location: Path, *, parallelism: int = 2, **settings: Any
    ) -> LocalPipeline:
        """A pipeline that runs in this process."""
        return LocalPipeline(
            name, checkpoint_location=str(location), parallelism=parallelism, **settings
        )

    def forget_last_batch(self, location: Path) -> None:
        """Remove its mark."""
        _forget_last_commit(location)


class LocalSpark(TestEnvironment):
    """A Spark session in this process, with retries of tasks; its Python workers can be killed."""

    capabilities = Capabilities(
        can=frozenset({Capability.WORKERS_CAN_DIE}),
        cannot={Capability.ONE_PROCESS: "on Spark, tasks are processes of their own"},
    )
    worker_death = FaultAction.KILL
    patience = 2.0

    def __init__(self, spark: SparkSession) -> None:
        self.spark = spark
        self.name = f"Spark {spark.version}, {spark.sparkContext.master}"
        self.session: Mapping[str, str] = {}

    def pipeline(self, name: str, location: Path, *, parallelism: int = 2, **settings: Any) -> Any:
        """A pipeline on the session."""
        from connectors_core import Pipeline

        return Pipeline(
            self.spark,
            name,
            checkpoint_location=str(location),
            streaming=True,
            parallelism=parallelism,
            **settings,
        )

    def forget_last_batch(self, location: Path) -> None:
        """Remove the last entry of Spark's commit log."""
        _forget_last_commit(location)


class StandaloneCluster(LocalSpark):
    """A Spark session whose executors are processes of a cluster; they can be killed."""

    worker_death = FaultAction.KILL_EXECUTOR
    patience = 4.0

    def __init__(self, spark: SparkSession, cluster: Cluster) -> None:
        super().__init__(spark)
        self.session = cluster.settings()


def _forget_last_commit(location: Path) -> None:
    commits = location / "query-0" / "spark-0" / "commits"
    newest = max(int(path.name) for path in commits.glob("[0-9]*"))
    (commits / str(newest)).unlink()
    (commits / f".{newest}.crc").unlink(missing_ok=True)
