# SPDX-License-Identifier: Apache-2.0
"""Tests functions that receive the rows of epochs: in order, and after a failure again."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pipeline_support import counts, new_pipeline, once, travel_with_closures

from connectors_core import ConfigurationError, ConnectorError, NumberSequenceSource, ReadLimits
from connectors_core.testing.directory_sink import DirectorySink
from connectors_core.testing.faults import Fault, FaultAction, FaultPoint, injected

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from connectors_core import Pipeline

travel_with_closures(__name__)
BATCH: dict[str, Any] = {"streaming": None}
ROWS = 40


class Target:
    """Stores the rows of each call, as a system that knows no transactions."""

    def __init__(self) -> None:
        self.calls: list[tuple[int, list[int]]] = []

    def __call__(self, rows: DataFrame, epoch: int) -> None:
        self.calls.append((epoch, sorted(row[0] for row in rows.collect())))

    @property
    def epochs(self) -> list[int]:
        return [epoch for epoch, _ in self.calls]

    @property
    def rows(self) -> list[int]:
        """The rows of all epochs, each epoch once."""
        return sorted(number for numbers in dict(self.calls).values() for number in numbers)


def build(
    spark: SparkSession, root: Path, target: Callable[[DataFrame, int], None], **options: Any
) -> Pipeline:
    pipeline = new_pipeline(spark, root, **options)
    numbers = NumberSequenceSource(0, ROWS - 1, split_rows=10, batch_rows=5)
    rows = pipeline.from_source(numbers, uid="numbers", limits=ReadLimits(rows=20)).toDF("n")
    pipeline.for_each_batch(rows, target, uid="function")
    return pipeline


def failing_at(point: FaultPoint, **where: Any) -> Fault:
    return Fault(point, action=FaultAction.RAISE, where=where)


def test_a_function_receives_all_epochs_of_a_stream_in_order(
    spark: SparkSession, tmp_path: Path
) -> None:
    target = Target()
    pipeline = build(spark, tmp_path, target)
    assert pipeline.run()
    assert target.epochs == sorted(set(target.epochs))
    assert len(target.epochs) >= 2
    assert target.rows == list(range(ROWS))
    (status,) = pipeline.status().sinks
    assert (status.uid, status.rows) == ("function", ROWS)


def test_a_function_receives_a_batch_run_as_one_epoch(spark: SparkSession, tmp_path: Path) -> None:
    target = Target()
    assert build(spark, tmp_path, target, **BATCH).run()
    assert target.calls == [(target.epochs[0], list(range(ROWS)))]


@pytest.mark.parametrize("options", [{}, BATCH], ids=["stream", "batch"])
def test_an_undecided_epoch_does_not_reach_a_function(
    spark: SparkSession, tmp_path: Path, options: dict[str, Any]
) -> None:
    target = Target()
    with injected(failing_at(FaultPoint.BEFORE_DECISION)), pytest.raises(ConnectorError):
        build(spark, tmp_path, target, **options).run()
    assert target.calls == []
    build(spark, tmp_path, target, **options).run()
    assert target.rows == list(range(ROWS))
    assert len(target.epochs) == len(set(target.epochs))


@pytest.mark.parametrize("options", [{}, BATCH], ids=["stream", "batch"])
@pytest.mark.parametrize("point", [FaultPoint.AFTER_DECISION, FaultPoint.AFTER_COMMIT])
def test_after_a_failure_a_function_receives_the_same_rows_with_the_same_number(
    spark: SparkSession, tmp_path: Path, point: FaultPoint, options: dict[str, Any]
) -> None:
    target = Target()
    with injected(failing_at(point)), pytest.raises(ConnectorError):
        build(spark, tmp_path, target, **options).run()
    called = list(target.calls)
    assert len(called) == (point is FaultPoint.AFTER_COMMIT)
    build(spark, tmp_path, target, **options).run()
    if called:
        assert target.calls[1] == called[0]
    assert target.rows == list(range(ROWS))
    assert target.epochs[len(called) :] == sorted(set(target.epochs))


def test_after_its_epoch_is_done_a_function_is_not_called_again(
    spark: SparkSession, tmp_path: Path
) -> None:
    target = Target()
    with injected(failing_at(FaultPoint.BEFORE_SPARK_COMMIT)), pytest.raises(ConnectorError):
        build(spark, tmp_path, target).run()
    build(spark, tmp_path, target).run()
    assert target.epochs == sorted(set(target.epochs))
    assert target.rows == list(range(ROWS))


def test_a_failing_function_is_called_again_after_a_restart(
    spark: SparkSession, tmp_path: Path
) -> None:
    seen: list[int] = []

    def fails(_rows: DataFrame, epoch: int) -> None:
        seen.append(epoch)
        raise OSError("the database is away")

    with pytest.raises(ConnectorError, match="the function of 'function' failed") as error:
        build(spark, tmp_path, fails).run()
    assert "OSError: the database is away" in str(error.value)
    target = Target()
    build(spark, tmp_path, target).run()
    assert target.epochs[0] == seen[0]
    assert target.rows == list(range(ROWS))


@pytest.mark.parametrize(("before", "after"), [(3, 1), (1, 3)])
def test_a_restart_with_another_parallelism_calls_a_failed_function_again(
    spark: SparkSession, tmp_path: Path, before: int, after: int
) -> None:
    def failing(_rows: DataFrame, _epoch: int) -> None:
        raise OSError("the database is away")

    with (
        build(spark, tmp_path, failing, parallelism=before) as failed,
        pytest.raises(ConnectorError, match="away"),
    ):
        failed.run(timeout=60)
    target = Target()
    with build(spark, tmp_path, target, parallelism=after) as pipeline:
        pipeline.run(timeout=60)
    assert target.rows == list(range(ROWS))


def test_functions_and_sinks_share_a_query_over_different_rows(
    spark: SparkSession, tmp_path: Path
) -> None:
    target, sink = Target(), DirectorySink(tmp_path / "out")
    pipeline = new_pipeline(spark, tmp_path)
    rows = pipeline.from_source(NumberSequenceSource(0, ROWS - 1), uid="numbers").toDF("n")
    pipeline.sink_to(rows, sink, uid="sink")
    pipeline.for_each_batch(rows.where("n % 2 = 0").selectExpr("n * 10 AS n"), target, uid="even")
    assert pipeline.run()
    assert counts(sink) == once(range(ROWS))
    assert target.rows == list(range(0, 10 * ROWS, 20))


def test_a_function_may_read_its_rows_several_times(spark: SparkSession, tmp_path: Path) -> None:
    found: list[tuple[int, int]] = []

    def twice(rows: DataFrame, _epoch: int) -> None:
        found.append((rows.count(), rows.where("n < 20").count()))

    assert build(spark, tmp_path, twice, **BATCH).run()
    assert found == [(ROWS, 20)]


def test_a_function_receives_a_table_of_spark(spark: SparkSession, tmp_path: Path) -> None:
    target = Target()
    pipeline = new_pipeline(spark, tmp_path, **BATCH)
    pipeline.for_each_batch(spark.range(10).toDF("n"), target, uid="function")
    assert pipeline.run()
    assert target.rows == list(range(10))


def test_something_that_is_no_function_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    pipeline = new_pipeline(spark, tmp_path)
    not_a_function: Any = DirectorySink(tmp_path / "out")
    with pytest.raises(ConfigurationError, match="the function cannot be called"):
        pipeline.for_each_batch(spark.range(3), not_a_function, uid="function")


# --- Queries of your own --------------------------------------------------------------------------


def test_queries_of_your_own_read_a_bounded_source_before_and_after_a_run(
    spark: SparkSession, tmp_path: Path
) -> None:
    sink = DirectorySink(tmp_path / "out")
    pipeline = new_pipeline(spark, tmp_path, **BATCH)
    rows = pipeline.from_source(NumberSequenceSource(0, ROWS - 1), uid="numbers").toDF("n")
    pipeline.sink_to(rows.where("n % 4 = 0"), sink, uid="out")
    assert rows.count() == ROWS
    assert rows.limit(3).count() == 3
    assert pipeline.run()
    assert rows.groupBy().sum("n").collect()[0][0] == sum(range(ROWS))
    assert counts(sink) == once(range(0, ROWS, 4))
