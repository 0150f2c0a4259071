# SPDX-License-Identifier: Apache-2.0
"""Where the cases of a suite run their pipelines: in this process, or on Spark."""

from __future__ import annotations

from abc import ABC, abstractmethod
from pathlib import Path
from typing import TYPE_CHECKING, Any

from connectors_core.testing.local_pipeline import LocalPipeline

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class TestEnvironment(ABC):
    """Makes pipelines: objects with the methods of `Pipeline`."""

    __test__ = False
    name: str

    @abstractmethod
    def pipeline(self, name: str, location: Path, *, parallelism: int = 2) -> Any:
        """A streaming pipeline at a checkpoint location; a second one there goes on from it."""

    @abstractmethod
    def forget_last_batch(self, location: Path) -> None:
        """Make the engine believe that it did not end the last batch of a pipeline."""


class InProcess(TestEnvironment):
    """Without Spark: the protocol in this process."""

    name = "in process"

    def pipeline(self, name: str, location: Path, *, parallelism: int = 2) -> LocalPipeline:
        """A pipeline that runs in this process."""
        return LocalPipeline(name, checkpoint_location=str(location), parallelism=parallelism)

    def forget_last_batch(self, location: Path) -> None:
        """Remove its mark."""
        max((location / "query-0" / "ended").iterdir()).unlink()


class LocalSpark(TestEnvironment):
    """A Spark session in this process, with retries of tasks."""

    def __init__(self, spark: SparkSession) -> None:
        self.spark = spark
        self.name = f"Spark {spark.version}"

    def pipeline(self, name: str, location: Path, *, parallelism: int = 2) -> Any:
        """A pipeline on the session."""
        from connectors_core import Pipeline

        return Pipeline(
            self.spark,
            name,
            checkpoint_location=str(location),
            streaming=True,
            parallelism=parallelism,
        )

    def forget_last_batch(self, location: Path) -> None:
        """Remove the last entry of Spark's commit log."""
        commits = location / "query-0" / "spark-0" / "commits"
        newest = max(int(path.name) for path in commits.glob("[0-9]*"))
        (commits / str(newest)).unlink()
        (commits / f".{newest}.crc").unlink(missing_ok=True)
