# SPDX-License-Identifier: Apache-2.0
"""Tests files followed by a growing log: one switch, planned stops, and restarts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pipeline_support import (
    BASE,
    SECOND,
    LogSource,
    LogSplit,
    LogState,
    counts,
    new_pipeline,
    once,
    plans_and_reports,
    travel_with_closures,
    wait_until,
)

from connectors_core import Pipeline
from connectors_core.errors import FatalError
from connectors_core.source import (
    HybridSource,
    NumberSequenceSource,
    PlannedRead,
    ReadLimits,
    SourceSwitchContext,
    SplitEnumerator,
    SplitTraits,
    SupportsAvailableNow,
    SupportsCommittedPositions,
    SupportsPlannedStops,
    WatermarkStrategy,
)
from connectors_core.testing.directory_sink import DirectorySink
from connectors_core.testing.faults import Fault, FaultAction, FaultPoint, injected

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BY_TIME = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner("ts")
SWITCH = 3  # 30 rows of files, in plans of 10


@pytest.fixture(autouse=True)
def definitions_travel() -> None:
    travel_with_closures(__name__)


class GrowingLog(LogSource):
    """Growing files, each read up to its end at the time of the plan."""

    def __init__(self, folder: Path, first: datetime | None = None) -> None:
        super().__init__(folder, live=True)
        self.first = first
        self.committed: dict[str, int] = {}

    def create_enumerator(self, context):
        return GrowingLogEnumerator(self, context, LogState())

    def restore_enumerator(self, context, state):
        return GrowingLogEnumerator(self, context, state)

    def split_traits(self) -> SplitTraits:
        return SplitTraits(end=True)


class GrowingLogEnumerator(
    SplitEnumerator,
    SupportsPlannedStops[LogSplit],
    SupportsCommittedPositions[LogSplit],
    SupportsAvailableNow,
):
    def __init__(self, source, context, state):
        self.source, self.context = source, context
        self.assigned = set(state.assigned)
        self.ends: dict[str, int] = {}
        self.frozen = False

    def start(self):
        self.context.call_async(self.look, self.found, period=timedelta(milliseconds=20))

    def look(self):
        names = [path.stem for path in sorted(self.source.folder.glob("*.log"))]
        return {name: len(self.source.lines(name)) for name in names}

    def found(self, ends, error):
        if error is not None:
            raise error
        if self.frozen:
            return
        self.ends = ends
        for name in sorted(ends.keys() - self.assigned):
            self.assigned.add(name)
            reader = len(self.assigned) % self.context.current_parallelism
            self.context.assign_split(LogSplit(name, 0, None), reader)

    def freeze_end(self):
        self.found(self.look(), None)
        self.frozen = True
        for reader in range(self.context.current_parallelism):
            self.context.signal_no_more_splits(reader)

    def plan_reads(self, splits, limits):
        reads, left = {}, limits.rows
        for split in splits:
            end = self.ends.get(split.split_id, split.position)
            stop = end if left is None else min(end, split.position + left)
            then = None if self.frozen and stop == end else LogSplit(split.split_id, stop, None)
            if stop == split.position < end:
                continue
            left = None if left is None else left - (stop - split.position)
            reads[split.split_id] = PlannedRead(
                split=replace(split, end=stop), then=then, empty=end == split.position
            )
        return reads

    def positions_committed(
        self, checkpoint_id: int, splits: Sequence[LogSplit], finished: Sequence[LogSplit]
    ) -> None:
        self.source.committed |= {split.split_id: split.position for split in splits}
        self.source.committed |= {split.split_id: split.end for split in finished}

    def handle_split_request(self, subtask_id):
        pass

    def add_splits_back(self, splits, subtask_id):
        self.assigned -= {split.split_id for split in splits}

    def snapshot_state(self, checkpoint_id):
        return LogState(tuple(sorted(self.assigned)))


def test_files_and_a_log_are_read_over_restarts_before_at_and_after_the_switch(
    spark: SparkSession, tmp_path: Path
) -> None:
    files, topic = LogSource(tmp_path / "files"), GrowingLog(tmp_path / "topic")
    files.write("a", range(30))
    topic.write("p0", range(30, 45))
    topic.write("p1", [])
    sink = DirectorySink(tmp_path / "out")

    def build(parallelism: int = 2) -> Pipeline:
        made: list[GrowingLog] = []

        def log_from(switch: SourceSwitchContext) -> GrowingLog:
            made.append(GrowingLog(tmp_path / "topic", switch.max_event_time))
            assert made[-1].first == datetime.fromtimestamp(BASE / SECOND + 29, UTC)
            return made[-1]

        source = HybridSource.builder(files).add_source(log_from).build()
        pipeline = new_pipeline(spark, tmp_path, parallelism=parallelism)
        rows = pipeline.from_source(
            source, uid="s", watermark_strategy=BY_TIME, limits=ReadLimits(rows=10)
        )
        pipeline.sink_to(rows, sink, uid="out")
        return pipeline

    def switched() -> bool:
        return any(plan.number >= SWITCH for plan, _ in plans_and_reports(tmp_path / "checkpoint"))

    # The second driver fences the number that the first one did not use.
    for point, number in ((FaultPoint.BEFORE_PLAN, SWITCH), (FaultPoint.AFTER_PLAN, SWITCH + 1)):
        fault = Fault(point, action=FaultAction.RAISE, where={"plan": number})
        with injected(fault), build() as pipeline:
            pipeline.start()
            with pytest.raises(FatalError, match="fault injected"):
                pipeline.await_termination(60)
        assert switched() == (point == FaultPoint.AFTER_PLAN)
    with build(parallelism=1) as pipeline:
        pipeline.start()
        wait_until(lambda: sink.read().num_rows == 45, "the existing rows", pipeline)
        topic.write("p1", range(45, 50))
        wait_until(lambda: sink.read().num_rows == 50, "the appended rows", pipeline)
    topic.write("p0", range(50, 60))
    with build() as pipeline:
        assert pipeline.run(available_now=True)
        assert pipeline.status().sources[0].finished
    assert counts(sink) == once(range(60))
    plans = plans_and_reports(tmp_path / "checkpoint")
    assert plans[SWITCH][0].number == SWITCH + 1
    assert plans[SWITCH][0].sources["s"].snapshot is not None
    for plan, reports in plans:
        entries = [entry for entry in plan.sources["s"].entries if entry.splits]
        if plan.number >= SWITCH:
            assert not any(entry.claim for entry in entries)
        read = [each for report in reports["s"] if report for each in report.splits]
        assert all(
            each.rows or plan.sources["s"].planned_splits()[each.split_id].then is None
            for each in read
        )
        assert sum(each.rows for each in read) <= 10


def test_positions_are_reported_after_spark_has_committed(
    spark: SparkSession, tmp_path: Path
) -> None:
    topic = GrowingLog(tmp_path / "topic")
    topic.write("p0", range(25))
    sink = DirectorySink(tmp_path / "out")
    with new_pipeline(spark, tmp_path) as pipeline:
        rows = pipeline.from_source(topic, uid="s", limits=ReadLimits(rows=10))
        pipeline.sink_to(rows, sink, uid="out")
        assert pipeline.run(available_now=True)
    assert topic.committed == {"p0": 25}
    assert counts(sink) == once(range(25))


def test_a_batch_reads_all_sources(spark: SparkSession, tmp_path: Path) -> None:
    sink = DirectorySink(tmp_path / "out")
    with Pipeline(spark, "p", checkpoint_location=str(tmp_path / "checkpoint")) as pipeline:
        source = (
            HybridSource.builder(NumberSequenceSource(0, 99, split_rows=10, batch_rows=7))
            .add_source(NumberSequenceSource(100, 149, split_rows=10))
            .build()
        )
        pipeline.sink_to(pipeline.from_source(source, uid="s"), sink, uid="out")
        assert pipeline.run()
    assert counts(sink, "value") == once(range(150))
