# SPDX-License-Identifier: Apache-2.0
"""Tests what a pipeline controls: reads of sources, watermarks, and the end of a run."""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pipeline_support import (
    EVENTS,
    counts,
    event_rows,
    new_pipeline,
    once,
    travel_with_closures,
    wait_until,
)
from pyspark.sql import functions as F

from connectors_core.engine.coordinator.epoch_committer import CommitRetries
from connectors_core.engine.query.status import PipelineState
from connectors_core.errors import ConfigurationError
from connectors_core.sink import (
    CommitRequest,
    Committer,
    CommitterInitContext,
    DeliveryGuarantee,
    Sink,
)
from connectors_core.source import (
    DataGeneratorSource,
    NumberSequenceSource,
    ReadLimits,
    WatermarkStrategy,
)
from connectors_core.testing.directory_sink import DirectorySink, StagedFile

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

travel_with_closures(__name__)

STRATEGY = WatermarkStrategy.for_bounded_out_of_orderness(
    timedelta(seconds=10)
).with_timestamp_assigner("ts")


def events(rows: int) -> DataGeneratorSource:
    return DataGeneratorSource(event_rows, rows, EVENTS, split_rows=rows, batch_rows=10)


def test_a_query_outside_the_pipeline_is_refused_without_side_effects(
    spark: SparkSession, tmp_path: Path
) -> None:
    sink = DirectorySink(tmp_path / "out")
    with new_pipeline(spark, tmp_path, parallelism=1) as pipeline:
        endless = DataGeneratorSource(event_rows, None, EVENTS, split_rows=20)
        df = pipeline.from_source(endless, uid="events", limits=ReadLimits(rows=20))
        pipeline.sink_to(df, sink, uid="out")
        pipeline.start()
        own = (
            df.writeStream.format("noop")
            .option("checkpointLocation", str(tmp_path / "own"))
            .trigger(processingTime="1 second")
            .start()
        )
        with pytest.raises(Exception, match=r"(?s)belongs to a pipeline.*Pipeline.for_each_batch"):
            own.awaitTermination(60)
        seen = len(counts(sink))
        wait_until(lambda: len(counts(sink)) > seen, "more rows", pipeline)
    values = counts(sink)
    assert values == once(range(len(values)))


def test_a_watermark_set_by_the_user_is_refused_if_the_source_has_a_strategy(
    spark: SparkSession, tmp_path: Path
) -> None:
    with new_pipeline(spark, tmp_path) as pipeline:
        df = pipeline.from_source(events(20), uid="events", watermark_strategy=STRATEGY)
        late = df.withWatermark("ts", "1 minute").groupBy(F.window("ts", "5 seconds")).count()
        pipeline.sink_to(late.select("count"), DirectorySink(tmp_path / "out"), uid="out")
        with pytest.raises(ConfigurationError, match=r"withWatermark on rows of events"):
            pipeline.run()


def test_without_a_strategy_the_user_can_set_the_watermark(
    spark: SparkSession, tmp_path: Path
) -> None:
    sink = DirectorySink(tmp_path / "out")
    with new_pipeline(spark, tmp_path) as pipeline:
        df = pipeline.from_source(events(60), uid="events").withWatermark("ts", "0 seconds")
        pipeline.sink_to(df.dropDuplicates(["n", "ts"]), sink, uid="out")
        assert pipeline.run()
    assert counts(sink) == once(range(60))


def test_update_mode_writes_aggregates_as_they_change(spark: SparkSession, tmp_path: Path) -> None:
    sink = DirectorySink(tmp_path / "out")
    with new_pipeline(spark, tmp_path, parallelism=1) as pipeline:
        df = pipeline.from_source(
            events(60), uid="events", watermark_strategy=STRATEGY, limits=ReadLimits(rows=20)
        )
        minutes = df.groupBy(F.window("ts", "1 minute")).agg(F.count("n").alias("n"))
        pipeline.sink_to(minutes.select("n"), sink, uid="out", output_mode="update")
        assert pipeline.run()
    assert counts(sink) == once([20, 40, 60])


@pytest.mark.parametrize(
    ("modes", "message"),
    [(("update", "append"), "the same output mode"), (("update", "update"), "a separate query")],
)
def test_update_mode_is_refused_where_it_is_not_supported(
    spark: SparkSession, tmp_path: Path, modes: tuple[str, str], message: str
) -> None:
    with new_pipeline(spark, tmp_path) as pipeline:
        df = pipeline.from_source(events(20), uid="events")
        other = df if modes[1] == "append" else df.where("n > 3")
        for number, mode in enumerate(modes):
            sink = DirectorySink(tmp_path / f"out{number}")
            rows = (df, other)[number]
            pipeline.sink_to(rows, sink, uid=f"out{number}", output_mode=mode)  # type: ignore[arg-type]
        with pytest.raises(ConfigurationError, match=message):
            pipeline.run()


class _NotYet(Committer[StagedFile]):
    """Requests a retry while a file `not-yet` exists."""

    def __init__(self, committer: Committer[StagedFile], gate: Path) -> None:
        self.committer, self.gate = committer, gate

    def commit(self, requests: Sequence[CommitRequest[StagedFile]]) -> None:
        if self.gate.exists():
            for request in requests:
                request.retry_later()
        else:
            self.committer.commit(requests)

    def sweep(self, checkpoint_id: int) -> None:
        self.committer.sweep(checkpoint_id)

    def recover(self, last_decided: int) -> None:
        self.committer.recover(last_decided)


class _SlowToCommit(DirectorySink):
    def create_committer(self, context: CommitterInitContext) -> Committer[StagedFile]:
        return _NotYet(super().create_committer(context), self.path.with_name("not-yet"))


def test_stop_does_not_wait_for_commit_retries(spark: SparkSession, tmp_path: Path) -> None:
    sink, gate = _SlowToCommit(tmp_path / "out"), tmp_path / "not-yet"
    retries = CommitRetries(initial_seconds=200, max_seconds=200)

    def pipeline():
        made = new_pipeline(spark, tmp_path, commit_retries=retries)
        source = NumberSequenceSource(0, 49, split_rows=50)
        made.sink_to(made.from_source(source, uid="numbers"), sink, uid="out")
        return made

    gate.touch()
    with pipeline() as waiting:
        waiting.start()
        wait_until(lambda: any(s.retries for s in waiting.status().sinks), "a retry", waiting)
        began = time.monotonic()
        waiting.stop()
        assert time.monotonic() - began < 100
        status = waiting.status()
        assert status.state is PipelineState.STOPPED
        assert status.error is None
    assert not counts(sink, "value")
    gate.unlink()
    with pipeline() as again:
        assert again.run()
    assert counts(sink, "value") == once(range(50))


class _Printer(Sink):
    """Discards its rows."""

    def create_writer(self, context):
        return _Writer()


class _Writer:
    def write(self, batch):
        pass

    flush = close = lambda self: None


class _LooseSink(DirectorySink):
    delivery_guarantee = DeliveryGuarantee.AT_LEAST_ONCE


def test_the_status_shows_the_guarantee_of_each_sink(spark: SparkSession, tmp_path: Path) -> None:
    with new_pipeline(spark, tmp_path) as pipeline:
        df = pipeline.from_source(NumberSequenceSource(0, 9), uid="numbers")
        pipeline.sink_to(df, DirectorySink(tmp_path / "out"), uid="committed")
        pipeline.sink_to(df, _LooseSink(tmp_path / "loose"), uid="loose")
        pipeline.sink_to(df, _Printer(), uid="printed")
        assert pipeline.run()
        status = pipeline.status()
    assert {sink.uid: sink.guarantee for sink in status.sinks} == {
        "committed": DeliveryGuarantee.EXACTLY_ONCE,
        "loose": DeliveryGuarantee.AT_LEAST_ONCE,
        "printed": DeliveryGuarantee.AT_LEAST_ONCE,
    }
    assert status.sources[0].guarantee is DeliveryGuarantee.EXACTLY_ONCE
