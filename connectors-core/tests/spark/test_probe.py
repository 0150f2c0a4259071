# SPDX-License-Identifier: Apache-2.0
"""Tests that a pipeline checks the executors of an application once, and until they pass."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from connectors_core.engine.state import StateStore
from connectors_core.errors import ConfigurationError, StateLocationError
from connectors_core.spark import probe


@pytest.fixture
def jobs(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[[str], int]:
    """Check the executors for a new state location; return the number of Spark's jobs."""
    monkeypatch.setattr(probe, "_proved", set())

    def checked(name: str) -> int:
        group = f"{tmp_path.name}-{name}"
        spark.sparkContext.setJobGroup(group, group)
        probe.probe_executors(spark, StateStore(str(tmp_path / name)))
        return len(spark.sparkContext.statusTracker().getJobIdsForGroup(group))

    return checked


def test_executors_are_checked_once_per_application(jobs: Callable[[str], int]) -> None:
    assert jobs("first") == 1
    assert jobs("second") == 0


def test_executors_with_other_packages_are_refused_at_each_start(
    jobs: Callable[[str], int], monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as driver:
        driver.setattr(probe, "versions", lambda: {"python": "2.7"})
        for _ in range(2):
            with pytest.raises(ConfigurationError, match="different packages"):
                jobs("first")
    assert jobs("second") == 1


def test_executors_that_do_not_share_the_state_location_are_refused(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(probe, "_proved", set())
    with pytest.raises(StateLocationError, match="does not see the files of executors"):
        probe.probe_executors(spark, StateStore("memory://memory-of-one-process"))
