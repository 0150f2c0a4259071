# SPDX-License-Identifier: Apache-2.0
"""Tests the batch run after an interrupted one: it finishes that one, then reads its own input."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pipeline_support import counts, new_pipeline, once, travel_with_closures

from connectors_core import ConnectorError, DataLossError, NumberSequenceSource
from connectors_core.testing.directory_sink import DirectorySink
from connectors_core.testing.faults import Fault, FaultAction, FaultPoint, injected

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

travel_with_closures(__name__)
DAYS = {1: range(1, 101), 2: range(101, 201), 3: range(201, 251)}


class Job:
    """A job that runs once a day, with the rows of this day."""

    def __init__(self, spark: SparkSession, root: Path, *, by_spark: bool, function: bool) -> None:
        self.spark, self.root = spark, root
        self.by_spark, self.function = by_spark, function
        self.sink = DirectorySink(root / "out")
        self.calls: dict[int, list[int]] = {}

    def rows(self, pipeline: Any, day: int) -> DataFrame:
        ids = DAYS[day]
        if not self.by_spark:
            source = NumberSequenceSource(ids[0], ids[-1], split_rows=20)
            return pipeline.from_source(source, uid="numbers").where("value > 0")
        folder = self.root / "in"
        self.spark.range(ids[0], ids[-1] + 1).toDF("value").write.mode("overwrite").csv(
            str(folder), header=True
        )
        return self.spark.read.csv(str(folder), header=True, schema="value BIGINT")

    def run(self, day: int, **settings: Any) -> bool:
        with new_pipeline(self.spark, self.root, streaming=None, **settings) as pipeline:
            rows = self.rows(pipeline, day)
            pipeline.sink_to(rows, self.sink, uid="out")
            if self.function:
                pipeline.for_each_batch(rows, self.receive, uid="function")
            return pipeline.run()

    def receive(self, rows: DataFrame, epoch: int) -> None:
        self.calls[epoch] = sorted(row[0] for row in rows.collect())

    def interrupted(self, day: int, **settings: Any) -> None:
        fault = Fault(FaultPoint.AFTER_DECISION, action=FaultAction.RAISE)
        with injected(fault), pytest.raises(ConnectorError):
            self.run(day, **settings)

    def assert_written(self, *days: int) -> None:
        assert counts(self.sink, "value") == once([n for day in days for n in DAYS[day]])


@pytest.mark.parametrize("by_spark", [False, True])
def test_the_next_day_finishes_the_interrupted_run_and_reads_its_own_rows(
    spark: SparkSession, tmp_path: Path, by_spark: bool, caplog: pytest.LogCaptureFixture
) -> None:
    job = Job(spark, tmp_path, by_spark=by_spark, function=False)
    job.interrupted(1)
    job.assert_written()
    assert job.run(2)
    job.assert_written(1, 2)
    assert "It is committed now, and this run reads its own input" in caplog.text
    assert job.run(3)
    job.assert_written(1, 2, 3)


def test_a_function_receives_the_rows_of_each_day_under_its_own_epoch(
    spark: SparkSession, tmp_path: Path
) -> None:
    job = Job(spark, tmp_path, by_spark=False, function=True)
    job.interrupted(1)
    assert job.run(2)
    assert list(job.calls.values()) == [list(DAYS[1]), list(DAYS[2])]
    job.assert_written(1, 2)


def test_a_repeated_day_only_finishes_the_interrupted_run(
    spark: SparkSession, tmp_path: Path
) -> None:
    job = Job(spark, tmp_path, by_spark=False, function=True)
    job.interrupted(1)
    assert not job.run(1)
    assert list(job.calls.values()) == [list(DAYS[1])]
    job.assert_written(1)


def test_an_interrupted_function_whose_rows_are_replaced_names_the_day_and_the_way_out(
    spark: SparkSession, tmp_path: Path
) -> None:
    job = Job(spark, tmp_path, by_spark=True, function=True)
    job.interrupted(1)
    with pytest.raises(
        DataLossError, match=r"the batch run of 2.* UTC cannot be finished"
    ) as error:
        job.run(2)
    assert "connectors state give-up" in str(error.value)
    assert job.calls == {}


def test_a_resumed_run_discards_the_rows_of_another_input(
    spark: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    job = Job(spark, tmp_path, by_spark=False, function=False)
    undecided = Fault(FaultPoint.BEFORE_DECISION, action=FaultAction.RAISE)
    with injected(undecided), pytest.raises(ConnectorError):
        job.run(1, resume_batch_runs=True)
    assert job.run(2, resume_batch_runs=True)
    assert "reads other input than the interrupted run" in caplog.text
    job.assert_written(2)
    assert not list((tmp_path / "checkpoint").glob("runs/*/*"))
