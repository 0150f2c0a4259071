# SPDX-License-Identifier: Apache-2.0
"""The environments of the pipelines in a suite's cases: this process, or Spark."""

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
        name: The name in the output of a failing case.
        capabilities: The capabilities of the environment.
        session: The settings of a Spark session in another process that runs the same jobs, or None
            without Spark.
        worker_death: The action of a fault that kills the worker at its point.
        patience: The factor of timeouts, relative to this process.
    """

    __test__ = False
    name: str
    capabilities: ClassVar[Capabilities]
    session: Mapping[str, str] | None = None
    worker_death: FaultAction
    patience: float = 1.0

    @abstractmethod
    def pipeline(
        self,
        name: str,
        location: Path,
        *,
        streaming: bool = True,
        parallelism: int = 2,
        **settings: Any,
    ) -> Any:
        """Create a pipeline at a checkpoint location. A second one resumes from it.

        Args:
            name: The name of the pipeline.
            location: The checkpoint location.
            streaming: Whether it streams. Otherwise it is a batch run.
            parallelism: The number of readers.
            **settings: Additional arguments that all pipelines accept.
        """

    def forget_last_batch(self, location: Path) -> None:
        """Make the engine believe that the last batch of a pipeline did not end."""
        commits = location / "query-0" / "spark-0" / "commits"
        newest = max(int(path.name) for path in commits.glob("[0-9]*"))
        (commits / str(newest)).unlink()
        (commits / f".{newest}.crc").unlink(missing_ok=True)


class InProcess(TestEnvironment):
    """Without Spark, the protocol runs in this process."""

    name = "in process"
    capabilities = Capabilities(
        can=frozenset({Capability.ONE_PROCESS}),
        cannot={
            Capability.WORKERS_CAN_DIE: "without Spark, tasks are threads of the tests",
            Capability.STATEMENTS: "without Spark, no statement runs",
        },
    )

    def pipeline(self, name: str, location: Path, **settings: Any) -> LocalPipeline:
        """A pipeline that runs in this process."""
        return LocalPipeline(name, checkpoint_location=str(location), **settings)


class LocalSpark(TestEnvironment):
    """A Spark session in this process, with task retries. The tests can kill its Python workers."""

    capabilities = Capabilities(
        can=frozenset({Capability.WORKERS_CAN_DIE, Capability.STATEMENTS}),
        cannot={Capability.ONE_PROCESS: "on Spark, tasks are processes of their own"},
    )
    worker_death = FaultAction.KILL
    patience = 2.0

    def __init__(self, spark: SparkSession) -> None:
        self.spark = spark
        self.name = f"Spark {spark.version}, {spark.sparkContext.master}"
        self.session: Mapping[str, str] = {}

    def pipeline(
        self,
        name: str,
        location: Path,
        *,
        streaming: bool = True,
        parallelism: int = 2,
        **settings: Any,
    ) -> Any:
        """A pipeline on the session."""
        from connectors_core import Pipeline

        return Pipeline(
            self.spark,
            name,
            checkpoint_location=str(location),
            streaming=streaming or None,
            parallelism=parallelism,
            **settings,
        )


class StandaloneCluster(LocalSpark):
    """A Spark session whose executors are processes of a cluster. The tests can kill them."""

    worker_death = FaultAction.KILL_EXECUTOR
    patience = 4.0

    def __init__(self, spark: SparkSession, cluster: Cluster) -> None:
        super().__init__(spark)
        self.session = cluster.settings()
